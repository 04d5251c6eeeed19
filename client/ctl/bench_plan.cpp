// SPDX-License-Identifier: Apache-2.0
// bench_plan: judges the options and computes budgets with the daemon's own arithmetic.
#include "client/ctl/bench_plan.h"

#include <algorithm>

#include "client/ctl/amount.h"
#include "client/ctl/synthetic.h"
#include "proto/budget.h"

namespace hc {

namespace {

constexpr std::uint64_t kReserveSlotsDefault = 2048;
constexpr std::uint64_t kReserveSlotsLeast = 16;
constexpr std::uint64_t kReserveBytesDefault = 2ULL << 30;
constexpr std::uint64_t kRegionBytes = 256ULL << 20;
constexpr std::uint64_t kRunsMax = 64;

Error bad(std::string text) { return make_error(Code::bad_argument, std::move(text)); }

Result<KindSpec> parse_kind(const std::string& item, Placement placement) {
  const std::size_t equals = item.find('=');
  if (equals == std::string::npos || equals == 0) {
    return bad("--kinds: \"" + item + "\" is not allowed; NAME=BYTES or NAME=BYTES:PLACEMENT");
  }
  KindSpec kind;
  kind.name = item.substr(0, equals);
  kind.placement = placement;
  std::string size = item.substr(equals + 1);
  const std::size_t colon = size.find(':');
  if (colon != std::string::npos) {
    auto named = parse_placement(size.substr(colon + 1));
    if (!named) {
      return bad("--kinds: " + kind.name + ": " + named.error().message());
    }
    kind.placement = *named;
    size.resize(colon);
  }
  auto bytes = parse_bytes("--kinds: " + kind.name, size);
  HC_TRY(bytes);
  if (*bytes == 0 || *bytes > kPayloadBytesMax) {
    return bad("--kinds: " + kind.name + ": " + size + " is not allowed; 1 byte to 64 MiB");
  }
  kind.payload_bytes = static_cast<std::uint32_t>(*bytes);
  return kind;
}

Result<std::uint64_t> check_number(const char* field, std::uint64_t value, Range range) {
  return parse_count(field, std::to_string(value), range);
}

Result<SpaceDescriptor> make_space(const BenchOptions& options) {
  auto placement = parse_placement(options.placement);
  if (!placement) {
    return bad("--placement: " + placement.error().message());
  }
  auto kinds = parse_kinds(options.kinds, *placement);
  HC_TRY(kinds);
  SpaceDescriptor space;
  space.tenant = "default";
  space.model = "cachectl-bench";
  space.dtype = "bytes";
  space.layout = "runs-" + std::to_string(options.runs);
  space.hash_scheme = "trace-id-sha256";
  space.page_tokens = static_cast<std::uint32_t>(options.block_tokens);
  space.world.tensor = static_cast<std::uint16_t>(options.ranks);
  space.kinds = std::move(*kinds);
  const auto valid = validate_space(space);
  if (!valid) {
    return bad("--kinds, --ranks: " + valid.error().message());
  }
  return space;
}

std::uint64_t slot_bytes_per_page(const SpaceDescriptor& space) {
  std::uint64_t total = 0;
  for (const PartBudget& part : slots_for_pages(space, 0, 1, 0)) {
    total += part.slot_bytes;
  }
  return total;
}

Result<void> plan_reserve(const BenchOptions& options, BenchPlan& plan) {
  const std::uint64_t page_bytes = slot_bytes_per_page(plan.space);
  const std::uint64_t fitting = kReserveBytesDefault / page_bytes;
  std::uint64_t slots = std::clamp(fitting, kReserveSlotsLeast, kReserveSlotsDefault);
  if (options.reserve != 0) {
    auto given = check_number("--reserve", options.reserve, {1, 1U << 24});
    HC_TRY(given);
    slots = *given;
  }
  plan.reserve_slots = static_cast<std::uint32_t>(slots);
  plan.reserve_bytes = slots * page_bytes;
  return {};
}

Result<void> plan_tiers(const BenchOptions& options, BenchPlan& plan) {
  auto l2 = parse_amount("--l2", options.l2);
  HC_TRY(l2);
  auto l3 = parse_amount("--l3", options.l3);
  HC_TRY(l3);
  const std::uint64_t frame_bytes = frame_bytes_per_page(plan.space, 0);
  if ((l2->in_blocks && l2->value > kPagesMax) || (l3->in_blocks && l3->value > kPagesMax)) {
    return bad("--l2, --l3: at most " + std::to_string(kPagesMax) + " blocks are allowed");
  }
  plan.l2_blocks = l2->in_blocks ? l2->value : l2->value / frame_bytes;
  plan.l2_bytes = l2->in_blocks ? l2->value * frame_bytes : l2->value;
  if (plan.l2_blocks == 0) {
    return bad("--l2: \"" + options.l2 + "\" is not allowed; one page takes " +
               format_bytes(frame_bytes));
  }
  plan.l3_blocks = l3->value;
  plan.l3_bytes = l3->value;
  if (l3->in_blocks) {
    plan.l3_bytes = slab_bytes(slots_for_pages(plan.space, 0, l3->value, plan.reserve_slots));
  } else {
    plan.l3_blocks = pages_for_slab_budget(plan.space, 0, l3->value, plan.reserve_slots);
  }
  if (plan.l3_blocks == 0) {
    return bad("--l3: \"" + options.l3 + "\" is not allowed; the reserve of " +
               std::to_string(plan.reserve_slots) + " pages alone takes " +
               format_bytes(plan.reserve_bytes) + "; see --reserve");
  }
  return {};
}

std::uint32_t region_rows_of(const SpaceDescriptor& space) {
  std::uint64_t row_bytes = 0;
  for (const KindSpec& kind : space.kinds) {
    row_bytes += kind.payload_bytes;
  }
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kRegionBytes / row_bytes, 1, kPagesPerOpMax));
}

