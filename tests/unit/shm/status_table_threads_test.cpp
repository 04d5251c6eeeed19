// SPDX-License-Identifier: Apache-2.0
// status_table_threads_test: a reader beside a writer never sees a torn entry and never misses a
// page that stays in the table.
#include <atomic>
#include <random>
#include <thread>

#include "shm/status_table_reader.h"
#include "shm/status_table_writer.h"
#include "support/catch.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

constexpr std::uint64_t kSharedCapacity = 128;
constexpr std::uint64_t kStaying = 16;  // put once, then only updated
constexpr std::uint64_t kPassing = 48;  // put and removed all the time

// All pages share three homes near the end of the table, so that a removal shifts many entries,
// staying pages among them, while the reader has to read most entries on its way in full.
PageHash page(std::uint64_t number) {
  return hash_at(kSharedCapacity - 8 + mix(number) % 3, number);
}

// All words of a status follow from one value and the page; a mixture of two does not.
PageStatus status_of(std::uint64_t number, std::uint64_t value) {
  return {.resident = value,
          .stored = value * 3 + number,
          .durable = ~value,
          .remote = static_cast<std::uint32_t>(mix(value + number)) & kStatusRemoteMask};
}

bool whole(std::uint64_t number, const PageStatus& seen) {
  const PageStatus wanted = status_of(number, seen.resident);
  return seen.stored == wanted.stored && seen.durable == wanted.durable &&
         seen.remote == wanted.remote;
}

struct Tally {
  std::uint64_t found = 0;
  std::uint64_t absent = 0;
  std::uint64_t unsure = 0;
  std::uint64_t torn = 0;
  std::uint64_t stayer_absent = 0;
};

void ask(const StatusTableReader& reader, std::uint64_t number, Tally& tally) {
  PageStatus seen;
  switch (reader.look(page(number), seen)) {
    case StatusAnswer::found:
      ++tally.found;
      tally.torn += whole(number, seen) ? 0U : 1U;
      break;
    case StatusAnswer::absent:
      ++tally.absent;
      tally.stayer_absent += number < kStaying ? 1U : 0U;
      break;
    case StatusAnswer::unsure:
      // The writer lost its processor inside this entry; let it go on.
      ++tally.unsure;
      std::this_thread::yield();
      break;
  }
}

}  // namespace

TEST_CASE("a reader beside a writer sees whole entries and every page that stays") {
  StatusTableOptions options;
  options.capacity = kSharedCapacity;
  auto table = StatusTableWriter::create(options);
  REQUIRE(table);
  auto fd = table->readonly_fd();
  REQUIRE(fd);
  const auto reader = StatusTableReader::attach(std::move(*fd), table->size_bytes());
  REQUIRE(reader);
  std::mt19937_64 random(11);
  // Passing pages first, so that staying ones stand behind them and are shifted by removals.
  for (std::uint64_t i = kStaying; i < kStaying + kPassing; ++i) {
    REQUIRE(table->put(page(i), status_of(i, random())) == Code::ok);
  }
  for (std::uint64_t i = 0; i < kStaying; ++i) {
    REQUIRE(table->put(page(i), status_of(i, random())) == Code::ok);
  }

  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> asked = 0;
  Tally tally;
  std::thread asker([&] {
    std::mt19937_64 choice(12);
    while (!stop) {
      ask(*reader, choice() % (2 * kStaying), tally);
      ++asked;
    }
  });
  // The writer works in small bursts until both did enough; neither can starve the other.
  constexpr std::uint64_t kSteps = 150'000;
  bool put_well = true;
  for (std::uint64_t step = 0; step < kSteps || asked < kSteps; ++step) {
    // Mostly removals and new puts; a few updates of any page.
    const std::uint64_t number =
        random() % 8 == 0 ? random() % (kStaying + kPassing) : kStaying + random() % kPassing;
    const bool removes = number >= kStaying && random() % 2 == 0;
    const PageStatus status = removes ? PageStatus{} : status_of(number, random());
    put_well = table->put(page(number), status) == Code::ok && put_well;
  }
  stop = true;
  asker.join();
  CHECK(put_well);
  CHECK(tally.torn == 0);
  CHECK(tally.stayer_absent == 0);
  CHECK(tally.found > 0);
  CHECK(tally.absent > 0);
  INFO("unsure " << tally.unsure);
  CHECK(tally.unsure < tally.found);
}
