// SPDX-License-Identifier: Apache-2.0
// vmm_test: memory as expandable segments have it: no handle for others, copied by its own process.
#include <sys/socket.h>

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
