// SPDX-License-Identifier: Apache-2.0
// slab_set_test: slab files, the bytes of their volumes, and whose the volumes are:
// daemon/store/slab_set.cpp, daemon/store/step_ledger.h, daemon/store/volume_claim.cpp.
#include "daemon/store/slab_set.h"

#include "daemon/store/aligned_buffer.h"
#include "daemon/store/volume_claim.h"
#include "proto/blob_header.h"
#include "unit/daemon/store/store_bench.h"

namespace {

using namespace hc;
using test::test_uuid;

SlabSpec spec(std::uint16_t kind, std::uint16_t shard, std::uint32_t slots) {
  FamilyId family;
  family.bytes[0] = 9;
  return {family, kind, shard, 0, 5000, slots};
}

std::uint64_t bytes_of(std::uint32_t slots) { return kFirstSlotOffset + slots * blob_bytes(5000); }

// Gives a new slab its header and the steps of these slots, as its first spills would.
void bear(test::StoreBench& bench, SlabSet& slabs, SlabId id, const std::vector<SlotId>& slots) {
  Slab& slab = slabs.slab(id);
  AlignedBuffer header(SlabSet::kHeaderBytes);
  SlabSet::fill_header(slab.header(), header.bytes());
  sim::SimFile* file = bench.disk.file(slab.file());
  file->set_space(0, kFirstSlotOffset / kBlockBytes, true);
  REQUIRE(bench.disk.write_now(slab.file(), 0, header.bytes()));
  for (const SlotId slot : slots) {
    file->set_space(slab.slot_offset(slot) / kBlockBytes, slab.header().slot_bytes / kBlockBytes,
                    true);
  }
}

TEST_CASE("slab_set: a new slab has its length and no space, and is not found without a step") {
  test::StoreBench bench;
  {
    SlabSet slabs(bench.disk, test_uuid(), {bytes_of(10)});
    const auto slab = slabs.open_or_create(spec(1, 2, 10));
    REQUIRE(slab);
    CHECK(slabs.slab(*slab).slot_count() == 10);
    CHECK(slabs.allocated_bytes() == 0);
    CHECK(bench.disk.slab_bytes(0) == 0);
    CHECK(bench.disk.size_bytes(slabs.slab(*slab).file()) == bytes_of(10));
    CHECK(SlabSet::step_cost(slabs.slab(*slab), 0) == bytes_of(1));
  }
  bench.disk.crash(sim::Crash::process);
  SlabSet slabs(bench.disk, test_uuid(), {bytes_of(10)});

  CHECK(slabs.open_existing(spec(1, 2, 10)).error().code == Code::not_found);
}

TEST_CASE("slab_set: a slab is found again with its geometry, longer where the budget has grown") {
  test::StoreBench bench;
  {
    SlabSet slabs(bench.disk, test_uuid(), {bytes_of(10)});
    const auto slab = slabs.open_or_create(spec(1, 2, 10));
    REQUIRE(slab);
    bear(bench, slabs, *slab, {});
  }
  bench.disk.crash(sim::Crash::process);
  {
    SlabSet slabs(bench.disk, test_uuid(), {bytes_of(10)});
    const auto existing = slabs.open_existing(spec(1, 2, 3));
    REQUIRE(existing);
    CHECK(slabs.slab(*existing).slot_count() == 10);
    CHECK(slabs.find(spec(1, 2, 3)) == *existing);
    CHECK_FALSE(slabs.find(spec(1, 3, 3)));
  }
  bench.disk.crash(sim::Crash::process);
  SlabSet slabs(bench.disk, test_uuid(), {bytes_of(20)});
  const auto longer = slabs.open_existing(spec(1, 2, 20));
  REQUIRE(longer);
  CHECK(slabs.slab(*longer).slot_count() == 20);
  CHECK(bench.disk.size_bytes(slabs.slab(*longer).file()) == bytes_of(20));
}

TEST_CASE("slab_set: after a start only the steps that rows name have space, and are charged") {
  test::StoreBench bench;
  {
    SlabSet slabs(bench.disk, test_uuid(), {bytes_of(10)});
    const auto slab = slabs.open_or_create(spec(0, 0, 10));
    REQUIRE(slab);
    bear(bench, slabs, *slab, {SlotId{0}, SlotId{3}, SlotId{4}, SlotId{9}});
  }
  bench.disk.crash(sim::Crash::process);
  SlabSet slabs(bench.disk, test_uuid(), {bytes_of(10)});
  const auto slab = slabs.open_existing(spec(0, 0, 10));
  REQUIRE(slab);
  std::vector<bool> used(10);
  used[3] = used[9] = true;

  REQUIRE(slabs.settle(*slab, used));

  CHECK(slabs.allocated_bytes() == bytes_of(2));
  CHECK(bench.disk.slab_bytes(0) == bytes_of(2));
}

TEST_CASE("slab_set: a slab of another store is refused; what an empty store left makes room") {
  test::StoreBench bench;
  {
    SlabSet slabs(bench.disk, test_uuid(), {1U << 30});
    const auto slab = slabs.open_or_create(spec(0, 0, 10));
    REQUIRE(slab);
    bear(bench, slabs, *slab, {SlotId{5}});
  }
  bench.disk.crash(sim::Crash::process);

  SlabSet other_store(bench.disk, Uuid{}, {1U << 30});
  CHECK(other_store.open_or_create(spec(0, 0, 10)).error().code == Code::refused);
  CHECK(other_store.open_existing(spec(0, 0, 10)).error().code == Code::refused);
  SlabSet same(bench.disk, test_uuid(), {1U << 30});
  CHECK(same.open_or_create(spec(0, 0, 11)).has_value());
  CHECK(bench.disk.slab_bytes(0) == 0);
}

TEST_CASE("slab_set: files that are not in the set go, volume by volume") {
  test::StoreBench bench;
  {
    SlabSet slabs(bench.disk, test_uuid(), {bytes_of(10), bytes_of(10)});
    SlabSpec second = spec(0, 0, 10);
    second.volume = 1;
    REQUIRE(slabs.open_or_create(spec(0, 0, 10)));
    REQUIRE(slabs.open_or_create(second));
    REQUIRE(slabs.open_or_create(spec(1, 0, 10)));
  }
  bench.disk.crash(sim::Crash::process);
  SlabSet slabs(bench.disk, test_uuid(), {bytes_of(10), bytes_of(10)});
  REQUIRE(slabs.open_or_create(spec(1, 0, 10)));

  REQUIRE(slabs.remove_others());

  CHECK(bench.disk.list(0)->size() == 1);
  CHECK(bench.disk.list(1)->empty());
  REQUIRE(slabs.remove_all());
  CHECK(slabs.count() == 0);
  CHECK(bench.disk.list(0)->empty());
}

TEST_CASE("slab_set: steps are a 64th of the slab, at most 1 GiB, at least one slot") {
  CHECK(SlabSet::slots_per_step(1 << 20, 20) == 1);
  CHECK(SlabSet::slots_per_step(1 << 20, 6400) == 100);
  CHECK(SlabSet::slots_per_step(1 << 20, 10'000'000) == 1024);
  CHECK(SlabSet::slots_per_step(3ULL << 30, 1000) == 1);
}

TEST_CASE("step_ledger: nothing is granted past the budget, nor while a start found more") {
  StepLedger ledger(100);
  CHECK(ledger.charge(60));
  CHECK_FALSE(ledger.charge(41));
  CHECK(ledger.charge(40));
  CHECK(ledger.free_bytes() == 0);
  ledger.release(50);
  CHECK(ledger.free_bytes() == 50);

  ledger.charge_found(80);

  CHECK(ledger.over_budget());
  CHECK_FALSE(ledger.charge(1));
  ledger.release(30);
  CHECK_FALSE(ledger.over_budget());
  CHECK_FALSE(ledger.charge(1));
  ledger.release(1);
  CHECK(ledger.charge(1));
}

// A start of a store with so many volumes.
Result<void> start(test::StoreBench& bench, std::uint16_t volumes, bool drop = false,
                   const Uuid& uuid = test_uuid()) {
  bench.disk.set_volumes(volumes);
  auto superblock = SuperblockFile::open(bench.disk, uuid);
  REQUIRE(superblock);
  auto claimed = claim_volumes(bench.disk, **superblock, drop);
  if (claimed) {
    REQUIRE((*superblock)->write_blocking_now());
  }
  bench.disk.crash(sim::Crash::power);
  return claimed;
}

TEST_CASE("volume_claim: new volumes are claimed, known ones found, crashes between included") {
  test::StoreBench bench;
  REQUIRE(start(bench, 1));
  REQUIRE(start(bench, 3));
  REQUIRE(start(bench, 3));
  CHECK(bench.disk.file_named("volume-1", 1) != nullptr);
  CHECK(bench.disk.file_named("volume-2", 2) != nullptr);

  bench.disk.set_volumes(4);
  {
    auto superblock = SuperblockFile::open(bench.disk, Uuid{});
    REQUIRE(superblock);
    REQUIRE(claim_volumes(bench.disk, **superblock, false));
  }
  bench.disk.crash(sim::Crash::process);  // the superblock does not know of it yet
  CHECK(start(bench, 4));
}

TEST_CASE("volume_claim: a volume that is not there is refused by name, or dropped") {
  test::StoreBench bench;
  REQUIRE(start(bench, 3));
  REQUIRE(bench.disk.remove("volume-2", 2));

  const auto missing = start(bench, 3);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == Code::refused);
  CHECK(missing.error().text.find("l3.volume 2") != std::string::npos);
  CHECK(missing.error().text.find("missing_volume") != std::string::npos);
  CHECK(missing.error().text.find('\n') == std::string::npos);
  REQUIRE(start(bench, 3, true));
  CHECK(start(bench, 3));

