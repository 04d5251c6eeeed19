// SPDX-License-Identifier: Apache-2.0
// fake_cuda_test: the stand-in driver keeps to the contract that tests of other rooms build on.
#include <sched.h>

#include <cstring>
#include <utility>
#include <vector>

#include "shm/cuda/primary_context.h"
#include "support/catch.h"
#include "support/doubles.h"

namespace hc {
namespace {

constexpr std::size_t kBytes = 4096;

// A stream, device memory and pinned memory, of a context that is current until the end.
struct FakeBench {
  CudaDriver driver;
  PrimaryContext context;
  CurrentContext current;
  CuStream stream = nullptr;
  CuAddress device = 0;
  void* pinned = nullptr;

  FakeBench(const CudaDriver& loaded, PrimaryContext retained)
      : driver(loaded), context(std::move(retained)), current(context) {}

  static std::unique_ptr<FakeBench> make(const char* plan) {
    test::plan_double("HC_FAKE_CUDA", plan);
    const auto loaded = CudaDriver::load(test::double_library("libcuda.so.1"));
    HC_CHECK(loaded);
    auto retained = PrimaryContext::retain(*loaded, 0);
    HC_CHECK(retained);
    auto bench = std::make_unique<FakeBench>(*loaded, std::move(*retained));
    HC_CHECK(bench->driver->stream_create(&bench->stream, 1, 0) == kCuSuccess);
    HC_CHECK(bench->driver->mem_alloc(&bench->device, kBytes) == kCuSuccess);
    HC_CHECK(bench->driver->host_alloc(&bench->pinned, kBytes, 1) == kCuSuccess);
    return bench;
  }

  // The answer of the stream once it is anything but "not ready".
  CuResult settled() const {
    CuResult result = kCuNotReady;
    while ((result = driver->stream_query(stream)) == kCuNotReady) {
      ::sched_yield();
    }
    return result;
  }
};

TEST_CASE("a copy happens at its turn, and the stream is not ready before") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("stream_delay_us=50000");
    auto* const bytes = static_cast<unsigned char*>(bench->pinned);
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
    HC_EXPECT(bench->driver->copy_to_device(bench->device, bytes.data(), kBytes,
                                            bench->stream) == 0);
    bytes.assign(kBytes, 8);
    HC_EXPECT(bench->driver->copy_to_host(bytes.data(), bench->device, kBytes,
                                          bench->stream) == 0);
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
    HC_EXPECT(bench->driver->copy_to_device(bench->device, bench->pinned, kBytes,
                                            bench->stream) == 0);
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
    HC_EXPECT(driver->copy_to_device(bench->device + 1, bench->pinned, kBytes, bench->stream) ==
              1);
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

TEST_CASE("an error is injected at the call that the plan names; some stick to the context") {
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
}

}  // namespace
}  // namespace hc
