// SPDX-License-Identifier: Apache-2.0
// quota_bench: an engine with 16 pages in L2, of which 2 are kept for operations in flight, and one
// rank without quota of the second shard.
#pragma once

#include <functional>
#include <vector>

#include "proto/budget.h"
#include "unit/daemon/engine/engine_bench.h"

namespace hc::test {

inline std::vector<std::uint32_t> pages_from(std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < count; ++i) {
    out.push_back(first + i);
  }
  return out;
}

struct QuotaBench : EngineBench {
  static constexpr std::uint32_t kPagesL2 = 16;

  explicit QuotaBench(const std::function<void(EngineOptions&)>& change = {})
      : EngineBench(256, kPagesL2) {
    options.ops_max = 512;
    options.spaces.l2_family_bytes = options.spaces.l2_bytes;
    options.spaces.l2_bytes *= 2;
    options.spaces.l3_bytes *= 2;
    if (change) {
      change(options);
    }
    start(ColdStartMode::clear);
    other = attach(1);
    allocate_all();
  }

  static std::uint64_t bytes_for(const SpaceDescriptor& space, std::uint32_t pages) {
    return pages * quota_page_bytes(space);
  }
  QuotaAsk ask(const SpaceDescriptor& space, std::uint32_t pages,
               const std::vector<SessionId>& replaced = {}) const {
    return {"engine", bytes_for(space, pages), replaced};
  }
  BenchRank attach_quota(std::uint16_t shard, std::uint32_t pages) {
    return attach_space(bench_space(), shard, ask(bench_space(), pages));
  }
  // What an attach of a rank of `group` is told.
  Result<Engine::Attachment> try_attach(const std::string& group, std::uint64_t quota_bytes,
                                        const std::vector<SessionId>& replaced = {}) {
    return engine->attach({bench_space(), 0, 0, {group, quota_bytes, replaced}});
  }
  const QuotaGroup& group() {
    REQUIRE(engine->core().quotas.groups().size() == 1);
    return *engine->core().quotas.groups()[0];
  }
  const Counters& counters() { return engine->core().counters; }

  static Call reload(std::uint32_t first, std::uint32_t count) {
    return {.verb = Verb::reload, .pages = pages_from(first, count)};
  }
  static Call keep(std::uint32_t first, std::uint32_t count) {
    return {.verb = Verb::store,
            .pages = pages_from(first, count),
            .ack = Ack::resident,
            .flags = kFlagKeepLease};
  }
  // The answer, which comes before submit returns.
  Code answer_now(const BenchRank& rank, const Call& call) {
    const std::uint16_t slot = submit(rank, call);
    REQUIRE(ended(slot));
    return static_cast<Code>(last(slot).entry.code);
  }
  void store_unwritten(BenchRank& rank, std::uint32_t first, std::uint32_t count) {
    const Answer answer = run(
        rank, {.verb = Verb::store, .pages = pages_from(first, count), .ack = Ack::resident});
    REQUIRE(answer.entry.code == 0);
  }
  // The disk stops, and all frames but `free` hold what it has not taken.
  void fill_with_unwritten(std::uint32_t free = 0) {
    drop_l2();
    disk.hold_volume(0, true);
    BenchRank second = attach(0);
    store_unwritten(other, 200, kPagesL2 - free);
    store_unwritten(second, 200, kPagesL2);
    REQUIRE(engine->core().family_of(other.session).frames[0].free_count() == free);
    detach(second);
  }
  void store_both(BenchRank& first, BenchRank& second, std::uint32_t count) {
    store(first, pages_from(1, count));
    store(second, pages_from(1, count));
  }

  BenchRank other;
};

}  // namespace hc::test
