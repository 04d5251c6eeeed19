// SPDX-License-Identifier: Apache-2.0
// store_files_test: superblock_file and slab_set over a virtual disk.
#include "daemon/store/slab_set.h"
#include "daemon/store/superblock_file.h"
#include "proto/blob_header.h"
#include "unit/daemon/store/store_bench.h"

namespace {

using namespace hc;
using test::test_uuid;

SlabSpec spec(std::uint16_t kind, std::uint16_t shard, std::uint32_t slots) {
  FamilyId family;
  family.bytes[0] = 9;
  return {family, kind, shard, 5000, slots};
}

SpaceId space_id(std::uint8_t first) {
  SpaceId id;
  id.bytes[0] = first;
  return id;
}

std::uint64_t bytes_of(std::uint32_t slots) { return kFirstSlotOffset + slots * blob_bytes(5000); }

TEST_CASE("superblock_file: identity, epochs and spaces survive a restart") {
  test::StoreBench bench;
  {
    auto file = SuperblockFile::open(bench.disk, test_uuid());
    REQUIRE(file);
    CHECK((*file)->created());
    REQUIRE((*file)->add_space(space_id(1)));
    (*file)->raise_space_epoch(SpaceNo{0});
    (*file)->raise_epoch(false);
    REQUIRE((*file)->write_blocking_now());
  }
  bench.disk.crash(sim::Crash::process);

  auto file = SuperblockFile::open(bench.disk, Uuid{});

  REQUIRE(file);
  CHECK_FALSE((*file)->created());
  CHECK((*file)->current().store_uuid == test_uuid());
  CHECK((*file)->find_space(space_id(1)) == SpaceNo{0});
  const BlobSeed seed = (*file)->seed_of(SpaceNo{0});
  CHECK(seed.store_epoch == 2);
  CHECK(seed.space_epoch == 2);
}

TEST_CASE("superblock_file: a generation is never used again, crashes included") {
  test::StoreBench bench;
  std::uint32_t highest = 0;
  for (int life = 0; life < 3; ++life) {
    auto file = SuperblockFile::open(bench.disk, test_uuid());
    REQUIRE(file);
    for (int i = 0; i < 5; ++i) {
      const auto generation = (*file)->next_generation();
      REQUIRE(generation);
      CHECK(generation->value > highest);
      highest = generation->value;
    }
    bench.disk.crash(sim::Crash::power);
  }
}

TEST_CASE("superblock_file: a write that a power cut tears leaves the other copy") {
  test::StoreBench bench;
  {
    auto file = SuperblockFile::open(bench.disk, test_uuid());
    REQUIRE(file);
    REQUIRE((*file)->write_blocking_now());
    (*file)->raise_epoch(false);
    bench.disk.cut_power_at_write(1);
    const auto written = (*file)->write_blocking_now();
    CHECK((!written || bench.disk.power_is_cut()));
  }
  bench.disk.crash(sim::Crash::power);

  auto file = SuperblockFile::open(bench.disk, test_uuid());

  REQUIRE(file);
  CHECK((*file)->current().store_uuid == test_uuid());
  CHECK((*file)->current().epoch <= 2);
}

TEST_CASE("superblock_file: a second owner is refused") {
  test::StoreBench bench;
  auto first = SuperblockFile::open(bench.disk, test_uuid());
  REQUIRE(first);

  auto second = SuperblockFile::open(bench.disk, test_uuid());

  REQUIRE_FALSE(second);
  CHECK(second.error().code == Code::refused);
}

TEST_CASE("superblock_file: the store knows a bounded number of spaces, refused in one line") {
  test::StoreBench bench;
  auto file = SuperblockFile::open(bench.disk, test_uuid());
  REQUIRE(file);
  for (std::uint32_t i = 0; i < kSpaceEpochsMax; ++i) {
    SpaceId id;
    id.bytes[0] = static_cast<std::uint8_t>(i);
    id.bytes[1] = static_cast<std::uint8_t>(i >> 8);
    REQUIRE((*file)->add_space(id));
  }

  const auto refused = (*file)->add_space(space_id(0xFF));

  CHECK((*file)->add_space(space_id(0)).has_value());
  SpaceId beyond;
  beyond.bytes[5] = 1;
  const auto full = (*file)->add_space(beyond);
  REQUIRE_FALSE(full);
  CHECK(full.error().code == Code::no_space);
  CHECK(full.error().text.find("1024") != std::string::npos);
  CHECK(refused.has_value());
}

TEST_CASE("slab_set: a slab is created whole, and found again with its geometry") {
  test::StoreBench bench;
  {
    SlabSet slabs(bench.disk, test_uuid(), bytes_of(10));
    const auto slab = slabs.open_or_create(spec(1, 2, 10));
    REQUIRE(slab);
    CHECK(slabs.slab(*slab).slot_count() == 10);
    CHECK(slabs.allocated_bytes() == bytes_of(10));
  }
  bench.disk.crash(sim::Crash::process);
  SlabSet slabs(bench.disk, test_uuid(), bytes_of(10));

  const auto existing = slabs.open_existing(spec(1, 2, 3));

  REQUIRE(existing);
  CHECK(slabs.slab(*existing).slot_count() == 10);
  CHECK(slabs.find(1, 2) == *existing);
  CHECK_FALSE(slabs.find(1, 3));
  CHECK(slabs.open_existing(spec(0, 0, 3)).error().code == Code::not_found);
}

TEST_CASE("slab_set: the budget is never passed") {
  test::StoreBench bench;
  SlabSet slabs(bench.disk, test_uuid(), bytes_of(10) + bytes_of(4));
  REQUIRE(slabs.open_or_create(spec(0, 0, 10)));

  const auto refused = slabs.open_or_create(spec(0, 1, 5));

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::no_space);
  CHECK(refused.error().text.find("l3.bytes") != std::string::npos);
  CHECK(slabs.open_or_create(spec(0, 1, 4)).has_value());
}

TEST_CASE("slab_set: a slab of another store or geometry is refused, not overwritten") {
  test::StoreBench bench;
  {
    SlabSet slabs(bench.disk, test_uuid(), 1U << 30);
    REQUIRE(slabs.open_or_create(spec(0, 0, 10)));
  }
  bench.disk.crash(sim::Crash::process);

  SlabSet other_store(bench.disk, Uuid{}, 1U << 30);
  CHECK(other_store.open_or_create(spec(0, 0, 10)).error().code == Code::refused);
  SlabSet other_size(bench.disk, test_uuid(), 1U << 30);
  CHECK(other_size.open_or_create(spec(0, 0, 11)).error().code == Code::refused);
  SlabSet same(bench.disk, test_uuid(), 1U << 30);
  CHECK(same.open_or_create(spec(0, 0, 10)).has_value());
}

TEST_CASE("slab_set: an empty store gives up the files of its family") {
  test::StoreBench bench;
  SlabSet slabs(bench.disk, test_uuid(), bytes_of(10));
  REQUIRE(slabs.open_or_create(spec(0, 0, 10)));

  REQUIRE(slabs.remove_all());

  CHECK(slabs.count() == 0);
  CHECK(slabs.allocated_bytes() == 0);
  SlabSpec other = spec(0, 0, 10);
  other.family.bytes[0] = 10;
  CHECK(slabs.open_or_create(other).has_value());
}

}  // namespace
