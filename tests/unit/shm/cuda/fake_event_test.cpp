// SPDX-License-Identifier: Apache-2.0
// fake_event_test: events that two processes share.
#include <sched.h>

#include <cstdint>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;
using test::FakeLine;

constexpr unsigned kShared = kCuEventInterprocess | kCuEventNoTiming;

// Makes an event that its stream comes to when the other process says so, and hands it over.
int run_owner(FakeLine& line, std::uint64_t* gate, const char* plan) {
  line.be_child();
  const auto bench = FakeBench::make(plan);
  const auto& driver = bench->driver;
  HC_EXPECT(driver->host_register(gate, sizeof *gate, kCuHostPortable) == 0);
  const CuEvent event = bench->new_event(kShared);
  HC_EXPECT(driver->stream_wait_value64(bench->stream, reinterpret_cast<CuAddress>(gate), 1, 0) ==
            0);
  HC_EXPECT(driver->event_record(event, bench->stream) == 0);
  CuIpcEventHandle handle = {};
  HC_EXPECT(driver->ipc_get_event(&handle, event) == 0);
  CuEvent own = nullptr;
  HC_EXPECT(driver->ipc_open_event(&own, handle) == kCuInvalidContext);
  line.send(handle);
  HC_EXPECT(line.wait());
  // The other process has recorded it anew, in a stream of its own.
  HC_EXPECT(driver->event_query(event) == kCuNotReady);
  line.go();
  while (driver->event_query(event) == kCuNotReady) {
    ::sched_yield();
  }
  return 0;
}

TEST_CASE("an event of one process is asked, waited for and recorded in another") {
  CHECK(test::holds_in_child([] {
    auto* const gates = reinterpret_cast<std::uint64_t*>(test::shared_memory(64));
    FakeLine line;
    test::Child owner([&] { return run_owner(line, gates, ""); });
    line.be_parent();
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    CuIpcEventHandle handle = {};
    HC_EXPECT(line.receive(handle));
    CuEvent event = nullptr;
    HC_EXPECT(driver->ipc_open_event(&event, handle) == 0);
    HC_EXPECT(test::cuda_count("opened_events") == 1);
    HC_EXPECT(driver->event_query(event) == kCuNotReady);
    HC_EXPECT(driver->stream_wait_event(bench->stream, event, 0) == 0);
    HC_EXPECT(driver->stream_query(bench->stream) == kCuNotReady);
    __atomic_store_n(&gates[0], 1, __ATOMIC_RELEASE);
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(driver->event_query(event) == kCuSuccess);

    HC_EXPECT(driver->host_register(&gates[1], 8, kCuHostPortable) == 0);
    HC_EXPECT(driver->stream_wait_value64(bench->stream, reinterpret_cast<CuAddress>(&gates[1]), 1,
                                          0) == 0);
    HC_EXPECT(driver->event_record(event, bench->stream) == 0);
    line.go();
    HC_EXPECT(line.wait());
    __atomic_store_n(&gates[1], 1, __ATOMIC_RELEASE);
    HC_EXPECT(owner.wait() == 0);
    HC_EXPECT(driver->event_destroy(event) == 0);
    HC_EXPECT(test::cuda_count("opened_events") == 0);
    return 0;
  }));
}

TEST_CASE("an event whose process died before the stream came to it is never ready") {
  CHECK(test::holds_in_child([] {
    auto* const gates = reinterpret_cast<std::uint64_t*>(test::shared_memory(64));
    FakeLine line;
    test::Child owner([&] { return run_owner(line, gates, ""); });
    line.be_parent();
    const auto bench = FakeBench::make("");
    CuIpcEventHandle handle = {};
    HC_EXPECT(line.receive(handle));
    CuEvent event = nullptr;
    HC_EXPECT(bench->driver->ipc_open_event(&event, handle) == 0);
    owner.kill_now();
    __atomic_store_n(&gates[0], 1, __ATOMIC_RELEASE);
    HC_EXPECT(bench->driver->event_query(event) == kCuNotReady);
    HC_EXPECT(bench->driver->event_destroy(event) == 0);
    HC_EXPECT(bench->driver->ipc_open_event(&event, handle) == kCuInvalidHandle);
    return 0;
  }));
}

TEST_CASE("only an event that was made for it crosses, and only within its domain") {
  CHECK(test::holds_in_child([] {
    auto* const gates = reinterpret_cast<std::uint64_t*>(test::shared_memory(64));
    FakeLine line;
    test::Child owner([&] { return run_owner(line, gates, ""); });
    line.be_parent();
    const auto bench = FakeBench::make("event_domain=1");
    const auto& driver = bench->driver;
    CuEvent event = nullptr;
    HC_EXPECT(driver->event_create(&event, kCuEventInterprocess) == kCuInvalidValue);
    HC_EXPECT(driver->event_create(&event, 8) == kCuInvalidValue);
    CuIpcEventHandle handle = {};
    HC_EXPECT(driver->ipc_get_event(&handle, bench->new_event()) == kCuInvalidHandle);
    HC_EXPECT(driver->ipc_open_event(&event, handle) == kCuInvalidHandle);
    HC_EXPECT(line.receive(handle));
    HC_EXPECT(driver->ipc_open_event(&event, handle) == kCuMapFailed);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
