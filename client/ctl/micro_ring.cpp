// SPDX-License-Identifier: Apache-2.0
// micro_ring: the round trip of the smallest operation, a pin of a page that is not there, beside
// the same exchange between two processes with nothing in between.
#include <array>

#include "client/ctl/micro_bench.h"
#include "client/ctl/micro_client.h"
#include "client/ctl/micro_limits.h"
#include "client/ctl/monotonic.h"
#include "proto/budget.h"

namespace hc {

namespace {

constexpr std::uint32_t kRingPayloadBytes = 4096;
constexpr std::uint64_t kAbsentPage = 1ULL << 60;  // no page has such a number
constexpr std::uint32_t kRoundTripMs = 10'000;

Result<void> pin_once(hicache_client* client, const hicache_page& page, PingPong how) {
  hicache_op op{};
  op.deadline_ms = kRoundTripMs;
  std::uint64_t id = 0;
  if (const auto code = hicache_pin(client, &op, &page, 1, &id); code != HICACHE_OK) {
    return client_error("hicache_pin", code);
  }
  std::array<hicache_completion, 4> done;
  std::size_t count = 0;
  while (count == 0) {
    const auto code =
        how == PingPong::spin
            ? hicache_poll(client, done.data(), done.size(), &count)
            : hicache_wait(client, done.data(), done.size(), kRoundTripMs, &count);
    if (code != HICACHE_OK) {
      return client_error("hicache_wait", code);
    }
  }
  return done[0].code == HICACHE_NOT_FOUND
             ? Result<void>()
             : Result<void>(make_error(Code::io_error, "a pin of an absent page ended otherwise"));
}

// The median in microseconds.
Result<double> round_trips(hicache_client* client, PingPong how, std::uint32_t count) {
  const MicroKey key = micro_key(kAbsentPage);
  hicache_page page{};
  page.key = key.data();
  page.key_bytes = static_cast<std::uint32_t>(key.size());
  std::vector<double> elapsed_us;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t begin_ns = monotonic_ns();
    HC_TRY_VOID(pin_once(client, page, how));
    elapsed_us.push_back(static_cast<double>(monotonic_ns() - begin_ns) / 1e3);
  }
  return median(std::move(elapsed_us));
}

struct RingCase {
  const char* figure;
  PingPong how;
  const char* spin;    // of the daemon
  double ratio_max;
};

Result<void> measure(MicroBench& bench, const RingCase& ring) {
  const SpaceDescriptor space = micro_space(kRingPayloadBytes, false);
  PrivateDaemonOptions options = bench.daemon_options("ring");
  options.l2_bytes = 64ULL << 20;
  options.reserve_slots = 64;
  options.l3_bytes = slab_bytes(slots_for_pages(space, 0, 1024, options.reserve_slots));
  options.more_daemon = std::string("spin_us = ") + ring.spin + "\n";
  MicroDaemon daemon(bench, options);
  HC_TRY_VOID(daemon.make_folder());
  HC_TRY_VOID(daemon.process().start());
  auto client = MicroClient::open(daemon.socket(), space, {.rows = 1});
  HC_TRY(client);
  const std::uint32_t count = bench.plan().round_trips;
  auto samples = bench.pairs(
      ring.figure, [&] { return round_trips((*client)->handle(), ring.how, count); },
      [&]() -> Result<double> {
        auto raw_ns = ping_pong(ring.how, count);
        HC_TRY(raw_ns);
        return *raw_ns / 1e3;
      });
  HC_TRY(samples);
  bench.add({ring.figure, "", "us", Goal{Goal::Of::ratio, Goal::Sense::at_most, ring.ratio_max},
             ""},
            *samples);
  return {};
}

}  // namespace

Result<void> measure_ring(MicroBench& bench) {
  for (const RingCase& ring : {RingCase{"ring_sleep", PingPong::futex, "1", 1.5},
                               RingCase{"ring_spin", PingPong::spin, "1000", 3.0}}) {
    if (bench.plan().wants(ring.figure)) {
      HC_TRY_VOID(measure(bench, ring));
    }
  }
  return {};
}

}  // namespace hc
