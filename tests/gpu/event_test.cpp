// SPDX-License-Identifier: Apache-2.0
// event_test: the order of streams, and events that two processes share.
#include <cstdint>
#include <cstring>

#include "gpu/gpu_bench.h"
#include "support/catch.h"

namespace hc {
namespace {

using test::FakeLine;
using test::Gate;
using test::GpuBench;

constexpr unsigned kSharedEvent = kCuEventInterprocess | kCuEventNoTiming;

std::uint64_t* new_words() {
  return reinterpret_cast<std::uint64_t*>(test::shared_memory(8192));
}

TEST_CASE("an event is ready if it was never recorded, and else when its stream has come to it") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    const CuEvent event = bench->new_event();
    HC_EXPECT(driver->event_query(event) == kCuSuccess);
    Gate gate(*bench);
    HC_EXPECT(bench->observe("a stream waits for a value", gate.hold(bench->stream), 1));
    HC_EXPECT(driver->event_record(event, bench->stream) == 0);
    HC_EXPECT(driver->event_query(event) == kCuNotReady);
    HC_EXPECT(driver->stream_query(bench->stream) == kCuNotReady);
    gate.open();
    HC_EXPECT(bench->settled(event) == kCuSuccess && bench->settled() == kCuSuccess);
    return 0;
  }));
}

TEST_CASE("a stream that waits for an event begins after what was before it, others do not wait") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    const CuAddress memory = bench->new_memory(4096);
    const CuStream second = bench->new_stream();
    const CuStream third = bench->new_stream();
    const CuEvent event = bench->new_event();
    HC_EXPECT(bench->fill(memory, 1, 4096));
    bench->pinned[8] = 0;
    Gate gate(*bench);
    gate.hold(bench->stream);
    HC_EXPECT(driver->memset_async(memory, 7, 4096, bench->stream) == 0);
    HC_EXPECT(driver->event_record(event, bench->stream) == 0);
    HC_EXPECT(driver->stream_wait_event(second, event, 0) == 0);
    HC_EXPECT(driver->copy_to_host(bench->pinned + 8, memory, 1, second) == 0);
    // A later record elsewhere lets nobody go who waits for the one before.
    HC_EXPECT(driver->event_record(event, third) == 0);
    HC_EXPECT(bench->settled(third) == kCuSuccess);
    HC_EXPECT(driver->stream_query(second) == kCuNotReady && bench->pinned[8] == 0);
    gate.open();
    HC_EXPECT(bench->settled(second) == kCuSuccess && bench->pinned[8] == 7);
    return 0;
  }));
}

TEST_CASE("a stream of ours is not under capture") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    int capturing = -1;
    HC_EXPECT(bench->driver->stream_is_capturing(bench->stream, &capturing) == 0);
    HC_EXPECT(capturing == kCuCaptureNone);
    return 0;
  }));
}

struct OwnedEvent {
  CuIpcEventHandle handle;
  CuResult own;  // what opening it where it was made answered
  bool held;     // by a word, and so until told
};

// Records an event behind a gate that the other process opens, then once more behind another.
int own_event(FakeLine& line, std::uint64_t* words) {
  line.be_child();
  const auto bench = GpuBench::make();
  const auto& driver = bench->driver;
  Gate first(*bench, words);
  Gate second(*bench, words + 512);
  const CuEvent event = bench->new_event(kSharedEvent);
  OwnedEvent out = {};
  HC_EXPECT(driver->ipc_get_event(&out.handle, event) == 0);
  CuEvent again = nullptr;
  out.own = driver->ipc_open_event(&again, out.handle);
  out.held = first.hold(bench->stream);
  HC_EXPECT(driver->event_record(event, bench->stream) == 0);
  line.send(out);
  HC_EXPECT(line.wait());
  HC_EXPECT(bench->settled() == kCuSuccess);
  second.hold(bench->stream);
  HC_EXPECT(driver->event_record(event, bench->stream) == 0);
  line.go();
  HC_EXPECT(line.wait());
  HC_EXPECT(bench->settled() == kCuSuccess);
  return 0;
}

