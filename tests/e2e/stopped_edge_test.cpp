// SPDX-License-Identifier: Apache-2.0
// stopped_edge_test: a rank killed while the daemon stands still exactly at a state edge of that
// rank's operation on device memory (copy_edges.h), so that the daemon goes on for a dead one.
#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "e2e/copy_edges.h"
#include "e2e/edge_scene.h"
#include "e2e/rank_copy_reuse.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::size_t kStopsAtOnce = 18;
constexpr Keys kToLoad{10, kEdgeRows, 0};
constexpr std::uint64_t kStoredByDead = 1000;
constexpr std::uint64_t kHonestPages = 5000;
constexpr std::uint32_t kHonestBatch = 8;
constexpr std::uint32_t kHonestBatches = 10;  // more than the memory holds
constexpr std::uint32_t kHonestKept = 4;      // batches that it still does

struct Stop {
  Edge edge;
  bool by_rank = false;
  std::uint8_t verb = 0;
};

class DeathAtStop {
 public:
  explicit DeathAtStop(const Stop& stop)
      : stop_(stop), scene_(plan_of(stop)), honest_(scene_.on_host("honest")) {}

  void begin() {
    INFO(text());
    scene_.daemon().await_start();
    REQUIRE(honest_.open() == HICACHE_OK);
    const bool loads = stop_.verb == HICACHE_VERB_LOAD;
    if (loads) {
      REQUIRE(honest_.store(kToLoad).code == HICACHE_OK);
    }
    rank_ = std::make_unique<Process>(edge_rank_command(
        scene_, {stop_.by_rank, stop_.verb, loads ? kToLoad.first : kStoredByDead, "victim",
                 folder_.file("said")}));
  }

  std::string text() const {
    return stop_.edge.text() + ", copied by the rank: " + std::to_string(stop_.by_rank) +
           ", verb " + std::to_string(stop_.verb);
  }
  void kill_there() {
    INFO(text());
    const std::string wanted = std::string(stop_.edge.name) + ": stopped";
    REQUIRE(eventually([&] { return missing(scene_.daemon().log(), {wanted}) == ""; }));
    REQUIRE(eventually([&] { return is_stopped(); }));
    rank_->kill_now();
  }
  // The frames of the dead are what the honest rank would like to have.
  void go_on() {
    INFO(text());
    ::kill(scene_.daemon().pid(), SIGCONT);
    for (std::uint32_t i = 0; i < kHonestBatches; ++i) {
      REQUIRE(eventually([&] { return honest_.store(honest_keys_at(i, 0)).code == HICACHE_OK; }));
    }
  }
  bool is_back() const {
    const pid_t pid = scene_.daemon_pid();
    const bool is_clean = stop_.by_rank || (scene_.count(pid, "mappings") == 0 &&
                                            scene_.count(pid, "opened_events") == 0);
    return is_clean && scene_.daemon_sessions() == 1 && scene_.stat("operations_open") == 0 &&
           scene_.stat("frames_leased") == 0;
  }
  void end() {
    INFO(text());
    for (std::uint32_t i = kHonestBatches - kHonestKept; i < kHonestBatches; ++i) {
      CHECK(honest_.load(honest_keys_at(i, 16)).code == HICACHE_OK);
      CHECK(honest_.wrong_bytes(honest_keys_at(i, 16)) == 0);
    }
    for (std::uint64_t page = kStoredByDead; page < kStoredByDead + kEdgeRows; ++page) {
      const hicache_code code = honest_.load({page, 1, 30}).code;
      CHECK((code == HICACHE_OK || code == HICACHE_NOT_FOUND));
      CHECK((code != HICACHE_OK || honest_.wrong_bytes({page, 1, 30}) == 0));
    }
    CHECK(honest_.close() == HICACHE_OK);
    scene_.daemon().begin_stop();
  }
  void await_end() {
    INFO(text() << "\n" << scene_.daemon().log());
    CHECK(scene_.daemon().await_stop() == 0);
  }

 private:
  static RankCopyPlan plan_of(const Stop& stop) {
    RankCopyPlan plan;
    plan.is_one_of_many = true;
    plan.failpoint = stop.edge.text() + "=stop";
    plan.l2_bytes = 2U << 20;
    plan.daemon_has_gpu = !stop.by_rank;
    plan.daemon_driver = "version=12010,stream_delay_us=5000";
    return plan;
  }
  static Keys honest_keys_at(std::uint32_t batch, std::uint32_t row) {
    return {kHonestPages + kHonestBatch * batch, kHonestBatch, row};
  }
  bool is_stopped() const {
    const std::string stat = read_text("/proc/" + std::to_string(scene_.daemon_pid()) + "/stat");
    const std::size_t name_end = stat.rfind(')');
    return name_end != std::string::npos && stat.substr(name_end, 3) == ") T";
  }

  Stop stop_;
  RankCopyScene scene_;
  Rank honest_;
  TempDir folder_;
  std::unique_ptr<Process> rank_;
};

std::vector<Stop> all_stops() {
  std::vector<Stop> stops;
  for (const StopEdge& at : kStopEdges) {
    for (const bool by_rank : {false, true}) {
      if (!at.edge.passed_by(by_rank)) {
        continue;
      }
      stops.push_back({at.edge, by_rank, HICACHE_VERB_STORE});
      if (at.loads == StopEdge::Loads::both || (at.loads == StopEdge::Loads::ipc && !by_rank)) {
        stops.push_back({at.edge, by_rank, HICACHE_VERB_LOAD});
        stops.back().edge.pass += at.by_hosts ? kEdgeRows : 0;  // what was stored to be loaded
      }
    }
  }
  return stops;
}

TEST_CASE("A rank that dies while the daemon is at any edge of its operation leaves nothing") {
  const std::vector<Stop> stops = all_stops();
  for (std::size_t first = 0; first < stops.size(); first += kStopsAtOnce) {
    std::vector<std::unique_ptr<DeathAtStop>> deaths;
    for (std::size_t i = first; i < std::min(first + kStopsAtOnce, stops.size()); ++i) {
      deaths.push_back(std::make_unique<DeathAtStop>(stops[i]));
    }
    for (const auto step : {&DeathAtStop::begin, &DeathAtStop::kill_there, &DeathAtStop::go_on}) {
      for (const auto& death : deaths) {
        ((*death).*step)();
      }
    }
    const std::uint64_t since_ms = monotonic_ms();
    for (const auto& death : deaths) {
      INFO(death->text());
      CHECK(eventually([&] { return death->is_back(); }, 10'000));
      CHECK(monotonic_ms() - since_ms <= kRankGoneMs);
    }
    for (const auto step : {&DeathAtStop::end, &DeathAtStop::await_end}) {
      for (const auto& death : deaths) {
        ((*death).*step)();
      }
    }
  }
}

}  // namespace
}  // namespace hc::test
