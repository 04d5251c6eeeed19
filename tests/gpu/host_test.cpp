// SPDX-License-Identifier: Apache-2.0
// host_test: registered memory of the host, as frames of a pool are.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "gpu/gpu_bench.h"
#include "gpu/lane_bench.h"
#include "support/catch.h"

namespace hc {
namespace {

using test::Frames;
using test::FakeLine;
using test::GpuBench;

constexpr std::size_t kPage = 4096;
constexpr unsigned kFlags = kCuHostPortable | kCuHostDeviceMap;

TEST_CASE("a range is registered once, and unregistered by its very begin") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    Frames frames(4 * kPage);
    std::uint8_t* const at = frames.begin();
    HC_EXPECT(driver->host_register(at + kPage, kPage, kFlags) == 0);
    const auto overlap = [&](std::size_t offset, std::size_t bytes) {
      return driver->host_register(at + offset, bytes, kFlags);
    };
    HC_EXPECT(overlap(kPage, kPage) != kCuSuccess);
    HC_EXPECT(bench->observe("registering twice answers", overlap(kPage, kPage),
                             kCuHostAlreadyRegistered));
    HC_EXPECT(bench->observe("registering an overlap answers", overlap(0, 4 * kPage),
                             kCuHostAlreadyRegistered));
    HC_EXPECT(overlap(2 * kPage, kPage) == 0);
    HC_EXPECT(bench->observe("unregistering inside answers",
                             driver->host_unregister(at + kPage + 1), kCuHostNotRegistered));
    HC_EXPECT(bench->observe("unregistering the unknown answers", driver->host_unregister(at),
                             kCuHostNotRegistered));
    HC_EXPECT(driver->host_unregister(at + kPage) == 0);
    HC_EXPECT(bench->observe("unregistering twice answers", driver->host_unregister(at + kPage),
                             kCuHostNotRegistered));
    HC_EXPECT(overlap(kPage, kPage) == 0);
    return 0;
  }));
}

TEST_CASE("nothing and a hole are not registered, and the context is well afterwards") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    unsigned char* const memory = test::shared_memory(4 * kPage);
    const CuResult nothing = driver->host_register(memory, 0, kFlags);
    HC_EXPECT(nothing != kCuSuccess);
    HC_EXPECT(bench->observe("registering nothing answers", nothing, kCuInvalidValue));
    HC_EXPECT(::munmap(memory + kPage, kPage) == 0);
    const CuResult hole = driver->host_register(memory, 3 * kPage, kFlags);
    HC_EXPECT(hole != kCuSuccess);
    HC_EXPECT(bench->observe("registering a hole answers", hole, kCuInvalidValue));
    HC_EXPECT(driver->host_register(memory + 2 * kPage, kPage, kFlags) == 0);
    HC_EXPECT(bench->fill(bench->new_memory(64), 1, 64));
    return 0;
  }));
}

TEST_CASE("registered memory is copied to by its own address and by that of the device") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    Frames frames(4 * kPage);
    std::uint8_t* const at = frames.begin();
    HC_EXPECT(driver->host_register(at, 4 * kPage, kFlags) == 0);
    const CuAddress memory = bench->new_memory(kPage);
    HC_EXPECT(bench->fill(memory, 0x44, kPage));
    CuAddress seen = 0;
    HC_EXPECT(driver->host_device_pointer(&seen, at + kPage, 0) == 0);
    HC_EXPECT(bench->observe("the device has the host's own address",
                             seen == reinterpret_cast<CuAddress>(at + kPage), 1));
    HC_EXPECT(driver->copy_to_host(at, memory, kPage, bench->stream) == 0);
    HC_EXPECT(bench->settled() == kCuSuccess && at[0] == 0x44 && at[kPage - 1] == 0x44);
    if (!test::has_batches(*bench)) {
      return 0;
    }
    HC_EXPECT(test::copy_batch(*bench, {seen}, {memory}, {kPage}, bench->stream) == 0);
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(at[kPage] == 0x44 && at[2 * kPage - 1] == 0x44 && at[2 * kPage] == 0);
    if (bench->attribute(kCuDeviceHostPointerUsable) == 1) {
      const auto own = reinterpret_cast<CuAddress>(at + 2 * kPage);
      HC_EXPECT(test::copy_batch(*bench, {own}, {memory}, {kPage}, bench->stream) == 0);
      HC_EXPECT(bench->settled() == kCuSuccess && at[2 * kPage] == 0x44);
    }
    return 0;
  }));
}

TEST_CASE("a copy over two registrations is refused, one beside the other is not") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    Frames frames(2 * kPage);
    std::uint8_t* const at = frames.begin();
    HC_EXPECT(driver->host_register(at, kPage, kFlags) == 0);
    HC_EXPECT(driver->host_register(at + kPage, kPage, kFlags) == 0);
    const CuAddress memory = bench->new_memory(kPage);
    HC_EXPECT(bench->fill(memory, 3, kPage));
    HC_EXPECT(driver->copy_to_host(at, memory, kPage, bench->stream) == 0);
    HC_EXPECT(driver->copy_to_host(at + kPage, memory, kPage, bench->stream) == 0);
    HC_EXPECT(bench->settled() == kCuSuccess && at[0] == 3 && at[2 * kPage - 1] == 3);
    HC_EXPECT(bench->observe("a copy over two registrations answers",
                             driver->copy_to_host(at + kPage - 1, memory, 2, bench->stream),
                             kCuInvalidValue));
    return 0;
  }));
}

TEST_CASE("two processes register the same pages, and each sees what the other copied") {
  CHECK(test::on_gpu([] {
    Frames frames(2 * kPage);
    FakeLine line;
    test::Child other([&] {
      line.be_child();
      const auto bench = GpuBench::make();
      HC_EXPECT(bench->driver->host_register(frames.begin(), 2 * kPage, kFlags) == 0);
      const CuAddress memory = bench->new_memory(kPage);
      HC_EXPECT(bench->fill(memory, 0x55, kPage));
      HC_EXPECT(bench->driver->copy_to_host(frames.begin() + kPage, memory, kPage,
                                            bench->stream) == 0);
      HC_EXPECT(bench->settled() == kCuSuccess);
      line.go();
      line.wait();
      return 0;
    });
    line.be_parent();
    const auto bench = GpuBench::make();
    HC_EXPECT(bench->driver->host_register(frames.begin(), 2 * kPage, kFlags) == 0);
    HC_EXPECT(line.wait());
    const CuAddress memory = bench->new_memory(kPage);
    HC_EXPECT(bench->driver->copy_to_device(memory, frames.begin() + kPage, kPage,
                                            bench->stream) == 0);
    HC_EXPECT(bench->settled() == kCuSuccess && bench->byte_at(memory + kPage - 1) == 0x55);
    line.go();
    HC_EXPECT(other.wait() == 0);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
