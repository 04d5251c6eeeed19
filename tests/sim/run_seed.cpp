// SPDX-License-Identifier: Apache-2.0
// run_seed: builds the world of a seed, and reports how it ended.
#include "tests/sim/run_seed.h"

#include <unistd.h>

#include <csignal>

#include "tests/sim/driver.h"

namespace hc::sim {

namespace {

// For the handler of SIGABRT: a failed check of the engine is reported like a broken law.
const World* g_world = nullptr;
SeedOptions g_options;

void report() {
  std::fflush(stdout);
  if (g_world != nullptr) {
    std::fprintf(stderr, "the last lines of seed %llu:\n",
                 static_cast<unsigned long long>(g_options.seed));
    g_world->trace.print_tail(stderr);
  }
  std::fprintf(stderr, "replay: hc_sim --seed %llu --ops %u --verbose\n",
               static_cast<unsigned long long>(g_options.seed), g_options.operations);
}

void on_abort(int) {
  std::fprintf(stderr, "seed %llu: the engine aborted\n",
               static_cast<unsigned long long>(g_options.seed));
  report();
  ::_exit(2);
}

[[noreturn]] void on_broken_law(int law, const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "seed %llu: law %d is broken: %s\n",
               static_cast<unsigned long long>(g_options.seed), law, what.c_str());
  report();
  ::_exit(2);
}

// A rare seed has payloads of more than one piece of I/O; they are dear, so it does less.
bool has_big_payloads(std::uint64_t seed) { return seed % 50 == 7; }

// A flush that fails takes written slots from under their readers; ordinary plans hardly do it.
bool has_weak_flushes(std::uint64_t seed) { return seed > 20 && seed % 25 == 13; }

// A slot that keeps an earlier blob of its own page: only the generation tells.
bool has_lies(std::uint64_t seed) { return seed > 20 && seed % 25 == 17; }

// Two ranks with a guaranteed quota beside the others. This stream leaves the seeds of past bugs,
// of the mutants and of the digests as they were.
bool has_quotas(std::uint64_t seed) { return seed > 20 && Prng(seed).stream(208).one_in(6); }

// Memory of GPUs in a fifth of the seeds, by a stream that leaves the others as they were.
bool has_gpus(std::uint64_t seed) { return seed > 20 && Prng(seed).stream(209).one_in(5); }

// Sessions that break and come back, by a stream that leaves the seeds of past bugs, of the mutants
// and of the digests as they were.
bool has_reattaches(std::uint64_t seed) { return seed > 20 && Prng(seed).stream(1688).one_in(6); }

}  // namespace

SeedResult run_seed(const SeedOptions& options) {
  g_options = options;
  std::signal(SIGABRT, on_abort);
  World world(options.seed, on_broken_law);
  g_world = &world;
  world.trace.set_verbose(options.verbose);
  DriverOptions driver_options;
  driver_options.seed = options.seed;
  driver_options.operations = options.operations;
  driver_options.big_payloads = has_big_payloads(options.seed);
  driver_options.weak_flushes = has_weak_flushes(options.seed);
  driver_options.quotas = has_quotas(options.seed);
  driver_options.gpus = has_gpus(options.seed);
  driver_options.reattaches = has_reattaches(options.seed);
  driver_options.lies = has_lies(options.seed);
  Driver driver(world, driver_options);
  driver.run();
  world.engine.reset();
  g_world = nullptr;
  return {world.trace.digest(), world.tally};
}

}  // namespace hc::sim
