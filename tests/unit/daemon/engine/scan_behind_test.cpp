// SPDX-License-Identifier: Apache-2.0
// scan_behind_test: a lazy load: service at once, headers behind, and no wrong byte meanwhile.
#include "daemon/engine/scan_behind.h"

#include "unit/daemon/engine/engine_bench.h"

namespace {

using namespace hc;
using hc::test::BenchRank;
using hc::test::EngineBench;

// A store of `pages` durable pages, killed.
void make_store(EngineBench& bench, std::uint32_t pages) {
  bench.start(ColdStartMode::clear);
  BenchRank rank = bench.attach(0);
  for (std::uint32_t page = 1; page <= pages; ++page) {
    bench.store(rank, {page});
  }
  bench.options.load_lazily = true;
}

// Starts, and returns before anything could complete.
void start_at_once(EngineBench& bench) {
  bench.open();
  bench.disk.take_reads();
  REQUIRE(bench.engine->cold_start(ColdStartMode::load));
  bench.engine->turn(bench.clock.time());
}

std::uint64_t scanned(EngineBench& bench) { return bench.engine->load_progress().slots_scanned; }

std::uint64_t failures(EngineBench& bench) {
  return bench.engine->core().counters.verify_failures();
}

TEST_CASE("lazy load: it serves before a single header has been read, and reads all of them") {
  EngineBench bench;
  make_store(bench, 5);
  bench.kill();

  start_at_once(bench);

  CHECK(bench.engine->state() == EngineState::serving);
  CHECK(scanned(bench) == 0);
  CHECK(bench.engine->load_progress().slots_total == 5);
  CHECK(bench.engine->load_progress().live == 5);
  bench.run_until([&] { return scanned(bench) == 5; });
  CHECK(bench.engine->load_progress().dropped == 0);
  BenchRank rank = bench.attach(0);
  CHECK(bench.load_all(rank, {1, 2, 3, 4, 5}) == Code::ok);
}

TEST_CASE("lazy load: the scan drops a slot whose header is another's, and says so") {
  EngineBench bench;
  make_store(bench, 3);
  bench.rewrite_header(2, 0, [](BlobHeader& header) { header.page_hash.bytes[0] ^= 1; });
  bench.kill();
  start_at_once(bench);
  REQUIRE(bench.engine->load_progress().live == 3);

  bench.run_until([&] { return scanned(bench) == 3; });

  CHECK(bench.engine->load_progress().dropped == 1);
  CHECK(failures(bench) == 1);
  BenchRank rank = bench.attach(0);
  CHECK_FALSE(bench.is_there(rank, 2));
  CHECK(bench.load_all(rank, {1, 3}) == Code::ok);
  bench.run_for(200);  // the row is erased: the next start knows nothing of it
  bench.options.load_lazily = false;
  bench.restart();
  CHECK(bench.engine->load_progress().slots_total == 2);
}

TEST_CASE("lazy load: a page that the scan has not reached is verified when it is read") {
  EngineBench bench;
  make_store(bench, 1);
  bench.rewrite_header(1, 0, [](BlobHeader& header) { --header.generation; });
  bench.kill();
  bench.open();
  REQUIRE(bench.engine->cold_start(ColdStartMode::load));
  bench.engine->turn(bench.clock.time());
  REQUIRE(scanned(bench) == 0);

  BenchRank rank = bench.attach(0);

  CHECK_FALSE(bench.is_there(rank, 1));
  CHECK(failures(bench) == 1);  // by the scan or by the load, and once
  bench.run_until([&] { return scanned(bench) == 1; });
  CHECK(failures(bench) == 1);
}

TEST_CASE("lazy load: of two rows for one slot the header decides before the service begins") {
  EngineBench bench;
  make_store(bench, 2);
  IndexRow row;
  row.space = SpaceNo{0};
  row.page = hc::test::page_hash(99);
  row.last_access = 1000;
  row.parts = {{0, 0, 0, 0, bench.part(1, 0).slot.value, bench.part(1, 0).generation.value}};
  bench.run_for(200);
  IndexBatch batch;
  batch.state = bench.index.state();
  batch.puts.push_back(row);
  bench.index.commit(std::move(batch));
  bench.run_until([&] { return bench.index.poll().has_value(); });

  bench.restart();

  CHECK(bench.engine->load_progress().live == 2);
  CHECK(bench.engine->load_progress().dropped == 1);
  BenchRank rank = bench.attach(0);
  CHECK_FALSE(bench.is_there(rank, 99));
  CHECK(bench.load_all(rank, {1, 2}) == Code::ok);
}

TEST_CASE("lazy load: the scan leaves a slot alone that holds something else by now") {
  EngineBench bench(4, 4);
  make_store(bench, 4);
  bench.kill();
  start_at_once(bench);
  BenchRank rank = bench.attach(0);

  bench.store(rank, {11, 12, 13, 14});  // evicts what the index brought

  bench.run_until([&] { return scanned(bench) == bench.engine->load_progress().slots_total; });
  CHECK(bench.engine->load_progress().dropped == 0);
  CHECK(failures(bench) == 0);
  bench.drop_l2();
  CHECK(bench.load_all(rank, {13, 14}) == Code::ok);
}

TEST_CASE("lazy load: a clear in the middle of the scan ends both") {
  EngineBench bench;
  make_store(bench, 8);
  bench.kill();
  start_at_once(bench);

  REQUIRE(bench.engine->start_clear());

  CHECK(bench.finish_order());
  BenchRank rank = bench.attach(0);
  CHECK_FALSE(bench.is_there(rank, 1));
  bench.store(rank, {1});
  CHECK(bench.is_there(rank, 1));
}

}  // namespace
