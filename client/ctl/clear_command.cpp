// SPDX-License-Identifier: Apache-2.0
// clear_command: drops every page, or those of one space; asks first on a terminal.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "client/ctl/admin_client.h"
#include "client/ctl/amount.h"
#include "client/ctl/commands.h"
#include "client/ctl/render.h"

namespace hc {

namespace {

using nlohmann::json;

constexpr std::size_t kSpaceDigitsMax = 64;

bool is_hex_prefix(const std::string& text) {
  return !text.empty() && text.size() <= kSpaceDigitsMax &&
         std::all_of(text.begin(), text.end(), [](char letter) {
           return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f');
         });
}

bool person_agrees(const ClearOptions& options) {
  const std::string what =
      options.space ? "every page of space " + *options.space : "every page";
  std::fprintf(stderr, "Drop %s from memory and disk? [y/N] ", what.c_str());
  std::fflush(stderr);
  std::string line;
  std::getline(std::cin, line);
  return line == "y" || line == "Y" || line == "yes";
}

}  // namespace

int run_clear(const CommandContext& context, const ClearOptions& options) {
  if (options.space && !is_hex_prefix(*options.space)) {
    return report_error(make_error(
        Code::bad_argument, "--space: \"" + *options.space +
                                "\" is not allowed; the first digits of a space id, 0-9 and a-f"));
  }
  if (!options.yes && ::isatty(STDIN_FILENO) != 1) {
    return report_error(make_error(
        Code::bad_argument, "clear: standard input is no terminal to ask on; say --yes"));
  }
  if (!options.yes && !person_agrees(options)) {
    std::fprintf(stderr, "cachectl: nothing was dropped\n");
    return kExitNo;
  }
  json arguments = json::object();
  if (options.space) {
    arguments["space"] = *options.space;
  }
  const auto answer = ask_daemon(context.socket, "clear", arguments, context.timeout_ms);
  if (!answer) {
    return report_error(answer.error());
  }
  return print_result(context.json
                          ? answer->dump(2) + "\n"
                          : format_count(number_at(*answer, "/pages_dropped")) +
                                " pages dropped\n");
}

}  // namespace hc
