// SPDX-License-Identifier: Apache-2.0
// notes_file_test: spaces and forgotten pages over restarts, failed writes and a full file.
// daemon/store/notes_file.cpp, daemon/store/commit_marks.cpp
#include "daemon/store/notes_file.h"

#include <cstring>

#include "daemon/store/commit_marks.h"
#include "store_bench.h"

namespace {

using namespace hc;
using hc::test::StoreBench;

PageHash page(std::uint32_t number) {
  PageHash hash;
  std::memcpy(hash.bytes.data(), &number, sizeof number);
  return hash;
}

SpaceDescriptor space(const std::string& weights) {
  SpaceDescriptor out;
  out.tenant = "default";
  out.model = "m";
  out.weight_version = weights;
  out.page_tokens = 64;
  out.kinds.push_back({"kv", 5000, Placement::sharded, HitPolicy::all_pages, 0});
  return out;
}

struct NotesBench : StoreBench {
  NotesBench() { start(); }

  void start() {
    notes.reset();
    superblock.reset();
    disk.crash(sim::Crash::process);
    auto opened = SuperblockFile::open(disk, hc::test::test_uuid());
    REQUIRE(opened);
    superblock = std::move(*opened);
    auto found = NotesFile::open(disk, *superblock);
    REQUIRE(found);
    notes = std::move(*found);
  }
  // What waits, written and synced.
  void write(const std::vector<NotesFile::NewSpace>& spaces = {}) {
    for (NotesFile::Write& entry : notes->stage(spaces)) {
      REQUIRE(disk.write_now(notes->file(), entry.offset_bytes, entry.bytes.bytes()));
    }
    notes->end_write(true);
  }
  Generation next() {
    const auto generation = superblock->next_generation();
    REQUIRE(generation);
    return *generation;
  }

