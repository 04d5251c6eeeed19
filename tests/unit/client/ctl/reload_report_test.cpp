// SPDX-License-Identifier: Apache-2.0
// reload_report_test: what makes a bench with reloads fail, and that the report says so.
#include "client/ctl/reload_report.h"

#include <nlohmann/json.hpp>

#include "client/ctl/engine_bus.h"
#include "client/ctl/rank_engine.h"
#include "support/catch.h"

namespace hc {

namespace {

ReloadReport good_report() {
  ReloadReport report;
  BenchOptions options;
  options.l2 = "100blocks";
  options.l3 = "1000blocks";
  report.bench.plan = *make_plan(options);
  report.outcome.living = {0, 1};
  report.uniform.pages_referenced = 1000;
  report.uniform.pages_l1 = 100;
  report.uniform.pages_l2 = 50;
  report.uniform.pages_reload = 350;
  report.model = {1000, 500, 504, 354};
  return report;
}

struct Spoil {
  void (*change)(ReloadReport&);
  const char* fault;
};

}  // namespace

TEST_CASE("a run as it should be has no fault", "[ctl]") {
  const ReloadReport report = good_report();
  CHECK(faults_of(report).empty());
  CHECK(exit_status(report) == 0);
  CHECK(reload_hit_ratio(report) == Approx(0.5));
  CHECK(reload_model_ratio(report) == Approx(0.504));
  CHECK(report_json(report).at("faults").empty());
}

TEST_CASE("each thing that must not be is a fault, in the report and the exit status", "[ctl]") {
  const Spoil at = GENERATE(
      Spoil{[](ReloadReport& r) { r.bench.totals.wrong_bytes = 1; }, "wrong bytes"},
      Spoil{[](ReloadReport& r) { r.uniform.divergences = 1; }, "diverged"},
      Spoil{[](ReloadReport& r) { r.is_uniform = false; }, "counted differently"},
      Spoil{[](ReloadReport& r) { r.outcome.left.leases = 2; }, "2 leases"},
      Spoil{[](ReloadReport& r) { r.outcome.left.leased_frames = 3; }, "3 leased frames"},
      Spoil{[](ReloadReport& r) { r.admit_ticks_max = 2; }, "2 ticks after"},
      Spoil{[](ReloadReport& r) { r.totals.region_bytes_of_reloads = 1; }, "into the ranks"},
      Spoil{[](ReloadReport& r) { r.uniform.reduces_idle = 1; }, "nothing open"},
      Spoil{[](ReloadReport& r) { r.model.model_hit_pages = 506; }, "model"},
      Spoil{[](ReloadReport& r) { r.model.model_hit_pages = 494; }, "model"},
      Spoil{[](ReloadReport& r) { r.outcome.living = {0}; }, "not noticed"},
      Spoil{[](ReloadReport& r) {
              r.outcome.living = {0};
              r.survivors_told = 1;
              r.learned_ns_max = 1'000'000'001;
            },
            "noticed late"},
      Spoil{[](ReloadReport& r) { r.plan.chaos.kill = RankKill{1, 5}; }, "no rank was killed"});
  ReloadReport report = good_report();
  at.change(report);

  INFO(at.fault);
  REQUIRE(faults_of(report).size() == 1);
  CHECK(faults_of(report)[0].find(at.fault) != std::string::npos);
  CHECK(exit_status(report) == 1);
  CHECK(report_json(report).at("exit_status") == 1);
  CHECK(report_text(report).find("FAULT") != std::string::npos);
}

TEST_CASE("with chaos the model is no judge, and drained reloads may reduce", "[ctl]") {
  ReloadReport report = good_report();
  report.model.model_hit_pages = 900;
  report.uniform.reduces_idle = 4;
  report.plan.chaos.aborts = true;
  CHECK(exit_status(report) == 0);
  report.plan.chaos.aborts = false;
  report.outcome.restarts = 1;
  CHECK(exit_status(report) == 0);
}

TEST_CASE("what ranks left on their boards is added up, timed and compared", "[ctl]") {
  ReloadReport report = good_report();
  Trace trace;
  trace.add({}, std::vector<std::uint64_t>{1, 2});
  trace.add({}, std::vector<std::uint64_t>{1, 3});
  auto boards = ReloadBoards::make(2, trace);
  auto bytes = RankBoards::make(2, trace.block_count());
  auto bus = EngineBus::make(2);
  REQUIRE((boards && bytes && bus));
  const auto keys = make_page_keys(trace);
  const ReloadShare share{report.plan, *bus, *boards, -1};
  const RankSetup setup{report.bench.plan, trace, keys, *bytes, "", "", &share};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    boards->totals(rank).uniform.reduces = 5;
    boards->totals(rank).load_misses = 3;
    boards->totals(rank).learned_ns = rank * 10;
    boards->acked(rank)[0] = 7 + rank;
  }
  boards->acked(1)[1] = 4;  // rank 0 was never answered: nothing to time
  boards->admitted()[0] = 9;
  boards->admitted()[1] = 9;
  REQUIRE(boards->add_event({ReloadEvent::Kind::served, 0, 1, 1, 0}));

  gather(setup, report);

  CHECK(report.is_uniform);
  CHECK(report.uniform.reduces == 5);
  CHECK(report.totals.load_misses == 6);
  CHECK(report.learned_ns_max == 10);
  CHECK(report.survivors_told == 1);
  CHECK(report.admits_timed == 1);
  CHECK(report.admit_ticks_max == 1);
  CHECK(report.model.hit_pages == 1);

  boards->totals(1).uniform.reduces = 6;
  gather(setup, report);
  CHECK_FALSE(report.is_uniform);
}

}  // namespace hc