TEST_CASE("an event of one process is not ready in another before its stream comes to it") {
  CHECK(test::on_gpu([] {
    std::uint64_t* const words = new_words();
    FakeLine line;
    test::Child owner([&] { return own_event(line, words); });
    line.be_parent();
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    OwnedEvent out = {};
    HC_EXPECT(line.receive(out));
    HC_EXPECT(bench->observe("own event answers", out.own, kCuInvalidContext));
    CuEvent event = nullptr;
    HC_EXPECT(driver->ipc_open_event(&event, out.handle) == 0);
    HC_EXPECT(!out.held || driver->event_query(event) == kCuNotReady);
    HC_EXPECT(driver->stream_wait_event(bench->stream, event, 0) == 0);
    HC_EXPECT(!out.held || driver->stream_query(bench->stream) == kCuNotReady);
    Gate::open(words);
    HC_EXPECT(bench->settled(event) == kCuSuccess && bench->settled() == kCuSuccess);
    // The same event says the same of the next piece of work: each operation slot has one.
    line.go();
    HC_EXPECT(line.wait());
    HC_EXPECT(!out.held || driver->event_query(event) == kCuNotReady);
    Gate::open(words + 512);
    HC_EXPECT(bench->settled(event) == kCuSuccess);
    line.go();
    HC_EXPECT(owner.wait() == 0);
    HC_EXPECT(driver->event_destroy(event) == 0);
    return 0;
  }));
}

TEST_CASE("what an event of a dead process says is no error of the one that looks") {
  CHECK(test::on_gpu([] {
    std::uint64_t* const words = new_words();
    FakeLine line;
    test::Child owner([&] { return own_event(line, words); });
    line.be_parent();
    const auto bench = GpuBench::make();
    OwnedEvent out = {};
    HC_EXPECT(line.receive(out));
    CuEvent event = nullptr;
    HC_EXPECT(bench->driver->ipc_open_event(&event, out.handle) == 0);
    owner.kill_now();
    const CuResult seen = bench->driver->event_query(event);
    HC_EXPECT(bench->observe("event of a dead process answers", seen, kCuNotReady));
    HC_EXPECT(bench->observe("destroying the event of a dead process answers",
                             bench->driver->event_destroy(event), 0));
    HC_EXPECT(bench->observe("event handle of the dead answers",
                             bench->driver->ipc_open_event(&event, out.handle), kCuInvalidHandle));
    HC_EXPECT(bench->fill(bench->new_memory(64), 1, 64));  // the context is well
    return 0;
  }));
}

TEST_CASE("only an event that was made for it crosses") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    CuEvent event = nullptr;
    CuIpcEventHandle handle = {};
    HC_EXPECT(bench->observe("interprocess event with times answers",
                             driver->event_create(&event, kCuEventInterprocess), kCuInvalidValue));
    HC_EXPECT(bench->observe("handle of an ordinary event answers",
                             driver->ipc_get_event(&handle, bench->new_event()),
                             kCuInvalidHandle));
    HC_EXPECT(driver->ipc_get_event(&handle, bench->new_event(kSharedEvent)) == 0);
    return 0;
  }));
}

TEST_CASE("a stream writes a value into a word of the host at its turn") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    if (driver->stream_write_value64 == nullptr) {
      HC_EXPECT(bench->observe("no values in streams", 1, 0));
      return 0;
    }
    std::uint64_t* const words = new_words();
    HC_EXPECT(driver->host_register(words, 4096, kCuHostPortable | kCuHostDeviceMap) == 0);
    CuAddress seen = 0;
    HC_EXPECT(driver->host_device_pointer(&seen, words, 0) == 0);
    Gate gate(*bench, words + 512);
    const bool held = gate.hold(bench->stream);
    const CuResult written = driver->stream_write_value64(bench->stream, seen + 8, 77, 0);
    HC_EXPECT(bench->observe("writing a value answers", written, 0));
    HC_EXPECT(!held || __atomic_load_n(&words[1], __ATOMIC_ACQUIRE) == 0);
    gate.open();
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(bench->observe("the value is", static_cast<long long>(words[1]), 77));
    HC_EXPECT(bench->observe("a value at an odd address answers",
                             driver->stream_write_value64(bench->stream, seen + 4, 1, 0),
                             kCuInvalidValue));
    return 0;
  }));
}

}  // namespace
}  // namespace hc
