// SPDX-License-Identifier: Apache-2.0
// fake_memory_test: what the stand-in driver says of devices and of memory.
#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;

template <typename Value>
Value attribute(const FakeBench& bench, int kind, CuAddress address) {
  Value value = {};
  HC_CHECK(bench.driver->pointer_attribute(&value, kind, address) == kCuSuccess);
  return value;
}

int device_attribute(const FakeBench& bench, int kind, CuDevice device = 0) {
  int value = -1;
  HC_CHECK(bench.driver->device_attribute(&value, kind, device) == kCuSuccess);
  return value;
}

std::string uuid(const FakeBench& bench, CuDevice device) {
  CuUuid id = {};
  HC_CHECK(bench.driver->device_uuid(&id, device) == kCuSuccess);
  return {reinterpret_cast<const char*>(id.bytes), sizeof id.bytes};
}

std::string pci(const FakeBench& bench, CuDevice device) {
  char id[32] = {};
  HC_CHECK(bench.driver->device_pci(id, sizeof id, device) == kCuSuccess);
  return id;
}

TEST_CASE("a device of the double says that it is none") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    char name[64] = {};
    HC_EXPECT(bench->driver->device_name(name, sizeof name, 0) == 0);
    HC_EXPECT(std::string(name) == "hicached test double");
    HC_EXPECT(bench->driver->device_name(name, sizeof name, 1) == kCuInvalidDevice);
    return 0;
  }));
}

TEST_CASE("devices have names of their own, which are those of the machine, not of the process") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("devices=3,first_device=2");
    std::set<std::string> names;
    for (CuDevice device = 0; device < 3; ++device) {
      names.insert(uuid(*bench, device));
      names.insert(pci(*bench, device));
    }
    HC_EXPECT(names.size() == 6);
    HC_EXPECT(uuid(*bench, 0) == "hc-fake-gpu-0002");
    HC_EXPECT(pci(*bench, 1) == "0000:13:00.0");
    HC_EXPECT(device_attribute(*bench, kCuDevicePciBus, 1) == 0x13);
    char shorter[12];
    HC_EXPECT(bench->driver->device_pci(shorter, sizeof shorter, 0) == kCuInvalidValue);
    CuUuid id;
    HC_EXPECT(bench->driver->device_uuid(&id, 3) == kCuInvalidDevice);
    return 0;
  }));
}

TEST_CASE("what a device can do is asked by number, and follows the plan") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("host_numa@0=1");
    HC_EXPECT(device_attribute(*bench, kCuDeviceUnifiedAddressing) == 1);
    HC_EXPECT(device_attribute(*bench, kCuDeviceIpcEvents) == 1);
    HC_EXPECT(device_attribute(*bench, kCuDeviceHostPointerUsable) == 1);
    HC_EXPECT(device_attribute(*bench, kCuDeviceVmm) == 1);
    HC_EXPECT(device_attribute(*bench, kCuDeviceHostNuma) == 1);
    int value = 0;
    HC_EXPECT(bench->driver->device_attribute(&value, 0, 0) == kCuInvalidValue);
    HC_EXPECT(bench->driver->device_attribute(&value, 1000, 0) == kCuInvalidValue);
    return 0;
  }));
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("no_ipc=1,no_vmm=1,host_pointer=0");
    HC_EXPECT(device_attribute(*bench, kCuDeviceIpcEvents) == 0);
    HC_EXPECT(device_attribute(*bench, kCuDeviceVmm) == 0);
    HC_EXPECT(device_attribute(*bench, kCuDeviceVmmPosixFd) == 0);
    HC_EXPECT(device_attribute(*bench, kCuDeviceHostPointerUsable) == 0);
    return 0;
  }));
}

TEST_CASE("a primary context is active while somebody retains it, each device for itself") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("devices=2");
    unsigned flags = 1;
    int active = 0;
    HC_EXPECT(bench->driver->primary_state(0, &flags, &active) == 0);
    HC_EXPECT(active == 1 && flags == 0);
    HC_EXPECT(bench->driver->primary_state(1, &flags, &active) == 0 && active == 0);
    HC_EXPECT(bench->driver->primary_release(1) == kCuInvalidContext);
    CuContext current = nullptr;
    HC_EXPECT(bench->driver->ctx_current(&current) == 0 && current == bench->context.get());
    return 0;
  }));
}

