// SPDX-License-Identifier: Apache-2.0
// trace: the digest is FNV-1a over names and numbers; no address and no real time goes in.
#include "tests/sim/trace.h"

#include <algorithm>

namespace hc::sim {

void Trace::mix(std::uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) {
    digest_ = (digest_ ^ (value >> (8 * byte) & 0xFF)) * 0x100000001B3ULL;
  }
}

void Trace::add(const char* what, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                std::uint64_t d) {
  const Line line{what, clock_.time().ns, {a, b, c, d}};
  for (const char* at = what; *at != '\0'; ++at) {
    digest_ = (digest_ ^ static_cast<std::uint8_t>(*at)) * 0x100000001B3ULL;
  }
  mix(static_cast<std::uint64_t>(line.at_ns));
  for (const std::uint64_t value : line.values) {
    mix(value);
  }
  tail_[count_ % tail_.size()] = line;
  ++count_;
  if (verbose_) {
    print(stdout, line);
  }
}

void Trace::print(std::FILE* out, const Line& line) {
  std::fprintf(out, "  %12.6f ms %-22s %llu %llu %llu %llu\n",
               static_cast<double>(line.at_ns) / 1e6, line.what,
               static_cast<unsigned long long>(line.values[0]),
               static_cast<unsigned long long>(line.values[1]),
               static_cast<unsigned long long>(line.values[2]),
               static_cast<unsigned long long>(line.values[3]));
}

void Trace::print_tail(std::FILE* out) const {
  const std::uint64_t lines = std::min<std::uint64_t>(count_, tail_.size());
  for (std::uint64_t i = count_ - lines; i < count_; ++i) {
    print(out, tail_[i % tail_.size()]);
  }
}

}  // namespace hc::sim
