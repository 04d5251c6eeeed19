// SPDX-License-Identifier: Apache-2.0
// index_child: an index file is walked by a throw-away process before this one maps it.
//
// LMDB follows a damaged file into an abort, a signal or a loop. The child may die of that. It says
// what it found by one line and its exit status; whatever else becomes of it counts as damage.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "proto/result.h"

namespace hc {

// `hicached --check-index FILE`: what the child runs. Prints one line on standard output.
inline constexpr const char* kCheckIndexArgument = "--check-index";
inline constexpr int kIndexIsSound = 0;
inline constexpr int kIndexIsDamaged = 5;
int run_index_check(const std::string& path);

struct IndexChild {
  std::vector<std::string> command;       // program, then its arguments
  std::uint64_t limit_ms = 0;             // longer than that is a hang
  std::function<void()> on_progress = {};  // called several times a second while it runs
};

// Runs the command to its end; the child can't outlive this process and leaves no zombie.
// corrupt: it did not end with kIndexIsSound; the text is its line, or what became of it.
// unsupported: it could not be started, which says nothing about the file.
Result<std::string> run_index_child(const IndexChild& child);

// How long a child may take for a file with that much in use.
std::uint64_t index_check_limit_ms(std::uint64_t used_bytes);

}  // namespace hc
