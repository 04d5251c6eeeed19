// SPDX-License-Identifier: Apache-2.0
// failed_start_test: a cold start that fails leaves the engine holding, and the operator may try
// again. Covers daemon/engine/engine_start.cpp.
#include "unit/daemon/engine/engine_bench.h"

namespace {

using namespace hc;
using hc::test::BenchRank;
using hc::test::EngineBench;

// A store of three pages, and a daemon that holds it.
struct Held : EngineBench {
  Held() {
    start(ColdStartMode::clear);
    BenchRank rank = attach(0);
    store(rank, {1, 2, 3});
    kill();
    open();
  }
  void expect_failure(ColdStartMode mode) {
    const auto started = engine->cold_start(mode);
    REQUIRE_FALSE(started);
    CHECK(started.error().code == Code::io_error);
    CHECK(engine->state() == EngineState::holding);
    CHECK(engine->core().catalog == nullptr);
    CHECK_FALSE(engine->core().spaces->bound());
    engine->turn(clock.now());
    CHECK(disk.in_flight() == 0);  // nothing that a blocking write could meet
  }
  void serve(ColdStartMode mode) {
    REQUIRE(engine->cold_start(mode));
    run_until([&] { return engine->state() == EngineState::serving; });
  }
};

TEST_CASE("cold start: a load whose index can't be read can be repeated") {
  Held bench;
  sim::FaultPlan plan;
  plan.index_visit_error = 10'000;
  bench.index.set_plan(plan);
  bench.expect_failure(ColdStartMode::load);
  bench.expect_failure(ColdStartMode::load);
  bench.index.set_plan({});

  bench.serve(ColdStartMode::load);

  BenchRank rank = bench.attach(0);
  CHECK(bench.engine->load_progress().live == 3);
  CHECK(bench.load_all(rank, {1, 2, 3}) == Code::ok);
  bench.store(rank, {4, 5});
}

TEST_CASE("cold start: after a load that failed the operator may say clear") {
  Held bench;
  sim::FaultPlan plan;
  plan.index_visit_error = 10'000;
  bench.index.set_plan(plan);
  bench.expect_failure(ColdStartMode::load);

  bench.serve(ColdStartMode::clear);

  BenchRank rank = bench.attach(0);
  CHECK_FALSE(bench.is_there(rank, 1));
  bench.store(rank, {4});
  CHECK(bench.is_there(rank, 4));
}

TEST_CASE("cold start: a clear that could not be written has cleared nothing, crashes included") {
  Held bench;
  sim::FaultPlan plan;
  plan.blocking_error = 10'000;
  bench.disk.set_plan(plan);
  bench.expect_failure(ColdStartMode::clear);
  bench.expect_failure(ColdStartMode::clear);
  bench.expect_failure(ColdStartMode::load);  // what the clear left must be superseded first
  bench.disk.set_plan({});

  bench.serve(ColdStartMode::load);

  BenchRank rank = bench.attach(0);
  CHECK(bench.load_all(rank, {1, 2, 3}) == Code::ok);
  bench.kill(sim::Crash::power);
  bench.start(ColdStartMode::load);
  rank = bench.attach(0);
  CHECK(bench.load_all(rank, {1, 2, 3}) == Code::ok);
}

TEST_CASE("cold start: a clear can be repeated, before and after its commit point") {
  Held bench;
  sim::FaultPlan plan;
  plan.blocking_error = 10'000;
  bench.disk.set_plan(plan);
  bench.expect_failure(ColdStartMode::clear);
  bench.disk.set_plan({});
  plan.blocking_error = 0;
  plan.index_open_error = 10'000;
  bench.index.set_plan(plan);
  bench.expect_failure(ColdStartMode::clear);
  bench.index.set_plan({});

  bench.serve(ColdStartMode::clear);

  BenchRank rank = bench.attach(0);
  CHECK_FALSE(bench.is_there(rank, 1));
  bench.store(rank, {4});
  bench.restart();
  rank = bench.attach(0);
  CHECK(bench.is_there(rank, 4));
  CHECK_FALSE(bench.is_there(rank, 1));
}

TEST_CASE("attach: a space that can't be added leaves no family behind") {
  EngineBench bench;
  bench.start(ColdStartMode::clear);
  SuperblockFile& superblock = *bench.engine->core().superblock;
  for (std::uint32_t number = 1; number <= kSpaceEpochsMax; ++number) {
    SpaceId id;
    id.bytes[0] = static_cast<std::uint8_t>(number);
    id.bytes[1] = static_cast<std::uint8_t>(number >> 8);
    REQUIRE(superblock.add_space(id));
  }

  const auto refused = bench.engine->attach({hc::test::bench_space(), 0, 0});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::no_space);
  CHECK_FALSE(bench.engine->core().spaces->bound());
}

TEST_CASE("attach: tables that would not fit into memory are refused before they are built") {
  EngineBench bench;
  bench.options.spaces.l3_bytes = 8ULL << 40;
  SpaceDescriptor space = hc::test::bench_space();
  space.kinds[0].payload_bytes = 64;
  bench.start(ColdStartMode::clear);

  const auto refused = bench.engine->attach({space, 0, 0});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::no_space);
  CHECK(refused.error().text.find("l3.l3_bytes = 8796093022208") != std::string::npos);
  CHECK(refused.error().text.find('\n') == std::string::npos);
  CHECK_FALSE(bench.engine->core().spaces->bound());
}

TEST_CASE("attach: the bound on tables is an option, and the refusal names what is needed") {
  EngineBench bench;
  bench.options.spaces.tables_bytes_max = 1000;
  bench.start(ColdStartMode::clear);

  const auto refused = bench.engine->attach({hc::test::bench_space(), 0, 0});

  REQUIRE_FALSE(refused);
  CHECK(refused.error().text.find("take ") != std::string::npos);
  CHECK(refused.error().text.find("1000 are allowed") != std::string::npos);
}

}  // namespace
