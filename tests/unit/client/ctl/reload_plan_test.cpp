// SPDX-License-Identifier: Apache-2.0
// reload_plan_test: options of a bench with reloads, and what follows from them.
#include "client/ctl/reload_plan.h"

#include "client/ctl/row_pool.h"
#include "proto/budget.h"
#include "support/catch.h"

namespace hc {

namespace {

BenchOptions fair_options() {
  BenchOptions options;
  options.synthetic = "users=4,turns=3";
  options.l2 = "400blocks";
  options.l3 = "4000blocks";
  options.ranks = 4;
  return options;
}

Result<ReloadPlan> plan_of(const BenchOptions& options, BenchPlan& bench) {
  bench = *make_plan(options);
  return make_reload_plan(options, *make_trace(options), bench);
}

}  // namespace

TEST_CASE("what was not given follows from the trace and the tiers", "[ctl]") {
  BenchOptions options = fair_options();
  options.placement = GENERATE("sharded", "owned", "replicated");
  BenchPlan bench;

  const auto plan = plan_of(options, bench);

  REQUIRE(plan);
  const std::uint64_t longest = make_trace(options)->longest_request();
  CHECK(plan->l1_pages == 2 * longest);
  CHECK(bench.region_rows > 2 * longest);
  CHECK(l2_pages_of_quota(bench.space, 0, static_cast<std::uint32_t>(plan->quota_pages)) <= 300);
  CHECK(l2_pages_of_quota(bench.space, 0, static_cast<std::uint32_t>(plan->quota_pages)) > 280);
  CHECK(plan->quota_bytes == plan->quota_pages * quota_page_bytes(bench.space));
  CHECK(plan->concurrency == 8);
  CHECK(bench.restart_at.empty());
}

TEST_CASE("chaos with a restart has one in the middle, unless it is told where", "[ctl]") {
  BenchOptions options = fair_options();
  options.reload.chaos = "restart";
  BenchPlan bench;
  REQUIRE(plan_of(options, bench));
  CHECK(bench.restart_at == std::vector<std::uint64_t>{6});

  options.restart_at = {2, 9};
  REQUIRE(plan_of(options, bench));
  CHECK(bench.restart_at == std::vector<std::uint64_t>{2, 9});
}

TEST_CASE("requests that come at their times are not limited in number", "[ctl]") {
  BenchOptions options = fair_options();
  options.reload.rate = 20;
  BenchPlan bench;
  CHECK(plan_of(options, bench)->concurrency == 0);
}

TEST_CASE("a wrong option of a bench with reloads is one line that names it", "[ctl]") {
  struct Case {
    void (*change)(BenchOptions&);
    const char* named;
  };
  const Case at = GENERATE(
      Case{[](BenchOptions& o) { o.reload.agreement = "mpi"; }, "--agreement: \"mpi\""},
      Case{[](BenchOptions& o) { o.reload.l1_pages = 2; }, "--l1: 2"},
      Case{[](BenchOptions& o) { o.reload.rate = -1; }, "--rate: -1"},
      Case{[](BenchOptions& o) { o.reload.time_scale = 1e12; }, "--time-scale"},
      Case{[](BenchOptions& o) { o.reload.rate = o.reload.time_scale = 2; }, "at most one"},
      Case{[](BenchOptions& o) { o.reload.concurrency = 5000; }, "--concurrency"},
      Case{[](BenchOptions& o) { o.reload.pages_min = 600; }, "--pages-min"},
      Case{[](BenchOptions& o) { o.reload.ttl_ms = 700'000; }, "--ttl-ms"},
      Case{[](BenchOptions& o) { o.reload.chaos = "kill_rank=4@9"; }, "--chaos"},
      Case{[](BenchOptions& o) { o.client_socket = "/run/x.sock"; }, "--socket"});
  BenchOptions options = fair_options();
  at.change(options);
  BenchPlan bench;

  const auto plan = plan_of(options, bench);

  INFO(at.named);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == Code::bad_argument);
  CHECK(plan.error().text.find(at.named) != std::string::npos);
}

TEST_CASE("a row has one owner at a time, and the reserved ones none", "[ctl]") {
  RowPool pool(1, 5);
  const auto two = pool.take(2);
  const auto others = pool.take(2);
  CHECK(two == std::vector<std::uint32_t>{2, 1});
  CHECK(others == std::vector<std::uint32_t>{4, 3});
  CHECK(pool.free() == 0);

  pool.give_back(two);

  CHECK(pool.free() == 2);
}

}  // namespace hc
