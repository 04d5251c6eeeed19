// SPDX-License-Identifier: Apache-2.0
// commands: what cachectl can do, one function a command; each returns the exit status.
//
// Owner thread: the main thread. Results go to standard output, everything else to standard error.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "client/ctl/bench_plan.h"
#include "proto/result.h"

namespace hc {

inline constexpr int kExitOk = 0;
inline constexpr int kExitNo = 1;            // the daemon, or a check, said no
inline constexpr int kExitUsage = 64;        // the command line is wrong
inline constexpr int kExitUnreachable = 69;  // no daemon at the socket
inline constexpr int kExitInterrupted = 130;

struct CommandContext {
  std::string socket;                // admin socket
  std::uint64_t timeout_ms = 10'000; // for an answer
  bool json = false;
};

// Prints one line to standard error; the exit status that fits the code.
int report_error(const Error& error);
// Prints text, and a failed write to standard output is an error too.
int print_result(const std::string& text);

int run_version(const CommandContext& context);
int run_status(const CommandContext& context);
int run_stats(const CommandContext& context);
int run_spaces(const CommandContext& context);
int run_flush(const CommandContext& context);

struct ColdStartOptions {
  std::string mode;                  // load or clear
  bool wait = false;                 // until it has finished, with progress
};
int run_cold_start(const CommandContext& context, const ColdStartOptions& options);

struct ClearOptions {
  std::optional<std::string> space;  // hex prefix of a space id; none: everything
  bool yes = false;                  // do not ask
};
int run_clear(const CommandContext& context, const ClearOptions& options);

int run_bench_replay(const CommandContext& context, const BenchOptions& options);
int run_demo(const CommandContext& context, const BenchOptions& options);

// The texts of the read commands, from the daemon's answer.
std::string render_version(const nlohmann::json& answer);
std::string render_status(const nlohmann::json& answer);
std::string render_stats(const nlohmann::json& answer);
std::string render_spaces(const nlohmann::json& answer);

// Asks the daemon and prints its answer as JSON or as `render` makes it.
using RenderFunction = std::string (*)(const nlohmann::json& answer);
// Prints the answer as JSON or through `render`; an error goes to standard error.
int print_answer(const CommandContext& context, const Result<nlohmann::json>& answer,
                 RenderFunction render);
int run_read_command(const CommandContext& context, const std::string& verb,
                     RenderFunction render);

}  // namespace hc