TEST_CASE("an address inside an allocation leads to its base, size and properties") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("devices=2", 1);
    const CuAddress inside = bench->device + 100;
    CuAddress base = 0;
    std::size_t bytes = 0;
    HC_EXPECT(bench->driver->mem_range(&base, &bytes, inside) == 0);
    HC_EXPECT(base == bench->device && bytes == FakeBench::kBytes);
    HC_EXPECT(bench->driver->mem_range(nullptr, &bytes, inside) == 0);
    HC_EXPECT(bench->driver->mem_range(&base, nullptr, inside + FakeBench::kBytes) == kCuNotFound);
    HC_EXPECT(attribute<CuContext>(*bench, kCuPointerContext, inside) == bench->context.get());
    HC_EXPECT(attribute<unsigned>(*bench, kCuPointerMemoryType, inside) == kCuMemoryDevice);
    HC_EXPECT(attribute<CuAddress>(*bench, kCuPointerDeviceAddress, inside) == inside);
    HC_EXPECT(attribute<int>(*bench, kCuPointerDeviceOrdinal, inside) == 1);
    HC_EXPECT(attribute<int>(*bench, kCuPointerLegacyIpc, inside) == 1);
    HC_EXPECT(attribute<CuAddress>(*bench, kCuPointerRangeStart, inside) == bench->device);
    HC_EXPECT(attribute<std::size_t>(*bench, kCuPointerRangeSize, inside) == FakeBench::kBytes);
    HC_EXPECT(attribute<int>(*bench, kCuPointerMapped, inside) == 1);
    HC_EXPECT(attribute<std::uint64_t>(*bench, kCuPointerHandleTypes, inside) == 0);
    HC_EXPECT(attribute<void*>(*bench, kCuPointerPool, inside) == nullptr);
    void* host = nullptr;
    HC_EXPECT(bench->driver->pointer_attribute(&host, kCuPointerHostAddress, inside) ==
              kCuInvalidValue);
    const auto pageable = reinterpret_cast<CuAddress>(&host);
    HC_EXPECT(bench->driver->pointer_attribute(&base, kCuPointerRangeStart, pageable) ==
              kCuInvalidValue);
    return 0;
  }));
}

TEST_CASE("an address comes back for new memory, its buffer id never does") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const CuAddress first = bench->new_memory(8192);
    const auto id = attribute<std::uint64_t>(*bench, kCuPointerBufferId, first);
    HC_EXPECT(attribute<std::uint64_t>(*bench, kCuPointerBufferId, bench->device) != id);
    HC_EXPECT(bench->fill(first, 9, 8192));
    HC_EXPECT(bench->driver->mem_free(first) == 0);
    HC_EXPECT(bench->driver->memset_async(first, 1, 1, bench->stream) == kCuInvalidValue);
    const CuAddress second = bench->new_memory(8192);
    HC_EXPECT(second == first);
    HC_EXPECT(attribute<std::uint64_t>(*bench, kCuPointerBufferId, second) != id);
    HC_EXPECT(bench->byte_at(second) == 0xA5);  // nothing of what was there
    return 0;
  }));
}

TEST_CASE("an access ends with its allocation, even where another one follows at once") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    bool has_neighbour = false;
    CuAddress before = bench->device;
    for (int more = 0; more < 16; ++more) {
      const CuAddress next = bench->new_memory(FakeBench::kBytes);
      const CuAddress distance = next > before ? next - before : before - next;
      has_neighbour = has_neighbour || distance == FakeBench::kBytes;
      before = next;
      HC_EXPECT(bench->driver->memset_async(next, 1, FakeBench::kBytes, bench->stream) == 0);
      HC_EXPECT(bench->driver->memset_async(next, 1, FakeBench::kBytes + 1, bench->stream) ==
                kCuInvalidValue);
    }
    HC_EXPECT(has_neighbour);
    return 0;
  }));
}

TEST_CASE("memory of a device ends, and each device has its own") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("memory_bytes=1000000,devices=2");
    std::size_t free = 0;
    std::size_t total = 0;
    HC_EXPECT(bench->driver->mem_info(&free, &total) == 0);
    HC_EXPECT(total == 1'000'000 && free == total - FakeBench::kBytes);
    CuAddress address = 0;
    HC_EXPECT(bench->driver->mem_alloc(&address, free + 1) == kCuOutOfMemory);
    HC_EXPECT(bench->driver->mem_alloc(&address, free) == 0);
    HC_EXPECT(bench->driver->mem_alloc(&address, 1) == kCuOutOfMemory);
    HC_EXPECT(test::cuda_count("device_bytes") == 1'000'000);
    auto other = PrimaryContext::retain(bench->driver, 1);
    HC_EXPECT(other);
    const CurrentContext current(*other);
    CuAddress beyond = 0;
    HC_EXPECT(bench->driver->mem_alloc(&beyond, 1'000'000) == 0);
    HC_EXPECT(bench->driver->mem_alloc(&beyond, 1) == kCuOutOfMemory);
    HC_EXPECT(test::cuda_count("device_bytes") == 2'000'000);
    HC_EXPECT(bench->driver->mem_free(address) == 0);
    HC_EXPECT(test::cuda_count("device_bytes") == 1'000'000 + FakeBench::kBytes);
    HC_EXPECT(bench->driver->mem_alloc(&beyond, 1) == kCuOutOfMemory);  // it was of the other one
    return 0;
  }));
}

}  // namespace
}  // namespace hc
