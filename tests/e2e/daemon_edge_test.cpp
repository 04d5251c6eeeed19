// SPDX-License-Identifier: Apache-2.0
// daemon_edge_test: a daemon killed exactly at each state edge of an operation on device memory
// that it passes (copy_edges.h): ranks go on, their memory is theirs once they are told so, and
// they come back to the next daemon.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/rank_region.h"
#include "e2e/copy_edges.h"
#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kRoundsMax = 400;
constexpr const char* kSlowLanes =
    "version=12010,stream_delay_us@2=3000,stream_delay_us@3=3000,outlive_us=700000";

bool is_cut(hicache_code code) { return code == HICACHE_DISCONNECTED; }

// What it submitted ends, one way or another; `cut` counts what the death has ended.
int end_all(Rank& rank, const std::vector<std::uint64_t>& ops, std::uint32_t& cut) {
  for (const std::uint64_t op : ops) {
    const hicache_code code = rank.finish(op).code;
    HC_EXPECT(code == HICACHE_OK || code == HICACHE_NOT_FOUND || is_cut(code));
    cut += is_cut(code) ? 1U : 0U;
  }
  return 0;
}

// Two stores and a load, and beside them a region that comes and goes.
int work_once(Rank& rank, const RankRegion& more, std::uint64_t page, std::uint32_t& cut) {
  std::vector<std::uint64_t> ops;
  const std::array<std::uint8_t, 3> verbs{HICACHE_VERB_STORE, HICACHE_VERB_LOAD,
                                          HICACHE_VERB_STORE};
  for (std::uint32_t i = 0; i < verbs.size(); ++i) {
    std::uint64_t op = 0;
    const hicache_code code =
        rank.submit(verbs[i], {page + 4 * (i / 2), 4, 8 * i}, op, HICACHE_ACK_RESIDENT);
    HC_EXPECT(code == HICACHE_OK || is_cut(code));
    if (code == HICACHE_OK) {
      ops.push_back(op);
    }
    cut += is_cut(code) ? 1U : 0U;
  }
  const hicache_code came = more.attach(rank.client(), 1, Rank::kDeadlineMs);
  HC_EXPECT(came == HICACHE_OK || is_cut(came));
  if (came == HICACHE_OK) {
    const hicache_code went = hicache_unregister_region(rank.client(), 1, Rank::kDeadlineMs);
    HC_EXPECT(went == HICACHE_OK || is_cut(went));
  }
  return end_all(rank, ops, cut);
}

// With the next daemon it works as before; what the dead one had is right or not there.
int work_again(Rank& rank) {
  for (std::uint32_t round = 0; round < 4; ++round) {
    const Keys keys{7000 + 4 * round, 4, 0};
    HC_EXPECT(rank.store(keys).code == HICACHE_OK);
    HC_EXPECT(rank.load({keys.first, 4, 32}).code == HICACHE_OK);
    HC_EXPECT(rank.wrong_bytes({keys.first, 4, 32}) == 0);
  }
  for (std::uint64_t page = 100; page < 160; ++page) {
    const hicache_code code = rank.load({page, 1, 50}).code;
    HC_EXPECT(code == HICACHE_NOT_FOUND || code == HICACHE_OK);
    HC_EXPECT(code != HICACHE_OK || rank.wrong_bytes({page, 1, 50}) == 0);
  }
  return 0;
}

// Works until the daemon is dead; then what it was told is free stays as it is.
int outlive_daemon(FakeLine& line, const RankCopyScene& scene, const RankOptions& options) {
  line.be_child();
  scene.give_driver(kSlowLanes);
  Rank rank(options);
  const hicache_code opened = rank.open();
  HC_EXPECT(opened == HICACHE_OK || is_cut(opened));  // by the death of the daemon
  line.go();
  const auto more = RankRegion::make(make_space(options), {.rows = 2,
                                                           .device = BenchDevice::cuda,
                                                           .transfer = options.transfer});
  HC_EXPECT(more.has_value());
  std::uint32_t cut = is_cut(opened) ? 1U : 0U;
  for (std::uint32_t round = 0; cut == 0; ++round) {
    HC_EXPECT(round < kRoundsMax);
    HC_EXPECT(work_once(rank, *more, 100 + 4 * round, cut) == 0);
  }
  const std::uint64_t bytes = rank.wrong_bytes({100, 4, 8});
  const hicache_code alone = rank.load({100, 1, 0}).code;
  HC_EXPECT(is_cut(alone) || alone == HICACHE_BAD_ARGUMENT);
  line.go();
  HC_EXPECT(line.wait());  // another daemon is there
  HC_EXPECT(rank.wrong_bytes({100, 4, 8}) == bytes);
  HC_EXPECT(rank.wait_serving());
  HC_EXPECT(opened == HICACHE_OK || rank.register_region() == HICACHE_OK);
  HC_EXPECT(work_again(rank) == 0);
  HC_EXPECT(rank.close() == HICACHE_OK);
  return 0;
}

