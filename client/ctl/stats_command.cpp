// SPDX-License-Identifier: Apache-2.0
// stats_command: every counter of the daemon, as it names them.
#include <nlohmann/json.hpp>

#include "client/ctl/amount.h"
#include "client/ctl/commands.h"
#include "client/ctl/render.h"

namespace hc {

namespace {

using nlohmann::json;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The unit stands at the end of a counter's name, or bytes at its start.
std::string value_text(const std::string& name, std::uint64_t value) {
  if (ends_with(name, "_ns")) {
    return format_nanoseconds(value);
  }
  if (ends_with(name, "_bytes") || name.rfind("bytes_", 0) == 0) {
    return format_count(value) + " (" + format_bytes(value) + ")";
  }
  return format_count(value);
}

void add_numbers(const json& object, const std::string& prefix, Pairs& pairs) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      add_numbers(value, prefix + name + ".", pairs);
    } else if (value.is_number_unsigned()) {
      pairs.emplace_back(prefix + name, value_text(name, value.get<std::uint64_t>()));
    } else if (value.is_string()) {
      pairs.emplace_back(prefix + name, value.get<std::string>());
    } else {
      pairs.emplace_back(prefix + name, value.dump());
    }
  }
}

}  // namespace

std::string render_stats(const json& answer) {
  Pairs pairs;
  add_numbers(answer, "", pairs);
  return render_pairs("", pairs);
}

int run_stats(const CommandContext& context) {
  return run_read_command(context, "stats", render_stats);
}

}  // namespace hc
