// SPDX-License-Identifier: Apache-2.0
// main: hc_group_sim, which runs seeds of the simulated group.
#include <unistd.h>

#include <charconv>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/group/group_driver.h"

namespace {

constexpr std::uint32_t kTicks = 300;

struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

struct Arguments {
  std::vector<Range> seeds;
  bool verbose = false;
};

int usage() {
  std::fputs("hc_group_sim --seed N | --seeds A..B   (options add up) [--verbose]\n", stderr);
  return 64;
}

bool read_number(std::string_view text, std::uint64_t& out) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  return !text.empty() && read.ec == std::errc{} && read.ptr == text.data() + text.size();
}

std::optional<Range> read_range(std::string_view option, std::string_view value) {
  Range out;
  const std::size_t dots = value.find("..");
  if (option == "--seed" && read_number(value, out.first)) {
    out.last = out.first;
    return out;
  }
  const bool good = option == "--seeds" && dots != std::string_view::npos &&
                    read_number(value.substr(0, dots), out.first) &&
                    read_number(value.substr(dots + 2), out.last) && out.first <= out.last;
  return good ? std::optional(out) : std::nullopt;
}

// No seeds: it was not understood.
Arguments read_arguments(const std::vector<std::string_view>& given) {
  Arguments out;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == "--verbose") {
      out.verbose = true;
      continue;
    }
    const auto range = i + 1 < given.size() ? read_range(given[i], given[i + 1]) : std::nullopt;
    if (!range) {
      return {};
    }
    out.seeds.push_back(*range);
    ++i;
  }
  return out;
}

// For the handler of SIGABRT: a failed check of the code is reported like a broken law.
std::uint64_t g_seed = 0;

void on_abort(int) {
  std::fprintf(stderr, "seed %" PRIu64 ": the engine aborted\n", g_seed);
  ::_exit(2);
}

void run_seed(std::uint64_t seed, bool verbose) {
  g_seed = seed;
  std::signal(SIGABRT, on_abort);
  hc::sim::Trace* trace = nullptr;
  hc::sim::GroupDriver driver(seed, kTicks, [&](int law, const std::string& what) {
    std::fflush(stdout);
    std::fprintf(stderr, "seed %" PRIu64 ": law %d is broken: %s\n", seed, law, what.c_str());
    if (trace != nullptr) {
      trace->print_tail(stderr);
    }
    std::fprintf(stderr, "replay: hc_group_sim --seed %" PRIu64 " --verbose\n", seed);
    std::exit(2);
  });
  trace = &driver.trace();
  trace->set_verbose(verbose);
  driver.run();
  const hc::sim::GroupTally& tally = driver.tally();
  std::printf("seed %" PRIu64 " digest %016" PRIx64 " ticks %" PRIu64 " reduces %" PRIu64
              " requests %" PRIu64 " held %" PRIu64 " admitted %" PRIu64 " pages %" PRIu64
              " recomputed %" PRIu64 " stored %" PRIu64 " diverged %" PRIu64 " deaths %" PRIu64
              " abandoned %" PRIu64 "\n",
              seed, driver.trace().digest(), tally.ticks, tally.reduces, tally.requests,
              tally.held, tally.admitted, tally.pages_admitted, tally.recomputed, tally.stored,
              tally.divergences, tally.deaths, tally.abandoned);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = read_arguments({argv + 1, argv + argc});
  if (arguments.seeds.empty()) {
    return usage();
  }
  for (const Range& range : arguments.seeds) {
    for (std::uint64_t seed = range.first; seed <= range.last; ++seed) {
      run_seed(seed, arguments.verbose);
    }
  }
  return 0;
}
