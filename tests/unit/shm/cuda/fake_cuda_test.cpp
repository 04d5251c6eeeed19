// SPDX-License-Identifier: Apache-2.0
// fake_cuda_test: the stand-in driver keeps to the contract that tests of other rooms build on.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;

constexpr std::size_t kBytes = FakeBench::kBytes;

TEST_CASE("a copy happens at its turn, and the stream is not ready before") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("stream_delay_us=50000");
    auto* const bytes = bench->pinned;
    std::memset(bytes, 1, kBytes);
    HC_EXPECT(bench->driver->copy_to_device(bench->device, bytes, kBytes, bench->stream) == 0);
    HC_EXPECT(bench->driver->stream_query(bench->stream) == kCuNotReady);
    bytes[0] = 2;  // pinned memory is read at the turn of the copy
    HC_EXPECT(bench->settled() == kCuSuccess);
    std::memset(bytes, 3, kBytes);
    HC_EXPECT(bench->driver->copy_to_host(bytes, bench->device, kBytes, bench->stream) == 0);
    HC_EXPECT(bytes[0] == 3);
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(bytes[0] == 2 && bytes[1] == 1 && bytes[kBytes - 1] == 1);
    return 0;
  }));
}

TEST_CASE("memory that is not pinned is read before the call returns, and written as well") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("stream_delay_us=20000");
    std::vector<unsigned char> bytes(kBytes, 7);
    HC_EXPECT(bench->driver->copy_to_device(bench->device, bytes.data(), kBytes, bench->stream) ==
              0);
    bytes.assign(kBytes, 8);
    HC_EXPECT(bench->driver->copy_to_host(bytes.data(), bench->device, kBytes, bench->stream) == 0);
    HC_EXPECT(bytes[0] == 7 && bytes[kBytes - 1] == 7);
    return 0;
  }));
}

TEST_CASE("an event is done when the stream has come to it, not before") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("stream_delay_us=30000");
    CuEvent event = nullptr;
    HC_EXPECT(bench->driver->event_create(&event, kCuEventNoTiming) == 0);
    HC_EXPECT(bench->driver->event_query(event) == kCuSuccess);  // never recorded
    HC_EXPECT(bench->driver->event_record(event, bench->stream) == 0);
    HC_EXPECT(bench->driver->copy_to_device(bench->device, bench->pinned, kBytes, bench->stream) ==
              0);
    HC_EXPECT(bench->driver->event_query(event) == kCuNotReady);
    while (bench->driver->event_query(event) == kCuNotReady) {
      ::sched_yield();
    }
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(bench->driver->event_destroy(event) == 0);
    HC_EXPECT(bench->driver->event_query(event) == 400);
    return 0;
  }));
}

TEST_CASE("addresses, sizes and handles that are wrong are refused") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    HC_EXPECT(driver->copy_to_device(bench->device + 1, bench->pinned, kBytes, bench->stream) == 1);
    HC_EXPECT(driver->copy_to_host(bench->pinned, 4096, 8, bench->stream) == 1);
    HC_EXPECT(driver->copy_to_host(bench->pinned, bench->device, 8, nullptr) == 400);
    HC_EXPECT(driver->mem_free(bench->device + 8) == 1);
    HC_EXPECT(driver->host_free(bench.get()) == 1);
    HC_EXPECT(driver->mem_free(bench->device) == 0);
    HC_EXPECT(driver->mem_free(bench->device) == 1);
    HC_EXPECT(driver->host_free(bench->pinned) == 0);
    HC_EXPECT(driver->stream_destroy(bench->stream) == 0);
    HC_EXPECT(driver->stream_destroy(bench->stream) == 400);
    HC_EXPECT(test::cuda_count("device") == 0 && test::cuda_count("pinned") == 0);
    HC_EXPECT(test::cuda_count("streams") == 0);
    return 0;
  }));
}

