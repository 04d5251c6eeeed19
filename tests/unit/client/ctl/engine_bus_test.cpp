// SPDX-License-Identifier: Apache-2.0
// engine_bus_test: ticks reach every rank in order, and no wait outlives the rank it is for.
#include "client/ctl/engine_bus.h"

#include <array>
#include <atomic>
#include <thread>

#include "client/ctl/monotonic.h"
#include "client/reload/agreement_vector.h"
#include "support/catch.h"

namespace hc {

namespace {

constexpr std::int64_t kReduceNs = 30'000'000'000;

TickInput arrival(std::uint64_t request) {
  TickInput input;
  input.first_arrival = request;
  input.arrivals = 1;
  return input;
}

}  // namespace

TEST_CASE("every rank takes every tick, in order, whatever its pace", "[ctl]") {
  constexpr std::uint64_t kTicks = 1000;  // many times around the ring
  auto bus = EngineBus::make(3);
  REQUIRE(bus);
  std::array<std::uint64_t, 3> right{};
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 1; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      for (std::uint64_t tick = 0; tick < kTicks; ++tick) {
        TickInput input;
        const Code code = bus->take(rank, input);
        right[rank] += code == Code::ok && input.first_arrival == tick ? 1U : 0U;
        if (rank == 2 && tick % 100 == 0) {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::uint64_t tick = 0; tick < kTicks; ++tick) {
    right[0] += bus->publish(arrival(tick)) == Code::ok ? 1U : 0U;
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }

  CHECK(right == std::array<std::uint64_t, 3>{kTicks, kTicks, kTicks});
  CHECK(bus->ticks() == kTicks);
}

TEST_CASE("a rank that has died holds nobody up", "[ctl]") {
  auto bus = EngineBus::make(2);
  REQUIRE(bus);
  std::thread bench([&] { bus->mark_gone(1); });
  const std::uint64_t begin_ns = monotonic_ns();
  for (std::uint64_t tick = 0; tick < 200; ++tick) {  // more than the ring holds
    REQUIRE(bus->publish(arrival(tick)) == Code::ok);
  }
  bench.join();

  CHECK(bus->is_gone(1));
  CHECK(monotonic_ns() - begin_ns < 60 * kNsPerSecond);
}

TEST_CASE("a rank that waits for a tick hears that the front end has died", "[ctl]") {
  auto bus = EngineBus::make(2);
  REQUIRE(bus);
  REQUIRE(bus->publish(arrival(3)) == Code::ok);
  Code second = Code::ok;
  std::thread rank([&] {
    TickInput input;
    CHECK(bus->take(1, input) == Code::ok);  // what it said before it died counts
    second = bus->take(1, input);
  });
  bus->mark_gone(0);
  rank.join();

  CHECK(second == Code::disconnected);
}

TEST_CASE("the engine's collective gives every rank the minimum, and counts its calls", "[ctl]") {
  auto bus = EngineBus::make(3);
  REQUIRE(bus);
  std::atomic<int> right{0};
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      EngineReduce reduce(*bus, rank, kReduceNs);
      for (std::int64_t round = 0; round < 50; ++round) {
        std::array<std::int64_t, AgreementVector::kWords> words{};
        words.fill(round * 10 + rank);
        const Code code = reduce.reduce(words);
        right += code == Code::ok && words.front() == round * 10 && words.back() == round * 10;
      }
      right += reduce.calls() == 50 ? 1000 : 0;
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }

  CHECK(right == 3 * 50 + 3000);
}

TEST_CASE("a death ends the collective of all others, and of every later one", "[ctl]") {
  auto bus = EngineBus::make(3);
  REQUIRE(bus);
  std::array<Code, 2> told{};
  std::array<Code, 2> later{};
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      EngineReduce reduce(*bus, rank, kReduceNs);
      std::array<std::int64_t, AgreementVector::kWords> words{};
      told[rank] = reduce.reduce(words);
      later[rank] = reduce.reduce(words);
    });
  }
  bus->mark_gone(2);
  for (std::thread& rank : ranks) {
    rank.join();
  }

  CHECK(told == std::array<Code, 2>{Code::disconnected, Code::disconnected});
  CHECK(later == std::array<Code, 2>{Code::disconnected, Code::disconnected});
}

}  // namespace hc
