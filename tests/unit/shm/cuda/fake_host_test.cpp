// SPDX-License-Identifier: Apache-2.0
// fake_host_test: registered memory of the host, by the rules of cuMemHostRegister.
#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;

constexpr std::size_t kPages = 4 * 4096;

TEST_CASE("a range is registered once, and unregistered by its very begin") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    unsigned char* const memory = test::shared_memory(kPages);
    HC_EXPECT(driver->host_register(memory + 4096, 4096, kCuHostPortable) == 0);
    HC_EXPECT(driver->host_register(memory, 4097, 0) == kCuHostAlreadyRegistered);
    HC_EXPECT(driver->host_register(memory + 8191, 1, 0) == kCuHostAlreadyRegistered);
    HC_EXPECT(driver->host_register(memory, kPages, 0) == kCuHostAlreadyRegistered);
    HC_EXPECT(driver->host_register(bench->pinned, 8, 0) == kCuHostAlreadyRegistered);
    HC_EXPECT(driver->host_register(memory, 4096, kCuHostPortable) == 0);
    HC_EXPECT(test::cuda_count("registered") == 8192);
    HC_EXPECT(test::cuda_count("registrations") == 2);
    HC_EXPECT(driver->host_unregister(memory + 4097) == kCuHostNotRegistered);
    HC_EXPECT(driver->host_unregister(bench->pinned) == kCuHostNotRegistered);
    HC_EXPECT(driver->host_free(memory) == kCuInvalidValue);
    HC_EXPECT(driver->host_unregister(memory + 4096) == 0);
    HC_EXPECT(driver->host_unregister(memory + 4096) == kCuHostNotRegistered);
    HC_EXPECT(test::cuda_count("registered") == 4096);
    return 0;
  }));
}

TEST_CASE("nothing, unknown flags, a hole and too much at once are not registered") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("register_max=16384");
    const auto& driver = bench->driver;
    unsigned char* const memory = test::shared_memory(kPages);
    HC_EXPECT(driver->host_register(memory, 0, 0) == kCuInvalidValue);
    HC_EXPECT(driver->host_register(nullptr, 4096, 0) == kCuInvalidValue);
    HC_EXPECT(driver->host_register(memory, 4096, 16) == kCuInvalidValue);
    HC_EXPECT(driver->host_register(memory, kPages, 0) == kCuOperatingSystem);
    HC_EXPECT(::munmap(memory + 4096, 4096) == 0);
    HC_EXPECT(driver->host_register(memory, 8192, 0) == kCuInvalidValue);
    HC_EXPECT(test::cuda_count("registered") == 0);
    return 0;
  }));
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("register_error=1");
    // As large as the driver does not take: nothing of it needs to exist.
    HC_EXPECT(bench->driver->host_register(bench.get(), std::size_t{512} << 30, 0) ==
              kCuInvalidValue);
    return 0;
  }));
}

TEST_CASE("registered memory is written at the turn of the copy, other memory before the return") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("stream_delay_us=30000");
    const auto& driver = bench->driver;
    unsigned char* const memory = test::shared_memory(kPages);
    HC_EXPECT(driver->host_register(memory, 4096, kCuHostPortable) == 0);
    HC_EXPECT(bench->fill(bench->device, 8, 4096));
    HC_EXPECT(driver->copy_to_host(memory, bench->device, 4096, bench->stream) == 0);
    HC_EXPECT(driver->stream_query(bench->stream) == kCuNotReady && memory[0] == 0);
    HC_EXPECT(bench->settled() == kCuSuccess && memory[0] == 8);
    HC_EXPECT(driver->copy_to_host(memory + 8192, bench->device, 4096, bench->stream) == 0);
    HC_EXPECT(memory[8192] == 8);
    return 0;
  }));
}

