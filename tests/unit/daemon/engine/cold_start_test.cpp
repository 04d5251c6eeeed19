// SPDX-License-Identifier: Apache-2.0
// cold_start_test: recovery and clear: what is there after a restart, and what is not.
#include <algorithm>
#include <cstring>
#include <set>

#include "unit/daemon/engine/engine_bench.h"

namespace {

using namespace hc;
using hc::test::BenchRank;
using hc::test::EngineBench;

TEST_CASE("recovery: load rebuilds the durable floor after a restart") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2, 3, 4, 5});

  bench.restart();
  rank = bench.attach(0);

  CHECK(bench.engine->load_progress().live == 5);
  for (const std::uint32_t page : {1U, 2U, 3U, 4U, 5U}) {
    CHECK(bench.load(rank, page) == 1U);
  }
}

TEST_CASE("recovery: a spill after load never lands on a live slot") {
  EngineBench bench(16);
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2, 3, 4, 5, 6});
  bench.restart();
  rank = bench.attach(0);
  std::set<std::uint32_t> live;
  for (const std::uint32_t page : {1U, 2U, 3U, 4U, 5U, 6U}) {
    live.insert(bench.part(page, 0).slot.value);
  }

  bench.store(rank, {11, 12, 13, 14, 15, 16, 17, 18});

  for (const std::uint32_t page : {11U, 12U, 13U, 14U, 15U, 16U, 17U, 18U}) {
    CHECK(live.count(bench.part(page, 0).slot.value) == 0);
  }
  CHECK(bench.load_all(rank, {1, 2, 3, 4, 5, 6}) == Code::ok);
}

TEST_CASE("recovery: the GC order after load is the durable last-access order") {
  EngineBench bench(6, 6);
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  for (const std::uint32_t page : {1U, 2U, 3U, 4U, 5U, 6U}) {
    bench.store(rank, {page});
  }
  REQUIRE(bench.is_there(rank, 1));  // touched: now the newest
  bench.run_for(200);                // the touch is committed
  bench.restart();
  rank = bench.attach(0);

  bench.store(rank, {11, 12});

  CHECK_FALSE(bench.is_there(rank, 2));
  CHECK_FALSE(bench.is_there(rank, 3));
  CHECK(bench.load_all(rank, {1, 4, 5, 6}) == Code::ok);
}

TEST_CASE("recovery: clear starts empty and old blobs never come back") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2, 3});

  bench.restart(ColdStartMode::clear);
  rank = bench.attach(0);
  CHECK_FALSE(bench.is_there(rank, 1));
  bench.store(rank, {9});
  bench.restart();
  rank = bench.attach(0);

  CHECK(bench.is_there(rank, 9));
  CHECK_FALSE(bench.is_there(rank, 1));
  CHECK_FALSE(bench.is_there(rank, 2));
}

TEST_CASE("recovery: freed pages and cleared spaces never come back") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  BenchRank other = bench.attach(0, "w2");
  bench.store(rank, {1, 2});
  bench.store(other, {1, 2});
  const hc::test::Answer freed =
      bench.run(rank, {.verb = Verb::free_object, .pages = {1}});
  REQUIRE(freed.entry.code == 0);
  REQUIRE(bench.engine->start_clear_space(other.space));
  bench.run_until([&] { return bench.engine->order_state() == OrderState::done; });
  bench.engine->finish_order();

  bench.restart();
  rank = bench.attach(0);
  other = bench.attach(0, "w2");

  CHECK_FALSE(bench.is_there(rank, 1));
  CHECK(bench.is_there(rank, 2));
  CHECK_FALSE(bench.is_there(other, 1));
  CHECK_FALSE(bench.is_there(other, 2));
}

TEST_CASE("recovery: clear of the running store leaves nothing, restarts included") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2, 3});

  REQUIRE(bench.engine->start_clear());
  CHECK_FALSE(bench.is_there(rank, 1));
  bench.run_until([&] { return bench.engine->order_state() == OrderState::done; });
  bench.engine->finish_order();
  bench.store(rank, {4});
  bench.restart();
  rank = bench.attach(0);

  CHECK(bench.is_there(rank, 4));
  CHECK_FALSE(bench.is_there(rank, 1));
}

TEST_CASE("recovery: only slots that a row names are read, one block each, per shard its own") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank zero = bench.attach(0);
  BenchRank one = bench.attach(1);
  bench.store(zero, {1, 2, 3});
  bench.store(one, {1});
  std::set<std::pair<std::uint32_t, std::uint64_t>> wanted;
  const FileId file0 = bench.slab_file(0);
  const FileId file1 = bench.slab_file(1);
  for (const std::uint32_t page : {1U, 2U, 3U}) {
    wanted.insert({0, bench.slot_offset(page, 0)});
  }
  wanted.insert({1, bench.slot_offset(1, 1)});
  bench.disk.take_reads();

  bench.restart();

  CHECK(file0 != file1);
  std::set<std::pair<std::uint32_t, std::uint64_t>> seen;
  for (const sim::DiskRead& read : bench.disk.take_reads()) {
    const bool slot = read.offset_bytes >= kFirstSlotOffset;
    const bool slab0 = bench.disk.file(read.file) == bench.disk.file(bench.slab_file(0));
    const bool slab1 = bench.disk.file(read.file) == bench.disk.file(bench.slab_file(1));
    if (slot && (slab0 || slab1)) {
      CHECK(read.size_bytes == kBlockBytes);
      seen.insert({slab1 ? 1U : 0U, read.offset_bytes});
    }
  }
  CHECK(seen == wanted);
}

