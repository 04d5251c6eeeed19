// SPDX-License-Identifier: Apache-2.0
// micro_agree: one reduce of the ranks of a node over their board, beside a raw ping-pong, how it
// grows with the ranks, and what a tick costs a rank that has everything open.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "client/ctl/micro_bench.h"
#include "client/ctl/micro_limits.h"
#include "client/ctl/monotonic.h"
#include "client/reload/controller.h"
#include "client/reload/prefix_tree.h"
#include "shm/agreement_board.h"

namespace hc {

namespace {

constexpr std::uint32_t kWords = AgreementVector::kWords;
constexpr std::int64_t kPatienceNs = 10'000'000'000;
constexpr std::uint32_t kManyRanks = 8;
constexpr std::uint32_t kOpPages = 256;

struct Reduces {
  std::uint32_t world = 2;
  std::int64_t spin_ns = 0;
  std::uint32_t rounds = 0;
  std::size_t open = 8;  // candidates, and operations beside them
};

// What a rank says with that many candidates and operations open; a board moves what is used of it.
AgreementVector vector_with(std::size_t open) {
  AgreementVector out;
  for (const auto word : {AgreementVector::kSequence, AgreementVector::kEpoch,
                          AgreementVector::kDigest}) {
    out.set_pair(word, 1);
  }
  out.set_instances(1);
  out.words[AgreementVector::kSettled] = 0;
  std::fill_n(out.counts().begin(), open, kOpPages);
  std::fill_n(out.states().begin(), open, 0);
  return out;
}

// One rank in a process of its own: every round, then the end.
[[noreturn]] void take_part(const BoardWatcher& watcher, std::uint32_t rank,
                            const Reduces& what) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto board = AgreementBoard::attach(UniqueFd(::dup(watcher.fd())), rank, what.world, kWords);
  AgreementVector vector = vector_with(what.open);
  bool good = board.has_value();
  for (std::uint32_t i = 0; good && i < what.rounds; ++i) {
    board->tell(vector.words);
    good = board->take(vector.words, what.spin_ns, kPatienceNs) == Code::ok;
  }
  ::_exit(good ? 0 : 1);
}

// The ranks 1.. of a group; this process is rank 0.
class Members {
 public:
  ~Members() { end(); }
  Result<void> start(const BoardWatcher& watcher, const Reduces& what) {
    for (std::uint32_t rank = 1; rank < what.world; ++rank) {
      const pid_t child = ::fork();
      if (child < 0) {
        return make_error(Code::io_error, "a process for a rank", errno);
      }
      if (child == 0) {
        take_part(watcher, rank, what);
      }
      children_.push_back(child);
    }
    return {};
  }
  // True: all of them have taken part to the end.
  bool end() {
    bool good = true;
    for (const pid_t child : children_) {
      int status = 0;
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    children_.clear();
    return good;
  }

 private:
  std::vector<pid_t> children_;
};

// The median of one reduce, in microseconds.
Result<double> reduces(const Reduces& what) {
  auto watcher = BoardWatcher::create(what.world, kWords);
  HC_TRY(watcher);
  Members members;
  HC_TRY_VOID(members.start(*watcher, what));
  auto board = AgreementBoard::attach(UniqueFd(::dup(watcher->fd())), 0, what.world, kWords);
  HC_TRY(board);
  AgreementVector vector = vector_with(what.open);
  std::vector<double> elapsed_us;
  for (std::uint32_t i = 0; i < what.rounds; ++i) {
    const std::uint64_t begin_ns = monotonic_ns();
    board->tell(vector.words);
    if (const Code code = board->take(vector.words, what.spin_ns, kPatienceNs);
        code != Code::ok) {
      return make_error(code, "a reduce over the board");
    }
    elapsed_us.push_back(static_cast<double>(monotonic_ns() - begin_ns) / 1e3);
  }
  return members.end() ? Result<double>(median(std::move(elapsed_us)))
                       : make_error(Code::io_error, "a rank of the group has failed");
}

struct AgreeCase {
  const char* figure;
  PingPong how;
  std::int64_t spin_ns;
  std::size_t open;
  double ratio_max;
};

Result<void> measure_reduce(MicroBench& bench, const AgreeCase& agree) {
  const std::uint32_t rounds = bench.plan().round_trips;
  auto samples = bench.pairs(
      agree.figure, [&] { return reduces({2, agree.spin_ns, rounds, agree.open}); },
      [&]() -> Result<double> {
        auto raw_ns = ping_pong(agree.how, rounds);
        HC_TRY(raw_ns);
        return *raw_ns / 1e3;
      });
  HC_TRY(samples);
  bench.add({agree.figure, "ranks=2 open=" + std::to_string(agree.open), "us",
             Goal{Goal::Of::ratio, Goal::Sense::at_most, agree.ratio_max}, ""},
            *samples);
  return {};
}

// No requirement names a bound: it should grow no faster than the ranks.
Result<void> measure_growth(MicroBench& bench) {
  const std::uint32_t rounds = bench.plan().round_trips / 3;
  auto samples = bench.pairs(
      "agree_growth", [&] { return reduces({kManyRanks, 0, rounds}); },
      [&] { return reduces({2, 0, rounds}); });
  HC_TRY(samples);
  bench.add({"agree_growth", "ranks=8/2", "us",
             Goal{Goal::Of::ratio, Goal::Sense::at_most, kManyRanks / 2.0}, ""},
            *samples);
  return {};
}

Suffix make_suffix(std::uint64_t number) {
  Suffix out;
  for (std::uint64_t page = 0; page < kOpPages; ++page) {
    PageHash hash;
    const std::array<std::uint64_t, 4> words{number * 0x9E3779B97F4A7C15U + page, number, page, 1};
    std::memcpy(hash.bytes.data(), words.data(), sizeof words);
    out.hashes.push_back(hash);
  }
  out.owners.assign(kOpPages, 0);
  return out;
}

// A rank with 64 operations of 256 pages that are being read, and 64 candidates behind them.
class BusyRank {
 public:
  BusyRank()
      : quota_(1, 2 * kAgreedOpsMax * kOpPages),
        tree_({}, quota_),
        controller_(options(), tree_, quota_) {
    for (std::uint64_t number = 1; number <= kAgreedOpsMax + kAgreedCandidatesMax; ++number) {
      static_cast<void>(controller_.offer(RequestId{number}, make_suffix(number)));
      if (number == kAgreedOpsMax) {
        tick();
      }
    }
  }
  // Of encode and apply; what the index says is asked before.
  std::uint64_t tick() {
    for (const Candidate& candidate : controller_.candidates()) {
      controller_.set_count(candidate.id, kOpPages);
    }
    const std::uint64_t begin_ns = monotonic_ns();
    const AgreementVector vector = controller_.encode(0);
    controller_.apply(vector, decisions_);
    return monotonic_ns() - begin_ns;
  }