TEST_CASE("a copy over two registrations, or beyond one, is refused") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    unsigned char* const memory = test::shared_memory(kPages);
    HC_EXPECT(driver->host_register(memory + 4096, 4096, kCuHostPortable) == 0);
    HC_EXPECT(driver->host_register(memory + 8192, 4096, kCuHostPortable) == 0);
    const auto copies = [&](std::size_t offset, std::size_t bytes) {
      return driver->copy_to_host(memory + offset, bench->device, bytes, bench->stream);
    };
    HC_EXPECT(copies(4096, 4096) == 0);
    HC_EXPECT(copies(8191, 2) == kCuInvalidValue);
    HC_EXPECT(copies(12287, 2) == kCuInvalidValue);
    HC_EXPECT(copies(4095, 2) == kCuInvalidValue);
    HC_EXPECT(driver->copy_to_device(bench->device, memory + 8191, 2, bench->stream) ==
              kCuInvalidValue);
    return 0;
  }));
}

TEST_CASE("registered memory has an address for the device if it was registered so") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    unsigned char* const memory = test::shared_memory(kPages);
    CuAddress seen = 0;
    HC_EXPECT(driver->host_register(memory, 4096, kCuHostPortable) == 0);
    HC_EXPECT(driver->host_device_pointer(&seen, memory, 0) == kCuInvalidValue);
    HC_EXPECT(driver->host_register(memory + 4096, 4096, kCuHostDeviceMap) == 0);
    HC_EXPECT(driver->host_device_pointer(&seen, memory + 4100, 0) == 0);
    HC_EXPECT(seen == reinterpret_cast<CuAddress>(memory + 4100));
    HC_EXPECT(driver->host_device_pointer(&seen, memory + 4100, 1) == kCuInvalidValue);
    HC_EXPECT(driver->host_device_pointer(&seen, memory + 8192, 0) == kCuInvalidValue);
    HC_EXPECT(driver->host_device_pointer(&seen, bench->pinned, 0) == 0);
    return 0;
  }));
}

TEST_CASE("where the device can't follow a host pointer, a batch that has one is the end of it") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("host_pointer=0");
    const auto& driver = bench->driver;
    unsigned char* const memory = test::shared_memory(kPages);
    HC_EXPECT(driver->host_register(memory, kPages, kCuHostDeviceMap) == 0);
    CuAddress seen = 0;
    HC_EXPECT(driver->host_device_pointer(&seen, memory, 0) == 0);
    CuAddress host = reinterpret_cast<CuAddress>(memory);
    HC_EXPECT(seen != host);
    HC_EXPECT(bench->fill(bench->device, 4, 64));
    std::size_t bytes = 64;
    std::size_t first = 0;
    std::size_t failed = 0;
    CuMemcpyAttributes how = {kCuSourceInStream, {}, {}, 0};
    const auto batch = [&](CuAddress target) {
      return driver->copy_batch_v1(&target, &bench->device, &bytes, 1, &how, &first, 1, &failed,
                                   bench->stream);
    };
    HC_EXPECT(batch(seen) == 0 && bench->settled() == kCuSuccess && memory[63] == 4);
    // The single copies take the host's own pointer.
    HC_EXPECT(driver->copy_to_host(memory + 64, bench->device, 64, bench->stream) == 0);
    HC_EXPECT(bench->settled() == kCuSuccess && memory[64] == 4);
    HC_EXPECT(batch(host) == 0);
    HC_EXPECT(driver->stream_query(bench->stream) == kCuIllegalAddress);
    return 0;
  }));
}

TEST_CASE("pointer attributes tell registered memory from that of a device") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    unsigned char* const memory = test::shared_memory(kPages);
    HC_EXPECT(bench->driver->host_register(memory, kPages, kCuHostPortable) == 0);
    const auto at = reinterpret_cast<CuAddress>(memory + 5);
    unsigned type = 0;
    int legacy = 1;
    void* host = nullptr;
    CuAddress start = 0;
    const auto& ask = bench->driver->pointer_attribute;
    HC_EXPECT(ask(&type, kCuPointerMemoryType, at) == 0 && type == kCuMemoryHost);
    HC_EXPECT(ask(&legacy, kCuPointerLegacyIpc, at) == 0 && legacy == 0);
    HC_EXPECT(ask(&host, kCuPointerHostAddress, at) == 0 && host == memory + 5);
    HC_EXPECT(ask(&start, kCuPointerRangeStart, at) == 0 &&
              start == reinterpret_cast<CuAddress>(memory));
    CuIpcMemHandle handle = {};
    HC_EXPECT(bench->driver->ipc_get_mem(&handle, at) == kCuInvalidValue);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
