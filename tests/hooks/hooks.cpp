// SPDX-License-Identifier: Apache-2.0
// hooks: what the failpoints and mutants of a test build do. The environment says it, once:
//
//   HICACHE_FAILPOINT=NAME[:N][=kill|error|stop]   at the N-th pass (1) die by SIGKILL (kill),
//                                             fail, or stop by SIGSTOP until there is a SIGCONT
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
    std::to_array({HC_FAILPOINTS(HC_HOOK_NAME) HC_GPU_FAILPOINTS(HC_HOOK_NAME) HC_LANE_FAILPOINTS(
        HC_HOOK_NAME) HC_CLIENT_FAILPOINTS(HC_HOOK_NAME)});
constexpr auto kMutantNames = std::to_array({HC_MUTANTS(HC_HOOK_NAME) HC_GROUP_MUTANTS(
    HC_HOOK_NAME) HC_GPU_MUTANTS(HC_HOOK_NAME)});
#undef HC_HOOK_NAME

// One word for each name, of the list that it stands in.
#define HC_HOOK_WORD(name) "failpoint",
#define HC_GPU_WORD(name) "gpu_failpoint",
#define HC_LANE_WORD(name) "lane_failpoint",
#define HC_CLIENT_WORD(name) "client_failpoint",
constexpr auto kFailpointWords = std::to_array<const char*>(
    {HC_FAILPOINTS(HC_HOOK_WORD) HC_GPU_FAILPOINTS(HC_GPU_WORD) HC_LANE_FAILPOINTS(HC_LANE_WORD)
         HC_CLIENT_FAILPOINTS(HC_CLIENT_WORD)});
#undef HC_HOOK_WORD
#undef HC_GPU_WORD
#undef HC_LANE_WORD
#undef HC_CLIENT_WORD
#define HC_HOOK_WORD(name) "mutant",
#define HC_GROUP_WORD(name) "group_mutant",
#define HC_GPU_WORD(name) "gpu_mutant",
constexpr auto kMutantWords = std::to_array<const char*>(
    {HC_MUTANTS(HC_HOOK_WORD) HC_GROUP_MUTANTS(HC_GROUP_WORD) HC_GPU_MUTANTS(HC_GPU_WORD)});
#undef HC_HOOK_WORD
#undef HC_GROUP_WORD
#undef HC_GPU_WORD

enum class Action : std::uint8_t { kill, error, stop };

struct Plan {
  std::optional<Failpoint> failpoint;
  std::uint32_t pass = 1;
  Action action = Action::kill;
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

// NAME[:N][=kill|error|stop]
void read_failpoint(std::string_view text, Plan& plan) {
  const std::string_view whole = text;
  const std::size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view action = text.substr(equals + 1);
    if (action != "error" && action != "kill" && action != "stop") {
      refuse("HICACHE_FAILPOINT", whole);
    }
    plan.action = action == "error" ? Action::error
                  : action == "stop" ? Action::stop
                                     : Action::kill;
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

template <std::size_t kCount>
void print_list(const std::array<const char*, kCount>& words,
                const std::array<std::string_view, kCount>& names) {
  for (std::size_t i = 0; i < kCount; ++i) {
    std::printf("%s %.*s\n", words[i], static_cast<int>(names[i].size()), names[i].data());
  }
}

void print_lists() {
  print_list(kFailpointWords, kFailpointNames);
  print_list(kMutantWords, kMutantNames);
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

void die_or_stop(Failpoint point) {
  if (g_plan.action == Action::stop) {
    say(point, "stopped");
    ::kill(::getpid(), SIGSTOP);
    return;
  }
  say(point, "killed");
  ::kill(::getpid(), SIGKILL);
  while (true) {
    ::pause();
  }
}

}  // namespace

void pass_failpoint(Failpoint point) {
  if (is_due(point)) {
    if (g_plan.action == Action::error) {
      refuse("HICACHE_FAILPOINT: this one can't fail", kFailpointNames[static_cast<std::size_t>(
                                                           point)]);
    }
    die_or_stop(point);
  }
}

bool failpoint_fails(Failpoint point) {
  if (!is_due(point)) {
    return false;
  }
  if (g_plan.action != Action::error) {
    die_or_stop(point);
    return false;
  }
  say(point, "failed");
  return true;
}

bool mutant_is_on(Mutant mutant) { return g_plan.mutant == mutant; }

}  // namespace hc
