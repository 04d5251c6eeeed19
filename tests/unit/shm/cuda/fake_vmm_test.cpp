// SPDX-License-Identifier: Apache-2.0
// fake_vmm_test: memory as expandable segments have it: created, mapped, shared by descriptor only.
#include <sys/socket.h>

#include <cstdint>
#include <cstring>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;

constexpr std::size_t kChunk = std::size_t{2} << 20;
constexpr CuMemAccess kAccess = {{kCuLocationDevice, 0}, kCuAccessReadWrite};

CuMemProperties properties(int handle_types) {
  CuMemProperties of = {};
  of.type = kCuAllocationPinned;
  of.handle_types = handle_types;
  of.location = {kCuLocationDevice, 0};
  return of;
}

CuMemHandle create(const FakeBench& bench, std::size_t bytes, int handle_types) {
  const CuMemProperties of = properties(handle_types);
  CuMemHandle handle = 0;
  HC_CHECK(bench.driver->vmm_create(&handle, bytes, &of, 0) == kCuSuccess);
  return handle;
}

CuAddress reserve(const FakeBench& bench, std::size_t bytes) {
  CuAddress address = 0;
  HC_CHECK(bench.driver->vmm_reserve(&address, bytes, 0, 0, 0) == kCuSuccess);
  return address;
}

template <typename Value>
Value attribute(const FakeBench& bench, int kind, CuAddress address, Value value) {
  HC_CHECK(bench.driver->pointer_attribute(&value, kind, address) == kCuSuccess);
  return value;
}

TEST_CASE("two chunks of one reservation are one stretch of memory once both are accessible") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    const CuAddress area = reserve(*bench, 3 * kChunk);
    const CuMemHandle first = create(*bench, kChunk, 0);
    const CuMemHandle second = create(*bench, kChunk, 0);
    HC_EXPECT(driver->vmm_map(area, kChunk, 0, first, 0) == 0);
    HC_EXPECT(driver->vmm_map(area + kChunk, kChunk, 0, second, 0) == 0);
    HC_EXPECT(driver->memset_async(area, 1, 8, bench->stream) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_set_access(area, 2 * kChunk, &kAccess, 1) == 0);
    HC_EXPECT(driver->vmm_set_access(area, 3 * kChunk, &kAccess, 1) == kCuInvalidValue);
    HC_EXPECT(bench->fill(area, 1, 2 * kChunk));
    HC_EXPECT(bench->byte_at(area + kChunk) == 1);
    HC_EXPECT(driver->memset_async(area, 1, 2 * kChunk + 1, bench->stream) == kCuInvalidValue);
    // The memory lives as long as it is mapped.
    HC_EXPECT(driver->vmm_release(first) == 0 && driver->vmm_release(second) == 0);
    HC_EXPECT(bench->fill(area, 2, 2 * kChunk));
    HC_EXPECT(test::cuda_count("handles") == 0 && test::cuda_count("maps") == 2);
    HC_EXPECT(test::cuda_count("device_bytes") == FakeBench::kBytes + 2 * kChunk);
    HC_EXPECT(driver->vmm_address_free(area, 3 * kChunk) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_unmap(area, kChunk + 4096) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_unmap(area + kChunk / 2, kChunk / 2) == kCuInvalidValue);
    CuMemProperties of = {};
    HC_EXPECT(driver->vmm_properties(&of, first) == 0);
    HC_EXPECT(driver->vmm_unmap(area, 2 * kChunk) == 0);
    HC_EXPECT(driver->vmm_properties(&of, first) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_address_free(area, 2 * kChunk) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_address_free(area, 3 * kChunk) == 0);
    HC_EXPECT(test::cuda_count("device_bytes") == FakeBench::kBytes);
    HC_EXPECT(test::cuda_count("reservations") == 0 && test::cuda_count("maps") == 0);
    return 0;
  }));
}

