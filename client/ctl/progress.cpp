// SPDX-License-Identifier: Apache-2.0
// progress: a bar between a carriage return and the end of the line.
#include "client/ctl/progress.h"

#include <unistd.h>

#include "client/ctl/monotonic.h"
#include "client/ctl/render.h"

namespace hc {

namespace {
constexpr std::uint64_t kRedrawNs = 100 * kNsPerMs;
constexpr std::size_t kBarColumns = 30;
constexpr std::size_t kLineColumns = 79;
}  // namespace

Progress::Progress(std::FILE* stream)
    : stream_(stream), terminal_(::isatty(::fileno(stream)) == 1) {}

void Progress::step(std::uint64_t done, std::uint64_t total, const std::string& note) {
  const std::uint64_t now_ns = monotonic_ns();
  if (!terminal_ || (drawn_ && now_ns - drawn_ns_ < kRedrawNs && done < total)) {
    return;
  }
  const double share =
      total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  std::string line = bar(share, kBarColumns) + " " + note;
  line.resize(kLineColumns, ' ');
  std::fprintf(stream_, "\r%s", line.c_str());
  std::fflush(stream_);
  drawn_ = true;
  drawn_ns_ = now_ns;
}

void Progress::clear() {
  if (drawn_) {
    std::fprintf(stream_, "\r%*s\r", static_cast<int>(kLineColumns), "");
    std::fflush(stream_);
    drawn_ = false;
  }
}

}  // namespace hc
