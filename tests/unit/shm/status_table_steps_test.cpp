// SPDX-License-Identifier: Apache-2.0
// status_table_steps_test: writer and reader of the status table, interleaved at every machine
// instruction instead of by luck of two threads.
//
// The trap flag of the processor raises SIGTRAP after each instruction; the handler runs the
// other side. Only built for x86-64; elsewhere the test with threads has to do.
#include "support/catch.h"

#if defined(__x86_64__)

#include <sys/mman.h>
#include <ucontext.h>
#include <x86intrin.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <vector>

#include "shm/status_table_reader.h"
#include "shm/status_table_writer.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

constexpr unsigned long long kTrapFlag = 0x100;
constexpr std::uint64_t kCapacity = 16;

std::function<bool()> after_step;  // false: run the rest without stepping

void on_trap(int, siginfo_t*, void* context) {
  if (!after_step()) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    registers[REG_EFL] &= ~static_cast<greg_t>(kTrapFlag);
  }
}

// Runs `code` and calls `hook` after each of its instructions.
template <typename Code>
void run_in_steps(Code&& code, std::function<bool()> hook) {
  after_step = std::move(hook);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  REQUIRE(::sigaction(SIGTRAP, &action, &before) == 0);
  __writeeflags(__readeflags() | kTrapFlag);
  code();
  __writeeflags(__readeflags() & ~kTrapFlag);
  ::sigaction(SIGTRAP, &before, nullptr);
}

// One chain over the end of the table: A, B and C at their home 14, D behind them from home 15.
// Removing A shifts B, C and D. B and C share their first hash word with A.
const PageHash kA = hash_at(14, 1);
const PageHash kB = hash_at(14, 2);
const PageHash kC = hash_at(14, 3);
const PageHash kD = hash_at(15, 4);
const PageHash kNew = hash_at(14, 5);

PageStatus status_of(std::uint64_t value) {
  return {.resident = value, .stored = value, .durable = value, .remote = 0x100};
}

bool whole(const PageStatus& status) {
  return status.resident == status.stored && status.stored == status.durable &&
         status.resident != 0 && status.remote == 0x100;
}

struct Chain {
  StatusTableWriter table = make();
  StatusTableReader reader = attach();

  static StatusTableWriter make() {
    StatusTableOptions options;
    options.capacity = kCapacity;
    options.forbid_new_writers = false;
    auto made = StatusTableWriter::create(options);
    HC_CHECK(made);
    return std::move(*made);
  }
  StatusTableReader attach() const {
    auto fd = table.readonly_fd();
    HC_CHECK(fd);
    auto attached = StatusTableReader::attach(std::move(*fd), table.size_bytes());
    HC_CHECK(attached);
    return std::move(*attached);
  }
  bool put(const PageHash& hash, const PageStatus& status) {
    return table.put(hash, status) == Code::ok;
  }
  void fill() {
    for (const PageHash& hash : {kA, kB, kC, kD}) {
      HC_CHECK(put(hash, {}));
    }
    std::uint64_t value = 1;
    for (const PageHash& hash : {kA, kB, kC, kD}) {
      HC_CHECK(put(hash, status_of(value++)));
    }
  }
  StatusAnswer look(const PageHash& hash, PageStatus& status) const {
    return reader.look(hash, status);
  }
};

// True if a state of the table holds an entry with an odd sequence.
bool writes_entry(const std::vector<std::uint8_t>& state) {
  for (std::size_t i = 0; i < kCapacity; ++i) {
    if ((state[kStatusEntriesOffset + i * sizeof(StatusEntry)] & 1U) != 0) {
      return true;
    }
  }
  return false;
}

// Changes the table after `step` instructions of a lookup of `hash`. False once the lookup is
// shorter than that.
bool look_with_change(const Chain& chain, const PageHash& hash, std::size_t step,
                      const std::function<void()>& change) {
  std::size_t steps = 0;
  PageStatus seen;
  StatusAnswer answer = StatusAnswer::absent;
  run_in_steps([&] { answer = chain.look(hash, seen); },
               [&] {
                 if (steps++ < step) {
                   return true;
                 }
                 change();
                 return false;
               });
  if (answer != StatusAnswer::found || !whole(seen)) {
    FAIL_CHECK("at step " << step << ": answer " << static_cast<int>(answer));
  }
  return steps > step;
}

}  // namespace

