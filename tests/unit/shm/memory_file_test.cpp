// SPDX-License-Identifier: Apache-2.0
// memory_file_test: memory files keep their promises, and files that don't are refused.
#include "shm/memory_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

int seals_of(int fd) {
  return ::fcntl(fd, F_GET_SEALS);
}

UniqueFd raw_memory(const char* name, std::int64_t size_bytes, int seals) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(fd);
  REQUIRE(::ftruncate(fd.get(), size_bytes) == 0);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

std::string refusal(UniqueFd fd, const WantedFile& wanted) {
  auto file = MemoryFile::from_fd(std::move(fd), wanted);
  REQUIRE_FALSE(file);
  CHECK(file.error().code == Code::refused);
  return file.error().message();
}

// A /proc and a /sys of our own making: 1 GiB is available on the machine.
class FakeSystem {
 public:
  FakeSystem() { write("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    1048576 kB\n"); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = dir_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  FreeMemory free() const { return free_memory({dir_.file("proc"), dir_.file("sys")}); }

 private:
  TempDir dir_;
};

}  // namespace

TEST_CASE("free memory is what the machine says where no cgroup limits it") {
  const FakeSystem system;
  CHECK(system.free().ordinary_bytes == 1ULL << 30);
  CHECK(system.free().huge_bytes == 0);

  system.write("proc/self/cgroup", "0::/\n");
  system.write("sys/fs/cgroup/memory.current", "5\n");
  system.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3\n");

  CHECK(system.free().ordinary_bytes == 1ULL << 30);
  CHECK(system.free().huge_bytes == 6U << 20);
}

