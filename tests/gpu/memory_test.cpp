// SPDX-License-Identifier: Apache-2.0
// memory_test: what the driver says of an address, by which exports and registrations are judged.
#include <cstdint>

#include "gpu/gpu_bench.h"
#include "support/catch.h"

namespace hc {
namespace {

using test::GpuBench;

constexpr std::size_t kOwnBytes = std::size_t{4} << 20;

// Many of these are asked with a value that is 0 before: the driver may write less than all of it.
template <typename Value>
Value asked(const GpuBench& bench, int kind, CuAddress address) {
  Value value = {};
  HC_CHECK(bench.driver->pointer_attribute(&value, kind, address) == kCuSuccess);
  return value;
}

TEST_CASE("an address inside an allocation leads to its base and its size") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const CuAddress memory = bench->new_memory(kOwnBytes);
    CuAddress base = 0;
    std::size_t bytes = 0;
    for (const std::size_t offset : {std::size_t{0}, std::size_t{77}, kOwnBytes - 1}) {
      HC_EXPECT(bench->driver->mem_range(&base, &bytes, memory + offset) == 0);
      HC_EXPECT(base == memory && bytes == kOwnBytes);
    }
    HC_EXPECT(bench->driver->mem_free(memory) == 0);
    HC_EXPECT(bench->observe("range of a freed address answers",
                             bench->driver->mem_range(&base, &bytes, memory), kCuNotFound));
    const CuAddress small = bench->new_memory(4096);
    HC_EXPECT(bench->driver->mem_range(&base, &bytes, small + 1) == 0);
    HC_EXPECT(base <= small && small + 4096 <= base + bytes);
    HC_EXPECT(bench->observe("range of 4 KiB is of bytes", static_cast<long long>(bytes), 4096));
    HC_EXPECT(bench->observe("range of 4 KiB begins before it by",
                             static_cast<long long>(small - base), 0));
    return 0;
  }));
}

TEST_CASE("pointer attributes tell memory of a device, its ordinal and that it can be exported") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const CuAddress inside = bench->new_memory(kOwnBytes) + 100;
    HC_EXPECT(asked<unsigned>(*bench, kCuPointerMemoryType, inside) == kCuMemoryDevice);
    HC_EXPECT(asked<int>(*bench, kCuPointerDeviceOrdinal, inside) == 0);
    HC_EXPECT(asked<int>(*bench, kCuPointerLegacyIpc, inside) == 1);
    HC_EXPECT(bench->observe("context by attribute is the primary one",
                             asked<CuContext>(*bench, kCuPointerContext, inside) ==
                                 bench->context.get(),
                             1));
    HC_EXPECT(bench->observe("range start by attribute is the base",
                             asked<CuAddress>(*bench, kCuPointerRangeStart, inside) == inside - 100,
                             1));
    HC_EXPECT(bench->observe(
        "range size by attribute is of bytes",
        static_cast<long long>(asked<std::size_t>(*bench, kCuPointerRangeSize, inside)),
        static_cast<long long>(kOwnBytes)));
    HC_EXPECT(bench->observe(
        "handle types of cuMemAlloc",
        static_cast<long long>(asked<std::uint64_t>(*bench, kCuPointerHandleTypes, inside)), 0));
    return 0;
  }));
}

TEST_CASE("memory of the host, pinned or not, is none of a device") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto pinned = reinterpret_cast<CuAddress>(bench->pinned) + 5;
    HC_EXPECT(asked<unsigned>(*bench, kCuPointerMemoryType, pinned) == kCuMemoryHost);
    int on_stack = 0;
    unsigned type = 0;
    const CuResult result = bench->driver->pointer_attribute(
        &type, kCuPointerMemoryType, reinterpret_cast<CuAddress>(&on_stack));
    HC_EXPECT(result != kCuSuccess || type != kCuMemoryDevice);
    HC_EXPECT(bench->observe("memory type of pageable memory answers", result, kCuInvalidValue));
    CuIpcMemHandle handle = {};
    HC_EXPECT(bench->driver->ipc_get_mem(&handle, pinned) != kCuSuccess);
    return 0;
  }));
}

TEST_CASE("a buffer id is of one allocation, and does not come back with its address") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto id_of = [&](CuAddress at) {
      return asked<std::uint64_t>(*bench, kCuPointerBufferId, at);
    };
    const CuAddress first = bench->new_memory(kOwnBytes);
    const CuAddress other = bench->new_memory(kOwnBytes);
    const std::uint64_t id = id_of(first);
    HC_EXPECT(id_of(first + kOwnBytes - 1) == id && id_of(other) != id);
    HC_EXPECT(bench->driver->mem_free(first) == 0);
    const CuAddress second = bench->new_memory(kOwnBytes);
    HC_EXPECT(bench->observe("a freed address comes back", second == first, 1));
    HC_EXPECT(id_of(second) != id && id_of(second) != id_of(other));
    return 0;
  }));
}

TEST_CASE("free memory of the device falls by what is allocated") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    constexpr std::size_t kLarge = std::size_t{64} << 20;
    std::size_t before = 0;
    std::size_t after = 0;
    std::size_t total = 0;
    HC_EXPECT(bench->driver->mem_info(&before, &total) == 0 && before <= total);
    bench->new_memory(kLarge);
    HC_EXPECT(bench->driver->mem_info(&after, &total) == 0);
    // Others may use the device as well.
    HC_EXPECT(bench->observe("free memory fell by bytes",
                             static_cast<long long>(before) - static_cast<long long>(after),
                             static_cast<long long>(kLarge)));
    return 0;
  }));
}

}  // namespace
}  // namespace hc
