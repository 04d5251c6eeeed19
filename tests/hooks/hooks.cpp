// SPDX-License-Identifier: Apache-2.0
// hooks: what the failpoints and mutants of a test build do. The environment says it, once:
//
//   HICACHE_FAILPOINT=NAME[:N][=kill|error]   at the N-th pass (1) die by SIGKILL (kill) or fail
//   HICACHE_MUTANT=NAME                       this small bug is there
//   HICACHE_HOOKS=list                        print both lists and exit
//
// A name that is not in the lists of proto/test_hooks.h ends the process with status 64: a test
// must not pass because its hook was misspelt.
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "proto/test_hooks.h"

namespace hc {

namespace {

#define HC_HOOK_NAME(name) std::string_view(#name),
constexpr auto kFailpointNames =
    std::to_array({HC_FAILPOINTS(HC_HOOK_NAME) HC_GPU_FAILPOINTS(HC_HOOK_NAME)});
constexpr std::size_t kFailpointsOfAll = std::to_array({HC_FAILPOINTS(HC_HOOK_NAME)}).size();
constexpr auto kMutantNames = std::to_array({HC_MUTANTS(HC_HOOK_NAME) HC_GROUP_MUTANTS(
    HC_HOOK_NAME) HC_GPU_MUTANTS(HC_HOOK_NAME)});
constexpr std::size_t kMutantsOfDaemon = std::to_array({HC_MUTANTS(HC_HOOK_NAME)}).size();
constexpr std::size_t kMutantsOfGroup = std::to_array({HC_GROUP_MUTANTS(HC_HOOK_NAME)}).size();
#undef HC_HOOK_NAME

struct Plan {
  std::optional<Failpoint> failpoint;
  std::uint32_t pass = 1;
  bool fails = false;
  std::optional<Mutant> mutant;
};

[[noreturn]] void refuse(const char* variable, std::string_view value) {
  std::fprintf(stderr, "%s: '%.*s' is not understood; see tests/hooks/README.md\n", variable,
               static_cast<int>(value.size()), value.data());
  std::_Exit(64);
}

template <typename Hook, std::size_t kCount>
std::optional<Hook> find(const std::array<std::string_view, kCount>& names,
                         std::string_view name) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) {
      return static_cast<Hook>(i);
    }
  }
  return std::nullopt;
}

// NAME[:N][=kill|error]
void read_failpoint(std::string_view text, Plan& plan) {
  const std::string_view whole = text;
  const std::size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view action = text.substr(equals + 1);
    plan.fails = action == "error";
    if (action != "error" && action != "kill") {
      refuse("HICACHE_FAILPOINT", whole);
    }
    text = text.substr(0, equals);
  }
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), plan.pass);
    if (error != std::errc() || end != number.data() + number.size() || plan.pass == 0) {
      refuse("HICACHE_FAILPOINT", whole);
    }
    text = text.substr(0, colon);
  }
  plan.failpoint = find<Failpoint>(kFailpointNames, text);
  if (!plan.failpoint) {
    refuse("HICACHE_FAILPOINT", whole);
  }
}

void print_hook(const char* kind, std::string_view name) {
  std::printf("%s %.*s\n", kind, static_cast<int>(name.size()), name.data());
}

void print_lists() {
  for (std::size_t i = 0; i < kFailpointNames.size(); ++i) {
    print_hook(i < kFailpointsOfAll ? "failpoint" : "gpu_failpoint", kFailpointNames[i]);
  }
  for (std::size_t i = 0; i < kMutantNames.size(); ++i) {
    print_hook(i < kMutantsOfDaemon                     ? "mutant"
               : i < kMutantsOfDaemon + kMutantsOfGroup ? "group_mutant"
                                                        : "gpu_mutant",
               kMutantNames[i]);
  }
  std::fflush(stdout);
  std::_Exit(0);
}

Plan read_environment() {
  Plan plan;
  if (const char* wish = std::getenv("HICACHE_HOOKS")) {
    if (std::string_view(wish) != "list") {
      refuse("HICACHE_HOOKS", wish);
    }
    print_lists();
  }
  if (const char* text = std::getenv("HICACHE_FAILPOINT")) {
    read_failpoint(text, plan);
  }
  if (const char* text = std::getenv("HICACHE_MUTANT")) {
    plan.mutant = find<Mutant>(kMutantNames, text);
    if (!plan.mutant) {
      refuse("HICACHE_MUTANT", text);
    }
  }
  return plan;
}

// Before main, so that a bad name shows at once. Never written again.
const Plan g_plan = read_environment();
std::atomic<std::uint32_t> g_passes{0};

// This is the pass that was asked for.
bool is_due(Failpoint point) {
  return g_plan.failpoint == point && g_passes.fetch_add(1) + 1 == g_plan.pass;
}

void say(Failpoint point, const char* what) {
  const std::string line = "failpoint " +
                           std::string(kFailpointNames[static_cast<std::size_t>(point)]) + ": " +
                           what + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) {
    return;  // nobody listens
  }
}

[[noreturn]] void die(Failpoint point) {
  say(point, "killed");
  ::kill(::getpid(), SIGKILL);
  while (true) {
    ::pause();
  }
}

}  // namespace

void pass_failpoint(Failpoint point) {
  if (is_due(point)) {
    if (g_plan.fails) {
      refuse("HICACHE_FAILPOINT: this one can't fail", kFailpointNames[static_cast<std::size_t>(
                                                           point)]);
    }
    die(point);
  }
}

bool failpoint_fails(Failpoint point) {
  if (!is_due(point)) {
    return false;
  }
  if (!g_plan.fails) {
    die(point);
  }
  say(point, "failed");
  return true;
}

bool mutant_is_on(Mutant mutant) { return g_plan.mutant == mutant; }

}  // namespace hc
