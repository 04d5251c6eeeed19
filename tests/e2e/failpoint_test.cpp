// SPDX-License-Identifier: Apache-2.0
// failpoint_test: a daemon killed exactly at each of its state edges (proto/test_hooks.h) loses
// nothing that it called durable, brings nothing back that it called gone, mixes up no slot, and
// serves again. And one in which an edge fails, once, goes on by itself.
//
// $HC_E2E_FAILPOINTS: a name; `all` for later passes and both kinds of load of each point too;
// `draw:SEED` for ten plans of that seed; `part:K/N` for every N-th point, from the K-th (from 0).
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/failpoint_plan.h"
#include "e2e/ledger.h"
#include "e2e/rank.h"
#include "e2e/store_audit.h"
#include "support/catch.h"

namespace hc::test {
namespace {

class Scenario {
 public:
  explicit Scenario(const FailpointPlan& plan) : plan_(plan), daemon_(options_of(plan)) {}

  void run() {
    const bool whole = first_life() && second_life() && third_life();
    if (plan_.action == "error") {
      REQUIRE(whole);
      CHECK(failed_);
    }
    after();
  }

  bool was_reached() const { return killed_ || failed_; }

 private:
  static DaemonOptions options_of(const FailpointPlan& plan) {
    DaemonOptions options;
    options.program = "hicached_hooks";
    options.l2_bytes = 1U << 20;
    options.l3_bytes = 2U << 20;
    options.reserve_slots = 12;
    options.commit_interval_ms = 5;
    options.load_verify = plan.load_verify;
    if (plan.name.rfind("load_", 0) != 0) {  // those are for a load that finds something
      options.environment = {"HICACHE_FAILPOINT=" + plan.text()};
    }
    return options;
  }

  bool start(const std::string& mode) {
    daemon_.options().cold_start = mode;
    return daemon_.start_unless_killed() || dead();
  }
  bool dead() {
    killed_ = true;
    INFO(daemon_.log());
    CHECK(daemon_.log().find("failpoint " + plan_.name + ": killed") != std::string::npos);
    return false;
  }
  // True while the daemon lives; an operation that failed with it alive was the failpoint's error.
  bool lives(hicache_code code) {
    if (code == HICACHE_OK) {
      return !daemon_.was_killed() || dead();
    }
    const bool killed = plan_.action == "kill" &&
                        eventually([this] { return daemon_.was_killed(); });
    if (killed) {
      return dead();
    }
    INFO("code " << code << "\n" << daemon_.log());
    CHECK(plan_.action == "error");
    return true;
  }

  std::unique_ptr<Rank> open(const std::string& weights, hicache_code& code) {
    RankOptions options;
    options.socket = daemon_.client_socket();
    options.weight_version = weights;
    options.attach_timeout_ms = 30'000;
    options.rows = 128;
    auto rank = std::make_unique<Rank>(options);
    code = rank->open();
    return rank;
  }

  hicache_code store(Rank& rank, const Keys& keys, bool may_go = false) {
    const std::string weights = rank.options().weight_version;
    ledger_.ordered(weights, keys);
    const hicache_code code = rank.store(keys, HICACHE_ACK_DURABLE).code;
    if (code == HICACHE_OK && !may_go) {
      ledger_.durable(weights, keys);
    }
    return code;
  }

  hicache_code forget(Rank& rank, const Keys& keys) {
    const std::string weights = rank.options().weight_version;
    ledger_.may_go(weights, keys);
    const hicache_code code = rank.free_pages(keys).code;
    if (code == HICACHE_OK) {
      ledger_.gone(weights, keys);
    }
    return code;
  }

  // One page after the other; what is there has its bytes.
  hicache_code read(Rank& rank, const Keys& keys) {
    for (std::uint32_t i = 0; i < keys.count; ++i) {
      const Keys key{keys.first + i, 1, 0};
      const hicache_code code = rank.load(key).code;
      if (code == HICACHE_OK) {
        wrong_bytes_ += rank.wrong_bytes(key);
      } else if (code != HICACHE_NOT_FOUND) {
        return code;
      }
    }
    return HICACHE_OK;
  }

  // Stores, evictions, reloads, a free and a flush over an empty store.
  bool first_life() {
    if (!start("load")) {
      return false;
    }
    hicache_code code = HICACHE_OK;
    auto rank = open("1", code);
    if (!lives(code)) {
      return false;
    }
    if (code != HICACHE_OK) {  // its error: the next attempt is whole
      rank = open("1", code);
      REQUIRE(code == HICACHE_OK);
    }
    if (!lives(store(*rank, kLeased)) || !lives(rank->reload(kLeased).code)) {
      return false;
    }
    for (std::uint32_t at = 0; at < kChurn.count; at += kBatch) {
      const Keys keys{kChurn.first + at, kBatch, 32};
      if (!lives(store(*rank, keys, true)) || !lives(read(*rank, {keys.first - at / 2, 2, 0}))) {
        return false;
      }
    }
    return lives(store(*rank, kFreed)) && lives(forget(*rank, kFreed)) &&
           lives(store(*rank, kDamaged, true)) && lives(rank->flush().code) &&
           lives(rank->switch_to("2")) && lives(store(*rank, kLeased)) && stop();
  }

  bool stop() {
    const int status = daemon_.stop();
    failed_ = failed_ ||
              daemon_.log().find("failpoint " + plan_.name + ": failed") != std::string::npos;
    if (status != 0) {
      INFO(daemon_.log());
      CHECK(status == -SIGKILL);
      return dead();
    }
    return true;
  }

