// SPDX-License-Identifier: Apache-2.0
// reload_report: adds up, judges, and prints.
#include "client/ctl/reload_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "client/ctl/amount.h"
#include "client/ctl/engine_bus.h"
#include "client/ctl/monotonic.h"

namespace hc {

namespace {

using nlohmann::json;

constexpr double kModelGapMax = 0.005;
constexpr std::uint64_t kAdmitTicksMax = 1;
constexpr std::uint64_t kLearnedNsMax = kNsPerSecond;

constexpr std::array<const char*, 8> kDeclineNames{
    "none", "empty", "duplicate", "too_short", "anchor", "quota", "full", "apart"};
constexpr std::array<const char*, 8> kRecomputeNames{
    "too_short", "unsteady", "no_room", "anchor", "failed", "expired", "diverged", "other"};

double in_seconds(std::uint64_t elapsed_ns) { return static_cast<double>(elapsed_ns) / 1e9; }

using Counts = std::array<std::uint64_t, 8>;
using Names = std::array<const char*, 8>;

std::uint64_t sum_of(const Counts& counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) {
    sum += count;
  }
  return sum;
}

json reasons_json(const Counts& counts, const Names& names) {
  json out = json::object();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) {
      out[names[i]] = counts[i];
    }
  }
  return out;
}

std::string reasons_text(const Counts& counts, const Names& names) {
  std::string out = format_count(sum_of(counts));
  const char* separator = ": ";
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) {
      out += separator + std::string(names[i]) + " " + format_count(counts[i]);
      separator = ", ";
    }
  }
  return out;
}

void add_totals(ReloadTotals& all, const ReloadTotals& rank) {
  for (const auto member :
       {&ReloadTotals::load_misses, &ReloadTotals::loaded_pages, &ReloadTotals::bytes_reloaded,
        &ReloadTotals::region_bytes_of_reloads, &ReloadTotals::reads_failed,
        &ReloadTotals::acks_delayed, &ReloadTotals::stores_refused, &ReloadTotals::hook_calls,
        &ReloadTotals::joins, &ReloadTotals::joins_failed}) {
    all.*member += rank.*member;
  }
  all.agreement = rank.agreement;
  all.is_apart = std::max(all.is_apart, rank.is_apart);
}

// Who waited for another request's reload has no answer of its own, and is admitted with it.
void time_admits(const RankSetup& setup, ReloadReport& report) {
  const ReloadBoards& boards = setup.reload->boards;
  const auto admitted = boards.admitted();
  for (std::size_t request = 0; request < admitted.size(); ++request) {
    std::uint64_t last = 0;
    bool is_complete = admitted[request] != 0;
    for (std::uint32_t rank = 0; rank < setup.plan.ranks; ++rank) {
      const std::uint64_t tick = boards.acked(rank)[request];
      is_complete = is_complete && tick != 0;
      last = std::max(last, tick);
    }
    if (is_complete && last <= admitted[request]) {
      ++report.admits_timed;
      report.admit_ticks_max = std::max(report.admit_ticks_max, admitted[request] - last);
    }
  }
}

bool is_quiet(const ReloadReport& report) {
  return !report.plan.chaos.any() && report.outcome.restarts == 0;
}

}  // namespace

void gather(const RankSetup& setup, ReloadReport& report) {
  const ReloadBoards& boards = setup.reload->boards;
  const auto& living = report.outcome.living;
  HC_CHECK(!living.empty());
  report.uniform = boards.totals(living.front()).uniform;
  for (const std::uint32_t rank : living) {
    const ReloadTotals& totals = boards.totals(rank);
    report.is_uniform = report.is_uniform && totals.uniform == report.uniform;
    add_totals(report.totals, totals);
    add_rank(report.bench, setup.boards.totals(rank));
    report.learned_ns_max = std::max(report.learned_ns_max, totals.learned_ns);
    report.survivors_told += totals.learned_ns != 0 ? 1U : 0U;
  }
  time_admits(setup, report);
  ReloadModel model(setup.trace, setup.plan.l3_blocks, report.plan.pages_min);
  report.model = model.replay(boards.events());
}

double reload_hit_ratio(const ReloadReport& report) {
  const UniformTotals& all = report.uniform;
  return ratio_of(all.pages_l1 + all.pages_l2 + all.pages_reload, all.pages_referenced);
}

double reload_model_ratio(const ReloadReport& report) {
  return ratio_of(report.model.model_hit_pages, report.model.referenced_pages);
}