TEST_CASE("at every instruction of the writer all pages that stay are found whole") {
  Chain chain;
  chain.fill();
  std::size_t steps = 0;
  std::size_t missed = 0;
  const auto all_found = [&] {
    ++steps;
    for (const PageHash& hash : {kB, kC, kD}) {
      PageStatus seen;
      missed += chain.look(hash, seen) == StatusAnswer::found && whole(seen) ? 0U : 1U;
    }
    return true;
  };
  bool well = true;
  run_in_steps([&] { well = chain.put(kA, {}) && well; }, all_found);
  CHECK(missed == 0);
  run_in_steps([&] { well = chain.put(kNew, status_of(9)) && well; }, all_found);
  CHECK(missed == 0);
  run_in_steps([&] { well = chain.put(kNew, status_of(10)) && well; }, all_found);
  CHECK(missed == 0);
  run_in_steps([&] { well = chain.put(kNew, {}) && well; }, all_found);
  CHECK(missed == 0);
  CHECK(well);
  CHECK(steps > 300);
}

TEST_CASE("at every instruction of an update the page reads whole or unsure") {
  Chain chain;
  chain.fill();
  std::size_t wrong = 0;
  std::size_t unsure = 0;
  bool well = true;
  run_in_steps([&] { well = chain.put(kC, status_of(7)); },
               [&] {
                 PageStatus seen;
                 const StatusAnswer answer = chain.look(kC, seen);
                 unsure += answer == StatusAnswer::unsure ? 1U : 0U;
                 wrong += answer == StatusAnswer::absent ? 1U : 0U;
                 wrong += answer == StatusAnswer::found && !whole(seen) ? 1U : 0U;
                 return true;
               });
  CHECK(well);
  CHECK(wrong == 0);
  CHECK(unsure > 0);
}

TEST_CASE("a removal or an update at any instruction of a lookup hides nothing") {
  Chain chain;
  const PageHash hash = GENERATE(kC, kD);
  const bool removes = GENERATE(true, false);
  std::size_t step = 0;
  bool inside = true;
  for (; inside; ++step) {
    chain.fill();
    inside = look_with_change(chain, hash, step, [&] {
      HC_CHECK(chain.put(removes ? kA : hash, removes ? PageStatus{} : status_of(8)));
    });
  }
  CHECK(step > 30);
}

TEST_CASE("a lookup that lies wholly within a removal finds the page wherever it is shifted") {
  Chain chain;
  chain.fill();
  RegionOptions options;
  options.size_bytes = chain.table.size_bytes();
  options.read_only = false;
  auto region = Region::map(chain.table.fd(), options);
  REQUIRE(region);
  const std::span<std::uint8_t> bytes = region->writable_bytes();

  // Every state of the table that a removal of A passes through.
  std::vector<std::vector<std::uint8_t>> states;
  const auto keep_state = [&] {
    if (states.empty() || !std::ranges::equal(states.back(), bytes)) {
      states.emplace_back(bytes.begin(), bytes.end());
    }
    return true;
  };
  bool well = true;
  run_in_steps([&] { well = chain.put(kA, {}); }, keep_state);
  REQUIRE(well);
  REQUIRE(states.size() > 20);

  // A switch from one state to a later one, in the middle of a lookup. It starts in states in which
  // no entry is being written, since a lookup would only spin there until the switch.
  std::size_t switches = 0;
  for (std::size_t from = 0; from < states.size(); ++from) {
    for (std::size_t to = from + 1; to < states.size() && !writes_entry(states[from]); ++to) {
      bool inside = true;
      for (std::size_t step = to % 5; inside && step < 300; step += 5) {
        std::ranges::copy(states[from], bytes.begin());
        inside = look_with_change(chain, kC, step,
                                  [&] { std::ranges::copy(states[to], bytes.begin()); });
        switches += inside ? 1U : 0U;
      }
    }
  }
  CHECK(switches > 1000);
}

#endif
