// SPDX-License-Identifier: Apache-2.0
// micro_client: attach, submit, wait.
#include "client/ctl/micro_client.h"

#include <algorithm>

#include "client/ctl/monotonic.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::uint32_t kAttachMs = 60'000;
constexpr std::uint32_t kDeadlineMs = 600'000;  // what is slow is a figure, not a failure
constexpr std::uint32_t kPumpWaitMs = 1000;
constexpr std::uint64_t kNothingMovedNs = 120 * kNsPerSecond;

std::uint64_t mixed(std::uint64_t number) {  // splitmix64
  number += 0x9E3779B97F4A7C15U;
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9U;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBU;
  return number ^ (number >> 31);
}

hicache_op op_of(const MicroFlow& flow) {
  hicache_op op{};
  op.deadline_ms = kDeadlineMs;
  op.ack = flow.ack;
  return op;
}

}  // namespace

MicroKey micro_key(std::uint64_t number) {
  MicroKey key;
  for (std::size_t word = 0; word < key.size() / 8; ++word) {
    std::uint64_t bits = mixed(number * 4 + word);
    for (std::size_t i = 0; i < 8; ++i, bits >>= 8) {
      key[word * 8 + i] = static_cast<std::uint8_t>(bits);
    }
  }
  return key;
}

SpaceDescriptor micro_space(std::uint32_t payload_bytes, bool trailing) {
  SpaceDescriptor space;
  space.model = "bench-micro";
  space.dtype = "bytes";
  space.layout = "rows";
  space.hash_scheme = "numbered";
  space.page_tokens = 64;
  KindSpec kind;
  kind.name = "kv";
  kind.payload_bytes = payload_bytes;
  kind.placement = Placement::sharded;
  kind.policy = trailing ? HitPolicy::trailing : HitPolicy::all_pages;
  kind.trailing_pages = trailing ? kPagesPerOpMax : 0;
  space.kinds.push_back(kind);
  return space;
}

Error client_error(const char* call, hicache_code code) {
  return make_error(Code::io_error, std::string(call) + ": " + hicache_code_name(code) + ": " +
                                        hicache_last_error());
}

Result<std::unique_ptr<MicroClient>> MicroClient::open(const std::string& socket,
                                                       const SpaceDescriptor& space,
                                                       const RankRegion::Shape& shape) {
  std::unique_ptr<MicroClient> out(new MicroClient(shape.rows));
  auto region = RankRegion::make(space, shape);
  HC_TRY(region);
  out->region_ = std::make_unique<RankRegion>(std::move(*region));
  for (std::uint32_t row = 0; row < shape.rows; ++row) {
    out->region_->fill(row, {row, 0, 0});
  }
  const bool copies_itself = shape.transfer == HICACHE_TRANSFER_RANK;
  HC_TRY_VOID(out->attach(socket, space, copies_itself ? HICACHE_OPEN_RANK_COPIES : 0));
  return out;
}

Result<void> MicroClient::attach(const std::string& socket, const SpaceDescriptor& space,
                                 std::uint32_t flags) {
  const KindSpec& spec = space.kinds.front();
  hicache_kind kind{};
  kind.name = spec.name.c_str();
  kind.payload_bytes = spec.payload_bytes;
  kind.placement = static_cast<std::uint8_t>(spec.placement);
  kind.policy = static_cast<std::uint8_t>(spec.policy);
  kind.trailing_pages = spec.trailing_pages;
  hicache_space wanted{};
  wanted.model = space.model.c_str();
  wanted.dtype = space.dtype.c_str();
  wanted.layout = space.layout.c_str();
  wanted.hash_scheme = space.hash_scheme.c_str();
  wanted.page_tokens = space.page_tokens;
  wanted.tensor_size = 1;
  wanted.pipeline_size = 1;
  wanted.context_size = 1;
  wanted.kinds = &kind;
  wanted.kind_count = 1;
  hicache_options options{};
  options.struct_bytes = sizeof options;
  options.abi_version = HICACHE_ABI_VERSION;
  options.socket_path = socket.c_str();
  options.group = "micro";
  options.world = 1;
  options.flags = flags;
  options.attach_timeout_ms = kAttachMs;
  if (const auto code = hicache_open(&options, &wanted, &client_); code != HICACHE_OK) {
    return client_error("hicache_open", code);
  }
  const auto code = region_->attach(client_, 0, kAttachMs);
  return code == HICACHE_OK ? Result<void>() : client_error("hicache_register_region", code);
}

MicroClient::~MicroClient() {
  if (client_ != nullptr) {
    static_cast<void>(hicache_close(client_, kAttachMs));
  }
}

