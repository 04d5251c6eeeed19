// SPDX-License-Identifier: Apache-2.0
// reload_plan: option by option; what was not given follows from the trace and the tiers.
#include "client/ctl/reload_plan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "client/ctl/amount.h"
#include "proto/budget.h"

namespace hc {

namespace {

constexpr std::uint64_t kConcurrencyDefault = 8;
constexpr std::uint64_t kRowsWanted = 4096;
constexpr std::uint64_t kRowsBytes = 256ULL << 20;
constexpr std::uint64_t kPagesLimit = 1U << 24;
constexpr double kSpeedMax = 1e9;

struct AgreementWord {
  const char* name;
  std::uint32_t agreement;
};
constexpr std::array<AgreementWord, 4> kAgreementWords{{{"auto", HICACHE_AGREE_AUTO},
                                                        {"shm", HICACHE_AGREE_SHM},
                                                        {"nccl", HICACHE_AGREE_NCCL},
                                                        {"hook", HICACHE_AGREE_HOOK}}};

Error refuse_option(std::string text) { return make_error(Code::bad_argument, std::move(text)); }

Result<std::uint64_t> number_or(const char* field, std::uint64_t given, std::uint64_t otherwise,
                                Range range) {
  return given == 0 ? Result<std::uint64_t>(otherwise)
                    : parse_count(field, std::to_string(given), range);
}

Result<void> plan_agreement(const ReloadOptions& options, ReloadPlan& plan) {
  const auto word =
      std::find_if(kAgreementWords.begin(), kAgreementWords.end(),
                   [&](const AgreementWord& at) { return options.agreement == at.name; });
  if (word == kAgreementWords.end()) {
    return refuse_option("--agreement: \"" + options.agreement +
                         "\" is not allowed; auto, shm, hook or nccl");
  }
  plan.agreement = word->agreement;
  return {};
}

// Three quarters of L2, so that the daemon has room for what is on its way.
std::uint64_t usual_quota(const BenchPlan& bench) {
  const std::uint64_t per_page = l2_pages_of_quota(bench.space, 0, 1);
  return std::max<std::uint64_t>(1, bench.l2_blocks * 3 / 4 / std::max<std::uint64_t>(1, per_page));
}

Result<void> plan_pages(const ReloadOptions& options, const Trace& trace, BenchPlan& bench,
                        ReloadPlan& plan) {
  const std::uint64_t longest = trace.longest_request();
  auto l1 = number_or("--l1", options.l1_pages, 2 * longest, {1, kPagesLimit});
  HC_TRY(l1);
  if (*l1 < longest) {
    return refuse_option("--l1: " + std::to_string(*l1) +
                         " is not allowed; the longest request has " + std::to_string(longest) +
                         " pages");
  }
  auto quota = number_or("--quota", options.quota_pages, usual_quota(bench), {1, kPagesLimit});
  HC_TRY(quota);
  auto least = number_or("--pages-min", options.pages_min, 1, {1, kPagesPerOpMax});
  HC_TRY(least);
  plan.l1_pages = static_cast<std::uint32_t>(*l1);
  plan.quota_pages = *quota;
  plan.quota_bytes = *quota * quota_page_bytes(bench.space);
  plan.pages_min = static_cast<std::uint32_t>(*least);
  plan.store_pages = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(*quota / 2, 1, kPagesPerOpMax));
  plan.unsettled_pages_max =
      std::max<std::uint64_t>(1, *quota * quota_owners(bench.space) / 2);
  std::uint64_t row_bytes = 0;
  for (const KindSpec& kind : bench.space.kinds) {
    row_bytes += kind.payload_bytes;
  }
  // Row 0 is nobody's; stores keep their rows until they are settled.
  const std::uint64_t rows =
      std::max(2 * longest + 1, std::min(kRowsBytes / row_bytes, kRowsWanted));
  bench.region_rows = static_cast<std::uint32_t>(rows);
  return {};
}

Result<void> check_speed(const char* field, double value) {
  if (!std::isfinite(value) || value < 0 || value > kSpeedMax) {
    return refuse_option(std::string(field) + ": " + std::to_string(value) +
                         " is not allowed; more than 0, at most 1e9");
  }
  return {};
}

Result<void> plan_arrivals(const ReloadOptions& options, ReloadPlan& plan) {
  HC_TRY_VOID(check_speed("--rate", options.rate));
  HC_TRY_VOID(check_speed("--time-scale", options.time_scale));
  const int ways = (options.rate > 0 ? 1 : 0) + (options.time_scale > 0 ? 1 : 0) +
                   (options.concurrency > 0 ? 1 : 0);
  if (ways > 1) {
    return refuse_option("--rate, --time-scale, --concurrency: at most one of them is allowed");
  }
  plan.rate = options.rate;
  plan.time_scale = options.time_scale;
  if (options.rate > 0 || options.time_scale > 0) {
    return {};
  }
  auto concurrency = number_or("--concurrency", options.concurrency, kConcurrencyDefault,
                               {1, 1024});
  HC_TRY(concurrency);
  plan.concurrency = *concurrency;
  return {};
}

}  // namespace

const char* agreement_name(std::uint32_t agreement) {
  const auto word =
      std::find_if(kAgreementWords.begin(), kAgreementWords.end(),
                   [&](const AgreementWord& at) { return at.agreement == agreement; });
  return word == kAgreementWords.end() ? "unknown" : word->name;
}

Result<ReloadPlan> make_reload_plan(const BenchOptions& options, const Trace& trace,
                                    BenchPlan& bench) {
  if (!options.client_socket.empty()) {
    return refuse_option("--socket: is not allowed with --reload; a private daemon is asked what "
                         "was left behind");
  }
  ReloadPlan plan;
  HC_TRY_VOID(plan_agreement(options.reload, plan));
  HC_TRY_VOID(plan_pages(options.reload, trace, bench, plan));
  HC_TRY_VOID(plan_arrivals(options.reload, plan));
  auto ttl = number_or("--ttl-ms", options.reload.ttl_ms, 0, {1, kDeadlineMsMax});
  HC_TRY(ttl);
  plan.ttl_ms = static_cast<std::uint32_t>(*ttl);
  plan.seed = options.reload.seed;
  auto chaos = parse_chaos(options.reload.chaos, bench.ranks);
  HC_TRY(chaos);
  plan.chaos = *chaos;
  if (plan.chaos.restart && bench.restart_at.empty()) {
    bench.restart_at.push_back(std::max<std::uint64_t>(1, trace.request_count() / 2));
  }
  return plan;
}

}  // namespace hc
