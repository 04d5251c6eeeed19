// SPDX-License-Identifier: Apache-2.0
// edge_scene: a daemon with two ranks that go on working, and ranks that die at given edges beside
// them, several at once.
//
// A frame that is handed out too early shows like this: no frame is free, so those two, who store
// all the time, get it at once; the copies of the dead go on; and what they have stored is loaded
// and compared, again and again, until nothing of the dead can run any more.
//
// Owner thread: the test's main thread; it is the first of the two (honest: host memory). The other
// one (the neighbour) copies device memory in the way of the dead, in a process of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "e2e/rank_copy_scene.h"
#include "e2e/copy_edges.h"

namespace hc::test {

// Copies of the dead go on for less than this; it is less than the grace.
inline constexpr std::uint64_t kOutliveMs = 800;

struct Victim {
  Edge edge;
  std::uint8_t verb = 0;
  bool may_live = false;  // to the end of its life, if it passes the edge less often
};

struct EdgeSeen {
  std::string unreached;          // who did not die where it should, and what it said
  std::uint64_t back_ms = 0;      // after the last death, until everything was back
  std::string not_back;           // what was held instead
  std::uint64_t wrong_bytes = 0;  // of the two that live, and of pages that the dead have stored
  std::string failures;           // of the two that live
  long outlived = 0;              // copies that were done after the death of who had asked for them
};

// Of hc_rank_hooks, for a rank with the given pages; what it says goes to `said`.
struct EdgeRank {
  bool by_rank = false;
  std::uint8_t verb = 0;
  std::uint64_t first = 0;
  std::string group;
  std::string said;
};
Command edge_rank_command(const RankCopyScene& scene, const EdgeRank& rank);

class EdgeScene {
 public:
  explicit EdgeScene(bool by_rank, const std::string& mutant = "");
  EdgeScene(const EdgeScene&) = delete;
  EdgeScene& operator=(const EdgeScene&) = delete;
  ~EdgeScene();

  EdgeSeen kill(const std::vector<Victim>& victims);
  // Everybody goes, and the daemon stops in order.
  void end();
  DaemonProcess& daemon() { return scene_.daemon(); }

 private:
  struct Dying {
    Victim victim;
    std::uint64_t first = 0;  // of its pages
    std::string err_path;
    std::unique_ptr<Process> process;
    pid_t pid = 0;
  };
  // What the neighbour says, in memory that it shares.
  struct Board {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> rounds{0};
    std::atomic<std::uint64_t> wrong_bytes{0};
    std::atomic<std::uint64_t> failures{0};
  };
  struct Kept {
    Holdings holdings;
    long mappings = 0;       // of the daemon's driver
    long opened_events = 0;
    friend bool operator==(const Kept&, const Kept&) = default;
  };

  int be_neighbour() const;
  Dying start(const Victim& victim);
  bool reap(std::vector<Dying>& dying, EdgeSeen& seen);
  void work(EdgeSeen& seen);
  void verify(const Keys& keys, bool must_be_there, EdgeSeen& seen);
  Kept look();
  void fill();
  void settle();
  std::string text_of_kept(const Kept& kept) const;

  bool by_rank_;
  RankCopyScene scene_;
  TempDir folder_;
  Board* board_;
  std::unique_ptr<Child> neighbour_;
  std::unique_ptr<Rank> honest_;
  std::unique_ptr<Watch> watch_;
  Kept before_;
  std::deque<Keys> recent_;  // what the honest one has stored
  std::uint64_t next_ = 100'000;
  std::uint64_t stored_at_ms_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t victims_ = 0;
};

}  // namespace hc::test
