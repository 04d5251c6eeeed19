// SPDX-License-Identifier: Apache-2.0
// replay_test: the loop over requests, against ranks that play a cache of their own.
#include "client/ctl/replay.h"

#include <sys/socket.h>

#include <algorithm>

#include "support/catch.h"

namespace hc {

namespace {

enum class Fault { none, forgets_newest, loads_short, never_durable };

// A rank that is its own perfect LRU cache of the model's size, with one fault.
template <Fault kFault>
int play_rank(const RankSetup& setup, std::uint32_t rank, int fd) {
  LruModel cache(setup.trace.block_count(), setup.plan.l3_blocks);
  std::uint32_t newest = 0;
  RankCommand command;
  while (::recv(fd, &command, sizeof(command), 0) == static_cast<ssize_t>(sizeof(command))) {
    RankReply reply;
    reply.verb = command.verb;
    if (command.verb == RankVerb::exists) {
      reply.pages = cache.hit_prefix(setup.trace.blocks_of(command.request));
    } else if (command.verb == RankVerb::load) {
      const bool spoil = kFault == Fault::loads_short && rank == 1;
      reply.pages = command.argument - (spoil ? 1 : 0);
    } else if (command.verb == RankVerb::store) {
      const auto blocks = setup.trace.blocks_of(command.request);
      reply.pages = blocks.size() - cache.hit_prefix(blocks);
      cache.touch_request(blocks);
      newest = blocks.front();
      for (const std::uint32_t block : blocks) {
        if (kFault != Fault::never_durable || rank == 0) {
          setup.boards.acked(rank)[block] = static_cast<std::uint32_t>(command.request + 1);
        }
      }
    } else if (command.verb == RankVerb::probe) {
      const auto present = setup.boards.present(rank);
      for (std::uint32_t block = 0; block < setup.trace.block_count(); ++block) {
        present[block] = cache.holds(block) ? 1 : 0;
      }
      if (kFault != Fault::none) {
        present[newest] = 0;
      }
    }
    ::send(fd, &reply, sizeof(reply), MSG_NOSIGNAL);
    if (command.verb == RankVerb::close) {
      return 0;
    }
  }
  return 1;
}

ReplayCounts replay_with(RankGroup::RankMain rank_main) {
  BenchOptions options;
  options.synthetic = "users=12,turns=6,tokens=900,answer=100,system=1024,active=5";
  options.block_tokens = 128;
  options.l2 = "10blocks";
  options.l3 = "150blocks";
  const auto plan = make_plan(options);
  const auto trace = make_trace(options);
  REQUIRE(plan);
  REQUIRE(trace);
  const auto keys = make_page_keys(*trace);
  const auto boards = RankBoards::make(plan->ranks, trace->block_count());
  const RankSetup setup{*plan, *trace, keys, *boards, "", ""};
  auto group = RankGroup::start(setup, rank_main);
  REQUIRE(group);
  Progress progress(stderr);
  Replay replay(setup, *group, nullptr, progress);
  const auto counts = replay.run();
  REQUIRE(counts);
  CHECK(group->close());
  return *counts;
}

}  // namespace

TEST_CASE("ranks that are a perfect cache hit what the model hits and lose nothing", "[ctl]") {
  const ReplayCounts counts = replay_with(play_rank<Fault::none>);

  CHECK(counts.requests == 72);
  CHECK(counts.hit_blocks == counts.model_hit_blocks);
  CHECK(counts.hit_blocks > 0);
  CHECK(counts.hit_blocks < counts.referenced_blocks);
  CHECK(counts.promised_blocks == counts.hit_blocks);
  CHECK(counts.pages_present_at_end == 150);
  CHECK(counts.lost_durable_pages == 0);
}

TEST_CASE("a cache that forgets its newest page has lost it", "[ctl]") {
  CHECK(replay_with(play_rank<Fault::forgets_newest>).lost_durable_pages == 1);
}

TEST_CASE("a page that was never acknowledged by a rank is not lost", "[ctl]") {
  CHECK(replay_with(play_rank<Fault::never_durable>).lost_durable_pages == 0);
}

TEST_CASE("after a kill the model holds what was acknowledged or found, oldest first", "[ctl]") {
  DurabilityLedger ledger(std::vector<std::uint16_t>(6, 0));
  LruModel model(6, 4);
  const std::vector<std::vector<std::uint32_t>> requests = {{4}, {3}, {2}, {1}, {0}, {5}};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ledger.served({i, requests[i], 0, true, true});
    model.touch_request(requests[i]);  // at the end it holds 2, 1, 0 and 5
  }
  const std::vector<std::uint32_t> acked = {5, 0, 0, 0, 1, 0};  // 0 and 4
  const AckedRequests rank(acked);
  ledger.take_acks(std::span(&rank, 1));
  ledger.daemon_killed(requests.size());

  // 0: acknowledged and held. 1: held alone. 2: found. 3: evicted by the model, back. 4: evicted.
  const std::vector<std::uint8_t> present = {0, 0, 1, 1, 0, 0};
  CHECK(blocks_after_kill(model, ledger, present) == std::vector<std::uint32_t>{3, 2, 0});
}

TEST_CASE("a hit is what the slowest rank loaded", "[ctl]") {
  const ReplayCounts counts = replay_with(play_rank<Fault::loads_short>);
  CHECK(counts.hit_blocks < counts.promised_blocks);
  CHECK(counts.promised_blocks == counts.model_hit_blocks);
}

}  // namespace hc
