// SPDX-License-Identifier: Apache-2.0
// status_command: state, tiers and sessions of the daemon on one screen.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/ctl/amount.h"
#include "client/ctl/commands.h"
#include "client/ctl/render.h"

namespace hc {

namespace {

using nlohmann::json;

constexpr std::size_t kUseBarColumns = 30;

// "[####....]  50.0 %  2,500 of 5,000 frames used"
std::string used_of(const json& answer, const std::string& tier, const std::string& unit) {
  const std::uint64_t total = number_at(answer, "/" + tier + "/" + unit + "_total");
  const std::uint64_t free = std::min(total, number_at(answer, "/" + tier + "/" + unit + "_free"));
  if (total == 0) {
    return "no " + unit + " yet: no engine has attached";
  }
  const double share = static_cast<double>(total - free) / static_cast<double>(total);
  return bar(share, kUseBarColumns) + "  " + format_count(total - free) + " of " +
         format_count(total) + " " + unit;
}

std::string load_text(const json& answer) {
  const std::uint64_t total = number_at(answer, "/load/slots_total");
  return format_count(number_at(answer, "/load/slots_scanned")) + " of " + format_count(total) +
         " slots scanned, " + format_count(number_at(answer, "/load/live")) + " live, " +
         format_count(number_at(answer, "/load/dropped")) + " dropped";
}

// Under this spill policy some pages are in memory alone.
bool held_back(const std::string& policy) {
  return policy == "write_back" || policy == "write_through_selective";
}

std::string volume_text(const json& volume) {
  const std::string failed = text_at(volume, "/failed");
  return format_bytes(number_at(volume, "/allocated_bytes")) + " of " +
         format_bytes(number_at(volume, "/budget_bytes")) + " allocated, " +
         text_at(volume, "/dir") +
         (failed == "writes" ? ", takes no writes" : failed.empty() ? "" : ", fails");
}

// What an operator must know although the daemon goes on.
std::vector<std::string> troubles(const json& answer) {
  std::vector<std::string> lines;
  const std::uint64_t slots = number_at(answer, "/l3/slots_set_aside");
  if (slots != 0) {
    lines.push_back(format_count(slots) + " slots set aside: the device failed on them");
  }
  for (const json& volume : list_at(answer, "/l3/volumes")) {
    const std::string failed = text_at(volume, "/failed");
    if (!failed.empty()) {
      lines.push_back("volume " + std::to_string(number_at(volume, "/volume")) +
                      (failed == "writes" ? " takes no writes: new pages go to the others"
                                          : " fails: its pages are misses, the others go on"));
    }
  }
  for (const json& device : list_at(answer, "/gpu/devices")) {
    if (device.value("lost", false)) {
      lines.push_back("GPU " + text_at(device, "/uuid") +
                      " is lost: copies of its memory fail until the daemon starts anew");
    }
  }
  const json l3 = answer.value("l3", json::object());
  if (answer.value("load", json::object()).value("rebuilding", false)) {
    lines.push_back("the index was incomplete: slots are read, " +
                    format_count(number_at(answer, "/load/adopted")) + " parts found");
  }
  if (l3.value("index_failed", false)) {
    lines.emplace_back("commits fail: nothing new becomes durable; the log says why");
  }
  return lines;
}

std::string sessions_text(const json& answer) {
  using Align = Table::Align;
  Table table({{"group", Align::left},
               {"rank", Align::right},
               {"pid", Align::right},
               {"shard", Align::right},
               {"ops", Align::right},
               {"leases", Align::right},
               {"leased pages", Align::right},
               {"quota", Align::right},
               {"regions", Align::right},
               {"GPU copies", Align::left}});
  for (const json& session : list_at(answer, "/sessions")) {
    table.add({text_at(session, "/group"),
               std::to_string(number_at(session, "/rank")) + "/" +
                   std::to_string(number_at(session, "/world")),
               std::to_string(number_at(session, "/pid")),
               std::to_string(number_at(session, "/shard")),
               format_count(number_at(session, "/ops")),
               format_count(number_at(session, "/leases")),
               format_count(number_at(session, "/leased_pages")),
               format_count(number_at(session, "/quota_pages")),
               format_count(number_at(session, "/regions")),
               text_at(session, "/transfer")});
  }
  return table.text();
}

}  // namespace

std::string render_status(const json& answer) {
  Pairs pairs{{"state", text_at(answer, "/state")},
              {"version", text_at(answer, "/version") + ", pid " +
                              std::to_string(number_at(answer, "/pid"))},
              {"up", format_seconds(static_cast<double>(number_at(answer, "/uptime_ms")) / 1e3)},
              {"cold start", text_at(answer, "/cold_start")},
              {"volume", text_at(answer, "/volume") + " (" + text_at(answer, "/disk_backend") +
                             ")"},
              {"L2 size", format_bytes(number_at(answer, "/l2/bytes"))},
              {"L2 in use", used_of(answer, "l2", "frames")},
              {"L3 size", format_bytes(number_at(answer, "/l3/allocated_bytes")) + " of " +
                              format_bytes(number_at(answer, "/l3/budget_bytes")) +
                              " allocated"},
              {"L3 in use", used_of(answer, "l3", "slots")}};
  const auto volumes = list_at(answer, "/l3/volumes");
  for (std::size_t i = 0; volumes.size() > 1 && i < volumes.size(); ++i) {
    pairs.emplace_back("L3 volume " + std::to_string(i), volume_text(volumes[i]));
  }
  if (number_at(answer, "/families") > 1) {
    pairs.emplace_back("families", format_count(number_at(answer, "/families")) + ", " +
                                       format_count(number_at(answer, "/l3/steps_moved")) +
                                       " steps moved");
  }
  if (number_at(answer, "/load/slots_total") != 0) {
    pairs.emplace_back("load", load_text(answer));
  }
  if (const std::string policy = text_at(answer, "/l3/spill_policy"); held_back(policy)) {
    pairs.emplace_back("not on disk", format_bytes(number_at(answer, "/l3/dirty_bytes")) +
                                          ", held back by " + policy);
  }
  for (const json& device : list_at(answer, "/gpu/devices")) {
    pairs.emplace_back("GPU", text_at(device, "/name") + " " + text_at(device, "/pci") + ", out " +
                                  format_bytes(number_at(device, "/out/bytes")) + ", in " +
                                  format_bytes(number_at(device, "/in/bytes")));
  }
  for (const auto& trouble : troubles(answer)) {
    pairs.emplace_back("trouble", trouble);
  }
  std::string out = render_pairs("", pairs);
  if (list_at(answer, "/sessions").empty()) {
    return out + "\nno sessions\n";
  }
  return out + "\n" + sessions_text(answer);
}

int run_status(const CommandContext& context) {
  return run_read_command(context, "status", render_status);
}

}  // namespace hc