TEST_CASE("free memory is at most what the cgroup and all above it leave") {
  const FakeSystem system;
  system.write("proc/self/cgroup", "0::/a/b\n");
  system.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  system.write("sys/fs/cgroup/a/b/memory.current", "7000\n");
  system.write("sys/fs/cgroup/a/memory.max", "100000\n");
  system.write("sys/fs/cgroup/a/memory.current", "70000\n");
  CHECK(system.free().ordinary_bytes == 30'000);

  SECTION("pages of files are given up first") {
    system.write("sys/fs/cgroup/a/memory.stat", "anon 9\ninactive_file 4000\nactive_file 1000\n");
    CHECK(system.free().ordinary_bytes == 35'000);
  }
  SECTION("a tighter group below counts") {
    system.write("sys/fs/cgroup/a/b/memory.max", "8000\n");
    CHECK(system.free().ordinary_bytes == 1000);
  }
  SECTION("a group over its limit leaves nothing") {
    system.write("sys/fs/cgroup/a/memory.current", "100001\n");
    CHECK(system.free().ordinary_bytes == 0);
  }
  SECTION("the group of a container is the root that it sees") {
    system.write("proc/self/cgroup", "0::/host/path\n");
    system.write("sys/fs/cgroup/memory.max", "600\n");
    system.write("sys/fs/cgroup/memory.current", "100\n");
    CHECK(system.free().ordinary_bytes == 500);
  }
}

TEST_CASE("free memory knows cgroups of version 1") {
  const FakeSystem system;
  system.write("proc/self/cgroup", "5:cpu,memory:/a\n4:memoryless:/b\n0::/\n");
  system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  system.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n");
  system.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "3000\n");
  system.write("sys/fs/cgroup/memory/a/memory.stat",
               "inactive_file 7\ntotal_inactive_file 500\n");

  CHECK(system.free().ordinary_bytes == 2500);
}

TEST_CASE("a descriptor is closed with its owner and moves with it") {
  auto file = make_file(4096);
  auto first = file.readonly_fd();
  REQUIRE(first);
  const int number = first->get();
  {
    UniqueFd second = std::move(*first);
    CHECK(second.get() == number);
    CHECK_FALSE(first->valid());
    auto copy = second.duplicate();
    REQUIRE(copy);
    CHECK(copy->get() != number);
    CHECK((::fcntl(copy->get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(::fcntl(number, F_GETFD) == -1);
  CHECK(errno == EBADF);
}

TEST_CASE("closing a descriptor keeps errno") {
  UniqueFd fd(::memfd_create("x", 0));
  errno = ENOSPC;
  fd.reset();
  CHECK(errno == ENOSPC);
}

TEST_CASE("duplicating nothing is an error") {
  const UniqueFd none;
  const auto copy = none.duplicate();
  REQUIRE_FALSE(copy);
  CHECK(copy.error().sys_errno == EBADF);
}

TEST_CASE("a created memory file can neither shrink nor grow") {
  const auto file = make_file(10000);
  CHECK(file.size_bytes() == 12288);
  CHECK(::ftruncate(file.fd(), 0) == -1);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(file.fd(), 1 << 20) == -1);
  CHECK(errno == EPERM);
  CHECK((::fcntl(file.fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a created memory file is open to its own user only") {
  const auto file = make_file(4096);
  struct stat info {};
  REQUIRE(::fstat(file.fd(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("after the last seal no seal can be added") {
  auto file = make_file(4096);
  REQUIRE(file.finish_seals(false));
  CHECK((seals_of(file.fd()) & F_SEAL_SEAL) != 0);
  CHECK((seals_of(file.fd()) & F_SEAL_FUTURE_WRITE) == 0);
  CHECK(::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_WRITE) == -1);
  CHECK_FALSE(file.finish_seals(true));
}

TEST_CASE("with new writers forbidden the earlier mapping writes and a new one does not") {
  auto file = make_file(4096);
  Region early = map_all(file, false);
  REQUIRE(file.finish_seals(true));
  early.writable_bytes()[7] = 42;

  RegionOptions options;
  options.size_bytes = 4096;
  options.read_only = false;
  const auto late = Region::map(file.fd(), options);
  REQUIRE_FALSE(late);
  CHECK(late.error().code == Code::refused);
  CHECK(::pwrite(file.fd(), "x", 1, 0) == -1);
  CHECK(map_all(file, true).bytes()[7] == 42);
}

TEST_CASE("the read-only descriptor can be mapped for reading only") {
  auto file = make_file(4096);
  auto fd = file.readonly_fd();
  REQUIRE(fd);
  RegionOptions options;
  options.size_bytes = 4096;
  options.read_only = false;
  const auto writable = Region::map(fd->get(), options);
  REQUIRE_FALSE(writable);
  CHECK(writable.error().code == Code::refused);
  CHECK(writable.error().sys_errno == EACCES);
  options.read_only = true;
  CHECK(Region::map(fd->get(), options));
}

TEST_CASE("committed memory is allocated at once") {
  const auto file = MemoryFile::create("hicache-test", 3 << 20, {false, true});
  REQUIRE(file);
  struct stat info {};
  REQUIRE(::fstat(file->fd(), &info) == 0);
  CHECK(info.st_blocks * 512 == 3 << 20);
}

TEST_CASE("committing more than the machine has is an error and not a signal") {
  const auto file = MemoryFile::create("hicache-test", 1ULL << 46, {false, true});
  REQUIRE_FALSE(file);
  CHECK(file.error().code == Code::no_space);
}

TEST_CASE("a size of nothing or beyond all bounds is refused") {
  for (const std::uint64_t size : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    const auto file = MemoryFile::create("hicache-test", size);
    REQUIRE_FALSE(file);
    CHECK(file.error().code == Code::bad_argument);
  }
}

TEST_CASE("asking for huge pages gives a usable file whether there are any or not") {
  auto file = MemoryFile::create("hicache-test", 5 << 20, {true, false});
  REQUIRE(file);
  CHECK(file->size_bytes() == (file->huge_pages() ? 6U << 20 : 5U << 20));
  CHECK(file_has_huge_pages(file->fd()) == file->huge_pages());
  const std::uint8_t* place = nullptr;
  {
    RegionOptions options;
    options.size_bytes = (5U << 20) - 100;
    options.read_only = false;
    auto region = Region::map(file->fd(), options);
    REQUIRE(region);
    std::ranges::fill(region->writable_bytes(), std::uint8_t{9});
    place = region->bytes().data();
    CHECK_FALSE(smaps_of(place).empty());
  }
  CHECK(smaps_of(place).find("hicache-test") == std::string::npos);
}

TEST_CASE("a peer's sealed memory file of the wanted size is accepted") {
  auto file = MemoryFile::from_fd(raw_memory("peer", 8192, F_SEAL_SHRINK),
                                  {.size_bytes = 8192, .require_sealed = true});
  REQUIRE(file);
  CHECK(file->size_bytes() == 8192);
  CHECK_FALSE(file->huge_pages());
  auto readonly = file->readonly_fd();
  REQUIRE(readonly);
  CHECK(MemoryFile::from_fd(std::move(*readonly), {.size_bytes = 8192}));
}

TEST_CASE("a peer's file without the shrink seal is refused unless that is allowed") {
  const WantedFile wanted{.size_bytes = 4096};
  CHECK(refusal(raw_memory("peer", 4096, 0), wanted).find("not sealed") != std::string::npos);
  CHECK(refusal(raw_memory("peer", 4096, F_SEAL_GROW), wanted).find("not sealed") !=
        std::string::npos);
  const WantedFile unguarded{.size_bytes = 4096, .require_sealed = false};
  CHECK(MemoryFile::from_fd(raw_memory("peer", 4096, 0), unguarded));
}

TEST_CASE("a peer's file that is too short is refused with both sizes") {
  const std::string line = refusal(raw_memory("peer", 4096, F_SEAL_SHRINK), {.size_bytes = 4097});
  CHECK(line == "memory file has 4096 bytes, wanted at least 4097");
}

TEST_CASE("a peer's file that must have one size has it and keeps it") {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
  const WantedFile wanted{.size_bytes = 5000, .is_exact = true};
  CHECK(MemoryFile::from_fd(raw_memory("peer", 5000, seals), wanted));
  CHECK(MemoryFile::from_fd(raw_memory("peer", 8192, seals), wanted));
  CHECK(refusal(raw_memory("peer", 16384, seals), wanted) ==
        "memory file has 16384 bytes, wanted 5000");
  CHECK(refusal(raw_memory("peer", 5000, F_SEAL_SHRINK), wanted) ==
        "memory file is not sealed against growing");
}

TEST_CASE("a file that is refused is still its owner's to close") {
  UniqueFd fd = raw_memory("peer", 4096, 0);
  CHECK_FALSE(MemoryFile::from_fd(std::move(fd), {.size_bytes = 4096}));
  CHECK(static_cast<bool>(fd));  // NOLINT(bugprone-use-after-move): that is the promise
}

TEST_CASE("what is not a memory file is refused") {
  const WantedFile wanted{.size_bytes = 1, .require_sealed = false};
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  UniqueFd other_end(ends[1]);
  refusal(UniqueFd(ends[0]), wanted);
  refusal(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), wanted);
  refusal(UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), wanted);
  refusal(UniqueFd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), wanted);
  refusal(UniqueFd(), wanted);
  auto file = make_file(4096);
  const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
  refusal(UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC)), wanted);
}