  std::unique_ptr<SuperblockFile> superblock;
  std::unique_ptr<NotesFile> notes;
};

TEST_CASE("notes: a space is known after a restart, unless its number went to another one") {
  NotesBench bench;
  const auto number = bench.superblock->add_space(make_space_id(space("w1")));
  REQUIRE(number);
  REQUIRE(bench.superblock->write_blocking_now());
  CHECK(bench.notes->space(*number) == nullptr);
  bench.write({{*number, {space("w1"), 3}}});
  CHECK(bench.notes->space(*number) != nullptr);

  bench.start();

  REQUIRE(bench.notes->space(*number) != nullptr);
  CHECK(bench.notes->space(*number)->descriptor == space("w1"));
  CHECK(bench.notes->space(*number)->shards_on_node == 3);
  bench.superblock->drop_space(*number);
  REQUIRE(bench.superblock->add_space(make_space_id(space("w2"))));
  CHECK(bench.notes->space(*number) == nullptr);
}

TEST_CASE("notes: a forgotten page stays forgotten over restarts, up to what was written by then") {
  NotesBench bench;
  const Generation before = bench.next();
  bench.notes->forget(SpaceNo{0}, page(1));
  const Generation after = bench.next();
  CHECK(bench.notes->is_forgotten(SpaceNo{0}, page(1), before));
  bench.write();

  bench.start();

  CHECK(bench.notes->is_forgotten(SpaceNo{0}, page(1), before));
  CHECK_FALSE(bench.notes->is_forgotten(SpaceNo{0}, page(1), after));
  CHECK_FALSE(bench.notes->is_forgotten(SpaceNo{1}, page(1), before));
  CHECK_FALSE(bench.notes->is_forgotten(SpaceNo{0}, page(2), before));
}

TEST_CASE("notes: what a failed write should have kept is written with the next one") {
  NotesBench bench;
  const Generation before = bench.next();
  bench.notes->forget(SpaceNo{0}, page(1));
  REQUIRE(bench.notes->stage({}).size() == 1);
  bench.notes->end_write(false);
  CHECK(bench.notes->is_forgotten(SpaceNo{0}, page(1), before));

  bench.write();
  CHECK(bench.notes->stage({}).empty());
  bench.notes->end_write(true);
  bench.start();

  CHECK(bench.notes->is_forgotten(SpaceNo{0}, page(1), before));
}

TEST_CASE("notes: a clear of the store ends every entry") {
  NotesBench bench;
  const Generation before = bench.next();
  bench.notes->forget(SpaceNo{0}, page(1));
  bench.write();
  bench.superblock->raise_epoch(true);
  REQUIRE(bench.superblock->write_blocking_now());
  bench.notes->forget_all_epochs();
  CHECK_FALSE(bench.notes->is_forgotten(SpaceNo{0}, page(1), before));

  bench.start();

  CHECK_FALSE(bench.notes->is_forgotten(SpaceNo{0}, page(1), before));
}

TEST_CASE("notes: pages forgotten one by one fill no more than their own room") {
  NotesBench bench;
  std::vector<Generation> generations;
  for (std::uint32_t number = 0; number < 3 * kForgottenBlocks; ++number) {
    generations.push_back(bench.next());
    bench.notes->forget(SpaceNo{0}, page(number));
    bench.write();
    if (number % 100 == 0) {
      bench.start();
    }
  }
  bench.start();
  for (std::uint32_t number = 0; number < generations.size(); ++number) {
    CHECK(bench.notes->is_forgotten(SpaceNo{0}, page(number), generations[number]));
  }
  // Nothing else is: no floor had to rise.
  CHECK_FALSE(bench.notes->is_forgotten(SpaceNo{0}, page(99'999), generations[0]));
}

TEST_CASE("notes: a full file puts the oldest under a floor, and nothing forgotten returns") {
  NotesBench bench;
  const std::uint32_t pages = (kForgottenBlocks + 20) * kForgottenPagesPerBlock;
  std::vector<Generation> generations;
  for (std::uint32_t number = 0; number < pages; ++number) {
    generations.push_back(bench.next());
    bench.notes->forget(SpaceNo{0}, page(number));
    if (number % 400 == 399) {
      bench.write();
      if (number % 4000 == 3999) {
        bench.start();
      }
    }
  }
  bench.write();
  bench.start();
  std::uint32_t returned = 0;
  for (std::uint32_t number = 0; number < pages; ++number) {
    returned += bench.notes->is_forgotten(SpaceNo{0}, page(number), generations[number]) ? 0U : 1U;
  }
  CHECK(returned == 0);
  // The price: other old blobs are not believed; young ones are.
  CHECK(bench.notes->is_forgotten(SpaceNo{0}, page(pages), generations[0]));
  CHECK_FALSE(bench.notes->is_forgotten(SpaceNo{0}, page(pages), generations.back()));
}

TEST_CASE("notes: more pages in one write than the file takes go under the floor as well") {
  NotesBench bench;
  const std::uint32_t pages = (kForgottenBlocks + 5) * kForgottenPagesPerBlock;
  const Generation before = bench.next();
  for (std::uint32_t number = 0; number < pages; ++number) {
    bench.notes->forget(SpaceNo{0}, page(number));
  }
  bench.write();

  bench.start();

  std::uint32_t returned = 0;
  for (std::uint32_t number = 0; number < pages; ++number) {
    returned += bench.notes->is_forgotten(SpaceNo{0}, page(number), before) ? 0U : 1U;
  }
  CHECK(returned == 0);
}

TEST_CASE("notes: the highest mark of the open slabs is found, and a damaged pair is told") {
  NotesBench bench;
  SlabSet slabs(bench.disk, hc::test::test_uuid(), {1 << 30});
  const FamilyId family = make_family_id(space("w1"));
  for (std::uint16_t shard = 0; shard < 2; ++shard) {
    const auto id = slabs.open_or_create({family, 0, shard, 0, 5000, 4});
    REQUIRE(id);
    AlignedBuffer block(kBlockBytes);
    CommitMark mark{};
    mark.store_uuid = hc::test::test_uuid();
    mark.store_epoch = 1;
    mark.commit_sequence = 10 + shard * 2U;
    seal_commit_mark(mark);
    std::memcpy(block.data(), &mark, sizeof mark);
    REQUIRE(bench.disk.write_now(slabs.slab(*id).file(), kMarkOffset, block.bytes()));
  }

  auto found = read_commit_marks(bench.disk, slabs, hc::test::test_uuid(), 1);
  REQUIRE(found);
  CHECK(found->sequence == 12);
  CHECK_FALSE(found->unsure);

  AlignedBuffer rotten(kBlockBytes);
  rotten.data()[100] = 1;
  REQUIRE(bench.disk.write_now(slabs.slab(SlabId{1}).file(), kMarkOffset, rotten.bytes()));
  found = read_commit_marks(bench.disk, slabs, hc::test::test_uuid(), 1);
  REQUIRE(found);
  CHECK(found->sequence == 10);
  CHECK(found->unsure);
}

}  // namespace
