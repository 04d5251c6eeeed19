// SPDX-License-Identifier: Apache-2.0
// cuda_device_test: a device is found by what it is, not by its number.
#include "shm/gpu/cuda_device.h"

#include <cstring>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;

Uuid uuid_of(const FakeBench& bench, int ordinal) {
  CuUuid raw{};
  HC_CHECK(bench.driver->device_uuid(&raw, ordinal) == kCuSuccess);
  Uuid uuid{};
  std::memcpy(uuid.data(), &raw, sizeof raw);
  return uuid;
}

TEST_CASE("a device is found by its UUID, and its context is held as long as it is") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("devices=3");
    const Uuid wanted = uuid_of(*bench, 2);
    const long before = test::cuda_count("retains");
    {
      const auto device = CudaDevice::open(bench->driver, wanted);
      HC_EXPECT(device);
      HC_EXPECT((*device)->uuid() == wanted);
      HC_EXPECT(!(*device)->facts().name.empty());
      HC_EXPECT(!(*device)->facts().pci.empty());
      HC_EXPECT((*device)->takes_host_addresses());
      HC_EXPECT(test::cuda_count("retains") == before + 1);
      HC_EXPECT(!(*device)->is_lost());
      HC_EXPECT((*device)->lose());
      HC_EXPECT(!(*device)->lose());
      HC_EXPECT((*device)->is_lost());
    }
    HC_EXPECT(test::cuda_count("retains") == before);
    return 0;
  }));
}

TEST_CASE("one that the daemon does not see is refused by name") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("devices=2,cuDeviceGetUuid@3=999");
    const Uuid unread = uuid_of(*bench, 1);
    Uuid other{};
    other.fill(0xC3);
    const auto device = CudaDevice::open(bench->driver, other);
    HC_EXPECT(!device);
    HC_EXPECT(device.error().code == Code::refused);
    HC_EXPECT(device.error().message() ==
              "device = GPU-c3c3c3c3-c3c3-c3c3-c3c3-c3c3c3c3c3c3: the daemon sees 2 devices, and "
              "not this one");
    HC_EXPECT(CudaDevice::open(bench->driver, unread));
    return 0;
  }));
}

TEST_CASE("a device whose context can't be had is an error of the driver") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("cuDevicePrimaryCtxRetain@2=2,host_pointer=0");
    const auto refused = CudaDevice::open(bench->driver, uuid_of(*bench, 0));
    HC_EXPECT(!refused && refused.error().code == Code::io_error);
    const auto device = CudaDevice::open(bench->driver, uuid_of(*bench, 0));
    HC_EXPECT(device);
    HC_EXPECT(!(*device)->takes_host_addresses());
    return 0;
  }));
}

TEST_CASE("a UUID is written as the vendor's tools write it") {
  Uuid uuid{};
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    uuid[i] = static_cast<std::uint8_t>(0x10 * i + i);
  }
  CHECK(uuid_text(uuid) == "GPU-00112233-4455-6677-8899-aabbccddeeff");
}

}  // namespace
}  // namespace hc
