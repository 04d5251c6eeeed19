// SPDX-License-Identifier: Apache-2.0
// reload_client: a rank's client with its reload group: operations, completions, and what chaos
// does to them.
//
// Owner thread: the rank process's only thread. Invariants: a completion is offered to the group
// before anybody else sees it, once; memory that an operation names is left alone until it ended.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/ctl/engine_bus.h"
#include "client/ctl/rank_engine.h"
#include "client/ctl/reload_board.h"
#include "client/ctl/reload_chaos.h"

namespace hc {

class ReloadClient {
 public:
  ReloadClient(const RankSetup& setup, std::uint32_t rank);
  ~ReloadClient();
  ReloadClient(const ReloadClient&) = delete;
  ReloadClient& operator=(const ReloadClient&) = delete;

  // Attaches with the quota, opens the group and meets the other ranks.
  // Whose rows operations are on; outlives this.
  void set_region(const RankRegion& region) { region_ = &region; }
  hicache_code open(std::string& why);
  hicache_code join(std::uint32_t timeout_ms, bool& kept);
  // Group, then client.
  hicache_code close();

  hicache_client* handle() const { return client_.handle(); }
  hicache_group* group() const { return group_; }
  hicache_group_stats stats() const;
  std::uint64_t hook_calls() const { return reduce_.calls(); }

  // Answers that are taken from now on are taken in this tick.
  void begin_tick(std::uint64_t tick) { tick_ = tick; }
  // Takes what is there, after waiting up to timeout_ms for the first one.
  void collect(std::uint32_t timeout_ms);
  // Copies the pages into their rows, from the first on; `loaded`: how many came. A code ends the
  // bench.
  hicache_code load(std::span<const hicache_page> pages, std::uint32_t& loaded);
  // Pages [first, path.size()) of the path. `store` is 0 when the memory is free again already.
  // A code ends the bench.
  hicache_code store(std::span<const hicache_page> path, std::size_t first, std::uint64_t& store);
  // Until no store of this rank runs any more, whatever the ranks have settled.
  hicache_code await_stores();

 private:
  struct Delayed {
    std::uint64_t due_ns = 0;
    hicache_completion completion{};
  };
  static hicache_code reduce(void* context, std::int64_t* words, std::size_t count);
  hicache_code open_group();
  void take(const hicache_completion& completion);
  void deliver(const hicache_completion& completion);
  void deliver_due(bool all);
  void fail_read(hicache_completion& completion);
  hicache_code try_store(std::span<const hicache_page> path, std::size_t first,
                         std::uint64_t& store);
  hicache_code try_plain_store(std::span<const hicache_page> pages);
  hicache_code end_of(std::uint64_t tag);  // the code that it ended with
  hicache_code await_own(std::uint64_t tag, hicache_completion& done);

  const RankSetup& setup_;
  const ReloadShare& share_;
  const std::uint32_t rank_;
  ReloadTotals& totals_;
  RankTotals& bytes_;
const RankRegion* region_ = nullptr;
  RankClient client_;
  EngineReduce reduce_;
  ChaosDraws draws_;
  hicache_group* group_ = nullptr;
  std::vector<Delayed> delayed_;
  std::unordered_map<std::uint64_t, hicache_completion> ended_;  // own operations, by tag
  std::uint64_t next_tag_ = 1;
  std::uint64_t tick_ = 0;
};

}  // namespace hc