// Dies in the middle of its copies; or the daemon has died before.
int die_first(const RankCopyScene& scene, const RankOptions& options, bool by_rank) {
  scene.give_driver("version=12010,stream_delay_us@2=25000,outlive_us=700000");
  Rank rank(options);
  std::uint64_t op = 0;
  if (rank.open() == HICACHE_OK &&
      rank.submit(HICACHE_VERB_STORE, {5000, 8, 0}, op, HICACHE_ACK_RESIDENT) == HICACHE_OK) {
    static_cast<void>(eventually([&] { return !by_rank || cuda_count("copies") > 2; }));
  }
  ::kill(::getpid(), SIGKILL);
  return 1;
}

class DaemonDeath {
 public:
  DaemonDeath(const Edge& edge, bool by_rank)
      : edge_(edge), by_rank_(by_rank), scene_(plan_of(edge, by_rank)) {
    pid_ = scene_.daemon().pid();
  }

  void begin() {
    scene_.daemon().await_start();
    rank_ = std::make_unique<Child>(
        [this] { return outlive_daemon(line_, scene_, options_of("engine")); });
    line_.be_parent();
  }

  // Once the one rank is there, another comes, and dies.
  void begin_death() {
    REQUIRE(line_.wait());
    mortal_ = std::make_unique<Child>(
        [this] { return die_first(scene_, options_of("mortal"), by_rank_); });
  }
  void restart() {
    INFO(edge_.text() << ", copied by the rank: " << by_rank_);
    REQUIRE(eventually([this] { return scene_.daemon().was_killed(); }));
    CHECK(missing(scene_.daemon().log(), {std::string(edge_.name) + ": killed"}) == "");
    mortal_->kill_now();
    REQUIRE(line_.wait());
    outlived_ = scene_.count(pid_, "outlived");
    scene_.begin_sound();
  }
  void go_on() {
    INFO(edge_.text() << ", copied by the rank: " << by_rank_);
    scene_.daemon().await_start();
    CHECK(scene_.count(pid_, "outlived") == outlived_);
    line_.go();
  }
  void end() {
    INFO(edge_.text() << ", copied by the rank: " << by_rank_ << scene_.daemon().log());
    CHECK(rank_->wait() == 0);
    scene_.daemon().begin_stop();
  }
  void await_end() {
    INFO(edge_.text() << ", copied by the rank: " << by_rank_ << scene_.daemon().log());
    CHECK(scene_.daemon().await_stop() == 0);
  }

 private:
  static RankCopyPlan plan_of(const Edge& edge, bool by_rank) {
    RankCopyPlan plan;
    plan.is_one_of_many = true;
    plan.failpoint = edge.text();
    plan.daemon_has_gpu = !by_rank;
    plan.daemon_driver = "version=12010,stream_delay_us=5000,outlive_us=700000";
    return plan;
  }
  RankOptions options_of(const std::string& group) const {
    RankOptions options = scene_.on_device(group);
    options.transfer = by_rank_ ? HICACHE_TRANSFER_RANK : HICACHE_TRANSFER_IPC;
    return options;
  }

  Edge edge_;
  bool by_rank_;
  RankCopyScene scene_;
  FakeLine line_;
  pid_t pid_ = 0;
  long outlived_ = 0;  // copies, when the rank had been told that all is its own
  std::unique_ptr<Child> rank_;
  std::unique_ptr<Child> mortal_;
};

// They mostly wait for the grace.
constexpr std::size_t kDaemonsAtOnce = 18;

TEST_CASE("The edges of the daemon are those that have a failpoint there") {
  const char* const words[] = {"gpu_failpoint", "lane_failpoint"};
  std::vector<std::string> listed = listed_failpoints(words);
  std::vector<std::string> named;
  for (const Edge& edge : kDaemonEdges) {
    named.push_back(edge.name);
  }
  std::sort(listed.begin(), listed.end());
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());

  CHECK(named == listed);
}

std::vector<std::pair<Edge, bool>> all_deaths() {
  std::vector<std::pair<Edge, bool>> wanted;
  if (const auto seed = drawn_seed()) {
    std::mt19937 random(*seed);
    for (std::size_t i = 0; i < kDaemonsAtOnce; ++i) {
      const bool by_rank = random() % 2 == 0;
      wanted.emplace_back(draw_edge(kDaemonEdges, by_rank, random), by_rank);
    }
    return wanted;
  }
  for (const Edge& edge : kDaemonEdges) {
    for (const bool by_rank : {false, true}) {
      if (edge.passed_by(by_rank)) {
        wanted.emplace_back(edge, by_rank);
      }
    }
  }
  return wanted;
}

TEST_CASE("A daemon killed at any edge of a copy costs its ranks the cache, and no byte") {
  const std::vector<std::pair<Edge, bool>> wanted = all_deaths();
  for (std::size_t first = 0; first < wanted.size(); first += kDaemonsAtOnce) {
    std::vector<std::unique_ptr<DaemonDeath>> deaths;
    for (std::size_t i = first; i < std::min(first + kDaemonsAtOnce, wanted.size()); ++i) {
      deaths.push_back(std::make_unique<DaemonDeath>(wanted[i].first, wanted[i].second));
    }
    for (const auto step : {&DaemonDeath::begin, &DaemonDeath::begin_death, &DaemonDeath::restart,
                            &DaemonDeath::go_on, &DaemonDeath::end, &DaemonDeath::await_end}) {
      for (const auto& death : deaths) {
        ((*death).*step)();
      }
    }
  }
}

}  // namespace
}  // namespace hc::test
