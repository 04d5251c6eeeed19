// SPDX-License-Identifier: Apache-2.0
// bench_report: adds up, and prints.
#include "client/ctl/bench_report.h"

#include <array>
#include <nlohmann/json.hpp>

#include "client/ctl/amount.h"
#include "client/ctl/monotonic.h"
#include "client/ctl/render.h"

namespace hc {

namespace {

using nlohmann::json;

double seconds(std::uint64_t elapsed_ns) { return static_cast<double>(elapsed_ns) / 1e9; }

double moved_bytes_per_s(const BenchReport& report) {
  const double elapsed_s = seconds(report.counts.elapsed_ns);
  const double moved =
      static_cast<double>(report.totals.loaded_bytes + report.totals.stored_bytes);
  return elapsed_s > 0 ? moved / elapsed_s : 0.0;
}

struct VerbRow {
  const char* name;
  const char* title;
  LatencyHistogram RankTotals::* histogram;
};
constexpr std::array<VerbRow, 4> kVerbRows{{
    {"exists", "exists_prefix", &RankTotals::exists},
    {"load", "load", &RankTotals::load},
    {"store_resident", "store: resident", &RankTotals::store_resident},
    {"store_durable", "store: durable", &RankTotals::store_durable},
}};

json latency_json(const LatencyHistogram& histogram) {
  return {{"count", histogram.count()},
          {"p50_ns", histogram.percentile_ns(0.50)},
          {"p90_ns", histogram.percentile_ns(0.90)},
          {"p99_ns", histogram.percentile_ns(0.99)},
          {"max_ns", histogram.max_ns()}};
}

json kinds_json(const BenchReport& report) {
  json kinds = json::array();
  for (const KindSpec& kind : report.plan.space.kinds) {
    kinds.push_back({{"name", kind.name},
                     {"payload_bytes", kind.payload_bytes},
                     {"placement", placement_name(kind.placement)}});
  }
  return kinds;
}

json restarts_json(const BenchReport& report) {
  json restarts = json::array();
  for (const RestartCounts& restart : report.counts.restarts) {
    restarts.push_back({{"request", restart.request},
                        {"seconds", seconds(restart.restart_ns)},
                        {"acknowledged_pages", restart.acknowledged_pages},
                        {"pages_present", restart.pages_present},
                        {"lost_pages", restart.lost_pages}});
  }
  return restarts;
}

std::string kinds_text(const BenchReport& report) {
  std::string text;
  for (const KindSpec& kind : report.plan.space.kinds) {
    text += text.empty() ? "" : ", ";
    text += kind.name + " " + format_count(kind.payload_bytes) + " B " +
            placement_name(kind.placement);
  }
  return text;
}

std::string speed_text(double bytes_per_s) {
  return format_ratio(bytes_per_s / 1e9) + " GB/s";
}

Pairs result_pairs(const BenchReport& report) {
  const ReplayCounts& counts = report.counts;
  const RankTotals& totals = report.totals;
  Pairs pairs{
      {"requests", format_count(counts.requests) + " in " +
                       format_seconds(seconds(counts.elapsed_ns))},
      {"hit ratio", format_ratio(hit_ratio(report)) + " (" + format_count(counts.hit_blocks) +
                        " of " + format_count(counts.referenced_blocks) + " blocks)"},
      {"LRU model", format_ratio(model_hit_ratio(report)) + " (" +
                        format_count(counts.model_hit_blocks) + " blocks)"},
      {"page loads from L2", format_count(totals.pages_from_l2)},
      {"page loads from L3", format_count(totals.pages_from_l3)},
      {"loaded", format_bytes(totals.loaded_bytes) + ", " + speed_text(report.load_bytes_per_s)},
      {"stored", format_bytes(totals.stored_bytes) + ", " + speed_text(report.store_bytes_per_s)},
      {"moved over the whole time", speed_text(moved_bytes_per_s(report))},
      {"wrong bytes", format_count(totals.wrong_bytes) + " of " +
                          format_count(totals.checked_bytes) + " compared"},
      {"lost durable pages", format_count(counts.lost_durable_pages)},
      {"waits for operation slots", format_seconds(seconds(totals.throttled_ns))}};
  if (totals.wrong_bytes != 0) {
    pairs.emplace_back("first wrong byte", first_wrong_text(totals.first_wrong));
  }
  if (totals.retries + totals.late + totals.loads_short + totals.stores_refused +
          totals.stores_not_durable != 0) {
    pairs.emplace_back("unusual", format_count(totals.retries) + " retries, " +
                                      format_count(totals.late) + " late, " +
                                      format_count(totals.loads_short) + " loads short, " +
                                      format_count(totals.stores_refused) + " stores refused, " +
                                      format_count(totals.stores_not_durable) + " not durable");
  }
  for (const RestartCounts& restart : counts.restarts) {
    pairs.emplace_back("restart at " + format_count(restart.request),
                       format_seconds(seconds(restart.restart_ns)) + ", " +
                           format_count(restart.pages_present) + " pages present, " +
                           format_count(restart.lost_pages) + " lost");
  }
  return pairs;
}

std::string latency_text(const BenchReport& report) {
  using Align = Table::Align;
  Table table({{"verb", Align::left},
               {"count", Align::right},
               {"p50", Align::right},
               {"p90", Align::right},
               {"p99", Align::right},
               {"max", Align::right}});
  for (const VerbRow& verb : kVerbRows) {
    const LatencyHistogram& histogram = report.totals.*(verb.histogram);
    table.add({verb.title, format_count(histogram.count()),
               format_nanoseconds(histogram.percentile_ns(0.50)),
               format_nanoseconds(histogram.percentile_ns(0.90)),
               format_nanoseconds(histogram.percentile_ns(0.99)),
               format_nanoseconds(histogram.max_ns())});
  }
  return table.text();
}

}  // namespace

double ratio_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

json setup_json(const BenchReport& report) {
  const BenchPlan& plan = report.plan;
  return {{"trace", report.source},
          {"distinct_blocks", report.distinct_blocks},
          {"ranks", plan.ranks},
          {"kinds", kinds_json(report)},
          {"block_tokens", plan.space.page_tokens},
          {"runs", plan.runs},
          {"device", device_name(plan.device)},
          {"private_daemon", report.private_daemon},
          {"disk_backend", report.disk_backend},
          {"l2_blocks", plan.l2_blocks},
          {"l2_bytes", plan.l2_bytes},
          {"l3_blocks", plan.l3_blocks},
          {"l3_bytes", plan.l3_bytes},
          {"reserve_slots", plan.reserve_slots},
          {"reserve_bytes", plan.reserve_bytes},
          {"commit_interval_ms", report.commit_interval_ms}};
}

Pairs setup_pairs(const BenchReport& report) {
  const BenchPlan& plan = report.plan;
  Pairs pairs{{"trace", report.source},
              {"ranks, kinds", std::to_string(plan.ranks) + ", " + kinds_text(report)},
              {"L2", format_count(plan.l2_blocks) + " blocks, " + format_bytes(plan.l2_bytes)},
              {"L3", format_count(plan.l3_blocks) + " blocks"}};
  if (report.private_daemon) {
    pairs.back().second += ", " + format_bytes(plan.l3_bytes) + " with a reserve of " +
                           format_count(plan.reserve_slots) + " free slots";
    pairs.emplace_back("commit interval", std::to_string(report.commit_interval_ms) + " ms");
  }
  if (!report.disk_backend.empty()) {
    pairs.emplace_back("disk back end", report.disk_backend);
  }
  return pairs;
}

std::string first_wrong_text(const WrongPlace& place) {
  return "block " + std::to_string(place.hash_id) + ", kind " + std::to_string(place.kind) +
         ", shard " + std::to_string(place.shard) + ", offset " + std::to_string(place.offset) +
         ", request " + std::to_string(place.request);
}

json first_wrong_json(const WrongPlace& place) {
  return {{"block", place.hash_id},
          {"kind", place.kind},
          {"shard", place.shard},
          {"offset", place.offset},
          {"request", place.request}};
}

void add_rank(BenchReport& report, const RankTotals& rank) {
  RankTotals& all = report.totals;
  for (const VerbRow& verb : kVerbRows) {
    (all.*(verb.histogram)).merge(rank.*(verb.histogram));
  }
  if (all.wrong_bytes == 0) {
    all.first_wrong = rank.first_wrong;
  }
  for (const auto member :
       {&RankTotals::wrong_bytes, &RankTotals::checked_bytes, &RankTotals::loaded_bytes,
        &RankTotals::stored_bytes, &RankTotals::load_ns, &RankTotals::store_ns,
        &RankTotals::throttled_ns, &RankTotals::pages_from_l2, &RankTotals::pages_from_l3,
        &RankTotals::pages_stored, &RankTotals::retries, &RankTotals::late,
        &RankTotals::loads_short, &RankTotals::stores_refused, &RankTotals::stores_not_durable}) {
    all.*member += rank.*member;
  }
  const auto speed = [](std::uint64_t bytes, std::uint64_t elapsed_ns) {
    return elapsed_ns == 0 ? 0.0 : static_cast<double>(bytes) / seconds(elapsed_ns);
  };
  report.load_bytes_per_s += speed(rank.loaded_bytes, rank.load_ns);
  report.store_bytes_per_s += speed(rank.stored_bytes, rank.store_ns);
}

double hit_ratio(const BenchReport& report) {
  return ratio_of(report.counts.hit_blocks, report.counts.referenced_blocks);
}

double model_hit_ratio(const BenchReport& report) {
  return ratio_of(report.counts.model_hit_blocks, report.counts.referenced_blocks);
}

int exit_status(const BenchReport& report) {
  return report.totals.wrong_bytes == 0 && report.counts.lost_durable_pages == 0 ? 0 : 1;
}

json report_json(const BenchReport& report) {
  const ReplayCounts& counts = report.counts;
  const RankTotals& totals = report.totals;
  json out = {{"setup", setup_json(report)},
              {"exit_status", exit_status(report)},
              {"wrong_bytes", totals.wrong_bytes},
              {"checked_bytes", totals.checked_bytes},
              {"lost_durable_pages", counts.lost_durable_pages},
              {"hit_ratio", hit_ratio(report)},
              {"model_hit_ratio", model_hit_ratio(report)},
              {"requests", counts.requests},
              {"referenced_blocks", counts.referenced_blocks},
              {"promised_blocks", counts.promised_blocks},
              {"hit_blocks", counts.hit_blocks},
              {"model_hit_blocks", counts.model_hit_blocks},
              {"hits_l2", totals.pages_from_l2},
              {"hits_l3", totals.pages_from_l3},
              {"loaded_bytes", totals.loaded_bytes},
              {"stored_bytes", totals.stored_bytes},
              {"pages_stored", totals.pages_stored},
              {"load_gb_per_s", report.load_bytes_per_s / 1e9},
              {"store_gb_per_s", report.store_bytes_per_s / 1e9},
              {"moved_gb_per_s", moved_bytes_per_s(report) / 1e9},
              {"seconds", seconds(counts.elapsed_ns)},
              {"throttled_seconds", seconds(totals.throttled_ns)},
              {"retries", totals.retries},
              {"late", totals.late},
              {"loads_short", totals.loads_short},
              {"stores_refused", totals.stores_refused},
              {"stores_not_durable", totals.stores_not_durable},
              {"pages_present_at_end", counts.pages_present_at_end},
              {"hit_blocks_after_restart", counts.hit_blocks_after_restart},
              {"referenced_blocks_after_restart", counts.referenced_after_restart},
              {"restarts", restarts_json(report)}};
  for (const VerbRow& verb : kVerbRows) {
    out["latency"][verb.name] = latency_json(totals.*(verb.histogram));
  }
  if (totals.wrong_bytes != 0) {
    out["first_wrong"] = first_wrong_json(totals.first_wrong);
  }
  return out;
}

std::string report_text(const BenchReport& report) {
  return render_pairs("Setup", setup_pairs(report)) + "\n" +
         render_pairs("Result", result_pairs(report)) + "\n" + latency_text(report);
}

std::string demo_text(const BenchReport& report) {
  const ReplayCounts& counts = report.counts;
  const RankTotals& totals = report.totals;
  const std::uint64_t misses = counts.referenced_blocks - counts.hit_blocks;
  Pairs pairs{
      {"requests served", format_count(counts.requests) + " by " +
                              std::to_string(report.plan.ranks) + " engine ranks"},
      {"pages the requests needed", format_count(counts.referenced_blocks)},
      {"  found in the cache", format_count(counts.hit_blocks) + " (" +
                                   format_percent(hit_ratio(report)) + ")"},
      {"  computed and stored", format_count(misses)},
      {"page loads from memory (L2)", format_count(totals.pages_from_l2)},
      {"page loads from disk (L3)", format_count(totals.pages_from_l3)}};
  for (const RestartCounts& restart : counts.restarts) {
    pairs.emplace_back("daemon killed (SIGKILL) before", "request " +
                                                             format_count(restart.request + 1));
    pairs.emplace_back("  back in service after", format_seconds(seconds(restart.restart_ns)));
    pairs.emplace_back("  pages still there", format_count(restart.pages_present));
  }
  if (!counts.restarts.empty()) {
    pairs.emplace_back("  found by later requests", format_count(counts.hit_blocks_after_restart) +
                                                        " pages");
  }
  pairs.emplace_back("bytes compared", format_count(totals.checked_bytes));
  pairs.emplace_back("wrong bytes", format_count(totals.wrong_bytes));
  pairs.emplace_back("durable pages lost", format_count(counts.lost_durable_pages));
  return render_pairs("", pairs);
}

}  // namespace hc
