// SPDX-License-Identifier: Apache-2.0
// bench_report_test: sums, ratios, exit status and texts of a finished bench.
#include "client/ctl/bench_report.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "client/ctl/bench_run.h"
#include "support/catch.h"

namespace hc {

namespace {

BenchReport sample() {
  BenchReport report;
  BenchOptions options;
  options.l2 = "100blocks";
  options.l3 = "1000blocks";
  report.plan = *make_plan(options);
  report.source = "trace.jsonl";
  report.counts.requests = 10;
  report.counts.referenced_blocks = 200;
  report.counts.hit_blocks = 50;
  report.counts.model_hit_blocks = 60;
  report.counts.elapsed_ns = 2'000'000'000;
  RankTotals rank;
  rank.load.add(1000);
  rank.loaded_bytes = 4'000'000'000;
  rank.load_ns = 1'000'000'000;
  rank.stored_bytes = 1'000'000'000;
  rank.store_ns = 2'000'000'000;
  rank.pages_from_l2 = 30;
  rank.pages_from_l3 = 20;
  rank.checked_bytes = 4'000'000'000;
  add_rank(report, rank);
  add_rank(report, rank);
  return report;
}

}  // namespace

TEST_CASE("ranks are added up, and their speeds too", "[ctl]") {
  const BenchReport report = sample();
  CHECK(report.totals.load.count() == 2);
  CHECK(report.totals.pages_from_l2 == 60);
  CHECK(report.load_bytes_per_s == Approx(8e9));
  CHECK(report.store_bytes_per_s == Approx(1e9));
  CHECK(hit_ratio(report) == Approx(0.25));
  CHECK(model_hit_ratio(report) == Approx(0.3));
}

TEST_CASE("a wrong byte or a lost page makes the exit status 1", "[ctl]") {
  BenchReport report = sample();
  CHECK(exit_status(report) == 0);
  report.counts.lost_durable_pages = 1;
  CHECK(exit_status(report) == 1);
  report.counts.lost_durable_pages = 0;
  RankTotals wrong;
  wrong.wrong_bytes = 3;
  wrong.first_wrong = {77, 5, 2, 1, 0};
  add_rank(report, wrong);
  CHECK(exit_status(report) == 1);
  CHECK(report_json(report).at("first_wrong").at("block") == 77);
  CHECK(report_text(report).find("block 77") != std::string::npos);
}

TEST_CASE("the JSON holds what a gate needs", "[ctl]") {
  const nlohmann::json out = report_json(sample());
  for (const char* key :
       {"wrong_bytes", "lost_durable_pages", "hit_ratio", "model_hit_ratio", "hits_l2", "hits_l3",
        "loaded_bytes", "stored_bytes", "load_gb_per_s", "store_gb_per_s", "requests", "seconds",
        "restarts", "exit_status", "setup", "latency"}) {
    INFO(key);
    CHECK(out.contains(key));
  }
  CHECK(out.at("hits_l2") == 60);
  CHECK(out.at("setup").at("reserve_slots") == 2048);
  for (const char* verb : {"exists", "load", "store_resident", "store_durable"}) {
    for (const char* field : {"p50_ns", "p90_ns", "p99_ns", "max_ns"}) {
      CHECK(out.at("latency").at(verb).contains(field));
    }
  }
}

TEST_CASE("the texts for people fit 80 columns", "[ctl]") {
  BenchReport report = sample();
  report.counts.restarts = {{5, 1'500'000'000, 90, 80, 0}};
  report.source = "/a/long/path/" + std::string(120, 'x') + "/trace.jsonl";
  for (const std::string& text : {report_text(report), demo_text(report)}) {
    std::istringstream lines(text);
    std::string line;
    while (std::getline(lines, line)) {
      INFO(line);
      CHECK(line.size() <= 80);
    }
  }
  CHECK(demo_text(report).find("pages still there") != std::string::npos);
}

TEST_CASE("a bench whose trace is not there starts nothing", "[ctl]") {
  BenchOptions options;
  options.l2 = "10blocks";
  options.l3 = "10blocks";
  options.trace_path = "/nonexistent/trace.jsonl";
  Progress progress(stderr);
  const auto report = run_bench(options, progress);
  REQUIRE_FALSE(report);
  CHECK(report.error().message().find("/nonexistent/trace.jsonl: ") == 0);
}

}  // namespace hc
