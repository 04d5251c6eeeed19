// SPDX-License-Identifier: Apache-2.0
// rank: pages, operations and their completions.
#include "e2e/rank.h"

#include <cstring>
#include <functional>
#include <utility>

#include "e2e/process.h"
#include "proto/budget.h"
#include "proto/check.h"

namespace hc::test {

namespace {

constexpr std::uint32_t kRuns = 3;
constexpr std::uint32_t kWaitMs = 40'000;  // longer than any operation of a rank may take

std::uint64_t mix(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
  return word ^ (word >> 31);
}

hicache_op op_of(std::uint8_t ack, std::uint32_t flags) {
  hicache_op op{};
  op.deadline_ms = Rank::kDeadlineMs;
  op.ack = ack;
  op.flags = flags;
  return op;
}

hicache_completion ended_with(hicache_code code) {
  hicache_completion completion{};
  completion.code = code;
  completion.terminal = 1;
  return completion;
}

}  // namespace

SpaceDescriptor make_space(const RankOptions& options) {
  SpaceDescriptor space;
  space.model = "test-model";
  space.weight_version = options.weight_version;
  space.hash_scheme = "sglang-sha256-v1";
  space.page_tokens = 64;
  space.world.tensor = options.world;
  space.kinds = {{"kv", options.payload_bytes, Placement::sharded, HitPolicy::all_pages, 0}};
  return space;
}

std::array<std::uint8_t, 32> page_key(std::uint64_t page) {
  std::array<std::uint8_t, 32> key{};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint64_t word = mix(page * 4 + i + 1);
    std::memcpy(key.data() + 8 * i, &word, sizeof word);
  }
  return key;
}

Rank::Rank(RankOptions options) : options_(std::move(options)), space_(make_space(options_)) {}

Rank::~Rank() { close(); }

hicache_code Rank::open() {
  const KindSpec& spec = space_.kinds[0];
  hicache_kind kind{};
  kind.name = spec.name.c_str();
  kind.payload_bytes = spec.payload_bytes;
  kind.placement = HICACHE_SHARDED;
  hicache_space space{};
  space.model = space_.model.c_str();
  space.weight_version = space_.weight_version.c_str();
  space.hash_scheme = space_.hash_scheme.c_str();
  space.page_tokens = space_.page_tokens;
  space.tensor_size = options_.world;
  space.pipeline_size = 1;
  space.context_size = 1;
  space.kinds = &kind;
  space.kind_count = 1;
  hicache_options options{};
  options.struct_bytes = sizeof options;
  options.abi_version = HICACHE_ABI_VERSION;
  options.socket_path = options_.socket.c_str();
  options.group = options_.group.c_str();
  options.rank = options_.rank;
  options.world = options_.world;
  options.tensor_rank = options_.rank;
  options.attach_timeout_ms = options_.attach_timeout_ms;
  options.flags = options_.open_flags;
  options.quota_bytes = std::uint64_t{options_.quota_pages} * quota_page_bytes(space_);
  if (const hicache_code code = hicache_open(&options, &space, &client_); code != HICACHE_OK) {
    return code;
  }
  auto region = RankRegion::make(space_, {.rows = options_.rows,
                                          .runs = kRuns,
                                          .device = options_.device,
                                          .rank = options_.rank,
                                          .transfer = options_.transfer});
  HC_CHECK(region.has_value());
  region_ = std::make_unique<RankRegion>(std::move(*region));
  return register_region();
}

hicache_code Rank::register_region() { return region_->attach(client_, 0, kDeadlineMs); }

hicache_code Rank::close(std::uint32_t timeout_ms) {
  return hicache_close(std::exchange(client_, nullptr), timeout_ms);
}

StreamKey Rank::stream_of(std::uint64_t page) const {
  const std::uint64_t weights = std::hash<std::string>{}(options_.weight_version);
  return {page ^ mix(weights), options_.rank, 0};
}

std::vector<hicache_page> Rank::pages_of(const Keys& keys) const {
  keys_.clear();
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    keys_.push_back(page_key(keys.first + i));
  }
  std::vector<hicache_page> pages(keys.count);
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    pages[i].key = keys_[i].data();
    pages[i].key_bytes = 32;
    pages[i].row = keys.row + i;
  }
  return pages;
}

void Rank::fill_rows(const Keys& keys) {
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    region_->fill(keys.row + i, stream_of(keys.first + i));
  }
}