TEST_CASE("an error is injected at the call that the plan names; some stick to the process") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("cuStreamQuery@2=999,cuStreamQuery@4=700");
    const auto& driver = bench->driver;
    HC_EXPECT(driver->stream_query(bench->stream) == kCuSuccess);
    HC_EXPECT(driver->stream_query(bench->stream) == 999);
    HC_EXPECT(driver->stream_query(bench->stream) == kCuSuccess);
    HC_EXPECT(driver->stream_query(bench->stream) == 700);
    HC_EXPECT(driver->stream_query(bench->stream) == 700);
    HC_EXPECT(driver->mem_free(bench->device) == 700);
    return 0;
  }));
  for (const char* plan : {"cuStreamQuery@1=709", "cuStreamQuery@1=719",
                           "cuStreamQuery@1=46,sticky=46", "cuStreamQuery@1=999,sticky=999"}) {
    CHECK(test::holds_in_child([&] {
      const auto bench = FakeBench::make(plan);
      const CuResult lost = bench->driver->stream_query(bench->stream);
      HC_EXPECT(lost != kCuSuccess);
      HC_EXPECT(bench->driver->stream_query(bench->stream) == lost);
      return 0;
    }));
  }
}

TEST_CASE("streams do not wait for each other, and one that is stuck stays so") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("stream_stall@1=1");
    const auto& driver = bench->driver;
    const CuStream other = bench->new_stream();
    HC_EXPECT(driver->memset_async(bench->device, 1, 8, bench->stream) == 0);
    HC_EXPECT(driver->memset_async(bench->device + 8, 1, 8, other) == 0);
    HC_EXPECT(bench->settled(other) == kCuSuccess);
    HC_EXPECT(driver->stream_query(bench->stream) == kCuNotReady);
    return 0;
  }));
}

void store(std::uint64_t* word, std::uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

TEST_CASE("a stream waits for the record of an event that was there when it was told to") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    const CuStream other = bench->new_stream();
    const CuEvent event = bench->new_event();
    auto* const word = reinterpret_cast<std::uint64_t*>(bench->pinned);
    store(word, 0);
    const auto gate = reinterpret_cast<CuAddress>(word);
    HC_EXPECT(driver->stream_wait_event(other, event, 0) == 0);  // never recorded: no wait
    HC_EXPECT(bench->settled(other) == kCuSuccess);
    HC_EXPECT(driver->stream_wait_value64(bench->stream, gate, 1, kCuWaitAtLeast) == 0);
    HC_EXPECT(driver->memset_async(bench->device, 7, 8, bench->stream) == 0);
    HC_EXPECT(driver->event_record(event, bench->stream) == 0);
    HC_EXPECT(driver->stream_wait_event(other, event, 0) == 0);
    HC_EXPECT(driver->copy_to_host(bench->pinned + 64, bench->device, 8, other) == 0);
    // A later record, in a stream that has nothing to do, lets nobody go.
    HC_EXPECT(driver->event_record(event, bench->new_stream()) == 0);
    while (driver->event_query(event) == kCuNotReady) {
      ::sched_yield();
    }
    HC_EXPECT(driver->stream_query(other) == kCuNotReady);
    HC_EXPECT(driver->stream_wait_event(other, event, 1) == kCuInvalidValue);
    store(word, 1);
    HC_EXPECT(bench->settled(other) == kCuSuccess);
    HC_EXPECT(bench->pinned[64] == 7);
    return 0;
  }));
}

TEST_CASE("a value is written at its turn, and waited for by the comparison that is asked") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    std::memset(bench->pinned, 0, 64);
    auto* const words = reinterpret_cast<std::uint64_t*>(bench->pinned);
    const auto at = reinterpret_cast<CuAddress>(bench->pinned);
    HC_EXPECT(driver->stream_wait_value64(bench->stream, at, 5, 0) == 0);
    HC_EXPECT(driver->stream_write_value64(bench->stream, at + 8, 77, 0) == 0);
    HC_EXPECT(__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) == 0);
    store(words, 6);  // more than 5
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(words[1] == 77);
    HC_EXPECT(driver->stream_wait_value64(bench->stream, at, 5, 1) == 0);  // exactly
    store(words, 4);
    HC_EXPECT(driver->stream_query(bench->stream) == kCuNotReady);
    store(words, 5);
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(driver->stream_write_value64(bench->stream, bench->device, 1, 0) == 0);
    HC_EXPECT(driver->stream_write_value64(bench->stream, at + 4, 1, 0) == kCuInvalidValue);
    HC_EXPECT(driver->stream_wait_value64(bench->stream, at, 1, 4) == kCuInvalidValue);
    static std::uint64_t pageable = 0;
    HC_EXPECT(driver->stream_write_value64(bench->stream, reinterpret_cast<CuAddress>(&pageable), 1,
                                           0) == kCuInvalidValue);
    return 0;
  }));
}

