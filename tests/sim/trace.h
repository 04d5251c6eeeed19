// SPDX-License-Identifier: Apache-2.0
// trace: what happened, as numbers; its digest is what two compilers must agree on. Holds the last
// lines for the report of a failure. Also the book of laws: whoever finds one broken says so here.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "tests/sim/sim_clock.h"

namespace hc::sim {

class Trace {
 public:
  explicit Trace(const SimClock& clock) : clock_(clock) {}

  // `what` is a literal.
  void add(const char* what, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
           std::uint64_t d = 0);
  std::uint64_t digest() const { return digest_; }
  std::uint64_t lines() const { return count_; }
  void set_verbose(bool verbose) { verbose_ = verbose; }
  void print_tail(std::FILE* out) const;

 private:
  struct Line {
    const char* what = "";
    std::int64_t at_ns = 0;
    std::array<std::uint64_t, 4> values{};
  };
  static void print(std::FILE* out, const Line& line);
  void mix(std::uint64_t value);

  const SimClock& clock_;
  std::array<Line, 48> tail_;
  std::uint64_t count_ = 0;
  std::uint64_t digest_ = 0xCBF29CE484222325ULL;
  bool verbose_ = false;
};

// The numbers are those of the house's list of laws; 0 is the contract of a seam.
class Laws {
 public:
  using Handler = std::function<void(int law, const std::string& what)>;
  explicit Laws(Handler handler) : handler_(std::move(handler)) {}
  void broken(int law, const std::string& what) {
    ++broken_;
    handler_(law, what);
  }
  void expect(bool good, int law, const char* what) {
    if (!good) {
      broken(law, what);
    }
  }
  std::uint64_t count() const { return broken_; }

 private:
  Handler handler_;
  std::uint64_t broken_ = 0;
};

}  // namespace hc::sim
