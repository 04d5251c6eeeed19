// SPDX-License-Identifier: Apache-2.0
// edge_scene: who lives, who dies, and what is compared.
#include "e2e/edge_scene.h"

#include <algorithm>
#include <csignal>
#include <new>

#include "support/catch.h"

namespace hc::test {

namespace {

constexpr Keys kLoaded{10, kEdgeRows, 0};  // under a lease
constexpr std::uint32_t kStoredAtOnce = 8;
constexpr std::size_t kRecent = 12;
// Slow enough for a page to stay in memory until what was queued when it was stored has ended, and
// for the disk.
constexpr std::uint64_t kStoreEveryMs = 40;
constexpr std::uint32_t kSameLooks = 25;
constexpr int kPatienceForBackMs = 10'000;

// Of a rank that copies itself the second and third stream are its lanes.
const char* victim_driver(bool by_rank) {
  return by_rank ? "version=12010,stream_delay_us@2=30000,stream_delay_us@3=30000,outlive_us=800000"
                 : "version=12010,stream_delay_us=1000,outlive_us=800000";
}

RankCopyPlan plan_of(bool by_rank, const std::string& mutant) {
  RankCopyPlan plan;
  plan.mutant = mutant;
  plan.l2_bytes = 6U << 20;
  plan.daemon_has_gpu = !by_rank;
  plan.daemon_driver = "version=12010,stream_delay_us=1500";
  return plan;
}

}  // namespace

Command edge_rank_command(const RankCopyScene& scene, const EdgeRank& rank) {
  const RankOptions options = scene.on_device(rank.group);
  Command command;
  command.argv = {program("hc_rank_hooks").string(),
                  options.socket,
                  options.group,
                  rank.by_rank ? "rank" : "ipc",
                  rank.verb == HICACHE_VERB_STORE ? "store" : "load",
                  std::to_string(rank.first)};
  command.environment = scene.driver_environment(victim_driver(rank.by_rank));
  command.out_path = rank.said;
  command.err_path = rank.said;
  return command;
}

EdgeScene::EdgeScene(bool by_rank, const std::string& mutant)
    : by_rank_(by_rank),
      scene_(plan_of(by_rank, mutant)),
      board_(new (shared_memory(sizeof(Board))) Board) {
  warm_rank_copies(scene_);
  neighbour_ = std::make_unique<Child>([this] { return be_neighbour(); });
  honest_ = std::make_unique<Rank>(scene_.on_host("honest"));
  watch_ = std::make_unique<Watch>(scene_.daemon());
  REQUIRE(honest_->open() == HICACHE_OK);
  REQUIRE(honest_->store(kLoaded).code == HICACHE_OK);
  REQUIRE(honest_->pin(kLoaded).lease != 0);
  fill();
  settle();
}

// No frame is free from here on.
void EdgeScene::fill() {
  REQUIRE(eventually([this] {
    const hicache_code code = honest_->store({next_, kStoredAtOnce, 0}).code;
    next_ += kStoredAtOnce;
    REQUIRE((code == HICACHE_OK || code == HICACHE_BUSY));
    return scene_.stat("frames_free") < kStoredAtOnce;
  }));
}

EdgeScene::~EdgeScene() { ::munmap(board_, sizeof(Board)); }

// Stores, loads and compares until it is told to go.
int EdgeScene::be_neighbour() const {
  scene_.give_driver("version=12010");
  RankOptions options = scene_.on_device("neighbour");
  options.transfer = by_rank_ ? HICACHE_TRANSFER_RANK : HICACHE_TRANSFER_IPC;
  Rank rank(options);
  HC_EXPECT(rank.open() == HICACHE_OK);
  std::deque<Keys> recent;
  std::uint64_t stored_at_ms = 0;
  for (std::uint64_t page = 50'000; !board_->stop; ++board_->rounds) {
    if (monotonic_ms() - stored_at_ms >= kStoreEveryMs) {
      stored_at_ms = monotonic_ms();
      const hicache_code code = rank.store({page, 4, 0}).code;
      board_->failures += code == HICACHE_OK || code == HICACHE_BUSY ? 0U : 1U;
      if (code == HICACHE_OK) {
        recent.push_back({page, 4, 8});
      }
      page += 4;
    }
    if (recent.size() > kRecent) {
      recent.pop_front();
    }
    if (!recent.empty()) {
      const Keys& keys = recent[board_->rounds % recent.size()];
      const hicache_code code = rank.load(keys).code;
      board_->failures += code == HICACHE_OK || code == HICACHE_BUSY ? 0U : 1U;
      board_->wrong_bytes += code == HICACHE_OK ? rank.wrong_bytes(keys) : 0;
    }
  }
  HC_EXPECT(rank.close() == HICACHE_OK);
  return 0;
}

EdgeScene::Kept EdgeScene::look() {
  const pid_t pid = scene_.daemon().pid();
  return {watch_->look(), scene_.count(pid, "mappings"), scene_.count(pid, "opened_events")};
}

// What there is while only the two are there, and neither has an operation open.
void EdgeScene::settle() {
  REQUIRE(eventually([this] { return board_->rounds > 2 && scene_.daemon_sessions() == 2; }));
  std::uint32_t same = 0;
  REQUIRE(eventually([&] {
    const Kept now = look();
    if (now.holdings.operations_open == 0) {
      same = now == before_ ? same + 1 : 0;
      before_ = now;
    }
    return same == kSameLooks;
  }));
}

EdgeScene::Dying EdgeScene::start(const Victim& victim) {
  const bool stores = victim.verb == HICACHE_VERB_STORE;
  const std::string number = std::to_string(victims_);
  Dying dying;
  dying.victim = victim;
  dying.first = stores ? 1000 + 100 * victims_ : kLoaded.first;
  dying.err_path = folder_.file("rank" + number);
  ++victims_;
  Command command = edge_rank_command(
      scene_, {by_rank_, victim.verb, dying.first, "victim" + number, dying.err_path});
  command.environment.push_back("HICACHE_FAILPOINT=" + victim.edge.text());
  dying.process = std::make_unique<Process>(command);
  dying.pid = dying.process->pid();
  return dying;
}

// True when all are dead.
bool EdgeScene::reap(std::vector<Dying>& dying, EdgeSeen& seen) {
  bool all = true;
  for (Dying& at : dying) {
    if (at.process == nullptr) {
      continue;
    }
    if (!readable_within(at.process->pidfd(), 0)) {
      all = false;
      continue;
    }
    const int status = at.process->wait();
    at.process.reset();
    const std::string said = read_text(at.err_path);
    const std::string wanted = "failpoint " + std::string(at.victim.edge.name) + ": killed";
    const bool died = status == -SIGKILL && missing(said, {wanted}) == "";
    const bool lived = status == 0 && at.victim.may_live;
    if (!died && !lived) {
      seen.unreached += at.victim.edge.text() + " (" + std::to_string(at.victim.verb) +
                        "): status " + std::to_string(status) + "\n" + said;
    }
  }
  return all;
}

void EdgeScene::verify(const Keys& keys, bool must_be_there, EdgeSeen& seen) {
  const hicache_code code = honest_->load({keys.first, keys.count, 16}).code;
  if (code == HICACHE_OK) {
    seen.wrong_bytes += honest_->wrong_bytes({keys.first, keys.count, 16});
  } else if (code != HICACHE_BUSY && (must_be_there || code != HICACHE_NOT_FOUND)) {
    seen.failures += "load of " + std::to_string(keys.first) + ": " + std::to_string(code) + "\n";
  }
}

void EdgeScene::work(EdgeSeen& seen) {
  if (monotonic_ms() - stored_at_ms_ >= kStoreEveryMs) {
    const Keys keys{next_, kStoredAtOnce, 0};
    next_ += kStoredAtOnce;
    const hicache_code code = honest_->store(keys).code;
    stored_at_ms_ = monotonic_ms();
    if (code == HICACHE_OK) {
      recent_.push_back(keys);
    } else if (code != HICACHE_BUSY) {
      seen.failures += "a store: " + std::to_string(code) + "\n";
    }
  }
  if (recent_.size() > kRecent) {
    recent_.pop_front();
  }
  if (!recent_.empty()) {
    verify(recent_[turns_++ % recent_.size()], true, seen);
  }
}

EdgeSeen EdgeScene::kill(const std::vector<Victim>& victims) {
  EdgeSeen seen;
  const std::uint64_t rounds = board_->rounds;
  std::vector<Dying> dying;
  for (const Victim& victim : victims) {
    dying.push_back(start(victim));
  }
  const bool all_died = eventually([&] {
    work(seen);
    return reap(dying, seen);
  });
  const std::uint64_t died_ms = monotonic_ms();
  Kept last;
  std::uint64_t back_ms = 0;
  const bool is_back = eventually([&] {
    work(seen);
    last = look();
    if (back_ms == 0 && last == before_) {
      back_ms = monotonic_ms();
    }
    const bool may_copy = by_rank_ && monotonic_ms() - died_ms <= kOutliveMs;
    return back_ms != 0 && !may_copy;
  }, kPatienceForBackMs);
  seen.unreached += all_died ? "" : "somebody lives on";
  seen.back_ms = is_back ? back_ms - died_ms : kPatienceForBackMs;
  seen.not_back = is_back ? "" : text_of_kept(last) + "\ninstead of\n" + text_of_kept(before_);
  for (const Keys& keys : recent_) {
    verify(keys, true, seen);
  }
  for (const Dying& at : dying) {
    for (std::uint32_t i = 0; i < kEdgeRows; ++i) {
      verify({at.first + i, 1, 0}, false, seen);  // there and right, or not there
    }
    seen.outlived += std::max(0L, scene_.count(at.pid, "outlived"));
  }
  const bool lives = eventually([&] { return board_->rounds > rounds + 1; });
  seen.failures += lives ? "" : "the neighbour stands still\n";
  seen.failures += board_->failures == 0 ? "" : "the neighbour's operations fail\n";
  seen.wrong_bytes += board_->wrong_bytes.exchange(0);
  return seen;
}

void EdgeScene::end() {
  board_->stop = true;
  CHECK(neighbour_->wait() == 0);
  CHECK(honest_->close() == HICACHE_OK);
  INFO(scene_.daemon().log());
  CHECK(scene_.daemon().stop() == 0);
}

std::string EdgeScene::text_of_kept(const Kept& kept) const {
  return text_of(kept.holdings) + ", mappings of the driver " + std::to_string(kept.mappings) +
         ", events " + std::to_string(kept.opened_events);
}

}  // namespace hc::test