 private:
  static ControllerOptions options() {
    ControllerOptions out;
    out.ops_max = kAgreedOpsMax;
    out.inflight_pages_max = 2 * kAgreedOpsMax * kOpPages;
    return out;
  }
  PageQuota quota_;
  PrefixTree tree_;
  Controller controller_;
  ReloadDecisions decisions_;
};

Result<void> measure_tick(MicroBench& bench) {
  BusyRank rank;
  auto samples = bench.pairs(
      "reload_tick",
      [&]() -> Result<double> {
        std::vector<double> elapsed_us;
        for (std::uint32_t i = 0; i < bench.plan().round_trips; ++i) {
          elapsed_us.push_back(static_cast<double>(rank.tick()) / 1e3);
        }
        return median(std::move(elapsed_us));
      },
      nullptr);
  HC_TRY(samples);
  bench.add({"reload_tick", "candidates=64 ops=64 pages=256", "us",
             Goal{Goal::Of::value, Goal::Sense::at_most, 20}, ""},
            *samples);
  return {};
}

}  // namespace

// No requirement names a bound for a vector with everything open.
Result<void> measure_agree(MicroBench& bench) {
  for (const AgreeCase& agree :
       {AgreeCase{"agree_sleep", PingPong::futex, 0, 8, 2.0},
        AgreeCase{"agree_spin", PingPong::spin, kPatienceNs, 8, 4.0},
        AgreeCase{"agree_spin_full", PingPong::spin, kPatienceNs, kAgreedOpsMax, 8.0}}) {
    if (bench.plan().wants(agree.figure)) {
      HC_TRY_VOID(measure_reduce(bench, agree));
    }
  }
  if (bench.plan().wants("agree_growth")) {
    HC_TRY_VOID(measure_growth(bench));
  }
  if (bench.plan().wants("reload_tick")) {
    HC_TRY_VOID(measure_tick(bench));
  }
  return {};
}

}  // namespace hc
