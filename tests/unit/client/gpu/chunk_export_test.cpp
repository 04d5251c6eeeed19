// SPDX-License-Identifier: Apache-2.0
// chunk_export_test: by which way memory leaves its process: a handle, descriptors, or none, and
// then which attribute says so.
#include "client/gpu/chunk_export.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "client/gpu/device_exporter.h"
#include "support/catch.h"
#include "unit/shm/cuda/chunk_area.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;
using test::kChunkBytes;

const std::vector<std::size_t> kSizes = {kChunkBytes, 10 * kChunkBytes, kChunkBytes};
constexpr std::uint64_t kAll = 12 * kChunkBytes;

// The exporter loads the driver by its name: the stand-in has that name once it is loaded.
std::unique_ptr<FakeBench> stand_in(const std::string& plan) {
  HC_CHECK(::dlopen(test::double_library("libcuda.so.1").c_str(), RTLD_NOW) != nullptr);
  return FakeBench::make(plan);
}

std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// Refused with one line that has these parts; nothing is left of the attempt.
int expect_refused(const FakeBench& bench, const DeviceRange& range, Code code,
                   const std::vector<std::string>& parts) {
  const auto exporter = DeviceExporter::open(bench.device);
  HC_EXPECT(exporter);
  const std::size_t files = open_files();
  const long handles = test::cuda_count("handles");
  const auto refused = (*exporter)->export_region(range);
  HC_EXPECT(!refused);
  const std::string line = refused.error().message();
  std::fprintf(stderr, "%s\n", line.c_str());
  HC_EXPECT(refused.error().code == code);
  HC_EXPECT(line.find('\n') == std::string::npos && line.size() <= kReasonBytesMax);
  for (const std::string& part : parts) {
    HC_EXPECT(line.find(part) != std::string::npos);
  }
  HC_EXPECT(open_files() == files && test::cuda_count("handles") == handles);
  HC_EXPECT(test::cuda_count("cuIpcGetMemHandle") <= 0);
  return 0;
}

