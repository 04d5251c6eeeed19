// SPDX-License-Identifier: Apache-2.0
// main: hc_sim, the simulation of the store: one seed, a range of seeds, the seeds of past bugs,
// or the digests that every compiler must give.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/log/log.h"
#include "tests/sim/run_seed.h"

namespace {

using hc::sim::SeedOptions;
using hc::sim::SeedResult;

constexpr const char* kUsage =
    "hc_sim --seed N | --seeds A..B | --seeds-file FILE   seeds to run (options add up)\n"
    "       [--ops N]          operations per seed (2000)\n"
    "       [--jobs N]         processes (1)\n"
    "       [--verbose]        print the whole trace\n"
    "       [--digests FILE]   also run the seeds of FILE and compare their digests\n"
    "       [--print-digests]  one line 'seed digest' per seed, for that file\n";

struct Arguments {
  std::vector<std::uint64_t> seeds;
  std::set<std::uint64_t> known;
  std::map<std::uint64_t, std::uint64_t> digests;  // what a seed must give
  std::uint32_t operations = 2000;
  std::uint32_t jobs = 1;
  bool verbose = false;
  bool print_digests = false;
};

[[noreturn]] void usage_error(const std::string& text) {
  std::fprintf(stderr, "hc_sim: %s\n%s", text.c_str(), kUsage);
  std::exit(64);
}

std::uint64_t number(const std::string& text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') {
    usage_error("'" + text + "' is not a number");
  }
  return value;
}

// A seed named twice runs once.
void add_seed(Arguments& arguments, std::uint64_t seed) {
  if (arguments.known.insert(seed).second) {
    arguments.seeds.push_back(seed);
  }
}

void add_range(Arguments& arguments, const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    usage_error("--seeds " + text + ": A..B expected");
  }
  const std::uint64_t last = number(text.substr(dots + 2));
  for (std::uint64_t seed = number(text.substr(0, dots)); seed <= last; ++seed) {
    add_seed(arguments, seed);
  }
}

// Lines "seed words..."; with digests "seed hexadecimal".
void add_file(Arguments& arguments, const std::string& path, bool with_digests) {
  std::ifstream file(path);
  if (!file) {
    usage_error(path + " can't be read");
  }
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    std::istringstream words(line);
    std::string seed;
    std::string rest;
    words >> seed >> rest;
    add_seed(arguments, number(seed));
    if (with_digests) {
      arguments.digests[number(seed)] = std::strtoull(rest.c_str(), nullptr, 16);
    }
  }
}

Arguments parse(int argc, char** argv) {
  Arguments out;
  const auto value = [&](int& at) {
    if (at + 1 >= argc) {
      usage_error(std::string(argv[at]) + " needs a value");
    }
    return std::string(argv[++at]);
  };
  for (int at = 1; at < argc; ++at) {
    const std::string name = argv[at];
    if (name == "--seed") {
      add_seed(out, number(value(at)));
    } else if (name == "--seeds") {
      add_range(out, value(at));
    } else if (name == "--seeds-file") {
      add_file(out, value(at), false);
    } else if (name == "--digests") {
      add_file(out, value(at), true);
    } else if (name == "--ops") {
      out.operations = static_cast<std::uint32_t>(number(value(at)));
    } else if (name == "--jobs") {
      out.jobs = static_cast<std::uint32_t>(number(value(at)));
    } else if (name == "--verbose") {
      out.verbose = true;
    } else if (name == "--print-digests") {
      out.print_digests = true;
    } else {
      usage_error("unknown option " + name);
    }
  }
  return out;
}

void print_result(std::uint64_t seed, const SeedResult& result) {
  const hc::sim::Tally& tally = result.tally;
  std::printf("seed %llu digest %016llx ops %llu crashes %llu hits %llu+%llu misses %llu "
              "evicted %llu late %llu busy %llu faults %llu recovered %llu excused %llu "
              "promoted %llu not durable %llu audited %llu steps %llu quota %llu+%llu "
              "gpu %llu+%llu handed over %llu\n",
              static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(result.digest),
              static_cast<unsigned long long>(tally.operations),
              static_cast<unsigned long long>(tally.crashes),
              static_cast<unsigned long long>(tally.hits_l2),
              static_cast<unsigned long long>(tally.hits_l3),
              static_cast<unsigned long long>(tally.misses),
              static_cast<unsigned long long>(tally.evicted),
              static_cast<unsigned long long>(tally.late),
              static_cast<unsigned long long>(tally.busy),
              static_cast<unsigned long long>(tally.faults),
              static_cast<unsigned long long>(tally.recovered),
              static_cast<unsigned long long>(tally.excused),
              static_cast<unsigned long long>(tally.promoted),
              static_cast<unsigned long long>(tally.not_durable),
              static_cast<unsigned long long>(tally.audited),
              static_cast<unsigned long long>(tally.steps_moved),
              static_cast<unsigned long long>(tally.quota_leases),
              static_cast<unsigned long long>(tally.quota_waits),
              static_cast<unsigned long long>(tally.rank_batches),
              static_cast<unsigned long long>(tally.awaits),
              static_cast<unsigned long long>(tally.handed_over));
}

// Every jobs-th seed from `first` on; the number of seeds whose digest differs.
int run(const Arguments& arguments, std::size_t first) {
  int different = 0;
  for (std::size_t i = first; i < arguments.seeds.size(); i += arguments.jobs) {
    const std::uint64_t seed = arguments.seeds[i];
    const SeedResult result =
        hc::sim::run_seed({seed, arguments.operations, arguments.verbose});
    if (arguments.print_digests) {
      std::printf("%llu %016llx\n", static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(result.digest));
    } else {
      print_result(seed, result);
    }
    const auto expected = arguments.digests.find(seed);
    if (expected != arguments.digests.end() && expected->second != result.digest) {
      std::fprintf(stderr, "seed %llu: digest %016llx, expected %016llx\n",
                   static_cast<unsigned long long>(seed),
                   static_cast<unsigned long long>(result.digest),
                   static_cast<unsigned long long>(expected->second));
      ++different;
    }
  }
  std::fflush(stdout);
  return different;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments = parse(argc, argv);
  if (arguments.seeds.empty() || arguments.jobs == 0) {
    usage_error("no seeds");
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  hc::log_start(hc::LogLevel::error, false);
  if (arguments.jobs == 1) {
    return run(arguments, 0) == 0 ? 0 : 2;
  }
  for (std::uint32_t job = 0; job < arguments.jobs; ++job) {
    if (::fork() == 0) {
      ::_exit(run(arguments, job) == 0 ? 0 : 2);
    }
  }
  int failed = 0;
  int status = 0;
  while (::wait(&status) > 0) {
    failed += status == 0 ? 0 : 1;
  }
  return failed == 0 ? 0 : 2;
}