  const auto unlisted = start(bench, 2);
  REQUIRE_FALSE(unlisted);
  CHECK(unlisted.error().text.find("volume 2 that is not listed") != std::string::npos);
  REQUIRE(start(bench, 2, true));
  CHECK(start(bench, 2));
}

TEST_CASE("volume_claim: a volume of another store or in another place is refused") {
  test::StoreBench bench;
  REQUIRE(start(bench, 2));
  test::StoreBench other;
  Uuid uuid = test_uuid();
  uuid[3] = 1;
  REQUIRE(start(other, 2, false, uuid));
  // The identity of the other store comes into this one's directory.
  std::vector<std::uint8_t> bytes(kSuperblockCopies * kSuperblockCopyBytes);
  auto from = other.disk.open({"volume-1", 0, false, false, 1});
  REQUIRE(other.disk.read_now(*from, 0, bytes));
  auto to = bench.disk.open({"volume-1", 0, false, false, 1});
  REQUIRE(bench.disk.write_now(*to, 0, bytes));
  bench.disk.crash(sim::Crash::process);

  const auto foreign = start(bench, 2);
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().text.find("belongs to another store") != std::string::npos);
  CHECK_FALSE(start(bench, 2, true));  // not even then

  REQUIRE(bench.disk.open({"volume-2", 4096, true, false, 1}));
  bench.disk.crash(sim::Crash::process);
  const auto swapped = start(bench, 2, true);
  REQUIRE_FALSE(swapped);
  CHECK(swapped.error().text.find("order") != std::string::npos);
}

}  // namespace
