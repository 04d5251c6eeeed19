// SPDX-License-Identifier: Apache-2.0
// region_test: mappings show the right bytes with the right rights, and nothing outside the file.
#include "shm/region.h"

#include <sys/mman.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "support/catch.h"
#include "support/dies.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

Code map_code(int fd, std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  RegionOptions options;
  options.offset_bytes = offset_bytes;
  options.size_bytes = size_bytes;
  const auto region = Region::map(fd, options);
  return region ? Code::ok : region.error().code;
}

// Bytes of address space that this process has mapped, whatever for.
std::size_t mapped_total() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * 4096;
}

}  // namespace

TEST_CASE("two mappings of one file show the same bytes") {
  const auto file = make_file(8192);
  Region writer = map_all(file, false);
  const Region reader = map_all(file, true);
  CHECK(writer.bytes().data() != reader.bytes().data());
  writer.writable_bytes()[8191] = 77;
  CHECK(reader.bytes()[8191] == 77);
  CHECK(reader.size_bytes() == 8192);
}

TEST_CASE("a region may start anywhere in its file") {
  const auto file = make_file(12288);
  Region whole = map_all(file, false);
  whole.writable_bytes()[5000] = 11;
  RegionOptions options;
  options.offset_bytes = 5000;
  options.size_bytes = 100;
  const auto part = Region::map(file.fd(), options);
  REQUIRE(part);
  CHECK(part->bytes().size() == 100);
  CHECK(part->bytes()[0] == 11);
}

TEST_CASE("a region keeps its address when it moves and is unmapped with its owner") {
  const auto file = make_file(4096);
  const std::uint8_t* place = nullptr;
  {
    Region first = map_all(file, true);
    place = first.bytes().data();
    const Region second = std::move(first);
    CHECK(second.bytes().data() == place);
    CHECK(smaps_of(place).find("hicache-test") != std::string::npos);
  }
  CHECK(smaps_of(place).find("hicache-test") == std::string::npos);
}

TEST_CASE("a mapping that asks for huge pages lies where it can have them, and leaves nothing") {
  const auto file = make_file(3 * kHugePageBytes + 4096);
  const auto [offset, size] = GENERATE(
      std::pair<std::uint64_t, std::uint64_t>{0, 3 * kHugePageBytes + 4096},
      std::pair<std::uint64_t, std::uint64_t>{4096, 2 * kHugePageBytes},
      std::pair<std::uint64_t, std::uint64_t>{kHugePageBytes - 4096, kHugePageBytes + 100});
  constexpr std::size_t kRounds = 64;
  const std::size_t before = mapped_total();
  for (std::size_t round = 0; round < kRounds; ++round) {
    auto region = Region::map(file.fd(), {.offset_bytes = offset,
                                          .size_bytes = size,
                                          .read_only = false,
                                          .hint_huge_pages = true});
    REQUIRE(region);
    const auto address = reinterpret_cast<std::uintptr_t>(region->bytes().data());
    CHECK(address % kHugePageBytes == offset % kHugePageBytes);
    region->writable_bytes()[0] = 1;
    region->writable_bytes()[size - 1] = 2;
  }
  // What is reserved beside a mapping would come to a huge page each.
  CHECK(mapped_total() - before < kRounds * kHugePageBytes / 2);
}

TEST_CASE("a part outside the file is refused before it is mapped") {
  const auto file = make_file(8192);
  CHECK(map_code(file.fd(), 0, 8192) == Code::ok);
  CHECK(map_code(file.fd(), 8191, 1) == Code::ok);
  CHECK(map_code(file.fd(), 0, 8193) == Code::bad_argument);
  CHECK(map_code(file.fd(), 8192, 1) == Code::bad_argument);
  CHECK(map_code(file.fd(), 4096, ~std::uint64_t{0}) == Code::bad_argument);
  CHECK(map_code(file.fd(), ~std::uint64_t{0}, 4096) == Code::bad_argument);
  CHECK(map_code(file.fd(), 0, 0) == Code::bad_argument);
  CHECK(map_code(-1, 0, 4096) == Code::io_error);
}

TEST_CASE("what the mapping library throws comes back as an error") {
  const UniqueFd directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  RegionOptions options;
  options.size_bytes = 1;
  const auto region = Region::map(directory.get(), options);
  REQUIRE_FALSE(region);
  CHECK(region.error().sys_errno == ENODEV);
}

TEST_CASE("a read-only mapping of a sealed file can't be made writable") {
  auto file = make_file(4096);
  const Region early = map_all(file, false);
  REQUIRE(file.finish_seals(true));
  const auto fd = file.readonly_fd();
  REQUIRE(fd);
  RegionOptions options;
  options.size_bytes = 4096;
  const auto region = Region::map(fd->get(), options);
  REQUIRE(region);
  void* const place = const_cast<std::uint8_t*>(region->bytes().data());
  CHECK(::mprotect(place, 4096, PROT_READ | PROT_WRITE) == -1);
  CHECK(errno == EACCES);
  CHECK(smaps_of(place).find(" r--s ") != std::string::npos);
}

TEST_CASE("a region is kept from forked children and from core dumps when asked") {
  const auto file = make_file(4096);
  const auto flags = [&file](bool keep) {
    RegionOptions options;
    options.size_bytes = 4096;
    options.keep_from_fork = keep;
    options.keep_from_dump = keep;
    const auto region = Region::map(file.fd(), options);
    REQUIRE(region);
    const std::string block = smaps_of(region->bytes().data());
    return block.substr(block.find("VmFlags:"));
  };
  CHECK(flags(true).find(" dc") != std::string::npos);
  CHECK(flags(true).find(" dd") != std::string::npos);
  CHECK(flags(false).find(" dc") == std::string::npos);
  CHECK(flags(false).find(" dd") == std::string::npos);
}

TEST_CASE("our own access outside a region or against its rights is a failed check") {
  const auto file = make_file(4096);
  Region readable = map_all(file, true);
  Region writable = map_all(file, false);
  CHECK(writable.writable_at<std::uint64_t>(4088) != nullptr);
  CHECK(dies_by_check([&] { static_cast<void>(writable.writable_at<std::uint64_t>(4096)); }));
  CHECK(dies_by_check([&] { static_cast<void>(writable.at<std::uint64_t>(4)); }));
  CHECK(dies_by_check([&] { static_cast<void>(writable.at<std::uint64_t>(~std::uint64_t{7})); }));
  CHECK(dies_by_check([&] { static_cast<void>(readable.writable_at<std::uint64_t>(0)); }));
  CHECK(dies_by_check([&] { static_cast<void>(readable.writable_bytes()); }));
}