std::vector<std::string> faults_of(const ReloadReport& report) {
  std::vector<std::string> faults;
  const auto judge = [&](bool is_fault, const std::string& text) {
    if (is_fault) {
      faults.push_back(text);
    }
  };
  const double gap = std::abs(reload_hit_ratio(report) - reload_model_ratio(report));
  const bool has_killed = report.outcome.living.size() < report.bench.plan.ranks;
  const LeftBehind& left = report.outcome.left;
  judge(report.bench.totals.wrong_bytes != 0, "wrong bytes");
  judge(report.uniform.divergences != 0, "the ranks diverged");
  judge(!report.is_uniform, "the ranks counted differently");
  judge(left.leases != 0, format_count(left.leases) + " leases are left");
  judge(left.leased_frames != 0, format_count(left.leased_frames) + " leased frames are left");
  judge(report.admit_ticks_max > kAdmitTicksMax,
        "an admit came " + format_count(report.admit_ticks_max) + " ticks after its last answer");
  judge(report.totals.region_bytes_of_reloads != 0, "reloads wrote into the ranks' memory");
  judge(is_quiet(report) && report.uniform.reduces_idle != 0, "reduces with nothing open");
  judge(is_quiet(report) && gap > kModelGapMax, "the model hits otherwise");
  judge(has_killed && report.survivors_told < report.outcome.living.size(),
        "a killed rank was not noticed");
  judge(report.learned_ns_max > kLearnedNsMax, "a killed rank was noticed late");
  judge(report.plan.chaos.kill.has_value() && !has_killed, "no rank was killed");
  return faults;
}

int exit_status(const ReloadReport& report) { return faults_of(report).empty() ? 0 : 1; }

namespace {

json reload_setup_json(const ReloadReport& report) {
  json setup = setup_json(report.bench);
  setup.update({{"agreement", agreement_name(report.totals.agreement)},
                {"l1_pages", report.plan.l1_pages},
                {"quota_pages", report.plan.quota_pages},
                {"concurrency", report.plan.concurrency},
                {"rate", report.plan.rate},
                {"time_scale", report.plan.time_scale},
                {"ttl_ms", report.plan.ttl_ms},
                {"pages_min", report.plan.pages_min},
                {"chaos", report.plan.chaos.text()},
                {"seed", report.plan.seed}});
  return setup;
}

// What is the same on all ranks.
json uniform_json(const UniformTotals& all) {
  return {{"requests", all.requests},
          {"aborts", all.aborts},
          {"pages_referenced", all.pages_referenced},
          {"pages_l1", all.pages_l1},
          {"pages_l2", all.pages_l2},
          {"pages_reload", all.pages_reload},
          {"pages_computed", all.pages_computed},
          {"held", all.held},
          {"admitted", all.admitted},
          {"declined", reasons_json(all.declined, kDeclineNames)},
          {"recomputed", reasons_json(all.recomputed, kRecomputeNames)},
          {"divergences", all.divergences},
          {"ticks", all.ticks},
          {"reduces", all.reduces},
          {"reduces_idle", all.reduces_idle},
          {"stores", all.stores},
          {"stores_durable", all.stores_durable},
          {"stores_lost", all.stores_lost},
          {"stores_unleased", all.stores_unleased},
          {"l2_drops", all.l2_drops},
          {"l1_pages_over", all.l1_pages_over}};
}

// Sums over the ranks that lived.
json sums_json(const ReloadReport& report) {
  const ReloadTotals& totals = report.totals;
  const RankTotals& bytes = report.bench.totals;
  return {{"wrong_bytes", bytes.wrong_bytes},
          {"checked_bytes", bytes.checked_bytes},
          {"bytes_reloaded", totals.bytes_reloaded},
          {"loaded_pages", totals.loaded_pages},
          {"loaded_bytes", bytes.loaded_bytes},
          {"load_misses", totals.load_misses},
          {"reload_region_bytes", totals.region_bytes_of_reloads},
          {"stores_refused", totals.stores_refused},
          {"hook_calls", totals.hook_calls},
          {"joins", totals.joins},
          {"joins_failed", totals.joins_failed},
          {"reads_failed_on_purpose", totals.reads_failed},
          {"acks_delayed", totals.acks_delayed}};
}

}  // namespace

json report_json(const ReloadReport& report) {
  json out = {{"setup", reload_setup_json(report)},
              {"exit_status", exit_status(report)},
              {"faults", faults_of(report)},
              {"hit_ratio", reload_hit_ratio(report)},
              {"model_hit_ratio", reload_model_ratio(report)},
              {"ranks_equal", report.is_uniform},
              {"ranks_living", report.outcome.living.size()},
              {"leases_left", report.outcome.left.leases},
              {"leased_frames_left", report.outcome.left.leased_frames},
              {"admit_ticks_max", report.admit_ticks_max},
              {"admits_timed", report.admits_timed},
              {"learned_seconds_max", in_seconds(report.learned_ns_max)},
              {"survivors_told", report.survivors_told},
              {"restarts", report.outcome.restarts},
              {"restart_seconds", in_seconds(report.outcome.restart_ns)},
              {"seconds", in_seconds(report.outcome.elapsed_ns)}};
  out.update(uniform_json(report.uniform));
  out.update(sums_json(report));
  if (report.bench.totals.wrong_bytes != 0) {
    out["first_wrong"] = first_wrong_json(report.bench.totals.first_wrong);
  }
  return out;
}

