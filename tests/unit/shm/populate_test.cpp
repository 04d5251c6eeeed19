// SPDX-License-Identifier: Apache-2.0
// populate_test: pages are there afterwards, and what they held is still in them.
#include "shm/populate.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "shm/memory_file.h"
#include "shm/region.h"
#include "support/catch.h"

namespace hc {

namespace {

constexpr std::uint64_t kPageBytes = 4096;

std::size_t resident_pages(std::span<std::uint8_t> memory) {
  std::vector<unsigned char> there(memory.size() / kPageBytes);
  REQUIRE(::mincore(memory.data(), memory.size(), there.data()) == 0);
  const auto is_there = [](unsigned char page) { return (page & 1) != 0; };
  return static_cast<std::size_t>(std::count_if(there.begin(), there.end(), is_there));
}

}  // namespace

TEST_CASE("every page of a mapping is allocated, whatever the number of threads") {
  const std::uint32_t threads = GENERATE(0U, 1U, 3U, 64U);
  constexpr std::uint64_t kBytes = (65ULL << 20) + kPageBytes;  // the last piece is a small one
  auto file = MemoryFile::create("populate", kBytes);
  REQUIRE(file);
  auto region = Region::map(file->fd(), {.size_bytes = kBytes, .read_only = false});
  REQUIRE(region);
  std::span<std::uint8_t> memory = region->writable_bytes();
  memory[kBytes / 2] = 7;
  REQUIRE(resident_pages(memory) < 64);
  std::uint32_t calls = 0;

  const auto done = populate_for_writing(memory, {threads, [&calls] { ++calls; }});

  REQUIRE(done);
  CHECK(resident_pages(memory) == kBytes / kPageBytes);
  CHECK(memory[kBytes / 2] == 7);
  CHECK(memory[kBytes / 2 + 1] == 0);
  CHECK(calls >= 1);
  CHECK(calls <= 3);
}

TEST_CASE("a mapping that can't be written is an error, an empty one is nothing to do") {
  auto file = MemoryFile::create("populate", kPageBytes);
  REQUIRE(file);
  auto region = Region::map(file->fd(), {.size_bytes = kPageBytes});
  REQUIRE(region);
  const std::span<std::uint8_t> memory(const_cast<std::uint8_t*>(region->bytes().data()),
                                       kPageBytes);
  CHECK_FALSE(populate_for_writing(memory, {}));
  CHECK(populate_for_writing({}, {}));
}

}  // namespace hc
