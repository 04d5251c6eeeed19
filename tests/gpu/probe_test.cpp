// SPDX-License-Identifier: Apache-2.0
// probe_test: what a driver says of itself and of its devices.
#include <cstring>
#include <set>
#include <string>

#include "gpu/gpu_bench.h"
#include "shm/gpu/cuda_device.h"
#include "support/catch.h"

namespace hc {
namespace {

using test::GpuBench;

constexpr int kOldestVersion = 11040;

TEST_CASE("the driver starts, has every entry that is needed, and counts devices") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();  // which has loaded it
    HC_EXPECT(bench->driver.version() >= kOldestVersion);
    HC_EXPECT(bench->driver.device_count() >= 1);
    const auto& driver = bench->driver;
    const auto there = [](auto entry) { return entry != nullptr ? 1 : 0; };
    const int two_abis = bench->driver.version() >= 13000 ? 1 : 0;
    HC_EXPECT(bench->observe("batch copies of nine arguments", there(driver->copy_batch_v1), 1));
    HC_EXPECT(bench->observe("batch copies of eight arguments", there(driver->copy_batch_v2),
                             two_abis));
    HC_EXPECT(bench->observe("values written in a stream", there(driver->stream_write_value64), 1));
    HC_EXPECT(bench->observe("memory without addresses", there(driver->vmm_create), 1));
    return 0;
  }));
}

TEST_CASE("each device has a UUID and a PCI id, and is found by its UUID") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    std::set<std::string> ids;
    const int count = bench->driver.device_count();
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      CuDevice device = -1;
      CuUuid raw = {};
      char pci[32] = {};
      HC_EXPECT(bench->driver->device_get(&device, ordinal) == 0);
      HC_EXPECT(bench->driver->device_uuid(&raw, device) == 0);
      HC_EXPECT(bench->driver->device_pci(pci, sizeof pci, device) == 0);
      int bus = -1;
      unsigned read = 0;
      HC_EXPECT(bench->driver->device_attribute(&bus, kCuDevicePciBus, device) == 0);
      HC_EXPECT(std::sscanf(pci, "%*x:%x:", &read) == 1 && static_cast<int>(read) == bus);
      Uuid uuid{};
      std::memcpy(uuid.data(), &raw, sizeof raw);
      HC_EXPECT(uuid != Uuid{});
      ids.insert(uuid_text(uuid));
      const auto found = CudaDevice::open(bench->driver, uuid);
      HC_EXPECT(found && (*found)->facts().pci == pci);
    }
    HC_EXPECT(ids.size() == static_cast<std::size_t>(count));
    HC_EXPECT(!CudaDevice::open(bench->driver, Uuid{}));
    return 0;
  }));
}

TEST_CASE("a device can do what the copies need") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    // Addresses of the host stand beside those of the device in one call.
    HC_EXPECT(bench->attribute(kCuDeviceUnifiedAddressing) == 1);
    HC_EXPECT(bench->attribute(kCuDeviceHostRegister) == 1);
    const auto observe = [&](const char* what, int kind, int of_double) {
      return bench->observe(std::string("attribute ") + what, bench->attribute(kind), of_double);
    };
    HC_EXPECT(observe("host pointer of registered memory", kCuDeviceHostPointerUsable, 1));
    HC_EXPECT(observe("page tables of the host", kCuDeviceHostPageTables, 0));
    HC_EXPECT(observe("events of other processes", kCuDeviceIpcEvents, 1));
    HC_EXPECT(observe("virtual memory", kCuDeviceVmm, 1));
    HC_EXPECT(observe("virtual memory by descriptor", kCuDeviceVmmPosixFd, 1));
    HC_EXPECT(observe("64-bit values in streams", kCuDeviceStreamMemOps64, 1));
    HC_EXPECT(observe("copy engines", kCuDeviceCopyEngines, 2));
    return 0;
  }));
}

TEST_CASE("a process that was forked after the driver started has no GPU, and hears why") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    return test::Child([&] {
             const auto again = CudaDriver::load(test::gpu_library());
             const bool answers_3 =
                 !again && again.error().message().find("answers 3)") != std::string::npos;
             HC_EXPECT(bench->observe("the driver refuses a forked process with 3", answers_3, 1));
             return 0;
           }).wait();
  }));
}

}  // namespace
}  // namespace hc