TEST_CASE("recovery: an orphan is free: written, but its commit never came") {
  EngineBench bench;
  bench.options.commit_interval_ms = 60'000;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.fill(rank, 0, 1);
  const auto answer =
      bench.run(rank, {.verb = Verb::store, .pages = {1}, .ack = Ack::written});
  REQUIRE(answer.entry.code == 0);

  bench.restart();
  rank = bench.attach(0);

  CHECK_FALSE(bench.is_there(rank, 1));
  Slab& slab = bench.slab_of(0);
  CHECK(slab.live_count() + slab.limbo_count() == 0);
}

TEST_CASE("recovery: a mapped slot whose header names another page is not live") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  bench.rewrite_header(1, 0, [](BlobHeader& header) { header.page_hash.bytes[0] ^= 1; });

  bench.restart();
  rank = bench.attach(0);

  CHECK(bench.engine->load_progress().dropped == 1);
  CHECK_FALSE(bench.is_there(rank, 1));
  CHECK(bench.is_there(rank, 2));
}

TEST_CASE("recovery: a lost write is not live: the slot holds an earlier generation") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  bench.rewrite_header(1, 0, [](BlobHeader& header) { --header.generation; });

  bench.restart();
  rank = bench.attach(0);

  CHECK(bench.engine->load_progress().dropped == 1);
  CHECK_FALSE(bench.is_there(rank, 1));
}

TEST_CASE("recovery: of two rows for one slot the header decides") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  // A second row, under another page, that names the slot of page 1.
  IndexRow row;
  row.space = SpaceNo{0};
  row.page = test::page_hash(99);
  row.last_access = 1000;
  row.parts = {{0, 0, 0, 0, bench.part(1, 0).slot.value, bench.part(1, 0).generation.value}};
  bench.run_for(200);
  IndexBatch batch;
  batch.state = bench.index.state();
  batch.puts.push_back(row);
  bench.index.commit(std::move(batch));
  bench.run_until([&] { return bench.index.poll().has_value(); });

  bench.restart();
  rank = bench.attach(0);

  CHECK(bench.engine->load_progress().live == 2);
  CHECK(bench.engine->load_progress().dropped == 1);
  CHECK(bench.load_all(rank, {1, 2}) == Code::ok);
  CHECK_FALSE(bench.is_there(rank, 99));
}

TEST_CASE("recovery: a torn payload is a miss at reload, counted, and its slot is dropped") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2});
  std::vector<std::uint8_t> block(kBlockBytes, 0x5A);
  REQUIRE(bench.disk.write_now(bench.slab_file(0), bench.slot_offset(1, 0) + kBlockBytes, block));

  bench.restart();
  rank = bench.attach(0);
  CHECK(bench.engine->load_progress().live == 2);

  CHECK_FALSE(bench.is_there(rank, 1));
  CHECK(bench.engine->core().counters.verify[static_cast<std::size_t>(
            BlobVerdict::bad_payload_crc)] == 1);
  bench.store(rank, {1});  // it heals
  bench.drop_l2();
  CHECK(bench.load(rank, 1) == 1U);
}

// A row of a space that the superblock does not know, which names a slot of shard 0.
void commit_unknown_row(EngineBench& bench, std::uint32_t slot) {
  IndexBatch batch;
  batch.state = bench.index.state();
  batch.spaces.push_back({SpaceNo{7}, hc::test::bench_space("w9"), 2});
  IndexRow row;
  row.space = SpaceNo{7};
  row.page = test::page_hash(99);
  row.parts = {{0, 0, 0, 0, slot, 12345}};
  batch.puts.push_back(row);
  bench.index.commit(std::move(batch));
  bench.run_until([&] { return bench.index.poll().has_value(); });
}

TEST_CASE("recovery: a slot that an unknown row names waits for the erase of that row") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1});
  bench.run_for(200);
  const std::uint32_t slot = bench.part(1, 0).slot.value == 9 ? 8 : 9;
  commit_unknown_row(bench, slot);

  bench.restart();

  Slab& slab = bench.slab_of(0);
  CHECK(slab.state(SlotId{slot}) == SlotState::limbo);
  bench.run_for(500);
  CHECK(slab.state(SlotId{slot}) == SlotState::free);
  CHECK(bench.index.rows().size() == 1);
}

TEST_CASE("recovery: unknown rows are erased also where nothing else is known") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  commit_unknown_row(bench, 3);

  bench.restart();
  bench.run_for(500);

  CHECK(bench.engine->core().catalog == nullptr);
  CHECK(bench.index.rows().empty());
  CHECK(bench.engine->next_deadline() > bench.clock.time());
  CHECK(bench.engine->drained());
}

TEST_CASE("recovery: a header that the kernel could not read at first is read again") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2, 3, 4});
  bench.kill();
  sim::FaultPlan plan;
  plan.transient = 5000;
  bench.disk.set_plan(plan);

  bench.start(ColdStartMode::load);

  REQUIRE(bench.disk.transients() > 0);
  CHECK(bench.engine->load_progress().live == 4);
}

TEST_CASE("recovery: a damaged row is skipped, the others are there, and its slot brings it back") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  bench.store(rank, {1, 2, 3});
  sim::FaultPlan plan;
  plan.row_damaged = 9500;
  bench.index.set_plan(plan);
  bench.index.damage_rows();

  bench.restart();
  rank = bench.attach(0);

  const std::uint64_t damaged = bench.engine->load_progress().rows_damaged;
  REQUIRE(damaged > 0);
  bench.run_for(500);
  CHECK(bench.index.rows().size() == 3);
  CHECK_FALSE(bench.engine->rebuilding());
  CHECK(bench.engine->load_progress().live == 3 - damaged);
  CHECK(bench.engine->load_progress().pages == 3 - damaged);
}

}  // namespace
