// SPDX-License-Identifier: Apache-2.0
// failpoint_scenario: the lives of the daemon, and what is expected of it and of its files.
#include "e2e/failpoint_scenario.h"

#include <csignal>
#include <map>
#include <utility>

#include "e2e/store_audit.h"
#include "proto/limits.h"
#include "support/catch.h"

namespace hc::test {

FailpointScenario::FailpointScenario(const FailpointPlan& plan)
    : plan_(plan), daemon_(options_of(plan)) {}

void FailpointScenario::run() {
  const bool whole = first_life() && second_life() && third_life();
  if (plan_.action == "error") {
    REQUIRE(whole);
    CHECK(failed_);
  }
  after();
}

DaemonOptions FailpointScenario::options_of(const FailpointPlan& plan) {
  DaemonOptions options;
  options.program = "hicached_hooks";
  options.l2_bytes = 2U << 20;
  options.family_bytes = 1U << 20;
  options.volume_bytes = {1536U << 10, 1024U << 10};
  options.reserve_slots = 8;
  options.commit_interval_ms = 5;
  options.load_verify = plan.load_verify;
  if (plan.name.rfind("load_", 0) != 0) {  // those are for a load that finds something
    options.environment = {"HICACHE_FAILPOINT=" + plan.text()};
  }
  return options;
}

bool FailpointScenario::start(const std::string& mode) {
  daemon_.options().cold_start = mode;
  return daemon_.start_unless_killed() || dead();
}

bool FailpointScenario::dead() {
  killed_ = true;
  INFO(daemon_.log());
  CHECK(daemon_.log().find("failpoint " + plan_.name + ": killed") != std::string::npos);
  return false;
}

// True while the daemon lives; an operation that failed with it alive was the failpoint's error.
bool FailpointScenario::lives(hicache_code code) {
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

bool FailpointScenario::stop() {
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

std::unique_ptr<Rank> FailpointScenario::open(const std::string& weights, hicache_code& code) {
  RankOptions options;
  options.socket = daemon_.client_socket();
  options.weight_version = weights;
  options.attach_timeout_ms = 30'000;
  options.rows = 128;
  if (weights == kOtherWeights) {
    options.group = "engineB";
    options.payload_bytes = 60'000;
    options.rows = 16;
  }
  auto rank = std::make_unique<Rank>(options);
  code = rank->open();
  return rank;
}

hicache_code FailpointScenario::store(Rank& rank, const Keys& keys, bool may_go) {
  const std::string weights = rank.options().weight_version;
  ledger_.ordered(weights, keys);
  const hicache_code code = rank.store(keys, HICACHE_ACK_DURABLE).code;
  if (code == HICACHE_OK && !may_go) {
    ledger_.durable(weights, keys);
  }
  return code;
}

hicache_code FailpointScenario::forget(Rank& rank, const Keys& keys) {
  const std::string weights = rank.options().weight_version;
  ledger_.may_go(weights, keys);
  const hicache_code code = rank.free_pages(keys).code;
  if (code == HICACHE_OK) {
    ledger_.gone(weights, keys);
  }
  return code;
}

// One page after the other; what is there has its bytes.
hicache_code FailpointScenario::read(Rank& rank, const Keys& keys) {
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

bool FailpointScenario::churn(Rank& rank) {
  for (std::uint32_t at = 0; at < kChurn.count; at += kBatch) {
    const Keys keys{kChurn.first + at, kBatch, 32};
    if (!lives(store(rank, keys, true)) || !lives(read(rank, {keys.first - at / 2, 2, 0}))) {
      return false;
    }
  }
  return true;
}

bool FailpointScenario::order(std::vector<std::string> arguments) {
  const Outcome outcome = daemon_.cachectl(std::move(arguments));
  const hicache_code code = outcome.status == 0 ? HICACHE_OK : HICACHE_DISCONNECTED;
  return lives(code);
}

// Stores, evictions, reloads, another family that takes steps, a free and a flush over an empty
// store.
bool FailpointScenario::first_life() {
  if (!start("load")) {
    return false;
  }
  const auto rank = first_attach();
  std::unique_ptr<Rank> other;  // its lease is held until the end
  if (rank == nullptr || !lives(store(*rank, kLeased)) || !lives(rank->reload(kLeased).code) ||
      !churn(*rank) || !other_family(other)) {
    return false;
  }
  if (!lives(store(*rank, kFreed)) || !lives(forget(*rank, kFreed)) ||
      !lives(store(*rank, kDamaged, true)) || !lives(rank->flush().code)) {
    return false;
  }
  ledger_.may_go("1");  // the switch ends the lease
  return lives(rank->switch_to("2")) && lives(store(*rank, kLeased)) && stop();
}

// Nothing: the daemon was killed.
std::unique_ptr<Rank> FailpointScenario::first_attach() {
  hicache_code code = HICACHE_OK;
  auto rank = open("1", code);
  if (!lives(code)) {
    return nullptr;
  }
  if (code != HICACHE_OK) {  // its error: the next attempt is whole
    rank = open("1", code);
    REQUIRE(code == HICACHE_OK);
  }
  return rank;
}

// The volumes are full of the first family, which is older.
bool FailpointScenario::other_family(std::unique_ptr<Rank>& rank) {
  hicache_code code = HICACHE_OK;
  rank = open(kOtherWeights, code);
  if (!lives(code) || !lives(store(*rank, kLeasedOther)) ||
      !lives(rank->reload(kLeasedOther).code)) {
    return false;
  }
  for (std::uint32_t i = 0; i < kOther.count; ++i) {
    if (!lives(store(*rank, {kOther.first + i, 1, 8}, true))) {
      return false;
    }
  }
  return lives(read(*rank, kOther));
}

// Load, a page whose payload has rotted, a clear of a space and one of the store.
bool FailpointScenario::second_life() {
  ledger_.may_go();  // no lease has held them since
  damage_payload(volumes(), kDamaged.first);
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
  auto other = open(kOtherWeights, code);
  if (!lives(code) || !lives(read(*other, kLeasedOther))) {
    return false;
  }
  rank.reset();
  other.reset();
  return clear_space("2") && clear_store() && after_clear();
}

// A lazy load reads its headers behind the service.
bool FailpointScenario::eventually_scanned() {
  if (plan_.load_verify != "lazy") {
    return true;
  }
  const bool done = eventually([this] {
    return daemon_.was_killed() || daemon_.log().find("load.") != std::string::npos;
  });
  CHECK(done);
  return daemon_.running() || dead();
}

bool FailpointScenario::clear_space(const std::string& weights) {
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

bool FailpointScenario::clear_store() {
  ledger_.may_go();
  if (!order({"clear", "--yes"})) {
    return false;
  }
  ledger_.all_gone();
  return true;
}

bool FailpointScenario::after_clear() {
  hicache_code code = HICACHE_OK;
  auto rank = open("1", code);
  if (!lives(code) || !lives(store(*rank, kAfterClear))) {
    return false;
  }
  rank.reset();
  return stop();
}

// A cold start that clears.
bool FailpointScenario::third_life() {
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
void FailpointScenario::after() {
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

void FailpointScenario::expect_ledger() {
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

void FailpointScenario::serve_again() {
  for (const char* weights : {"1", kOtherWeights}) {
    hicache_code code = HICACHE_OK;
    auto rank = open(weights, code);
    REQUIRE(code == HICACHE_OK);
    REQUIRE(rank->store(kAtTheEnd, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    REQUIRE(rank->load(kAtTheEnd).code == HICACHE_OK);
    CHECK(rank->wrong_bytes(kAtTheEnd) == 0);
    REQUIRE(rank->free_pages({kAtTheEnd.first, 2, 0}).code == HICACHE_OK);
    REQUIRE(rank->flush().code == HICACHE_OK);
  }
  // Every slot that has its space is free or holds a durable part: none is lost, none waits.
  const bool whole = eventually([this] {
    const nlohmann::json stats = daemon_.ask("stats");
    return stats.at("slots_free").get<std::uint64_t>() +
               stats.at("durable_parts").get<std::uint64_t>() ==
           stats.at("slots_total").get<std::uint64_t>();
  });
  CHECK(whole);
  durable_parts_ = daemon_.ask("stats").at("durable_parts");
}

void FailpointScenario::expect_audit(bool stopped) {
  const StoreAudit audit = audit_store(volumes());
  for (const std::string& finding : audit.findings) {
    INFO(finding);
    CHECK(false);
  }
  // Two files a volume: a file system may keep a block about each that has many extents.
  for (std::size_t volume = 0; volume < daemon_.options().volume_bytes.size(); ++volume) {
    CHECK(slab_bytes_on_disk(daemon_.volume(volume)) <=
          daemon_.options().volume_bytes[volume] + 2 * kBlockBytes);
  }
  if (stopped) {
    CHECK(audit.stale == 0);
    CHECK(audit.live == durable_parts_);
  }
}

std::vector<std::string> FailpointScenario::volumes() const {
  return {daemon_.volume(0), daemon_.volume(1)};
}

}  // namespace hc::test