TEST_CASE("what is mapped is asked by address: the chunk, the reservation, no legacy handle") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const CuAddress area = reserve(*bench, 2 * kChunk);
    const CuMemHandle handle = create(*bench, kChunk, kCuHandlePosixFd);
    HC_EXPECT(bench->driver->vmm_map(area + kChunk, kChunk, 0, handle, 0) == 0);
    const CuAddress inside = area + kChunk + 9;
    CuAddress base = 0;
    std::size_t bytes = 0;
    HC_EXPECT(bench->driver->mem_range(&base, &bytes, inside) == 0);
    HC_EXPECT(base == area + kChunk && bytes == kChunk);
    HC_EXPECT(attribute(*bench, kCuPointerRangeStart, inside, CuAddress{0}) == area);
    HC_EXPECT(attribute(*bench, kCuPointerRangeSize, inside, std::size_t{0}) == 2 * kChunk);
    HC_EXPECT(attribute(*bench, kCuPointerMappingBase, inside, CuAddress{0}) == base);
    HC_EXPECT(attribute(*bench, kCuPointerMappingSize, inside, std::size_t{0}) == kChunk);
    HC_EXPECT(attribute(*bench, kCuPointerLegacyIpc, inside, 1) == 0);
    HC_EXPECT(attribute(*bench, kCuPointerMapped, inside, 0) == 1);
    HC_EXPECT(attribute(*bench, kCuPointerMapped, area, 1) == 0);
    HC_EXPECT(attribute(*bench, kCuPointerHandleTypes, inside, std::uint64_t{0}) == 1);
    CuIpcMemHandle legacy = {};
    HC_EXPECT(bench->driver->ipc_get_mem(&legacy, area + kChunk) == kCuInvalidValue);
    HC_EXPECT(bench->driver->mem_free(area + kChunk) == kCuInvalidValue);
    CuMemHandle same = 0;
    HC_EXPECT(bench->driver->vmm_retain(&same, reinterpret_cast<void*>(inside)) == 0);
    HC_EXPECT(same == handle && test::cuda_count("handles") == 2);
    CuMemProperties of = {};
    HC_EXPECT(bench->driver->vmm_properties(&of, same) == 0);
    HC_EXPECT(of.handle_types == kCuHandlePosixFd && of.location.id == 0);
    HC_EXPECT(bench->driver->vmm_release(same) == 0 && bench->driver->vmm_release(same) == 0);
    HC_EXPECT(bench->driver->vmm_release(same) == kCuInvalidValue);
    return 0;
  }));
}

TEST_CASE("sizes, places and kinds that are wrong are refused") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("memory_bytes=9000000");
    const auto& driver = bench->driver;
    CuMemProperties of = properties(0);
    std::size_t granularity = 0;
    HC_EXPECT(driver->vmm_granularity(&granularity, &of, kCuGranularityMinimum) == 0);
    HC_EXPECT(granularity == kChunk);
    CuMemHandle handle = 0;
    HC_EXPECT(driver->vmm_create(&handle, kChunk + 4096, &of, 0) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_create(&handle, 5 * kChunk, &of, 0) == kCuOutOfMemory);
    of.handle_types = 8;  // fabric
    HC_EXPECT(driver->vmm_create(&handle, kChunk, &of, 0) == kCuNotPermitted);
    of = properties(0);
    of.location.id = 1;
    HC_EXPECT(driver->vmm_create(&handle, kChunk, &of, 0) == kCuInvalidDevice);
    of.location = {kCuLocationHost, 0};
    HC_EXPECT(driver->vmm_create(&handle, kChunk, &of, 0) == kCuInvalidValue);
    handle = create(*bench, kChunk, 0);
    const CuAddress area = reserve(*bench, 2 * kChunk);
    CuAddress odd = 0;
    HC_EXPECT(driver->vmm_reserve(&odd, kChunk, 3, 0, 0) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_map(area, kChunk, kChunk, handle, 0) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_map(area + 4096, kChunk, 0, handle, 0) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_map(area, 2 * kChunk, 0, handle, 0) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_map(area + 2 * kChunk, kChunk, 0, handle, 0) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_map(area, kChunk, 0, handle, 0) == 0);
    HC_EXPECT(driver->vmm_map(area, kChunk, 0, handle, 0) == kCuInvalidValue);
    int fd = -1;
    HC_EXPECT(driver->vmm_export(&fd, handle, kCuHandlePosixFd, 0) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_import(&handle, reinterpret_cast<void*>(999), kCuHandlePosixFd) ==
              kCuUnknown);
    return 0;
  }));
}

void send_fd(int line, int fd) {
  char room[CMSG_SPACE(sizeof fd)] = {};
  char byte = 0;
  iovec part = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  *head = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  HC_CHECK(::sendmsg(line, &message, 0) == 1);
}

