// SPDX-License-Identifier: Apache-2.0
// fake_outlive_test: copies that go on after the death of their process, and what can still be read
// of it.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdint>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;
using test::FakeLine;

constexpr std::size_t kWindow = 4096;

// A gate and the target of a copy, in memory that a test shares with the process that dies.
struct Pages {
  std::uint64_t* gate = reinterpret_cast<std::uint64_t*>(test::shared_memory(kWindow));
  volatile unsigned char* target = test::shared_memory(kWindow);

  void open() { __atomic_store_n(gate, 1, __ATOMIC_RELEASE); }
};

// Queues a copy behind the gate, in two streams that wait for each other, and waits to be killed.
int run_copier(FakeLine& line, const Pages& pages, const char* plan) {
  line.be_child();
  const auto bench = FakeBench::make(plan);
  const auto& driver = bench->driver;
  auto* const target = const_cast<unsigned char*>(pages.target);
  HC_EXPECT(driver->host_register(pages.gate, 8, kCuHostPortable) == 0);
  HC_EXPECT(driver->host_register(target, kWindow, kCuHostPortable) == 0);
  HC_EXPECT(bench->fill(bench->device, 0x44, kWindow));
  const CuEvent event = bench->new_event(kCuEventInterprocess | kCuEventNoTiming);
  CuIpcEventHandle handle = {};
  HC_EXPECT(driver->ipc_get_event(&handle, event) == 0);
  const CuStream second = bench->new_stream();
  HC_EXPECT(driver->stream_wait_value64(bench->stream, reinterpret_cast<CuAddress>(pages.gate), 1,
                                        0) == 0);
  HC_EXPECT(driver->event_record(event, bench->stream) == 0);
  HC_EXPECT(driver->stream_wait_event(second, event, 0) == 0);
  HC_EXPECT(driver->copy_to_host(target, bench->device, kWindow, second) == 0);
  line.send(handle);
  line.wait();
  return 0;
}

// The helper of a dead process, which this one inherits: waits for its end. False if there is none.
bool wait_helper() {
  return ::waitpid(-1, nullptr, __WALL) > 0;
}

TEST_CASE(
    "a copy in a stream happens after the death of its process, in the order of its streams") {
  CHECK(test::holds_in_child([] {
    HC_EXPECT(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    const test::TempDir folder;
    ::setenv("HC_FAKE_CUDA_REPORT", folder.str().c_str(), 1);
    Pages pages;
    FakeLine line;
    test::Child copier([&] { return run_copier(line, pages, "outlive_us=60000000"); });
    line.be_parent();
    const pid_t pid = copier.pid();
    CuIpcEventHandle handle = {};
    HC_EXPECT(line.receive(handle));
    const auto bench = FakeBench::make("");
    CuEvent event = nullptr;
    HC_EXPECT(bench->driver->ipc_open_event(&event, handle) == 0);
    copier.kill_now();
    HC_EXPECT(!line.wait());  // the helper holds no end of it
    HC_EXPECT(pages.target[0] == 0);
    HC_EXPECT(bench->driver->event_query(event) == kCuNotReady);
    pages.open();
    HC_EXPECT(wait_helper());  // it ends when nothing is left
    HC_EXPECT(pages.target[0] == 0x44 && pages.target[kWindow - 1] == 0x44);
    HC_EXPECT(bench->driver->event_query(event) == kCuSuccess);
    HC_EXPECT(test::cuda_report(folder.str(), pid, "outlived") == 1);
    HC_EXPECT(test::cuda_report(folder.str(), pid, "copies") == 0);
    return 0;
  }));
}

TEST_CASE("what does not happen in time after the death of its process never does") {
  CHECK(test::holds_in_child([] {
    HC_EXPECT(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    Pages pages;
    FakeLine line;
    test::Child copier([&] { return run_copier(line, pages, "outlive_us=20000"); });
    line.be_parent();
    CuIpcEventHandle handle = {};
    HC_EXPECT(line.receive(handle));
    copier.kill_now();
    HC_EXPECT(wait_helper());
    pages.open();
    HC_EXPECT(!wait_helper() && errno == ECHILD);
    HC_EXPECT(pages.target[0] == 0);
    return 0;
  }));
}

TEST_CASE("without the setting, a copy dies with its process") {
  CHECK(test::holds_in_child([] {
    HC_EXPECT(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    Pages pages;
    FakeLine line;
    test::Child copier([&] { return run_copier(line, pages, ""); });
    line.be_parent();
    CuIpcEventHandle handle = {};
    HC_EXPECT(line.receive(handle));
    copier.kill_now();
    HC_EXPECT(!wait_helper() && errno == ECHILD);
    pages.open();
    HC_EXPECT(pages.target[0] == 0);
    return 0;
  }));
}

TEST_CASE(
    "a process with a helper works as one without, ends when it wants, and waits for its own") {
  CHECK(test::holds_in_child([] {
    HC_EXPECT(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    test::Child user([] {
      const auto bench = FakeBench::make("outlive_us=1,stream_delay_us=10000");
      HC_EXPECT(::waitpid(-1, nullptr, 0) == -1 && errno == ECHILD);
      HC_EXPECT(bench->fill(bench->device, 3, 64));
      HC_EXPECT(bench->byte_at(bench->device) == 3);
      HC_EXPECT(test::cuda_count("copies") == 1 && test::cuda_count("outlived") == 0);
      HC_EXPECT(::waitpid(-1, nullptr, __WALL | WNOHANG) == 0);  // the helper sleeps
      return 0;
    });
    HC_EXPECT(user.wait() == 0);
    HC_EXPECT(wait_helper());  // nothing is left to do
    return 0;
  }));
}

TEST_CASE("what a process holds is read from outside, and also after its death") {
  CHECK(test::holds_in_child([] {
    const test::TempDir folder;
    ::setenv("HC_FAKE_CUDA_REPORT", folder.str().c_str(), 1);
    unsigned char* const memory = test::shared_memory(kWindow);
    FakeLine line;
    test::Child user([&] {
      line.be_child();
      const auto bench = FakeBench::make("");
      HC_EXPECT(bench->driver->host_register(memory, kWindow, 0) == 0);
      HC_EXPECT(bench->byte_at(bench->device) == 0xA5);
      line.go();
      line.wait();
      return 0;
    });
    line.be_parent();
    const pid_t pid = user.pid();
    HC_EXPECT(line.wait());
    const auto reported = [&](const char* what) {
      return test::cuda_report(folder.str(), pid, what);
    };
    HC_EXPECT(reported("registered") == kWindow && reported("retains") == 1);
    HC_EXPECT(reported("copies") == 1 && reported("bytes") == 1);
    HC_EXPECT(reported("mappings") == 0 && reported("nonsense") == -1);
    user.kill_now();
    HC_EXPECT(reported("device") == 1 && reported("streams") == 1);
    HC_EXPECT(test::cuda_report(folder.str(), ::getpid(), "device") == -1);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
