// SPDX-License-Identifier: Apache-2.0
// micro_options: the groups, and the sizes of a full and of a quick run.
#include "client/ctl/micro_options.h"

#include <algorithm>

#include "client/ctl/amount.h"

namespace hc {

namespace {

constexpr std::uint64_t kKiB = 1ULL << 10;
constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kPairsMax = 1000;

const std::vector<MicroGroup>& group_table() {
  static const std::vector<MicroGroup> kGroups{
      {"ring", {"ring_sleep", "ring_spin"}},
      {"memory", {"l2_load", "l2_view", "prefault"}},
      {"disk", {"spill", "reload", "reload_cpu"}},
      {"commit", {"commit_throughput", "commit_p99", "commit_stall"}},
      {"scan", {"header_scan"}},
      {"pages", {"exists_prefix", "exists_lmdb", "lazy_start"}},
      {"agree", {"agree_sleep", "agree_spin", "agree_spin_full", "agree_growth", "reload_tick"}},
      {"gpu", {"gpu_load", "gpu_store"}},
  };
  return kGroups;
}

bool is_known(const std::string& name) {
  return std::any_of(group_table().begin(), group_table().end(), [&](const MicroGroup& group) {
    return name == group.name ||
           std::any_of(group.figures.begin(), group.figures.end(),
                       [&](const char* figure) { return name == figure; });
  });
}

std::string known_names() {
  std::string out;
  for (const MicroGroup& group : group_table()) {
    out += (out.empty() ? "" : ", ") + std::string(group.name);
    for (const char* figure : group.figures) {
      out += std::string(", ") + figure;
    }
  }
  return out;
}

}  // namespace

std::span<const MicroGroup> micro_groups() { return group_table(); }

bool MicroPlan::wants(std::string_view figure) const {
  if (only.empty()) {
    return true;
  }
  return std::any_of(group_table().begin(), group_table().end(), [&](const MicroGroup& group) {
    const bool member = std::any_of(group.figures.begin(), group.figures.end(),
                                    [&](const char* name) { return figure == name; });
    return member && std::any_of(only.begin(), only.end(), [&](const std::string& name) {
             return name == figure || name == group.name;
           });
  });
}

bool MicroPlan::wants_group(const MicroGroup& group) const {
  return std::any_of(group.figures.begin(), group.figures.end(),
                     [this](const char* figure) { return wants(figure); });
}

Result<MicroPlan> make_micro_plan(const MicroOptions& options) {
  for (const std::string& name : options.only) {
    if (!is_known(name)) {
      return make_error(Code::bad_argument, "--only: \"" + name +
                                                "\" is not allowed; it must be one of " +
                                                known_names());
    }
  }
  if (options.pairs > kPairsMax) {
    return make_error(Code::bad_argument, "--pairs: \"" + std::to_string(options.pairs) +
                                              "\" is not allowed; it must be 1..1000");
  }
  MicroPlan plan;
  plan.quick = options.quick;
  plan.only = options.only;
  if (options.quick) {
    plan.pairs = 3;
    plan.payloads = {2560U * kKiB};
    plan.disk_sample_bytes = 256 * kMiB;
    plan.fio_ms = 600;
    plan.memory_sample_bytes = 256 * kMiB;
    plan.store_window_ms = 2500;
    plan.pages = 50'000;
    plan.scan_pages = 10'000;
    plan.round_trips = 1000;
  } else {
    plan.payloads = {512U * kKiB, 2560U * kKiB, 4608U * kKiB, 8192U * kKiB};
    plan.disk_sample_bytes = 3072 * kMiB;  // a second or more, as fio runs
    plan.fio_ms = 1000;
    plan.memory_sample_bytes = 512 * kMiB;
    plan.store_window_ms = 3000;
    plan.pages = 1'000'000;
    plan.scan_pages = 60'000;
    plan.round_trips = 3000;
  }
  plan.pairs = options.pairs > 0 ? static_cast<std::uint32_t>(options.pairs) : plan.pairs;
  return plan;
}

}  // namespace hc