TEST_CASE("chunk_export: memory without a handle leaves by a descriptor of each chunk") {
  const auto* const plan = GENERATE("", "version=11080");  // which has no attributes of mappings
  CHECK(test::holds_in_child([&] {
    const auto bench = stand_in(plan);
    const CuAddress area = test::map_area(bench->driver, kSizes, kCuHandlePosixFd);
    const auto exporter = DeviceExporter::open(area + 5);
    HC_EXPECT(exporter);

    const auto out = (*exporter)->export_region({area + 70'001, kAll - 70'001});

    HC_EXPECT(out);
    HC_EXPECT(out->request.region_kind == static_cast<std::uint16_t>(RegionKind::cuda));
    HC_EXPECT(out->request.export_kind == static_cast<std::uint16_t>(ExportKind::vmm));
    HC_EXPECT(out->request.offset_bytes == 70'001);
    HC_EXPECT(out->request.size_bytes == kAll - 70'001);
    HC_EXPECT(out->request.allocation_bytes == kAll);
    HC_EXPECT(out->request.chunk_count == 3 && out->chunks.size() == 3 && out->fds.size() == 3);
    HC_EXPECT(out->request.registration == 1);
    HC_EXPECT(out->request.ipc_handle == IpcHandle{} && out->request.buffer == 0);
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      HC_EXPECT(out->chunks[i].offset_bytes == end && out->chunks[i].size_bytes == kSizes[i]);
      end += kSizes[i];
      HC_EXPECT((::fcntl(out->fds[i].get(), F_GETFD) & FD_CLOEXEC) != 0);
    }
    HC_EXPECT(test::cuda_count("handles") == 0);
    HC_EXPECT(test::cuda_count("cuIpcGetMemHandle") <= 0);
    return 0;
  }));
}

TEST_CASE("chunk_export: only the chunks that a region lies in leave the process") {
  CHECK(test::holds_in_child([] {
    const auto bench = stand_in("");
    const CuAddress area = test::map_area(bench->driver, kSizes, kCuHandlePosixFd);
    const auto exporter = DeviceExporter::open(area);
    HC_EXPECT(exporter);
    const auto middle = (*exporter)->export_region({area + kChunkBytes, 10 * kChunkBytes});
    HC_EXPECT(middle && middle->chunks.size() == 1 && middle->request.offset_bytes == 0);
    HC_EXPECT(middle->chunks[0].offset_bytes == 0);
    HC_EXPECT(middle->chunks[0].size_bytes == 10 * kChunkBytes);
    const auto last = (*exporter)->export_region({area + kAll - kChunkBytes - 1, 2});
    HC_EXPECT(last && last->chunks.size() == 2);
    HC_EXPECT(last->request.offset_bytes == 10 * kChunkBytes - 1);
    HC_EXPECT(last->request.registration == 2);
    return 0;
  }));
}

TEST_CASE("chunk_export: memory that was not made to be exported is refused by what it was asked") {
  CHECK(test::holds_in_child([] {
    const auto bench = stand_in("");
    const CuAddress area = test::map_area(bench->driver, kSizes, 0);
    return expect_refused(*bench, {area, kAll}, Code::unsupported,
                          {"can't be exported (IS_LEGACY_CUDA_IPC_CAPABLE = 0, ",
                           "POSIX_FILE_DESCRIPTOR: requestedHandleTypes = 0"});
  }));
}

TEST_CASE("chunk_export: one chunk that was not made to be exported is enough to refuse") {
  CHECK(test::holds_in_child([] {
    const auto bench = stand_in("");
    const auto& driver = bench->driver;
    const CuMemAccess access = {{kCuLocationDevice, 0}, kCuAccessReadWrite};
    CuAddress area = 0;
    HC_EXPECT(driver->vmm_reserve(&area, 3 * kChunkBytes, 0, 0, 0) == 0);
    CuAddress at = area;
    for (const int types : {kCuHandlePosixFd, kCuHandlePosixFd, 0}) {
      const CuMemProperties of = test::chunk_properties(types);
      CuMemHandle handle = 0;
      HC_EXPECT(driver->vmm_create(&handle, kChunkBytes, &of, 0) == 0);
      HC_EXPECT(driver->vmm_map(at, kChunkBytes, 0, handle, 0) == 0);
      HC_EXPECT(driver->vmm_release(handle) == 0);
      at += kChunkBytes;
    }
    HC_EXPECT(driver->vmm_set_access(area, 3 * kChunkBytes, &access, 1) == 0);
    return expect_refused(*bench, {area, 3 * kChunkBytes}, Code::unsupported,
                          {"can't be exported", "requestedHandleTypes = 0"});
  }));
}

TEST_CASE("chunk_export: memory of a pool is refused by the attribute that says so") {
  CHECK(test::holds_in_child([] {
    const auto bench = stand_in("");
    CuAddress pooled = 0;
    HC_EXPECT(bench->driver->mem_alloc_async(&pooled, 1 << 20, bench->stream) == 0);
    HC_EXPECT(expect_refused(*bench, {pooled, 4096}, Code::unsupported,
                             {"can't be exported", "MEMPOOL_HANDLE is set"}) == 0);
    HC_EXPECT(test::cuda_count("cuMemRetainAllocationHandle") <= 0);
    HC_EXPECT(bench->driver->mem_free_async(pooled, bench->stream) == 0);
    return 0;
  }));
}

TEST_CASE("chunk_export: a device or a driver without descriptors is no way") {
  // The second plan has the memory, and tells its own exporter that it has no descriptors.
  for (const char* plan : {"no_posix_fd=1", "cuDeviceGetAttribute=801"}) {
    INFO(plan);
    CHECK(test::holds_in_child([&] {
      const auto bench = stand_in(plan);
      const CuAddress area = test::map_area(bench->driver, kSizes, 0);
      return expect_refused(*bench, {area, kAll}, Code::unsupported,
                            {"HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 0"});
    }));
  }
}

TEST_CASE("chunk_export: more chunks than a message carries are counted and refused") {
  CHECK(test::holds_in_child([] {
    const auto bench = stand_in("");
    const std::vector<std::size_t> many(kChunksPerRegionMax + 3, kChunkBytes);
    const CuAddress area = test::map_area(bench->driver, many, kCuHandlePosixFd);
    const auto exporter = DeviceExporter::open(area);
    HC_EXPECT(exporter);
    const auto most = (*exporter)->export_region({area + 7, kChunksPerRegionMax * kChunkBytes - 7});
    HC_EXPECT(most && most->fds.size() == kChunksPerRegionMax);
    return expect_refused(*bench, {area, many.size() * kChunkBytes}, Code::unsupported,
                          {"the region lies in 67 chunks of cuMemCreate: at most 64",
                           "HICACHE_TRANSFER_RANK"});
  }));
}

TEST_CASE("chunk_export: a region ends where something is mapped") {
  CHECK(test::holds_in_child([] {
    const auto bench = stand_in("");
    const auto& driver = bench->driver;
    const CuAddress area = test::map_area(driver, kSizes, kCuHandlePosixFd);
    HC_EXPECT(expect_refused(*bench, {area + 1, kAll}, Code::bad_argument,
                             {"region.size_bytes = 25165824: must be 1..25165823"}) == 0);
    HC_EXPECT(expect_refused(*bench, {area, ~std::uint64_t{0}}, Code::bad_argument,
                             {"region.size_bytes"}) == 0);
    HC_EXPECT(expect_refused(*bench, {area, 0}, Code::bad_argument, {"region.size_bytes = 0"}) ==
              0);
    HC_EXPECT(driver->vmm_unmap(area + kChunkBytes, 10 * kChunkBytes) == 0);
    return expect_refused(*bench, {area, kAll}, Code::bad_argument,
                          {"must be 1..2097152, to the end of what is mapped"});
  }));
}

TEST_CASE("chunk_export: what the driver says in between is the answer, and nothing stays open") {
  for (const char* call :
       {"cuMemGetAllocationPropertiesFromHandle", "cuMemExportToShareableHandle"}) {
    INFO(call);
    CHECK(test::holds_in_child([&] {
      const auto bench = stand_in(std::string(call) + "@2=2");
      const CuAddress area = test::map_area(bench->driver, kSizes, kCuHandlePosixFd);
      return expect_refused(*bench, {area, kAll}, Code::io_error,
                            {std::string(call) + ": CUDA_ERROR_OUT_OF_MEMORY (2)"});
    }));
  }
}

}  // namespace
}  // namespace hc