Result<bool> MicroClient::submit(const MicroFlow& flow, std::uint64_t at) {
  const auto count = static_cast<std::size_t>(
      std::min<std::uint64_t>(flow.pages_per_op, flow.count - at));
  std::vector<MicroKey> keys(count);
  std::vector<hicache_page> pages(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t number = flow.page(at + i);
    keys[i] = micro_key(number);
    pages[i].key = keys[i].data();
    pages[i].key_bytes = static_cast<std::uint32_t>(keys[i].size());
    pages[i].row = static_cast<std::uint32_t>((at + i) % rows_);
  }
  hicache_op op = op_of(flow);
  op.user_data = at;
  if (flow.verb != HICACHE_VERB_FREE) {
    region_->prepare(op);
  }
  std::uint64_t id = 0;
  hicache_code code = HICACHE_UNSUPPORTED;
  switch (flow.verb) {
    case HICACHE_VERB_STORE: code = hicache_store(client_, &op, pages.data(), count, &id); break;
    case HICACHE_VERB_RELOAD: code = hicache_reload(client_, &op, pages.data(), count, &id); break;
    case HICACHE_VERB_FREE:
      code = hicache_free_object(client_, &op, pages.data(), count, &id);
      break;
    case HICACHE_VERB_LOAD: code = hicache_load(client_, &op, pages.data(), count, &id); break;
    default: break;
  }
  if (code == HICACHE_BUSY) {
    return false;
  }
  if (code != HICACHE_OK) {
    return client_error("submit", code);
  }
  ++in_flight_;
  return true;
}

Result<void> MicroClient::take(const hicache_completion& done, MicroTotals& totals) {
  if (done.terminal == 0) {
    return {};
  }
  --in_flight_;
  if (done.code == HICACHE_BUSY && done.verb != HICACHE_VERB_RELEASE) {
    repeats_.push_back(done.user_data);
    return {};
  }
  if (done.code != HICACHE_OK) {
    return make_error(Code::io_error, "an operation of verb " + std::to_string(done.verb) +
                                          " ended with " + hicache_code_name(done.code));
  }
  if (done.verb != HICACHE_VERB_RELEASE) {
    totals.pages += done.page_count;
    totals.pages_from_l3 += done.pages_from_l3;
  }
  if (done.lease != 0) {
    leases_.push_back(done.lease);
  }
  return {};
}

Result<void> MicroClient::pump(std::uint32_t timeout_ms, MicroTotals& totals) {
  std::array<hicache_completion, 64> completions;
  std::size_t count = 0;
  const auto code =
      hicache_wait(client_, completions.data(), completions.size(), timeout_ms, &count);
  if (code != HICACHE_OK && code != HICACHE_TIMED_OUT) {
    return client_error("hicache_wait", code);
  }
  for (std::size_t i = 0; i < count; ++i) {
    HC_TRY_VOID(take(completions[i], totals));
  }
  MicroFlow release;
  const hicache_op op = op_of(release);
  while (!leases_.empty()) {
    std::uint64_t id = 0;
    const auto released = hicache_release(client_, &op, leases_.back(), &id);
    if (released == HICACHE_BUSY) {
      break;  // with the next completions
    }
    if (released != HICACHE_OK) {
      return client_error("hicache_release", released);
    }
    leases_.pop_back();
    ++in_flight_;
  }
  return {};
}

Result<MicroTotals> MicroClient::run(const MicroFlow& flow) {
  MicroTotals totals;
  const std::uint64_t begin_ns = monotonic_ns();
  std::uint64_t moved_ns = begin_ns;
  std::uint64_t next = 0;
  while (next < flow.count || in_flight_ > 0 || !leases_.empty() || !repeats_.empty()) {
    while ((next < flow.count || !repeats_.empty()) && in_flight_ < flow.ops_max) {
      const bool repeat = !repeats_.empty();
      auto submitted = submit(flow, repeat ? repeats_.back() : next);
      HC_TRY(submitted);
      if (!*submitted) {
        break;
      }
      if (repeat) {
        repeats_.pop_back();
      } else {
        next += flow.pages_per_op;
      }
    }
    const std::uint64_t pages = totals.pages;
    HC_TRY_VOID(pump(kPumpWaitMs, totals));
    const std::uint64_t now_ns = monotonic_ns();
    moved_ns = totals.pages != pages ? now_ns : moved_ns;
    if (now_ns - moved_ns > kNothingMovedNs) {
      return make_error(Code::timed_out, "nothing has moved for 120 s");
    }
  }
  totals.elapsed_ns = monotonic_ns() - begin_ns;
  return totals;
}

Result<void> MicroClient::flush() {
  const hicache_op op = op_of(MicroFlow{});
  std::uint64_t id = 0;
  if (const auto code = hicache_flush(client_, &op, &id); code != HICACHE_OK) {
    return client_error("hicache_flush", code);
  }
  ++in_flight_;
  MicroTotals ignored;
  while (in_flight_ > 0) {
    HC_TRY_VOID(pump(kPumpWaitMs, ignored));
  }
  return {};
}

}  // namespace hc
