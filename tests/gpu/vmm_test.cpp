// SPDX-License-Identifier: Apache-2.0
// vmm_test: memory as expandable segments have it: no handle for others, but a descriptor of each
// chunk; and memory of pools.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "gpu/gpu_bench.h"
#include "gpu/lane_bench.h"
#include "support/catch.h"

namespace hc {
namespace {

using test::Frames;
using test::GpuBench;
using test::LaneBench;

constexpr CuMemAccess kReadWrite = {{kCuLocationDevice, 0}, kCuAccessReadWrite};

CuMemProperties chunk_properties() {
  CuMemProperties of = {};
  of.type = kCuAllocationPinned;
  of.handle_types = kCuHandlePosixFd;
  of.location = {kCuLocationDevice, 0};
  return of;
}

// Nothing to look at: the driver or the device lacks it.
bool has_vmm(const GpuBench& bench) {
  return bench.driver->vmm_create != nullptr && bench.attribute(kCuDeviceVmm) == 1;
}

std::size_t chunk_bytes(const GpuBench& bench) {
  const CuMemProperties of = chunk_properties();
  std::size_t bytes = 0;
  HC_CHECK(bench.driver->vmm_granularity(&bytes, &of, kCuGranularityMinimum) == kCuSuccess);
  return bytes;
}

// An address for a chunk, which the device may use.
CuAddress map_chunk(const GpuBench& bench, CuAddress at, CuMemHandle handle, std::size_t bytes) {
  CuAddress area = at;
  HC_CHECK(at != 0 || bench.driver->vmm_reserve(&area, bytes, 0, 0, 0) == kCuSuccess);
  HC_CHECK(bench.driver->vmm_map(area, bytes, 0, handle, 0) == kCuSuccess);
  HC_CHECK(bench.driver->vmm_set_access(area, bytes, &kReadWrite, 1) == kCuSuccess);
  return area;
}

CuMemHandle new_chunk(const GpuBench& bench, std::size_t bytes) {
  const CuMemProperties of = chunk_properties();
  CuMemHandle handle = 0;
  HC_CHECK(bench.driver->vmm_create(&handle, bytes, &of, 0) == kCuSuccess);
  return handle;
}

TEST_CASE("memory of cuMemCreate says that no handle of it can be made") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    if (!has_vmm(*bench)) {
      HC_EXPECT(bench->observe("no virtual memory", 1, 0));
      return 0;
    }
    const std::size_t bytes = chunk_bytes(*bench);
    HC_EXPECT(bench->observe("bytes of a chunk", static_cast<long long>(bytes), 2 << 20));
    const CuAddress area = map_chunk(*bench, 0, new_chunk(*bench, bytes), bytes);
    unsigned type = 0;
    int ordinal = -1;
    int legacy = 0;
    const auto& ask = bench->driver->pointer_attribute;
    HC_EXPECT(ask(&type, kCuPointerMemoryType, area + 9) == 0 && type == kCuMemoryDevice);
    HC_EXPECT(ask(&ordinal, kCuPointerDeviceOrdinal, area + 9) == 0 && ordinal == 0);
    HC_EXPECT(ask(&legacy, kCuPointerLegacyIpc, area + 9) == 0 && legacy == 0);
    CuIpcMemHandle handle = {};
    const CuResult result = bench->driver->ipc_get_mem(&handle, area);
    HC_EXPECT(result != kCuSuccess);
    HC_EXPECT(bench->observe("handle of virtual memory answers", result, kCuInvalidValue));
    return 0;
  }));
}

TEST_CASE("lanes copy between frames and two chunks that follow each other") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    if (!has_vmm(*bench)) {
      return 0;
    }
    const std::size_t bytes = chunk_bytes(*bench);
    CuAddress area = 0;
    HC_EXPECT(bench->driver->vmm_reserve(&area, 2 * bytes, 0, 0, 0) == 0);
    map_chunk(*bench, area, new_chunk(*bench, bytes), bytes);
    map_chunk(*bench, area + bytes, new_chunk(*bench, bytes), bytes);
    Frames frames(2 * bytes);
    LaneBench lanes(*bench, frames, bytes);
    const auto mapping = lanes.map(area, 2 * bytes);
    const CopyRun run{bytes / 2, bytes};  // from one into the other
    std::memset(frames.begin(), 0x66, bytes);
    HC_EXPECT(bench->fill(area, 0, 2 * bytes));
    lanes.put(true, frames.begin(), {&run, 1}, mapping);
    HC_EXPECT(lanes.wait(1));
    lanes.put(false, frames.begin() + bytes, {&run, 1}, mapping);
    HC_EXPECT(lanes.wait(1));
    HC_EXPECT(std::memcmp(frames.begin(), frames.begin() + bytes, bytes) == 0);
    HC_EXPECT(bench->byte_at(area + bytes / 2 - 1) == 0);
    HC_EXPECT(bench->byte_at(area + bytes / 2) == 0x66);
    return 0;
  }));
}

