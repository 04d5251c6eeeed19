// SPDX-License-Identifier: Apache-2.0
// progress: one line on a terminal that is written over as work goes on; silent elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace hc {

class Progress {
 public:
  // Draws on `stream` only if it is a terminal.
  explicit Progress(std::FILE* stream);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool on_terminal() const { return terminal_; }
  // Draws a bar, at most ten times a second.
  void step(std::uint64_t done, std::uint64_t total, const std::string& note);
  void clear();

 private:
  std::FILE* stream_;
  bool terminal_;
  bool drawn_ = false;
  std::uint64_t drawn_ns_ = 0;
};

}  // namespace hc