int receive_fd(int line) {
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

TEST_CASE(
    "a descriptor carries memory to another process, and keeps it when the first one is gone") {
  CHECK(test::holds_in_child([] {
    int line[2];
    HC_EXPECT(::socketpair(AF_UNIX, SOCK_STREAM, 0, line) == 0);
    test::Child exporter([&] {
      const auto bench = FakeBench::make("");
      const CuAddress area = reserve(*bench, kChunk);
      const CuMemHandle handle = create(*bench, kChunk, kCuHandlePosixFd);
      HC_EXPECT(bench->driver->vmm_map(area, kChunk, 0, handle, 0) == 0);
      HC_EXPECT(bench->driver->vmm_set_access(area, kChunk, &kAccess, 1) == 0);
      HC_EXPECT(bench->fill(area, 0x33, kChunk));
      int fd = -1;
      HC_EXPECT(bench->driver->vmm_export(&fd, handle, kCuHandlePosixFd, 0) == 0);
      send_fd(line[1], fd);
      return 0;
    });
    const auto bench = FakeBench::make("");
    const int fd = receive_fd(line[0]);
    HC_EXPECT(exporter.wait() == 0);
    CuMemHandle handle = 0;
    HC_EXPECT(bench->driver->vmm_import(&handle, reinterpret_cast<void*>(std::intptr_t{fd}),
                                        kCuHandlePosixFd) == 0);
    HC_EXPECT(::close(fd) == 0);
    const CuAddress area = reserve(*bench, kChunk);
    HC_EXPECT(bench->driver->vmm_map(area, kChunk, 0, handle, 0) == 0);
    HC_EXPECT(bench->driver->vmm_set_access(area, kChunk, &kAccess, 1) == 0);
    HC_EXPECT(bench->byte_at(area + kChunk - 1) == 0x33);
    HC_EXPECT(test::cuda_count("device_bytes") == FakeBench::kBytes);  // it is not ours
    return 0;
  }));
}

TEST_CASE("a device without descriptors says so, and makes no memory that would have one") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("no_posix_fd=1,version=11080");
    int shares = 1;
    HC_EXPECT(bench->driver->device_attribute(&shares, kCuDeviceVmmPosixFd, 0) == 0);
    HC_EXPECT(shares == 0);
    CuMemProperties of = properties(kCuHandlePosixFd);
    CuMemHandle handle = 0;
    HC_EXPECT(bench->driver->vmm_create(&handle, kChunk, &of, 0) == kCuNotPermitted);
    of.handle_types = 0;
    HC_EXPECT(bench->driver->vmm_create(&handle, kChunk, &of, 0) == 0);
    std::size_t bytes = 0;  // an attribute that drivers before 12.0 do not have
    HC_EXPECT(bench->driver->pointer_attribute(&bytes, kCuPointerMappingSize, bench->device) ==
              kCuInvalidValue);
    return 0;
  }));
}

TEST_CASE("memory of a pool says which pool it is of, and has no handle of either kind") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    CuAddress pooled = 0;
    HC_EXPECT(driver->mem_alloc_async(&pooled, kChunk, bench->stream) == 0);
    HC_EXPECT(bench->fill(pooled, 3, kChunk) && bench->byte_at(pooled + kChunk - 1) == 3);
    void* const none = nullptr;
    HC_EXPECT(attribute(*bench, kCuPointerPool, pooled + 9, none) != nullptr);
    HC_EXPECT(attribute(*bench, kCuPointerPool, bench->device, none) == nullptr);
    HC_EXPECT(attribute(*bench, kCuPointerLegacyIpc, pooled, 1) == 0);
    CuIpcMemHandle legacy = {};
    CuMemHandle handle = 0;
    HC_EXPECT(driver->ipc_get_mem(&legacy, pooled) == kCuInvalidValue);
    HC_EXPECT(driver->vmm_retain(&handle, reinterpret_cast<void*>(pooled)) == kCuInvalidValue);
    HC_EXPECT(driver->mem_free(pooled) == kCuInvalidValue);
    HC_EXPECT(driver->mem_free_async(pooled, nullptr) == kCuInvalidHandle);
    HC_EXPECT(driver->mem_free_async(pooled, bench->stream) == 0);
    HC_EXPECT(test::cuda_count("device_bytes") == FakeBench::kBytes);
    return 0;
  }));
}

TEST_CASE("a device without virtual memory management refuses it") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("no_vmm=1");
    const CuMemProperties of = properties(0);
    CuMemHandle handle = 0;
    CuAddress address = 0;
    HC_EXPECT(bench->driver->vmm_create(&handle, kChunk, &of, 0) == kCuNotSupported);
    HC_EXPECT(bench->driver->vmm_reserve(&address, kChunk, 0, 0, 0) == kCuNotSupported);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