  // Load, a page whose payload has rotted, a clear of a space and one of the store.
  bool second_life() {
    ledger_.may_go();  // no lease has held them since
    damage_payload(daemon_.volume(), kDamaged.first);
    daemon_.options().environment = {"HICACHE_FAILPOINT=" + plan_.text()};
    if (!start("load")) {
      return false;
    }
    hicache_code code = HICACHE_OK;
    auto rank = open("1", code);
    if (!lives(code) || !lives(read(*rank, kDamaged)) || !lives(read(*rank, kLeased)) ||
        !lives(store(*rank, kFreed)) || !eventually_scanned()) {
      return false;
    }
    rank.reset();
    return clear_space("2") && clear_store() && after_clear();
  }

  // A lazy load reads its headers behind the service.
  bool eventually_scanned() {
    if (plan_.load_verify != "lazy") {
      return true;
    }
    const bool done = eventually([this] {
      return daemon_.was_killed() || daemon_.log().find("load.") != std::string::npos;
    });
    CHECK(done);
    return daemon_.running() || dead();
  }

  bool order(std::vector<std::string> arguments) {
    const Outcome outcome = daemon_.cachectl(std::move(arguments));
    const hicache_code code = outcome.status == 0 ? HICACHE_OK : HICACHE_DISCONNECTED;
    return lives(code);
  }

  bool clear_space(const std::string& weights) {
    std::string id;
    const Outcome spaces = daemon_.cachectl({"spaces", "--json"});
    if (spaces.status != 0) {
      return lives(HICACHE_DISCONNECTED);
    }
    const auto answer = nlohmann::json::parse(spaces.out);
    for (const auto& space : answer.at("spaces")) {
      if (space.at("weight_version") == weights) {
        id = space.at("space_id").get<std::string>();
      }
    }
    REQUIRE(!id.empty());
    ledger_.may_go(weights);
    if (!order({"clear", "--space", id, "--yes"})) {
      return false;
    }
    ledger_.gone(weights);
    return true;
  }

  bool clear_store() {
    ledger_.may_go();
    if (!order({"clear", "--yes"})) {
      return false;
    }
    ledger_.all_gone();
    return true;
  }

  bool after_clear() {
    hicache_code code = HICACHE_OK;
    auto rank = open("1", code);
    if (!lives(code) || !lives(store(*rank, kAfterClear))) {
      return false;
    }
    rank.reset();
    return stop();
  }

  // A cold start that clears.
  bool third_life() {
    ledger_.may_go();
    if (!start("clear")) {
      return false;
    }
    ledger_.all_gone();
    hicache_code code = HICACHE_OK;
    auto rank = open("1", code);
    if (!lives(code) || !lives(store(*rank, kAfterStart))) {
      return false;
    }
    rank.reset();
    return stop();
  }

  // The successor, without a failpoint.
  void after() {
    expect_audit(false);
    daemon_.options().environment.clear();
    daemon_.options().cold_start = "load";
    daemon_.start();
    INFO(daemon_.log());
    expect_ledger();
    CHECK(wrong_bytes_ == 0);
    serve_again();
    REQUIRE(daemon_.stop() == 0);
    expect_audit(true);
  }

  void expect_ledger() {
    std::map<std::string, std::unique_ptr<Rank>> ranks;
    for (const auto& [weights, page] : ledger_.known()) {
      if (ranks[weights] == nullptr) {
        hicache_code code = HICACHE_OK;
        ranks[weights] = open(weights, code);
        REQUIRE(code == HICACHE_OK);
      }
      const Keys key{page, 1, 0};
      const hicache_code code = ranks[weights]->load(key).code;
      INFO("page " << page << " of weights " << weights << ": code " << code);
      CHECK((code == HICACHE_OK || code == HICACHE_NOT_FOUND));
      if (code == HICACHE_OK) {
        CHECK(ranks[weights]->wrong_bytes(key) == 0);
        CHECK_FALSE(ledger_.is_gone({weights, page}));
      } else {
        CHECK_FALSE(ledger_.is_owed({weights, page}));
      }
    }
  }

  void serve_again() {
    hicache_code code = HICACHE_OK;
    auto rank = open("1", code);
    REQUIRE(code == HICACHE_OK);
    REQUIRE(rank->store(kAtTheEnd, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    REQUIRE(rank->load(kAtTheEnd).code == HICACHE_OK);
    CHECK(rank->wrong_bytes(kAtTheEnd) == 0);
    REQUIRE(rank->free_pages({kAtTheEnd.first, 2, 0}).code == HICACHE_OK);
    REQUIRE(rank->flush().code == HICACHE_OK);
    rank.reset();
    // Every slot is free or holds a durable part: none is lost, none waits.
    const bool whole = eventually([this] {
      const nlohmann::json stats = daemon_.ask("stats");
      return stats.at("slots_free").get<std::uint64_t>() +
                 stats.at("durable_parts").get<std::uint64_t>() ==
             stats.at("slots_total").get<std::uint64_t>();
    });
    CHECK(whole);
    durable_parts_ = daemon_.ask("stats").at("durable_parts");
  }

  void expect_audit(bool stopped) {
    const StoreAudit audit = audit_store(daemon_.volume());
    for (const std::string& finding : audit.findings) {
      INFO(finding);
      CHECK(false);
    }
    if (stopped) {
      CHECK(audit.stale == 0);
      CHECK(audit.live == durable_parts_);
    }
  }

  FailpointPlan plan_;
  DaemonProcess daemon_;
  Ledger ledger_;
  std::uint64_t wrong_bytes_ = 0;
  std::uint64_t durable_parts_ = 0;
  bool killed_ = false;
  bool failed_ = false;
};

void run_plan(const FailpointPlan& plan, bool must_reach) {
  INFO("HICACHE_FAILPOINT=" << plan.text() << ", load_verify " << plan.load_verify);
  Scenario scenario(plan);
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
