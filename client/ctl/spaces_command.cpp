// SPDX-License-Identifier: Apache-2.0
// spaces_command: the spaces that the daemon knows, with their kinds and pages.
#include <nlohmann/json.hpp>

#include "client/ctl/admin_client.h"
#include "client/ctl/amount.h"
#include "client/ctl/commands.h"
#include "client/ctl/render.h"

namespace hc {

namespace {

using nlohmann::json;

// Enough hex digits to name a space in `clear --space`.
constexpr std::size_t kIdDigits = 12;

std::string kinds_text(const json& space) {
  std::string text;
  for (const json& kind : list_at(space, "/kinds")) {
    text += text.empty() ? "" : ", ";
    text += text_at(kind, "/name") + " " + format_count(number_at(kind, "/payload_bytes")) +
            " B " + text_at(kind, "/placement");
    if (text_at(kind, "/policy") != "all_pages") {
      text += " " + text_at(kind, "/policy");
    }
  }
  return text;
}

// The world is a number of shards, or an object of sizes.
std::string world_text(const json& space) {
  const auto world = space.find("world");
  if (world == space.end()) {
    return "";
  }
  if (!world->is_object()) {
    return world->dump();
  }
  std::string text;
  for (const auto& [name, size] : world->items()) {
    text += (text.empty() ? "" : ", ") + name + " " + size.dump();
  }
  return text;
}

}  // namespace

std::string render_spaces(const json& answer) {
  const json& spaces = list_at(answer, "/spaces");
  if (spaces.empty()) {
    return "no spaces\n";
  }
  std::string out;
  for (const json& space : spaces) {
    const std::string revision = text_at(space, "/revision");
    const std::string weights = text_at(space, "/weight_version");
    const std::string model = text_at(space, "/model");
    out += out.empty() ? "" : "\n";
    out += render_pairs(
        text_at(space, "/space_id").substr(0, kIdDigits),
        {{"model", model + (revision.empty() ? "" : ", revision " + revision) +
                       (weights.empty() ? "" : ", weights " + weights)},
         {"tenant", text_at(space, "/tenant")},
         {"world", world_text(space)},
         {"page tokens", format_count(number_at(space, "/page_tokens"))},
         {"kinds", kinds_text(space)},
         {"pages", format_count(number_at(space, "/pages")) + ", " +
                       format_count(number_at(space, "/resident_pages")) + " in memory, " +
                       format_count(number_at(space, "/durable_pages")) + " durable"}});
  }
  return out;
}

namespace {

// One answer holds a bounded number of spaces and says where the next one begins.
Result<json> all_spaces(const CommandContext& context) {
  auto all = ask_daemon(context.socket, "spaces", json::object(), context.timeout_ms);
  while (all && all->contains("next")) {
    const json arguments{{"from", (*all)["next"]}};
    const auto more = ask_daemon(context.socket, "spaces", arguments, context.timeout_ms);
    HC_TRY(more);
    all->erase("next");
    if (more->contains("next")) {
      (*all)["next"] = more->at("next");
    }
    for (const json& space : list_at(*more, "/spaces")) {
      (*all)["spaces"].push_back(space);
    }
  }
  return all;
}

}  // namespace

int run_spaces(const CommandContext& context) {
  return print_answer(context, all_spaces(context), render_spaces);
}

}  // namespace hc
