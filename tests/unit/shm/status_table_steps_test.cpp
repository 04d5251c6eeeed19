// SPDX-License-Identifier: Apache-2.0
// status_table_steps_test: writer and reader of the status table, interleaved at chosen points
// instead of by luck of two threads.
//
// Two tools. The trap flag of the processor raises SIGTRAP after each instruction, and the handler
// runs the other side (x86-64 only; each step costs microseconds, so only short code is stepped).
// And a page that may not be read stops a lookup between two entries, and the handler changes the
// table there.
#include "support/catch.h"

#if defined(__x86_64__)

#include <sys/mman.h>
#include <ucontext.h>
#include <x86intrin.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <optional>
#include <vector>

#include "shm/status_table_reader.h"
#include "shm/status_table_writer.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

constexpr unsigned long long kTrapFlag = 0x100;
constexpr std::uint64_t kCapacity = 128;  // two pages of entries
constexpr std::size_t kPageBytes = 4096;

std::function<bool()> after_step;  // false: run the rest without stepping
std::function<void()> at_fault;

void on_trap(int, siginfo_t*, void* context) {
  if (!after_step()) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    registers[REG_EFL] &= ~static_cast<greg_t>(kTrapFlag);
  }
}

void on_fault(int, siginfo_t*, void*) {
  at_fault();
}

// A signal handler for as long as it lives.
class Handler {
 public:
  Handler(int number, void (*handle)(int, siginfo_t*, void*)) : number_(number) {
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    HC_CHECK(::sigaction(number_, &action, &before_) == 0);
  }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;
  ~Handler() { ::sigaction(number_, &before_, nullptr); }

 private:
  int number_;
  struct sigaction before_ {};
};

// Runs `code` and calls `hook` after each of its instructions.
template <typename Code>
void run_in_steps(Code&& code, std::function<bool()> hook) {
  after_step = std::move(hook);
  const Handler handler(SIGTRAP, on_trap);
  __writeeflags(__readeflags() | kTrapFlag);
  code();
  __writeeflags(__readeflags() & ~kTrapFlag);
}

// One chain over the border of the two pages: A stands at home 63, the last entry of the first
// page; B (home 63) and C (home 64) behind it in the second. Removing A shifts B and C.
const PageHash kA = hash_at(63, 1);
const PageHash kB = hash_at(63, 2);
const PageHash kC = hash_at(64, 3);
const PageHash kNew = hash_at(63, 4);

PageStatus status_of(std::uint64_t value) {
  return {.resident = value, .stored = value, .durable = value, .remote = 0x100};
}

bool whole(const PageStatus& status) {
  return status.resident == status.stored && status.stored == status.durable &&
         status.resident != 0 && status.remote == 0x100;
}

Region map_table(const StatusTableWriter& table, bool read_only) {
  RegionOptions options;
  options.size_bytes = table.size_bytes();
  options.read_only = read_only;
  auto region = Region::map(table.fd(), options);
  HC_CHECK(region);
  return std::move(*region);
}

class Chain {
 public:
  Chain() {
    Region region = map_table(table_, true);
    entries_ = const_cast<std::uint8_t*>(region.bytes().data()) + kStatusEntriesOffset;
    auto attached = StatusTableReader::attach(std::move(region));
    HC_CHECK(attached);
    reader_.emplace(std::move(*attached));
    std::uint64_t value = 1;
    for (const PageHash& hash : {kA, kB, kC}) {
      put(hash, status_of(value++));
    }
  }

  void put(const PageHash& hash, const PageStatus& status) {
    HC_CHECK(table_.put(hash, status) == Code::ok);
  }
  StatusAnswer look(const PageHash& hash, PageStatus& status) const {
    return reader_->look(hash, status);
  }
  bool finds_whole(const PageHash& hash) const {
    PageStatus seen;
    return look(hash, seen) == StatusAnswer::found && whole(seen);
  }
  const StatusTableWriter& table() const { return table_; }

  // Lets or forbids the reader (not the writer) the entries 0..63 or 64..127.
  void allow(std::size_t page, bool allowed) const {
    HC_CHECK(
        ::mprotect(entries_ + page * kPageBytes, kPageBytes, allowed ? PROT_READ : PROT_NONE) == 0);
  }

 private:
  static StatusTableWriter make() {
    StatusTableOptions options;
    options.capacity = kCapacity;
    options.forbid_new_writers = false;
    auto made = StatusTableWriter::create(options);
    HC_CHECK(made);
    return std::move(*made);
  }

  StatusTableWriter table_ = make();
  std::optional<StatusTableReader> reader_;
  std::uint8_t* entries_ = nullptr;
};