void pass_fd(int line, int fd) {
  char room[CMSG_SPACE(sizeof fd)] = {};
  char byte = 0;
  iovec part = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    *head = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  }
  HC_CHECK(::sendmsg(line, &message, MSG_NOSIGNAL) == 1);
}

int take_fd(int line) {
  char room[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
  iovec part = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  int fd = -1;
  if (::recvmsg(line, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != nullptr) {
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  }
  return fd;
}

int export_chunk(int line) {
  const auto bench = GpuBench::make();
  const std::size_t bytes = has_vmm(*bench) ? chunk_bytes(*bench) : 0;
  int fd = -1;
  if (bytes > 0) {
    const CuMemHandle handle = new_chunk(*bench, bytes);
    HC_EXPECT(bench->fill(map_chunk(*bench, 0, handle, bytes), 0x77, bytes));
    if (bench->driver->vmm_export(&fd, handle, kCuHandlePosixFd, 0) != kCuSuccess) {
      fd = -1;
    }
  }
  pass_fd(line, fd);
  return 0;
}

// Three chunks, each full of its number, in one reservation; their descriptors go over the line.
int export_chunks_and_stay(int line) {
  const auto bench = GpuBench::make();
  const bool has = has_vmm(*bench) && bench->attribute(kCuDeviceVmmPosixFd) == 1;
  const std::size_t bytes = has ? chunk_bytes(*bench) : 0;
  CuAddress area = 0;
  for (std::size_t chunk = 0; chunk < 3; ++chunk) {
    if (!has) {
      pass_fd(line, -1);
      continue;
    }
    HC_EXPECT(chunk != 0 || bench->driver->vmm_reserve(&area, 3 * bytes, 0, 0, 0) == 0);
    const CuMemHandle made = new_chunk(*bench, bytes);
    map_chunk(*bench, area + chunk * bytes, made, bytes);
    HC_EXPECT(bench->driver->vmm_release(made) == 0);
    HC_EXPECT(bench->fill(area + chunk * bytes, static_cast<unsigned char>(chunk + 1), bytes));
    // As the product asks: by an address inside, and for the mapping that it lies in.
    CuMemHandle handle = 0;
    CuAddress base = 0;
    std::size_t size = 0;
    const CuAddress inside = area + chunk * bytes + 12'345;
    HC_EXPECT(bench->driver->vmm_retain(&handle, reinterpret_cast<void*>(inside)) == 0);
    const bool knows =
        bench->driver->pointer_attribute(&base, kCuPointerMappingBase, inside) == 0 &&
        bench->driver->pointer_attribute(&size, kCuPointerMappingSize, inside) == 0;
    HC_EXPECT(bench->observe("attributes name the mapping of a chunk", knows, 1));
    HC_EXPECT(!knows || (base == area + chunk * bytes && size == bytes));
    HC_EXPECT(bench->driver->mem_range(&base, &size, inside) == 0);
    HC_EXPECT(bench->observe("the address range of a chunk begins so far into its reservation",
                             static_cast<long long>(base - area),
                             static_cast<long long>(chunk * bytes)));
    CuMemProperties of = {};
    HC_EXPECT(bench->driver->vmm_properties(&of, handle) == 0);
    HC_EXPECT((of.handle_types & kCuHandlePosixFd) != 0);
    HC_EXPECT(of.location.type == kCuLocationDevice && of.location.id == 0);
    int fd = -1;
    HC_EXPECT(bench->driver->vmm_export(&fd, handle, kCuHandlePosixFd, 0) == 0);
    HC_EXPECT(bench->driver->vmm_release(handle) == 0);
    pass_fd(line, fd);
    HC_EXPECT(::close(fd) == 0);
  }
  char done = 0;
  HC_EXPECT(::recv(line, &done, 1, 0) == 1);
  // What the other one has written is here.
  HC_EXPECT(!has || bench->byte_at(area + 2 * bytes - 1) == 0x55);
  HC_EXPECT(!has || bench->byte_at(area + 2 * bytes) == 0x55);
  HC_EXPECT(!has || bench->byte_at(area + 2 * bytes + 1) == 3);
  return 0;
}

TEST_CASE("chunks of another process are one region behind each other, without handles or files") {
  CHECK(test::on_gpu([] {
    int line[2];
    HC_EXPECT(::socketpair(AF_UNIX, SOCK_STREAM, 0, line) == 0);
    test::Child exporter([&] { return export_chunks_and_stay(line[1]); });
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    const std::size_t bytes = has_vmm(*bench) ? chunk_bytes(*bench) : 0;
    CuAddress area = 0;
    HC_EXPECT(bytes == 0 || driver->vmm_reserve(&area, 3 * bytes, 0, 0, 0) == 0);
    bool is_whole = bytes > 0;
    for (std::size_t chunk = 0; chunk < 3; ++chunk) {
      const int fd = take_fd(line[0]);
      is_whole = is_whole && fd >= 0;
      if (!is_whole) {
        continue;
      }
      CuMemHandle handle = 0;
      CuMemProperties of = {};
      HC_EXPECT(driver->vmm_import(&handle, reinterpret_cast<void*>(std::intptr_t{fd}),
                                   kCuHandlePosixFd) == 0);
      HC_EXPECT(driver->vmm_properties(&of, handle) == 0);
      HC_EXPECT(of.location.type == kCuLocationDevice && of.location.id == 0);
      HC_EXPECT(driver->vmm_map(area + chunk * bytes, bytes, 0, handle, 0) == 0);
      HC_EXPECT(driver->vmm_release(handle) == 0 && ::close(fd) == 0);
    }
    if (is_whole) {
      HC_EXPECT(driver->vmm_set_access(area, 3 * bytes, &kReadWrite, 1) == 0);
      for (std::size_t chunk = 0; chunk < 3; ++chunk) {
        HC_EXPECT(bench->byte_at(area + chunk * bytes) == static_cast<int>(chunk + 1));
        HC_EXPECT(bench->byte_at(area + (chunk + 1) * bytes - 1) == static_cast<int>(chunk + 1));
      }
      HC_EXPECT(bench->fill(area + 2 * bytes - 1, 0x55, 2));  // over a border
    }
    HC_EXPECT(::send(line[0], "d", 1, MSG_NOSIGNAL) == 1);
    HC_EXPECT(exporter.wait() == 0);
    HC_EXPECT(bench->observe("chunks are exported and mapped", is_whole, 1));
    if (is_whole) {
      HC_EXPECT(bench->byte_at(area + 1) == 1);  // its process is gone
      HC_EXPECT(driver->vmm_unmap(area, 3 * bytes) == 0);
      HC_EXPECT(driver->vmm_address_free(area, 3 * bytes) == 0);
    }
    return 0;
  }));
}

TEST_CASE("what was not made to be exported has no descriptor; what is no export is no memory") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    if (!has_vmm(*bench)) {
      return 0;
    }
    CuMemProperties of = chunk_properties();
    of.handle_types = 0;
    CuMemHandle handle = 0;
    HC_EXPECT(bench->driver->vmm_create(&handle, chunk_bytes(*bench), &of, 0) == 0);
    CuMemProperties said = {};
    HC_EXPECT(bench->driver->vmm_properties(&said, handle) == 0 && said.handle_types == 0);
    int fd = -1;
    const CuResult exported = bench->driver->vmm_export(&fd, handle, kCuHandlePosixFd, 0);
    HC_EXPECT(exported != kCuSuccess);
    HC_EXPECT(bench->observe("exporting a chunk that may not leave answers", exported, 1));
    int pair[2];
    HC_EXPECT(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CuMemHandle imported = 0;
    const CuResult result = bench->driver->vmm_import(
        &imported, reinterpret_cast<void*>(std::intptr_t{pair[0]}), kCuHandlePosixFd);
    HC_EXPECT(result != kCuSuccess);
    HC_EXPECT(bench->observe("importing what is no export answers", result, kCuUnknown));
    return 0;
  }));
}

