// SPDX-License-Identifier: Apache-2.0
// bench_plan_test: from options to budgets.
#include "client/ctl/bench_plan.h"

#include "proto/budget.h"
#include "support/catch.h"

namespace hc {

namespace {

BenchOptions good_options() {
  BenchOptions options;
  options.l2 = "5000blocks";
  options.l3 = "50000blocks";
  options.synthetic = "users=2,turns=2";
  return options;
}

}  // namespace

TEST_CASE("a budget in blocks holds exactly so many pages beside the reserve", "[ctl]") {
  for (const char* placement : {"sharded", "replicated", "owned"}) {
    BenchOptions options = good_options();
    options.placement = placement;
    options.kinds = "kv=2561024,indexer=515328:replicated";
    options.l3 = "4000blocks";

    const auto plan = make_plan(options);

    REQUIRE(plan);
    CHECK(plan->l3_blocks == 4000);
    CHECK(pages_for_slab_budget(plan->space, 0, plan->l3_bytes, plan->reserve_slots) == 4000);
    CHECK(pages_for_slab_budget(plan->space, 0, plan->l3_bytes - 1, plan->reserve_slots) < 4000);
    CHECK(plan->reserve_bytes <= 2ULL << 30);
    CHECK(plan->l2_bytes == 5000 * frame_bytes_per_page(plan->space, 0));
  }
}

TEST_CASE("the reserve is 2,048 slots for small pages, or what was asked for", "[ctl]") {
  BenchOptions options = good_options();
  options.ranks = 1;
  CHECK(make_plan(options)->reserve_slots == 2048);
  options.reserve = 100;
  CHECK(make_plan(options)->reserve_slots == 100);
}

TEST_CASE("a size is turned into the pages that fit", "[ctl]") {
  BenchOptions options = good_options();
  options.l2 = "1GiB";
  options.l3 = "8GiB";

  const auto plan = make_plan(options);

  REQUIRE(plan);
  CHECK(plan->l2_bytes == 1ULL << 30);
  CHECK(plan->l2_blocks == (1ULL << 30) / (2 * (65536 + 4096)));
  CHECK(plan->l3_bytes == 8ULL << 30);
  CHECK(plan->l3_blocks ==
        pages_for_slab_budget(plan->space, 0, 8ULL << 30, plan->reserve_slots));
}

TEST_CASE("kinds name their size and may name their placement", "[ctl]") {
  const auto kinds = parse_kinds("kv=64KiB,indexer=515328:replicated", Placement::owned);
  REQUIRE(kinds);
  REQUIRE(kinds->size() == 2);
  CHECK((*kinds)[0].name == "kv");
  CHECK((*kinds)[0].payload_bytes == 65536);
  CHECK((*kinds)[0].placement == Placement::owned);
  CHECK((*kinds)[1].placement == Placement::replicated);
}

TEST_CASE("an option that is not allowed is one line that begins with its name", "[ctl]") {
  struct Case {
    const char* field;
    void (*change)(BenchOptions&);
  };
  const Case at = GENERATE(
      Case{"--ranks", [](BenchOptions& o) { o.ranks = 0; }},
      Case{"--ranks", [](BenchOptions& o) { o.ranks = 65; }},
      Case{"--kinds", [](BenchOptions& o) { o.kinds = ""; }},
      Case{"--kinds", [](BenchOptions& o) { o.kinds = "kv"; }},
      Case{"--kinds", [](BenchOptions& o) { o.kinds = "=5"; }},
      Case{"--kinds", [](BenchOptions& o) { o.kinds = "kv=0"; }},
      Case{"--kinds", [](BenchOptions& o) { o.kinds = "kv=65MiB"; }},
      Case{"--kinds", [](BenchOptions& o) { o.kinds = "kv=5:everywhere"; }},
      Case{"--kinds", [](BenchOptions& o) { o.kinds = "kv=5,kv=6"; }},
      Case{"--kinds", [](BenchOptions& o) { o.kinds = "kv=5,"; }},
      Case{"--placement", [](BenchOptions& o) { o.placement = "none"; }},
      Case{"--block-tokens", [](BenchOptions& o) { o.block_tokens = 0; }},
      Case{"--runs", [](BenchOptions& o) { o.runs = 65; }},
      Case{"--runs", [](BenchOptions& o) { o.kinds = "kv=5", o.runs = 6; }},
      Case{"--commit-interval", [](BenchOptions& o) { o.commit_interval_ms = 1; }},
      Case{"--reserve", [](BenchOptions& o) { o.reserve = 1ULL << 40; }},
      Case{"--l2", [](BenchOptions& o) { o.l2 = ""; }},
      Case{"--l2", [](BenchOptions& o) { o.l2 = "4096"; }},
      Case{"--l3", [](BenchOptions& o) { o.l3 = "many"; }},
      Case{"--l3", [](BenchOptions& o) { o.l3 = "4096"; }},
      Case{"--l2, --l3", [](BenchOptions& o) { o.l3 = "9999999999999blocks"; }},
      Case{"--restart-at",
           [](BenchOptions& o) { o.restart_at = {3}, o.client_socket = "/run/x"; }});
  BenchOptions options = good_options();
  at.change(options);

  const auto plan = make_plan(options);

  REQUIRE_FALSE(plan);
  INFO(plan.error().text);
  CHECK(plan.error().code == Code::bad_argument);
  CHECK(plan.error().text.find(at.field) == 0);
  CHECK(plan.error().text.find('\n') == std::string::npos);
}

TEST_CASE("restarts are sorted, and must fall inside the trace", "[ctl]") {
  BenchOptions options = good_options();
  options.restart_at = {3, 1, 3};
  const auto plan = make_plan(options);
  const auto trace = make_trace(options);
  REQUIRE(plan);
  REQUIRE(trace);
  REQUIRE(trace->request_count() == 4);

  CHECK(plan->restart_at == std::vector<std::uint64_t>{1, 3});
  CHECK(check_restarts(*plan, *trace));

  BenchPlan late = *plan;
  late.restart_at = {4};
  CHECK_FALSE(check_restarts(late, *trace));
  late.restart_at = {0};
  CHECK_FALSE(check_restarts(late, *trace));
}

TEST_CASE("exactly one source of requests is needed", "[ctl]") {
  BenchOptions options = good_options();
  options.trace_path = "x";
  CHECK_FALSE(make_trace(options));
  options.trace_path = "";
  options.synthetic = "";
  CHECK_FALSE(make_trace(options));
}

}  // namespace hc
