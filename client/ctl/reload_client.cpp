// SPDX-License-Identifier: Apache-2.0
// reload_client: submits, waits and offers completions.
#include "client/ctl/reload_client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/ctl/monotonic.h"

namespace hc {

namespace {

constexpr std::uint32_t kMeetMs = 60'000;
constexpr std::uint32_t kReduceMs = 60'000;  // a rank may wait for a slow disk between two reduces
constexpr std::uint32_t kReloadsMax = 16;    // of 64 operation slots: releases come in crowds
constexpr std::uint32_t kOpMs = 60'000;
constexpr std::uint32_t kWaitMs = 100;
constexpr std::uint64_t kTryNs = 30 * kNsPerSecond;
constexpr std::uint64_t kHangNs = 120 * kNsPerSecond;
constexpr std::uint64_t kOwnTag = 1ULL << 63;    // user_data of operations that are not the group's
constexpr std::uint64_t kStoreTag = 1ULL << 62;  // of a store that the group may take

bool is_busy(hicache_code code) { return code == HICACHE_BUSY || code == HICACHE_RETRY; }

}  // namespace

ReloadClient::ReloadClient(const RankSetup& setup, std::uint32_t rank)
    : setup_(setup),
      share_(*setup.reload),
      rank_(rank),
      totals_(share_.boards.totals(rank)),
      bytes_(setup.boards.totals(rank)),
      client_(setup.boards, setup.trace, rank),
      reduce_(share_.bus, rank, std::int64_t{kReduceMs} * static_cast<std::int64_t>(kNsPerMs)),
      draws_(share_.plan.chaos, share_.plan.seed + 1, rank) {}

ReloadClient::~ReloadClient() { static_cast<void>(close()); }

hicache_code ReloadClient::reduce(void* context, std::int64_t* words, std::size_t count) {
  return static_cast<hicache_code>(
      static_cast<EngineReduce*>(context)->reduce(std::span(words, count)));
}

hicache_code ReloadClient::open_group() {
  hicache_group_options options{};
  options.struct_bytes = sizeof options;
  options.agreement = share_.plan.agreement;
  if (options.agreement == HICACHE_AGREE_HOOK) {
    options.reduce = &ReloadClient::reduce;
    options.reduce_context = &reduce_;
  }
  options.reduce_timeout_ms = kReduceMs;
  options.ops_max = kReloadsMax;
  options.ttl_ms = share_.plan.ttl_ms;
  options.pages_min = share_.plan.pages_min;
  return hicache_group_open(client_.handle(), &options, &group_);
}

hicache_code ReloadClient::open(std::string& why) {
  hicache_code code =
      client_.open({setup_.plan.space, setup_.socket_path, setup_.weight_version,
                    static_cast<std::uint16_t>(rank_), setup_.plan.ranks,
                    share_.plan.quota_bytes, setup_.plan.open_flags()});
  if (code == HICACHE_OK) {
    code = open_group();
  }
  bool kept = false;
  if (code == HICACHE_OK) {
    code = join(kMeetMs, kept);
  }
  if (code != HICACHE_OK) {
    why = hicache_last_error();
  }
  return code;
}

hicache_code ReloadClient::join(std::uint32_t timeout_ms, bool& kept) {
  int has_kept = 0;
  const hicache_code code = hicache_group_join(group_, timeout_ms, &has_kept);
  kept = has_kept != 0;
  ++(code == HICACHE_OK ? totals_.joins : totals_.joins_failed);
  return code;
}

hicache_code ReloadClient::close() {
  if (group_ != nullptr) {
    static_cast<void>(hicache_group_close(std::exchange(group_, nullptr)));
  }
  return client_.close();
}

hicache_group_stats ReloadClient::stats() const {
  hicache_group_stats out{};
  out.struct_bytes = sizeof out;
  static_cast<void>(hicache_group_get_stats(group_, &out));
  return out;
}

void ReloadClient::collect(std::uint32_t timeout_ms) {
  std::array<hicache_completion, 64> completions{};
  std::size_t count = 0;
  const hicache_code code =
      timeout_ms == 0
          ? hicache_poll(client_.handle(), completions.data(), completions.size(), &count)
          : hicache_wait(client_.handle(), completions.data(), completions.size(), timeout_ms,
                         &count);
  for (std::size_t i = 0; i < count; ++i) {
    take(completions[i]);
  }
  deliver_due(false);
  // Without a daemon the library does not wait: the bus does.
  if (timeout_ms != 0 && code != HICACHE_OK && code != HICACHE_TIMED_OUT) {
    share_.bus.wait_news(timeout_ms * kNsPerMs);
  }
}

// Only what the group waits for is held back: a rank that waits for its own load does nothing else.
void ReloadClient::take(const hicache_completion& completion) {
  const bool is_reload = completion.verb == HICACHE_VERB_RELOAD;
  const bool is_store = completion.verb == HICACHE_VERB_STORE &&
                        (completion.user_data & kStoreTag) != 0;
  const std::uint64_t delay_ns =
      completion.terminal != 0 && (is_reload || is_store) ? draws_.ack_delay_ns() : 0;
  if (delay_ns == 0) {
    deliver(completion);
    return;
  }
  ++totals_.acks_delayed;
  delayed_.push_back({monotonic_ns() + delay_ns, completion});
}

void ReloadClient::deliver_due(bool all) {
  if (delayed_.empty()) {
    return;
  }
  const std::uint64_t now_ns = monotonic_ns();
  std::vector<Delayed> later;
  for (const Delayed& at : std::exchange(delayed_, {})) {
    if (all || at.due_ns <= now_ns) {
      deliver(at.completion);
    } else {
      later.push_back(at);
    }
  }
  delayed_ = std::move(later);
}

// The pages are there, so their lease is; the group never hears of it.
void ReloadClient::fail_read(hicache_completion& completion) {
  hicache_op op{};
  op.deadline_ms = kOpMs;
  op.user_data = kOwnTag;
  std::uint64_t op_id = 0;
  static_cast<void>(hicache_release(client_.handle(), &op, completion.lease, &op_id));
  completion.code = HICACHE_NOT_FOUND;
  completion.lease = 0;
  completion.page_count = 0;
  ++totals_.reads_failed;
}

void ReloadClient::deliver(const hicache_completion& given) {
  hicache_completion completion = given;
  if (completion.verb == HICACHE_VERB_RELOAD && completion.terminal != 0 &&
      completion.code == HICACHE_OK) {
    const auto acked = share_.boards.acked(rank_);
    HC_CHECK(completion.user_data < acked.size());
    acked[completion.user_data] = tick_;
    if (draws_.fails_read()) {
      fail_read(completion);
    }
  }
  if (hicache_group_take(group_, &completion) == 0 && completion.terminal != 0) {
    ended_[completion.user_data] = completion;
  }
}

hicache_code ReloadClient::await_own(std::uint64_t tag, hicache_completion& done) {
  const std::uint64_t begin_ns = monotonic_ns();
  for (;;) {
    const auto found = ended_.find(tag);
    if (found != ended_.end()) {
      done = found->second;
      ended_.erase(found);
      return HICACHE_OK;
    }
    if (monotonic_ns() - begin_ns > kHangNs) {
      return HICACHE_PROTOCOL;  // an operation ends by its deadline
    }
    collect(delayed_.empty() ? kWaitMs : 1);
  }
}

hicache_code ReloadClient::load(std::span<const hicache_page> pages, std::uint32_t& loaded) {
  loaded = 0;
  hicache_completion done{};
  const std::uint64_t begin_ns = monotonic_ns();
  do {
    hicache_op op{};
    op.deadline_ms = kOpMs;
    op.flags = HICACHE_LOAD_MAX_PREFIX;
    op.user_data = kOwnTag | next_tag_++;
    region_->prepare(op);
    std::uint64_t op_id = 0;
    const std::uint64_t submitted_ns = monotonic_ns();
    done = {};
    done.code = hicache_load(client_.handle(), &op, pages.data(), pages.size(), &op_id);
    if (done.code == HICACHE_OK) {
      const hicache_code waited = await_own(op.user_data, done);
      if (waited != HICACHE_OK) {
        return waited;
      }
      bytes_.load.add(monotonic_ns() - submitted_ns);
      bytes_.load_ns += monotonic_ns() - submitted_ns;
    } else if (is_busy(done.code)) {
      collect(1);
    }
  } while (is_busy(done.code) && monotonic_ns() - begin_ns < kTryNs);
  if (done.code == HICACHE_OK) {
    loaded = done.page_count;
    bytes_.loaded_bytes += done.bytes;
    bytes_.pages_from_l2 += done.pages_from_l2;
    bytes_.pages_from_l3 += done.pages_from_l3;
  }
  HC_CHECK(loaded <= pages.size());
  return is_miss(done.code) ? HICACHE_OK : done.code;
}

hicache_code ReloadClient::try_store(std::span<const hicache_page> path, std::size_t first,
                                     std::uint64_t& store) {
  hicache_op op{};
  op.deadline_ms = kOpMs;
  op.user_data = kStoreTag | next_tag_++;
  region_->prepare(op);
  const hicache_code code =
      hicache_group_store(group_, &op, path.data(), path.size(), first, &store);
  return code == HICACHE_OK && store == 0 ? end_of(op.user_data) : code;
}

hicache_code ReloadClient::try_plain_store(std::span<const hicache_page> pages) {
  hicache_op op{};
  op.deadline_ms = kOpMs;
  op.user_data = kOwnTag | next_tag_++;
  region_->prepare(op);
  std::uint64_t op_id = 0;
  const hicache_code code =
      hicache_store(client_.handle(), &op, pages.data(), pages.size(), &op_id);
  return code == HICACHE_OK ? end_of(op.user_data) : code;
}

hicache_code ReloadClient::end_of(std::uint64_t tag) {
  hicache_completion done{};
  const hicache_code code = await_own(tag, done);
  return code == HICACHE_OK ? done.code : code;
}

hicache_code ReloadClient::store(std::span<const hicache_page> path, std::size_t first,
                                 std::uint64_t& store) {
  const std::uint64_t begin_ns = monotonic_ns();
  hicache_code code = try_store(path, first, store);
  // Without a lease: the daemon may have no room just now. That is tried with this rank's client
  // alone: the group has counted its store.
  while (is_busy(code) && monotonic_ns() - begin_ns < kTryNs) {
    collect(1);
    code = try_plain_store(path.subspan(first));
  }
  if (code == HICACHE_OK || code == HICACHE_NOT_DURABLE) {
    return HICACHE_OK;
  }
  ++totals_.stores_refused;
  return is_miss(code) ? HICACHE_OK : code;
}

hicache_code ReloadClient::await_stores() {
  const std::uint64_t begin_ns = monotonic_ns();
  while (stats().stores_in_flight != 0) {
    if (monotonic_ns() - begin_ns > kHangNs) {
      return HICACHE_PROTOCOL;
    }
    deliver_due(true);
    collect(kWaitMs);
  }
  return HICACHE_OK;
}

}  // namespace hc