hicache_code Rank::submit(std::uint8_t verb, const Keys& keys, std::uint64_t& op_id,
                          std::uint8_t ack, std::uint32_t flags) {
  if (verb == HICACHE_VERB_STORE) {
    fill_rows(keys);
  }
  for (std::uint32_t i = 0; verb == HICACHE_VERB_LOAD && i < keys.count; ++i) {
    region_->spoil(keys.row + i, 0);
  }
  const std::vector<hicache_page> pages = pages_of(keys);
  hicache_op op = op_of(verb == HICACHE_VERB_STORE ? ack : std::uint8_t{0}, flags);
  op.deadline_ms = options_.deadline_ms;
  if (verb == HICACHE_VERB_STORE || verb == HICACHE_VERB_LOAD) {
    region_->prepare(op);
  }
  switch (verb) {
    case HICACHE_VERB_STORE:
      return hicache_store(client_, &op, pages.data(), pages.size(), &op_id);
    case HICACHE_VERB_RELOAD:
      return hicache_reload(client_, &op, pages.data(), pages.size(), &op_id);
    case HICACHE_VERB_LOAD:
      return hicache_load(client_, &op, pages.data(), pages.size(), &op_id);
    case HICACHE_VERB_PIN:
      return hicache_pin(client_, &op, pages.data(), pages.size(), &op_id);
    case HICACHE_VERB_FREE:
      return hicache_free_object(client_, &op, pages.data(), pages.size(), &op_id);
    default: return HICACHE_BAD_ARGUMENT;
  }
}

hicache_completion Rank::finish(std::uint64_t op_id) {
  const std::uint64_t end_ms = monotonic_ms() + kWaitMs;
  while (monotonic_ms() < end_ms) {
    if (const auto found = ended_.find(op_id); found != ended_.end()) {
      const hicache_completion completion = found->second;
      ended_.erase(found);
      return completion;
    }
    std::array<hicache_completion, 16> batch{};
    std::size_t count = 0;
    const hicache_code code =
        hicache_wait(client_, batch.data(), batch.size(), kWaitMs, &count);
    if (code != HICACHE_OK) {
      break;  // with or without a daemon, the terminal completion comes first
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (batch[i].terminal != 0) {
        ended_[batch[i].op_id] = batch[i];
      }
    }
  }
  return ended_with(kNeverEnded);
}

hicache_completion Rank::run(std::uint8_t verb, const Keys& keys, std::uint8_t ack,
                             std::uint32_t flags) {
  std::uint64_t op_id = 0;
  const hicache_code code = submit(verb, keys, op_id, ack, flags);
  return code == HICACHE_OK ? finish(op_id) : ended_with(code);
}

hicache_completion Rank::store(const Keys& keys, std::uint8_t ack) {
  return run(HICACHE_VERB_STORE, keys, ack);
}
hicache_completion Rank::load(const Keys& keys) { return run(HICACHE_VERB_LOAD, keys, 0); }
hicache_completion Rank::reload(const Keys& keys) { return run(HICACHE_VERB_RELOAD, keys, 0); }
hicache_completion Rank::pin(const Keys& keys) { return run(HICACHE_VERB_PIN, keys, 0); }
hicache_completion Rank::free_pages(const Keys& keys) { return run(HICACHE_VERB_FREE, keys, 0); }

hicache_completion Rank::release(std::uint64_t lease) {
  const hicache_op op = op_of(0, 0);
  std::uint64_t op_id = 0;
  const hicache_code code = hicache_release(client_, &op, lease, &op_id);
  return code == HICACHE_OK ? finish(op_id) : ended_with(code);
}

hicache_completion Rank::flush() {
  const hicache_op op = op_of(0, 0);
  std::uint64_t op_id = 0;
  const hicache_code code = hicache_flush(client_, &op, &op_id);
  return code == HICACHE_OK ? finish(op_id) : ended_with(code);
}

hicache_code Rank::switch_to(const std::string& weight_version, std::uint32_t timeout_ms) {
  const hicache_code code = hicache_space_switch(client_, weight_version.c_str(), timeout_ms);
  if (code == HICACHE_OK) {
    options_.weight_version = weight_version;
  }
  return code;
}

std::uint32_t Rank::present(const Keys& keys) const {
  const std::vector<hicache_page> pages = pages_of(keys);
  hicache_prefix prefix{};
  hicache_exists_prefix(client_, pages.data(), pages.size(), &prefix);
  return prefix.usable_pages;
}

std::uint64_t Rank::wrong_bytes(const Keys& keys) const {
  std::uint64_t wrong = 0;
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    wrong += region_->compare(keys.row + i, stream_of(keys.first + i)).wrong_bytes;
  }
  return wrong;
}

std::uint64_t Rank::wrong_bytes_in_lease(std::uint64_t lease, const Keys& keys) const {
  std::uint64_t wrong = 0;
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    hicache_view view{};
    if (hicache_lease_view(client_, lease, i, 0, &view) != HICACHE_OK) {
      continue;
    }
    const std::vector<std::uint8_t> copy(view.data, view.data + view.size_bytes);
    if (hicache_view_intact(client_, &view) != 0) {
      wrong += compare_stream(stream_of(keys.first + i), 0, copy).wrong_bytes;
    }
  }
  return wrong;
}

bool Rank::wait_serving() const {
  return eventually([this] { return hicache_state(client_) == HICACHE_OK; });
}

}  // namespace hc::test
