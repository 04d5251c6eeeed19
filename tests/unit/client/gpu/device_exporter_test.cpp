// SPDX-License-Identifier: Apache-2.0
// device_exporter_test: what of a device's memory is exported, and what is refused before.
#include "client/gpu/device_exporter.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;

constexpr std::size_t kBytes = 1 << 20;

// The exporter loads the driver by its name: the stand-in has that name once it is loaded.
std::unique_ptr<FakeBench> make_bench(const std::string& plan) {
  HC_CHECK(::dlopen(test::double_library("libcuda.so.1").c_str(), RTLD_NOW) != nullptr);
  return FakeBench::make(plan);
}

bool says(const Error& error, const std::string& part) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return error.message().find(part) != std::string::npos &&
         error.message().find('\n') == std::string::npos;
}

TEST_CASE("an address inside an allocation is exported as its begin and an offset") {
  CHECK(test::holds_in_child([] {
    const auto bench = make_bench("");
    const CuAddress memory = bench->new_memory(kBytes);
    const auto exporter = DeviceExporter::open(memory + 70'001);
    HC_EXPECT(exporter);

    const auto exported = (*exporter)->export_region({memory + 70'001, 5'000});

    HC_EXPECT(exported);
    const RegionRequest* const request = &exported->request;
    HC_EXPECT(request->export_kind == static_cast<std::uint16_t>(ExportKind::legacy));
    HC_EXPECT(request->chunk_count == 0 && exported->chunks.empty() && exported->fds.empty());
    HC_EXPECT(request->region_kind == static_cast<std::uint16_t>(RegionKind::cuda));
    HC_EXPECT(request->offset_bytes == 70'001);
    HC_EXPECT(request->size_bytes == 5'000);
    HC_EXPECT(request->allocation_bytes == kBytes);
    CuUuid uuid{};
    HC_EXPECT(bench->driver->device_uuid(&uuid, 0) == 0);
    HC_EXPECT(std::memcmp(request->device.data(), &uuid, sizeof uuid) == 0);
    CuIpcMemHandle handle{};
    HC_EXPECT(bench->driver->ipc_get_mem(&handle, memory) == 0);
    HC_EXPECT(std::memcmp(request->ipc_handle.data(), &handle, sizeof handle) == 0);
    std::uint64_t buffer = 0;
    HC_EXPECT(bench->driver->pointer_attribute(&buffer, kCuPointerBufferId, memory) == 0);
    HC_EXPECT(request->buffer == buffer);
    HC_EXPECT(request->registration == 1);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    HC_EXPECT(bench->driver->mem_info(&free_bytes, &total_bytes) == 0);
    HC_EXPECT(request->device_free_bytes == free_bytes && free_bytes < total_bytes);
    HC_EXPECT((*exporter)->export_region({memory, kBytes})->request.registration == 2);
    HC_EXPECT((*exporter)->event_handles().size() == kOpSlotsPerSession);
    return 0;
  }));
}

TEST_CASE("a region ends inside its allocation") {
  CHECK(test::holds_in_child([] {
    const auto bench = make_bench("");
    const CuAddress memory = bench->new_memory(kBytes);
    const auto exporter = DeviceExporter::open(memory);
    HC_EXPECT(exporter);
    HC_EXPECT((*exporter)->export_region({memory + 4096, kBytes - 4096}));
    const auto longer = (*exporter)->export_region({memory + 4096, kBytes - 4095});
    HC_EXPECT(!longer && longer.error().code == Code::bad_argument);
    HC_EXPECT(says(longer.error(), "region.size_bytes = 1044481: must be 1..1044480"));
    HC_EXPECT(!(*exporter)->export_region({memory, ~std::uint64_t{0}}));
    HC_EXPECT(!(*exporter)->export_region({memory, 0}));
    return 0;
  }));
}

TEST_CASE("memory of the host is refused, pinned or not") {
  CHECK(test::holds_in_child([] {
    const auto bench = make_bench("");
    int on_stack = 0;
    for (const void* host : {static_cast<const void*>(bench->pinned),
                             static_cast<const void*>(&on_stack)}) {
      const auto address = reinterpret_cast<std::uintptr_t>(host);
      const auto exporter = DeviceExporter::open(address);
      HC_EXPECT(!exporter && exporter.error().code == Code::bad_argument);
      HC_EXPECT(says(exporter.error(), "region.address = 0x"));
      HC_EXPECT(says(exporter.error(), "must be memory of a device"));
      const auto opened = DeviceExporter::open(bench->device);
      HC_EXPECT(opened && !(*opened)->export_region({address, 4}));
    }
    return 0;
  }));
}

TEST_CASE("a process that has used no device has nothing to export") {
  CHECK(test::holds_in_child([] {
    HC_EXPECT(::dlopen(test::double_library("libcuda.so.1").c_str(), RTLD_NOW) != nullptr);
    const auto exporter = DeviceExporter::open(0x1000);
    HC_EXPECT(!exporter && exporter.error().code == Code::bad_argument);
    HC_EXPECT(says(exporter.error(), "this process uses none"));
    HC_EXPECT(test::cuda_count("retains") == 0);
    return 0;
  }));
}

TEST_CASE("without a driver the one reason is said") {
  CHECK(test::holds_in_child([] {
    test::plan_double("HC_FAKE_CUDA", "*=34");
    HC_EXPECT(::dlopen(test::double_library("libcuda.so.1").c_str(), RTLD_NOW) != nullptr);
    const auto exporter = DeviceExporter::open(0x1000);
    HC_EXPECT(!exporter && exporter.error().code == Code::unsupported);
    HC_EXPECT(says(exporter.error(), "no GPU: "));
    return 0;
  }));
}

TEST_CASE("memory of another device than the client's other regions is refused") {
  CHECK(test::holds_in_child([] {
    const auto bench = make_bench("devices=2");
    auto second = PrimaryContext::retain(bench->driver, 1);
    HC_EXPECT(second);
    CuAddress there = 0;
    {
      const CurrentContext current(*second);
      there = bench->new_memory(4096);
    }
    const auto exporter = DeviceExporter::open(bench->device);
    HC_EXPECT(exporter);
    const auto refused = (*exporter)->export_region({there, 4096});
    HC_EXPECT(!refused && refused.error().code == Code::bad_argument);
    HC_EXPECT(says(refused.error(), "is of device 1: must be of device 0"));
    HC_EXPECT(DeviceExporter::open(there));
    return 0;
  }));
}

TEST_CASE("a record is reached when the work before it is done, and not in a captured stream") {
  CHECK(test::holds_in_child([] {
    const auto bench = make_bench("");
    const auto exporter = DeviceExporter::open(bench->device);
    HC_EXPECT(exporter);
    HC_EXPECT((*exporter)->record(63, bench->stream));
    HC_EXPECT(test::cuda_count("cuEventRecord") == 1);
    HC_EXPECT(!(*exporter)->record(0, bench.get()));  // no stream
    return 0;
  }));
  CHECK(test::holds_in_child([] {
    const auto bench = make_bench("capturing=1");
    const auto exporter = DeviceExporter::open(bench->device);
    HC_EXPECT(exporter);
    const auto recorded = (*exporter)->record(0, bench->stream);
    HC_EXPECT(!recorded && recorded.error().code == Code::bad_argument);
    HC_EXPECT(says(recorded.error(), "op.stream: must not be under capture"));
    HC_EXPECT(test::cuda_count("cuEventRecord") == 0);
    return 0;
  }));
}

TEST_CASE("a device that shares no events exports memory all the same") {
  CHECK(test::holds_in_child([] {
    const auto bench = make_bench("cuDeviceGetAttribute=801");
    const auto exporter = DeviceExporter::open(bench->device);
    HC_EXPECT(exporter);
    HC_EXPECT((*exporter)->event_handles().empty());
    HC_EXPECT((*exporter)->export_region({bench->device, 4096}));
    HC_EXPECT((*exporter)->record(0, bench->stream));  // for copies of this process's own
    return 0;
  }));
}

TEST_CASE("a driver without IPC is an answer, and nothing is left of an exporter that goes") {
  CHECK(test::holds_in_child([] {
    const auto bench = make_bench("no_ipc=1");
    const long events = test::cuda_count("events");
    const auto exporter = DeviceExporter::open(bench->device);
    if (exporter) {
      const auto refused = (*exporter)->export_region({bench->device, 4096});
      HC_EXPECT(!refused);
      HC_EXPECT(refused.error().code == Code::io_error);
    } else {
      HC_EXPECT(exporter.error().code == Code::io_error);
    }
    HC_EXPECT(exporter || test::cuda_count("events") == events);
    return 0;
  }));
  CHECK(test::holds_in_child([] {
    const auto bench = make_bench("");
    const long events = test::cuda_count("events");
    const long retains = test::cuda_count("retains");
    {
      const auto exporter = DeviceExporter::open(bench->device);
      HC_EXPECT(exporter);
      HC_EXPECT(test::cuda_count("events") == events + kOpSlotsPerSession);
    }
    HC_EXPECT(test::cuda_count("events") == events);
    HC_EXPECT(test::cuda_count("retains") == retains);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
