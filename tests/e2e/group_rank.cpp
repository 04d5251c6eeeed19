// SPDX-License-Identifier: Apache-2.0
// group_rank: passes, prompts and what was decided about them.
#include "e2e/group_rank.h"

#include <algorithm>
#include <array>
#include <utility>

#include "e2e/process.h"

namespace hc::test {

namespace {

constexpr std::uint32_t kMeetMs = kPatienceMs;
constexpr std::uint32_t kPassWaitMs = 1;

}  // namespace

GroupRank::GroupRank(RankOptions options) : rank_(std::move(options)) {
  options_.struct_bytes = sizeof options_;
  options_.reduce_timeout_ms = kMeetMs;
}

GroupRank::~GroupRank() { static_cast<void>(close()); }

hicache_code GroupRank::open() {
  if (const hicache_code code = rank_.open(); code != HICACHE_OK) {
    return code;
  }
  const hicache_code code = hicache_group_open(rank_.client(), &options_, &group_);
  return code == HICACHE_OK ? join() : code;
}

hicache_code GroupRank::join(bool* kept) {
  int has_kept = 0;
  const hicache_code code = hicache_group_join(group_, kMeetMs, &has_kept);
  if (kept != nullptr) {
    *kept = has_kept == 1;
  }
  return code;
}

hicache_code GroupRank::open_group_anew() {
  static_cast<void>(hicache_group_close(std::exchange(group_, nullptr)));
  const hicache_code code = hicache_group_open(rank_.client(), &options_, &group_);
  return code == HICACHE_OK ? join() : code;
}

hicache_code GroupRank::close() {
  if (group_ == nullptr) {
    return HICACHE_OK;
  }
  static_cast<void>(hicache_group_close(std::exchange(group_, nullptr)));
  return rank_.close();
}

hicache_code GroupRank::pass() {
  std::array<hicache_completion, 32> done{};
  std::size_t count = 0;
  static_cast<void>(
      hicache_wait(rank_.client(), done.data(), done.size(), kPassWaitMs, &count));
  for (std::size_t i = 0; i < count; ++i) {
    if (hicache_group_take(group_, &done[i]) == 0 && done[i].terminal != 0) {
      ended_[done[i].op_id] = done[i];
    }
  }
  return tick();
}

hicache_code GroupRank::tick() {
  hicache_decisions decisions{};
  const hicache_code code = hicache_group_tick(group_, &decisions);
  for (std::size_t i = 0; i < decisions.admit_count; ++i) {
    admitted_.insert(decisions.admits[i].request);
  }
  for (std::size_t i = 0; i < decisions.recompute_count; ++i) {
    recomputed_[decisions.recomputes[i].request] = decisions.recomputes[i].reason;
  }
  for (std::size_t i = 0; i < decisions.store_count; ++i) {
    settled_[decisions.stores[i].store] = decisions.stores[i].durable == 1;
  }
  l2_drops_ += decisions.l2_dropped;
  divergences_ += decisions.diverged;
  return code;
}

std::uint64_t GroupRank::begin_store(const Keys& prompt) {
  rank_.fill_rows(prompt);
  const std::vector<hicache_page> pages = rank_.pages_of(prompt);
  hicache_op op{};
  op.deadline_ms = Rank::kDeadlineMs;
  std::uint64_t store = 0;
  const hicache_code code =
      hicache_group_store(group_, &op, pages.data(), pages.size(), 0, &store);
  return code == HICACHE_OK ? store : 0;
}

bool GroupRank::all_durable(const std::vector<std::uint64_t>& stores) {
  const auto is_settled = [this](std::uint64_t store) { return settled_.count(store) != 0; };
  return pass_until([&] { return std::all_of(stores.begin(), stores.end(), is_settled); }) ==
             HICACHE_OK &&
         std::all_of(stores.begin(), stores.end(),
                     [this](std::uint64_t store) { return settled_.at(store); });
}

bool GroupRank::compute(const Keys& prompt) {
  std::uint32_t evicted = 0;
  const bool filled = fill_l1(prompt);
  const std::uint64_t store = begin_store(prompt);
  return filled && store != 0 &&
         hicache_group_evict_l1(group_, prompt.count, &evicted) == HICACHE_OK &&
         all_durable({store});
}

bool GroupRank::fill_l1(const Keys& prompt) {
  const std::vector<hicache_page> pages = rank_.pages_of(prompt);
  return hicache_group_fill_l1(group_, pages.data(), pages.size()) == HICACHE_OK;
}

hicache_match GroupRank::match(const Keys& prompt) {
  const std::vector<hicache_page> pages = rank_.pages_of(prompt);
  hicache_match out{};
  static_cast<void>(hicache_group_match(group_, pages.data(), pages.size(), &out));
  return out;
}

std::uint32_t GroupRank::offer(std::uint64_t request, const Keys& prompt) {
  const hicache_match at = match(prompt);
  const std::vector<hicache_page> pages = rank_.pages_of(prompt);
  hicache_miss miss{};
  miss.request = request;
  miss.anchor = at.anchor;
  miss.pages = pages.data();
  miss.page_count = pages.size();
  miss.first_page = at.l1_pages + at.l2_pages;
  std::uint32_t decline = HICACHE_DECLINE_FULL;
  static_cast<void>(hicache_group_offer(group_, &miss, &decline));
  return decline;
}

bool GroupRank::decided(std::uint64_t request) {
  static_cast<void>(pass_until(
      [&] { return admitted_.count(request) != 0 || recomputed_.count(request) != 0; }));
  return admitted_.count(request) != 0;
}

std::uint64_t GroupRank::wrong_bytes(const Keys& prompt) {
  std::uint64_t op_id = 0;
  if (rank_.submit(HICACHE_VERB_LOAD, prompt, op_id) != HICACHE_OK ||
      pass_until([&] { return ended_.count(op_id) != 0; }) != HICACHE_OK ||
      ended_.at(op_id).code != HICACHE_OK) {
    return std::uint64_t{prompt.count} * rank_.options().payload_bytes;
  }
  return rank_.wrong_bytes(prompt);
}

hicache_group_stats GroupRank::stats() const {
  hicache_group_stats out{};
  out.struct_bytes = sizeof out;
  static_cast<void>(hicache_group_get_stats(group_, &out));
  return out;
}

}  // namespace hc::test