namespace {

Pairs reload_setup_pairs(const ReloadReport& report) {
  const ReloadPlan& plan = report.plan;
  Pairs pairs = setup_pairs(report.bench);
  std::string arrivals = format_count(plan.concurrency) + " at the same time";
  if (plan.rate > 0) {
    arrivals = format_ratio(plan.rate) + " a second";
  } else if (plan.time_scale > 0) {
    arrivals = "at their times, " + format_ratio(plan.time_scale) + " times as fast";
  }
  pairs.emplace_back("L1, quota", format_count(plan.l1_pages) + " pages, " +
                                      format_count(plan.quota_pages) + " pages");
  pairs.emplace_back("agreement", agreement_name(report.totals.agreement));
  pairs.emplace_back("requests come", arrivals);
  pairs.emplace_back("chaos", plan.chaos.text() + ", seed " + std::to_string(plan.seed));
  return pairs;
}

Pairs reload_pairs(const ReloadReport& report) {
  const UniformTotals& all = report.uniform;
  const ReloadTotals& totals = report.totals;
  return {{"requests", format_count(all.requests) + " in " +
                           format_seconds(in_seconds(report.outcome.elapsed_ns)) + ", " +
                           format_count(all.aborts) + " aborted"},
          {"pages from L1", format_count(all.pages_l1)},
          {"  from L2", format_count(all.pages_l2)},
          {"  reloaded", format_count(all.pages_reload)},
          {"  computed", format_count(all.pages_computed)},
          {"hit ratio", format_ratio(reload_hit_ratio(report)) + " of " +
                            format_count(all.pages_referenced) + " pages; LRU model " +
                            format_ratio(reload_model_ratio(report))},
          {"held, admitted", format_count(all.held) + ", " + format_count(all.admitted)},
          {"declined", reasons_text(all.declined, kDeclineNames)},
          {"recomputed", reasons_text(all.recomputed, kRecomputeNames)},
          {"last answer to admit", format_count(report.admit_ticks_max) + " ticks at most, of " +
                                       format_count(report.admits_timed)},
          {"ticks, reduces", format_count(all.ticks) + ", " + format_count(all.reduces) + "; " +
                                 format_count(all.reduces_idle) + " with nothing open"},
          {"divergences", format_count(all.divergences)},
          {"reloaded from disk", format_bytes(totals.bytes_reloaded)},
          {"  into ranks' memory", format_count(totals.region_bytes_of_reloads) + " bytes"},
          {"loaded from L2", format_count(totals.loaded_pages) + " pages, " +
                                 format_bytes(report.bench.totals.loaded_bytes) + ", " +
                                 format_count(totals.load_misses) + " missed"},
          {"stores", format_count(all.stores) + ", " + format_count(all.stores_lost) + " lost, " +
                         format_count(all.stores_unleased) + " without lease"},
          {"wrong bytes", format_count(report.bench.totals.wrong_bytes) + " of " +
                              format_count(report.bench.totals.checked_bytes) + " compared"},
          {"left behind", format_count(report.outcome.left.leases) + " leases, " +
                              format_count(report.outcome.left.leased_frames) +
                              " leased frames"}};
}

Pairs chaos_pairs(const ReloadReport& report) {
  Pairs pairs;
  const ReloadTotals& totals = report.totals;
  if (totals.reads_failed + totals.acks_delayed != 0) {
    pairs.emplace_back("reads failed, acks slow",
                       format_count(totals.reads_failed) + ", " +
                           format_count(totals.acks_delayed));
  }
  if (report.outcome.restarts != 0) {
    pairs.emplace_back("daemon restarts",
                       format_count(report.outcome.restarts) + " in " +
                           format_seconds(in_seconds(report.outcome.restart_ns)));
  }
  if (report.outcome.living.size() < report.bench.plan.ranks) {
    pairs.emplace_back("death of a rank noticed after",
                       format_nanoseconds(report.learned_ns_max) + " at most, by " +
                           format_count(report.survivors_told) + " of " +
                           format_count(report.outcome.living.size()));
  }
  if (report.bench.totals.wrong_bytes != 0) {
    pairs.emplace_back("first wrong byte", first_wrong_text(report.bench.totals.first_wrong));
  }
  for (const std::string& fault : faults_of(report)) {
    pairs.emplace_back("FAULT", fault);
  }
  return pairs;
}

}  // namespace

std::string report_text(const ReloadReport& report) {
  Pairs pairs = reload_pairs(report);
  for (auto& pair : chaos_pairs(report)) {
    pairs.push_back(std::move(pair));
  }
  return render_pairs("Setup", reload_setup_pairs(report)) + "\n" + render_pairs("Result", pairs);
}

}  // namespace hc