Result<BenchDevice> parse_device(const std::string& name) {
  for (const BenchDevice device : {BenchDevice::host, BenchDevice::cuda, BenchDevice::cuda_chunks,
                                   BenchDevice::cuda_sealed}) {
    if (name == device_name(device)) {
      return device;
    }
  }
  return bad("--device: " + name + " is not allowed; host, cuda, cuda-chunks or cuda-sealed");
}

Result<std::uint32_t> parse_transfer(const std::string& word) {
  if (word == "auto") {
    return std::uint32_t{HICACHE_TRANSFER_AUTO};
  }
  if (word == "ipc") {
    return std::uint32_t{HICACHE_TRANSFER_IPC};
  }
  if (word == "rank") {
    return std::uint32_t{HICACHE_TRANSFER_RANK};
  }
  return bad("--transfer: " + word + " is not allowed; auto, ipc or rank");
}

Result<void> check_numbers(const BenchOptions& options) {
  auto ranks = check_number("--ranks", options.ranks, {1, kWorldMax});
  HC_TRY(ranks);
  auto tokens = check_number("--block-tokens", options.block_tokens, {1, kPageTokensMax});
  HC_TRY(tokens);
  auto runs = check_number("--runs", options.runs, {1, kRunsMax});
  HC_TRY(runs);
  auto interval = check_number("--commit-interval", options.commit_interval_ms, {10, 60000});
  HC_TRY(interval);
  return {};
}

}  // namespace

Result<std::vector<KindSpec>> parse_kinds(const std::string& text, Placement placement) {
  std::vector<KindSpec> kinds;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    auto kind = parse_kind(text.substr(begin, end - begin), placement);
    HC_TRY(kind);
    kinds.push_back(std::move(*kind));
    begin = end + 1;
  }
  return kinds;
}

Result<BenchPlan> make_plan(const BenchOptions& options) {
  HC_TRY_VOID(check_numbers(options));
  auto space = make_space(options);
  HC_TRY(space);
  BenchPlan plan;
  plan.space = std::move(*space);
  plan.ranks = static_cast<std::uint16_t>(options.ranks);
  plan.runs = static_cast<std::uint32_t>(options.runs);
  auto device = parse_device(options.device);
  HC_TRY(device);
  plan.device = *device;
  auto transfer = parse_transfer(options.transfer);
  HC_TRY(transfer);
  plan.transfer = *transfer;
  for (const KindSpec& kind : plan.space.kinds) {
    if (kind.payload_bytes < plan.runs) {
      return bad("--runs: " + std::to_string(plan.runs) + " is not allowed; kind " + kind.name +
                 " has " + std::to_string(kind.payload_bytes) + " bytes");
    }
  }
  HC_TRY_VOID(plan_reserve(options, plan));
  HC_TRY_VOID(plan_tiers(options, plan));
  plan.region_rows = region_rows_of(plan.space);
  plan.restart_at = options.restart_at;
  std::sort(plan.restart_at.begin(), plan.restart_at.end());
  plan.restart_at.erase(std::unique(plan.restart_at.begin(), plan.restart_at.end()),
                        plan.restart_at.end());
  if (!plan.restart_at.empty() && !options.client_socket.empty()) {
    return bad("--restart-at: is not allowed with --socket; only a private daemon is killed");
  }
  return plan;
}

Result<void> check_restarts(const BenchPlan& plan, const Trace& trace) {
  for (const std::uint64_t at : plan.restart_at) {
    if (at == 0 || at >= trace.request_count()) {
      return bad("--restart-at: " + std::to_string(at) + " is not allowed; a request from 1 to " +
                 std::to_string(trace.request_count() - 1));
    }
  }
  return {};
}

Result<Trace> make_trace(const BenchOptions& options) {
  if (options.trace_path.empty() == options.synthetic.empty()) {
    return bad("--trace, --synthetic: exactly one of them is needed");
  }
  if (!options.trace_path.empty()) {
    return read_trace(options.trace_path, options.requests);
  }
  auto wanted = parse_synthetic(options.synthetic);
  HC_TRY(wanted);
  auto trace = make_synthetic(*wanted, options.block_tokens, options.requests);
  HC_TRY(trace);
  if (!options.write_trace_path.empty()) {
    HC_TRY_VOID(write_trace(options.write_trace_path, *trace));
  }
  return trace;
}

}  // namespace hc