TEST_CASE("memory of a pool names its pool, and has no legacy handle") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    CuAddress pooled = 0;
    const auto& alloc = bench->driver->mem_alloc_async;
    const bool has_pools =
        alloc != nullptr && alloc(&pooled, 1 << 20, bench->stream) == kCuSuccess;
    HC_EXPECT(bench->observe("memory of a pool", has_pools, 1));
    if (has_pools) {
      HC_EXPECT(bench->settled() == kCuSuccess);
      void* pool = nullptr;
      int legacy = 0;
      const auto& ask = bench->driver->pointer_attribute;
      HC_EXPECT(ask(&pool, kCuPointerPool, pooled) == 0 && pool != nullptr);
      HC_EXPECT(ask(&legacy, kCuPointerLegacyIpc, pooled) == 0 && legacy == 0);
      HC_EXPECT(ask(&pool, kCuPointerPool, bench->new_memory(4096)) != 0 || pool == nullptr);
      HC_EXPECT(bench->driver->mem_free_async(pooled, bench->stream) == 0);
    }
    return 0;
  }));
}

TEST_CASE("a chunk goes to another process by a descriptor, and outlives its own") {
  CHECK(test::on_gpu([] {
    int line[2];
    HC_EXPECT(::socketpair(AF_UNIX, SOCK_STREAM, 0, line) == 0);
    test::Child exporter([&] { return export_chunk(line[1]); });
    const auto bench = GpuBench::make();
    const int fd = take_fd(line[0]);
    HC_EXPECT(exporter.wait() == 0);
    HC_EXPECT(bench->observe("a chunk is exported", fd >= 0, 1));
    CuMemHandle handle = 0;
    if (fd >= 0) {
      const CuResult imported = bench->driver->vmm_import(
          &handle, reinterpret_cast<void*>(std::intptr_t{fd}), kCuHandlePosixFd);
      HC_EXPECT(bench->observe("importing a chunk answers", imported, 0));
      const std::size_t bytes = chunk_bytes(*bench);
      HC_EXPECT(bench->observe("byte of a chunk of the dead",
                               imported == kCuSuccess
                                   ? bench->byte_at(map_chunk(*bench, 0, handle, bytes) + 1)
                                   : -1,
                               0x77));
    }
    return 0;
  }));
}

}  // namespace
}  // namespace hc