TEST_CASE("work in a stream takes its time, in each stream its own") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("stream_delay_us=1000,stream_delay_us@2=20000");
    const auto took = [&](CuStream stream) {
      const auto begin = std::chrono::steady_clock::now();
      HC_CHECK(bench->driver->memset_async(bench->device, 1, 8, stream) == kCuSuccess);
      HC_CHECK(bench->settled(stream) == kCuSuccess);
      return std::chrono::steady_clock::now() - begin;
    };
    HC_EXPECT(took(bench->stream) >= std::chrono::microseconds(1000));
    HC_EXPECT(took(bench->new_stream()) >= std::chrono::microseconds(20000));
    return 0;
  }));
}

TEST_CASE("a launch into a full queue waits for room, as it does on a device") {
  CHECK(test::holds_in_child([] {
    constexpr int kRoom = 1024;
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    auto* const word = reinterpret_cast<std::uint64_t*>(bench->pinned);
    store(word, 0);
    HC_EXPECT(driver->stream_wait_value64(bench->stream, reinterpret_cast<CuAddress>(word), 1,
                                          kCuWaitAtLeast) == 0);
    std::atomic<int> launched{1};
    std::thread launcher([&] {
      const CurrentContext current(bench->context);
      while (launched < kRoom + 5) {
        HC_CHECK(driver->memset_async(bench->device, 1, 8, bench->stream) == kCuSuccess);
        ++launched;
      }
    });
    while (test::cuda_count("cuMemsetD8Async") < kRoom) {  // the last of these finds no room
      ::sched_yield();
    }
    for (int look = 0; look < 1000; ++look) {
      HC_EXPECT(launched <= kRoom);
      ::sched_yield();
    }
    store(word, 1);
    launcher.join();
    HC_EXPECT(bench->settled() == kCuSuccess);
    return 0;
  }));
}

TEST_CASE("any thread may call, each with a context that it made current itself") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    std::atomic<int> wrong{0};
    const auto work = [&](unsigned char value) {
      CuStream stream = nullptr;
      wrong += driver->stream_create(&stream, 1, 0) == kCuInvalidContext ? 0 : 1;
      const CurrentContext current(bench->context);
      std::vector<unsigned char> seen(64);
      for (int round = 0; round < 50; ++round) {
        const CuStream own = bench->new_stream();
        const CuEvent event = bench->new_event();
        const CuAddress memory = bench->new_memory(64);
        wrong += driver->memset_async(memory, value, 64, own) == kCuSuccess ? 0 : 1;
        wrong += driver->event_record(event, own) == kCuSuccess ? 0 : 1;
        wrong += driver->copy_to_host(seen.data(), memory, 64, own) == kCuSuccess ? 0 : 1;
        wrong += seen[63] == value && driver->event_query(event) == kCuSuccess ? 0 : 1;
        wrong += driver->mem_free(memory) == kCuSuccess ? 0 : 1;
        wrong += driver->event_destroy(event) == kCuSuccess ? 0 : 1;
        wrong += driver->stream_destroy(own) == kCuSuccess ? 0 : 1;
      }
    };
    std::thread other(work, 1);
    std::thread another(work, 2);
    other.join();
    another.join();
    HC_EXPECT(wrong == 0 && test::cuda_count("copies") == 100);
    HC_EXPECT(test::cuda_count("streams") == 1 && test::cuda_count("events") == 0);
    return 0;
  }));
}

TEST_CASE("a process that was forked from one with a driver has none") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    return test::Child([&] {
             HC_EXPECT(bench->driver->stream_query(bench->stream) == kCuNotInitialized);
             HC_EXPECT(bench->driver->mem_free(bench->device) == kCuNotInitialized);
             return 0;
           })
        .wait();
  }));
}

TEST_CASE("a stream says whether it is captured") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("capturing=1");
    int status = -1;
    HC_EXPECT(bench->driver->stream_is_capturing(bench->stream, &status) == 0 && status == 1);
    HC_EXPECT(bench->driver->stream_is_capturing(nullptr, &status) == kCuInvalidHandle);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
