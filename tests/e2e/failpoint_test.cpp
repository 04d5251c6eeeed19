// SPDX-License-Identifier: Apache-2.0
// failpoint_test: a daemon killed exactly at each of its state edges (proto/test_hooks.h) loses
// nothing that it called durable, brings nothing back that it called gone, mixes up no slot, and
// serves again. And one in which an edge fails, once, goes on by itself.
//
// $HC_E2E_FAILPOINTS: a name; `all` for later passes and both kinds of load of each point too;
// `draw:SEED` for ten plans of that seed; `part:K/N` for every N-th point, from the K-th (from 0).
#include <random>
#include <string>
#include <vector>

#include "e2e/failpoint_plan.h"
#include "e2e/failpoint_scenario.h"
#include "support/catch.h"

namespace hc::test {
namespace {

void run_plan(const FailpointPlan& plan, bool must_reach) {
  INFO("HICACHE_FAILPOINT=" << plan.text() << ", load_verify " << plan.load_verify);
  FailpointScenario scenario(plan);
  scenario.run();
  if (must_reach) {
    CHECK(scenario.was_reached());
  }
}

// Ten plans that follow from the seed: any point, any pass, both actions, both kinds of load.
void run_drawn(std::uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<std::string> names = failpoints();
  for (int i = 0; i < 10; ++i) {
    FailpointPlan plan{names[random() % names.size()], 1, "kill", "before"};
    plan.pass = static_cast<std::uint32_t>(1 + random() % (random() % 3 == 0 ? 40 : 6));
    plan.action = kCanFail.count(plan.name) != 0 && random() % 2 == 0 ? "error" : "kill";
    plan.load_verify = random() % 2 == 0 ? "lazy" : "before";
    run_plan(plan, false);
  }
}

TEST_CASE("A daemon killed at any edge of its states loses nothing and brings nothing back") {
  std::string wanted = wanted_failpoints();
  if (wanted.rfind("draw:", 0) == 0) {
    run_drawn(static_cast<std::uint32_t>(std::stoul(wanted.substr(5))));
    return;
  }
  std::vector<std::string> names = failpoints();
  REQUIRE(names.size() > 40);
  if (wanted.rfind("part:", 0) == 0) {
    names = part_of(names, wanted.substr(5));
    REQUIRE(!names.empty());
    wanted.clear();
  }
  for (const std::string& name : names) {
    if (!wanted.empty() && wanted != "all" && wanted != name) {
      continue;
    }
    const bool only_lazy = name == "load_scanned_behind";
    run_plan({name, 1, "kill", only_lazy ? "lazy" : "before"}, true);
    for (const std::uint32_t pass : {2U, 3U, 10U}) {
      if (wanted == "all") {
        run_plan({name, pass, "kill", pass == 3 ? "before" : "lazy"}, false);
      }
    }
  }
}

TEST_CASE("A daemon in which one edge fails goes on, and tells no lie about it") {
  const std::string wanted = wanted_failpoints();
  const bool whole = wanted.empty() || wanted == "all" || wanted.rfind("part:0/", 0) == 0;
  for (const std::string& name : kCanFail) {
    if (whole || wanted == name) {
      run_plan({name, 1, "error", "before"}, true);
    }
  }
}

}  // namespace
}  // namespace hc::test