using TableState = std::vector<std::uint8_t>;

// Every state of the table that a removal of A passes through, in order.
std::vector<TableState> states_of_removal(Chain& chain, std::span<const std::uint8_t> bytes) {
  std::vector<TableState> states;
  run_in_steps([&] { chain.put(kA, {}); },
               [&] {
                 if (states.empty() || !std::ranges::equal(states.back(), bytes)) {
                   states.emplace_back(bytes.begin(), bytes.end());
                 }
                 return true;
               });
  return states;
}

}  // namespace

TEST_CASE("at every instruction of the writer all pages that stay are found whole") {
  Chain chain;
  std::size_t steps = 0;
  std::size_t missed = 0;
  const auto look_at_all = [&] {
    ++steps;
    missed += chain.finds_whole(kB) && chain.finds_whole(kC) ? 0U : 1U;
    return true;
  };
  run_in_steps([&] { chain.put(kA, {}); }, look_at_all);
  CHECK(missed == 0);
  run_in_steps([&] { chain.put(kNew, status_of(9)); }, look_at_all);
  CHECK(missed == 0);
  run_in_steps([&] { chain.put(kNew, status_of(10)); }, look_at_all);
  CHECK(missed == 0);
  run_in_steps([&] { chain.put(kNew, {}); }, look_at_all);
  CHECK(missed == 0);
  CHECK(steps > 300);
}

TEST_CASE("at every instruction of an update the page reads whole or unsure") {
  Chain chain;
  std::size_t wrong = 0;
  std::size_t unsure = 0;
  run_in_steps([&] { chain.put(kC, status_of(7)); },
               [&] {
                 PageStatus seen;
                 const StatusAnswer answer = chain.look(kC, seen);
                 unsure += answer == StatusAnswer::unsure ? 1U : 0U;
                 wrong += answer == StatusAnswer::absent ? 1U : 0U;
                 wrong += answer == StatusAnswer::found && !whole(seen) ? 1U : 0U;
                 return true;
               });
  CHECK(wrong == 0);
  CHECK(unsure > 0);
}

TEST_CASE("a lookup during which the page is updated again and again reads it whole") {
  Chain chain;
  const std::size_t distance = GENERATE(3U, 17U, 41U, 67U);
  std::size_t steps = 0;
  std::uint64_t updates = 0;
  PageStatus seen;
  StatusAnswer answer = StatusAnswer::absent;
  run_in_steps([&] { answer = chain.look(kB, seen); },
               [&] {
                 if (++steps % distance == 0) {
                   chain.put(kB, status_of(100 + ++updates));
                 }
                 return updates < 40;
               });
  CHECK(answer == StatusAnswer::found);
  CHECK(whole(seen));
  CHECK(updates > 0);
}

TEST_CASE("a page that is shifted behind the lookup is found on the way back") {
  Chain chain;
  const Handler handler(SIGSEGV, on_fault);
  std::size_t faults = 0;
  at_fault = [&] {
    ++faults;
    chain.put(kA, {});
    chain.allow(1, true);
  };
  chain.allow(1, false);
  CHECK(chain.finds_whole(kB));
  CHECK(faults == 1);
}

TEST_CASE("a lookup that lies wholly within a removal finds every page that stays") {
  Chain chain;
  Region region = map_table(chain.table(), false);
  const std::span<std::uint8_t> bytes = region.writable_bytes();
  const std::vector<TableState> states = states_of_removal(chain, bytes);
  REQUIRE(states.size() > 15);

  // The lookup of B meets state `first`; between entries 63 and 64 the removal goes on to `second`,
  // and on the way back between 64 and 63 to `third`.
  const Handler handler(SIGSEGV, on_fault);
  std::size_t lookups = 0;
  std::size_t ways_back = 0;
  std::size_t missed = 0;
  for (std::size_t first = 0; first < states.size(); ++first) {
    for (std::size_t second = first; second < states.size(); ++second) {
      for (std::size_t third = second; third < states.size(); third += 3) {
        std::ranges::copy(states[first], bytes.begin());
        chain.allow(1, false);
        std::size_t faults = 0;
        at_fault = [&] {
          std::ranges::copy(faults == 0 ? states[second] : states[third], bytes.begin());
          chain.allow(1, true);
          chain.allow(0, ++faults != 1);
        };
        missed += chain.finds_whole(kB) ? 0U : 1U;
        chain.allow(0, true);
        chain.allow(1, true);
        ++lookups;
        ways_back += faults == 2 ? 1U : 0U;
      }
    }
  }
  CHECK(missed == 0);
  CHECK(lookups > 500);
  CHECK(ways_back > 50);
}

#endif
