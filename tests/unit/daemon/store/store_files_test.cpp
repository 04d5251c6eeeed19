// SPDX-License-Identifier: Apache-2.0
// store_files_test: superblock_file over a virtual disk.
#include <cstring>
#include <memory>

#include "daemon/store/aligned_buffer.h"
#include "daemon/store/superblock_file.h"
#include "unit/daemon/store/store_bench.h"

namespace {

using namespace hc;
using test::test_uuid;

SpaceId space_id(std::uint8_t first) {
  SpaceId id;
  id.bytes[0] = first;
  return id;
}

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

// Rewrites both copies, as a store that has handed out nearly every generation would have them.
void set_generation_high(test::StoreBench& bench, std::uint32_t generation_high) {
  auto file = bench.disk.open({"superblock", 0, false, false});
  REQUIRE(file);
  AlignedBuffer copies(kSuperblockCopies * kSuperblockCopyBytes);
  REQUIRE(bench.disk.read_now(*file, 0, copies.bytes()));
  auto superblock = std::make_unique<Superblock>(*parse_superblock(copies.bytes()));
  superblock->generation_high = generation_high;
  seal_superblock(*superblock);
  std::memcpy(copies.data(), superblock.get(), sizeof(Superblock));
  ++superblock->sequence;
  seal_superblock(*superblock);
  std::memcpy(copies.data() + kSuperblockCopyBytes, superblock.get(), sizeof(Superblock));
  REQUIRE(bench.disk.write_now(*file, 0, copies.bytes()));
  bench.disk.crash(sim::Crash::process);
}

TEST_CASE("superblock_file: generations go on past the end of their numbers, without the zero") {
  test::StoreBench bench;
  REQUIRE(SuperblockFile::open(bench.disk, test_uuid()));
  bench.disk.crash(sim::Crash::process);
  set_generation_high(bench, 0xFFFFFFF0);
  {
    auto file = SuperblockFile::open(bench.disk, test_uuid());
    REQUIRE(file);
    std::uint32_t expected = 0xFFFFFFF1;
    for (int i = 0; i < 40; ++i) {
      const auto generation = (*file)->next_generation();
      REQUIRE(generation);
      CHECK(generation->value == expected);
      expected = expected == 0xFFFFFFFF ? 1 : expected + 1;
    }
  }
  bench.disk.crash(sim::Crash::process);

  // The mark of the next life is a small number, and still above everything that was used.
  auto file = SuperblockFile::open(bench.disk, test_uuid());
  REQUIRE(file);
  CHECK((*file)->next_generation()->value > 40U);
}

TEST_CASE("superblock_file: a mark that stands on the zero itself gives no zero") {
  test::StoreBench bench;
  REQUIRE(SuperblockFile::open(bench.disk, test_uuid()));
  bench.disk.crash(sim::Crash::process);
  set_generation_high(bench, 0xFFFFFFFF);

  auto file = SuperblockFile::open(bench.disk, test_uuid());

  REQUIRE(file);
  CHECK((*file)->next_generation()->value == 1);
}

TEST_CASE("superblock_file: what was not made durable can be taken back, and is superseded") {
  test::StoreBench bench;
  auto file = SuperblockFile::open(bench.disk, test_uuid());
  REQUIRE(file);
  REQUIRE((*file)->add_space(space_id(1)));
  REQUIRE((*file)->write_blocking_now());
  sim::FaultPlan plan;
  plan.blocking_error = 10'000;
  bench.disk.set_plan(plan);
  (*file)->raise_epoch(true);
  CHECK_FALSE((*file)->write_blocking_now());

  (*file)->restore_durable();

  CHECK((*file)->current().epoch == 1);
  CHECK((*file)->find_space(space_id(1)) == SpaceNo{0});
  CHECK_FALSE((*file)->is_durable());  // the failed write may be on the disk
  bench.disk.set_plan({});
  REQUIRE((*file)->write_blocking_now());
  bench.disk.crash(sim::Crash::power);
  auto again = SuperblockFile::open(bench.disk, Uuid{});
  REQUIRE(again);
  CHECK((*again)->current().epoch == 1);
  CHECK((*again)->find_space(space_id(1)) == SpaceNo{0});
}

TEST_CASE("superblock_file: a write that fails is tried again at its time, not at once") {
  test::StoreBench bench;
  IoQueue io(bench.disk, {1 << 20, 30'000});
  auto file = SuperblockFile::open(bench.disk, test_uuid());
  REQUIRE(file);
  sim::FaultPlan plan;
  plan.write_error = 10'000;
  bench.disk.set_plan(plan);
  (*file)->raise_epoch(false);
  const Instant later{1'000'000'000};
  const auto run_write = [&](Instant retry_at) {
    (*file)->start_write(io, 0);
    std::vector<IoEvent> events;
    while ((*file)->in_flight()) {
      bench.step();
      events.clear();
      io.poll(bench.clock.now(), events);
      for (const IoEvent& event : events) {
        (*file)->on_event(io, event, retry_at);
      }
    }
  };

  REQUIRE((*file)->wants_write(Instant{0}));
  run_write(later);

  CHECK((*file)->failures_in_row() == 1);
  CHECK_FALSE((*file)->wants_write(Instant{999'999'999}));
  CHECK((*file)->wants_write(later));
  run_write(later);
  CHECK((*file)->failures_in_row() == 2);
  bench.disk.set_plan({});
  run_write(later);
  CHECK((*file)->failures_in_row() == 0);
  CHECK((*file)->is_durable());
}

TEST_CASE("superblock_file: a blocking write beside one in flight is refused") {
  test::StoreBench bench;
  IoQueue io(bench.disk, {1 << 20, 30'000});
  auto file = SuperblockFile::open(bench.disk, test_uuid());
  REQUIRE(file);
  (*file)->raise_epoch(false);
  (*file)->start_write(io, 0);

  const auto written = (*file)->write_blocking_now();

  REQUIRE_FALSE(written);
  CHECK(written.error().code == Code::busy);
}

TEST_CASE("superblock_file: the number of a dropped space goes to the next new one") {
  test::StoreBench bench;
  auto file = SuperblockFile::open(bench.disk, test_uuid());
  REQUIRE(file);
  for (std::uint8_t i = 1; i <= 3; ++i) {
    REQUIRE((*file)->add_space(space_id(i)));
  }

  (*file)->drop_space(SpaceNo{1});
  CHECK((*file)->current().space_count == 3);
  CHECK_FALSE((*file)->find_space(space_id(2)));
  CHECK((*file)->find_space(space_id(3)) == SpaceNo{2});
  CHECK(*(*file)->add_space(space_id(9)) == SpaceNo{1});
  (*file)->drop_space(SpaceNo{1});
  (*file)->drop_space(SpaceNo{2});

  CHECK((*file)->current().space_count == 1);
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
  for (std::uint32_t i = 1; i <= kSpaceEpochsMax; ++i) {
    SpaceId id;
    id.bytes[0] = static_cast<std::uint8_t>(i);
    id.bytes[1] = static_cast<std::uint8_t>(i >> 8);
    REQUIRE((*file)->add_space(id));
  }

  const auto refused = (*file)->add_space(space_id(0xFF));

  CHECK((*file)->add_space(space_id(1)).has_value());
  SpaceId beyond;
  beyond.bytes[5] = 1;
  const auto full = (*file)->add_space(beyond);
  REQUIRE_FALSE(full);
  CHECK(full.error().code == Code::no_space);
  CHECK(full.error().text.find("1024") != std::string::npos);
  CHECK(refused.has_value());
}

}  // namespace
