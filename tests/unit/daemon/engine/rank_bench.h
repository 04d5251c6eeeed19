// SPDX-License-Identifier: Apache-2.0
// rank_bench: an engine whose ranks copy themselves, by hand of the test.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

#include "unit/daemon/engine/engine_bench.h"

namespace hc::test {

// Ranks of shard 0 whose copies the test makes by hand. Row i holds page i of an operation.
struct RankBench : EngineBench {
  explicit RankBench(std::uint32_t ranks = 1, std::uint32_t pages_l3 = 16,
                     std::uint32_t pages_l2 = 16)
      : EngineBench(pages_l3, pages_l2) {
    start(ColdStartMode::clear);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      by_rank.push_back(join());
    }
  }
  BenchRank join(std::uint16_t shard = 0) {
    BenchRank rank = attach(shard);
    engine->core().sessions.find(rank.session)->regions[0].by_rank = true;
    return rank;
  }
  FramePool& frames() { return engine->core().spaces->family(FamilyNo{}).frames[0]; }
  std::uint32_t frames_taken() { return frames().frame_count() - frames().free_count(); }

  std::uint16_t begin(std::uint32_t rank, const Call& call) {
    const std::uint16_t slot = submit(by_rank[rank], call);
    sequences[slot] = ++submitted;
    said[slot] = 0;
    return slot;
  }
  std::uint16_t begin_store(std::uint32_t rank, const std::vector<std::uint32_t>& pages,
                            std::uint32_t deadline_ms = 60'000) {
    for (std::uint32_t i = 0; i < pages.size(); ++i) {
      fill(by_rank[rank], i, pages[i]);
    }
    return begin(rank, {.verb = Verb::store,
                        .pages = pages,
                        .ack = Ack::resident,
                        .deadline_ms = deadline_ms});
  }
  // Every batch that it was told of, in order.
  std::vector<Answer> told(std::uint16_t slot) const {
    std::vector<Answer> batches;
    for (const Answer& answer : all(slot)) {
      if (answer.entry.ack == static_cast<std::uint8_t>(Ack::prepared)) {
        batches.push_back(answer);
      }
    }
    return batches;
  }
  std::vector<FrameRef> frames_of(const Answer& batch) const {
    std::vector<FrameRef> refs;
    std::copy_if(batch.frames.begin(), batch.frames.end(), std::back_inserter(refs),
                 [](const FrameRef& ref) { return ref.frame != kNone32; });
    return refs;
  }
  void await_batch(std::uint16_t slot) {
    run_until([&] { return told(slot).size() > said[slot]; });
  }
  bool told_late(std::uint16_t slot) const {
    return !all(slot).empty() && last(slot).entry.ack == static_cast<std::uint8_t>(Ack::late);
  }
  // What a rank's copies do, of the latest batch.
  void copy(std::uint32_t rank, std::uint16_t slot) {
    const Answer batch = told(slot).back();
    for (std::uint32_t page = 0; page < batch.frames.size() / kKindsMax; ++page) {
      const FrameRef& ref = batch.frames[page * kKindsMax];
      if (ref.frame == kNone32) {
        continue;
      }
      std::uint8_t* const frame = frames().payload(FrameId{ref.frame});
      std::uint8_t* const row = by_rank[rank].rows[0].data() + std::size_t{page} * kPayload;
      const bool loads = batch.entry.verb == static_cast<std::uint8_t>(Verb::load);
      std::memcpy(loads ? row : frame, loads ? frame : row, kPayload);
    }
  }
  RequestEntry word(std::uint16_t slot, Code outcome = Code::ok) const {
    RequestEntry entry{};
    entry.verb = static_cast<std::uint8_t>(Verb::copied);
    entry.op_slot = slot;
    entry.op_sequence = sequences.at(slot);
    entry.target_sequence = static_cast<std::uint32_t>(outcome);
    return entry;
  }
  bool is_awaited(std::uint32_t rank, const RequestEntry& entry) {
    return engine->awaits_rank(by_rank[rank].session, entry);
  }
  void say(std::uint32_t rank, std::uint16_t slot, Code outcome = Code::ok) {
    REQUIRE(is_awaited(rank, word(slot)));
    ++said[slot];
    engine->rank_copied(by_rank[rank].session, word(slot, outcome));
  }
  // Copies whatever it is told of, until the operation has ended.
  Answer serve(std::uint32_t rank, std::uint16_t slot) {
    while (!ended(slot)) {
      run_until([&] { return ended(slot) || told(slot).size() > said[slot]; });
      if (!ended(slot)) {
        copy(rank, slot);
        say(rank, slot);
      }
    }
    return last(slot);
  }
  std::uint16_t begin_load(std::uint32_t rank, const std::vector<std::uint32_t>& pages) {
    std::fill(by_rank[rank].rows[0].begin(), by_rank[rank].rows[0].end(), std::uint8_t{0});
    return begin(rank, {.verb = Verb::load, .pages = pages});
  }
  void cancel(std::uint32_t rank, std::uint16_t slot) {
    OpRequest request;
    request.entry.verb = static_cast<std::uint8_t>(Verb::cancel);
    request.entry.op_slot = 63;
    request.entry.op_sequence = 100'000;
    request.entry.deadline_ms = 1000;
    request.entry.target_slot = slot;
    request.entry.target_sequence = sequences.at(slot);
    engine->submit(by_rank[rank].session, request);
  }
  bool is_known(std::uint32_t number) { return page(number) != kNoPage; }

  std::vector<BenchRank> by_rank;
  std::map<std::uint16_t, std::uint32_t> sequences;
  std::map<std::uint16_t, std::size_t> said;
  std::uint32_t submitted = 0;
};

}  // namespace hc::test
