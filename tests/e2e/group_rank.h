// SPDX-License-Identifier: Apache-2.0
// group_rank: an engine rank with a reload group, and the little of a scheduler that tests need.
//
// A prompt is the pages of `Keys`; page numbers of two prompts differ, so that a page has always
// the same page before it. Owner thread: one. No call of it waits without a bound.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "client/hicache_group.h"
#include "e2e/rank.h"

namespace hc::test {

class GroupRank {
 public:
  explicit GroupRank(RankOptions options);
  GroupRank(const GroupRank&) = delete;
  GroupRank& operator=(const GroupRank&) = delete;
  ~GroupRank();

  hicache_group_options& options() { return options_; }
  Rank& rank() { return rank_; }
  hicache_group* group() const { return group_; }

  // Attaches, opens the group and meets the others.
  hicache_code open();
  hicache_code join(bool* kept = nullptr);
  // With the same client; what the first group held is given back.
  hicache_code open_group_anew();
  hicache_code close();

  // One scheduling pass; waits at most a millisecond for completions.
  hicache_code pass();
  hicache_code tick();  // without taking completions
  // Passes until `done` is, or a pass fails, or patience ends (TIMED_OUT).
  template <typename Done>
  hicache_code pass_until(Done&& done) {
    for (int i = 0; i < kPassesMax; ++i) {
      if (done()) {
        return HICACHE_OK;
      }
      if (const hicache_code code = pass(); code != HICACHE_OK) {
        return code;
      }
    }
    return HICACHE_TIMED_OUT;
  }

  // Computes a prompt, stores it, drops it from L1, and waits until the store is settled: whether
  // it is durable on all ranks.
  bool compute(const Keys& prompt);
  // The store's number; 0 when it could not begin. Its rows are filled before.
  std::uint64_t begin_store(const Keys& prompt);
  // Passes until all of them are settled.
  bool all_durable(const std::vector<std::uint64_t>& stores);
  bool fill_l1(const Keys& prompt);
  hicache_match match(const Keys& prompt);
  std::uint32_t offer(std::uint64_t request, const Keys& prompt);
  // Until the request is admitted or computed: whether it was admitted.
  bool decided(std::uint64_t request);
  // Loads the prompt from L2 into its rows: bytes that are not what they should be, all of them
  // when the load is a miss.
  std::uint64_t wrong_bytes(const Keys& prompt);
  hicache_group_stats stats() const;

  const std::set<std::uint64_t>& admitted() const { return admitted_; }
  const std::map<std::uint64_t, std::uint32_t>& recomputed() const { return recomputed_; }
  std::uint32_t l2_drops() const { return l2_drops_; }
  std::uint32_t divergences() const { return divergences_; }

 private:
  static constexpr int kPassesMax = 60'000;

  hicache_group_options options_{};
  Rank rank_;
  hicache_group* group_ = nullptr;
  std::set<std::uint64_t> admitted_;
  std::map<std::uint64_t, std::uint32_t> recomputed_;  // reason
  std::map<std::uint64_t, bool> settled_;
  std::map<std::uint64_t, hicache_completion> ended_;  // the rank's own operations
  std::uint32_t l2_drops_ = 0;
  std::uint32_t divergences_ = 0;
};

}  // namespace hc::test
