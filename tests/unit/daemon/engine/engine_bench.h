// SPDX-License-Identifier: Apache-2.0
// engine_bench: a real engine over the simulation's disk, index, copier and clock, driven by hand.
//
// The space has one sharded kind of 5,000 bytes on two shards unless a test says otherwise. The
// content of a page follows from its number, shard and kind.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/engine.h"
#include "support/catch.h"
#include "tests/sim/sim_copier.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_index.h"

namespace hc::test {

// As a completion carries it.
constexpr std::int32_t code(Code value) { return static_cast<std::int32_t>(value); }

PageHash page_hash(std::uint32_t number);
SpaceDescriptor bench_space(const std::string& weights = "w1");

struct Answer {
  CompletionEntry entry{};
  std::vector<FrameRef> frames;
};

// One attached rank with a region of rows, one payload each.
struct BenchRank {
  SessionId session{};
  SpaceNo space{};
  std::uint16_t shard = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t salt = 0;                       // of the content, by model
  std::vector<std::vector<std::uint8_t>> rows;  // one buffer a row: kind 0 only
};

class EngineBench : public CompletionSink {
 public:
  static constexpr std::uint32_t kPayload = 5000;
  static constexpr std::uint32_t kRows = 16;

  explicit EngineBench(std::uint32_t pages_l3 = 16, std::uint32_t pages_l2 = 16);

  // Starts an engine over what the disk and the index hold; runs until it serves.
  void start(ColdStartMode mode);
  void open();  // ... and holds
  // The daemon is killed: nothing of the engine is left.
  void kill(sim::Crash how = sim::Crash::process);
  void restart(ColdStartMode mode = ColdStartMode::load) {
    kill();
    start(mode);
  }
  BenchRank attach(std::uint16_t shard, const std::string& weights = "w1");
  BenchRank attach_space(const SpaceDescriptor& space, std::uint16_t shard,
                         const QuotaAsk& quota = {});
  void detach(BenchRank& rank);

  // Submits and returns at once; the answer is in answers(slot) when it has come.
  struct Call {
    Verb verb = Verb::none;
    std::vector<std::uint32_t> pages{};
    Ack ack = Ack::none;
    std::uint8_t flags = 0;
    std::uint32_t deadline_ms = 60'000;
    std::uint64_t lease = 0;
    std::uint8_t hint = 0;
    std::uint16_t owner = 0;
  };
  std::uint16_t submit(const BenchRank& rank, const Call& call);
  bool ended(std::uint16_t slot) const;
  const Answer& last(std::uint16_t slot) const { return answers_.at(slot).back(); }
  const std::vector<Answer>& all(std::uint16_t slot) const { return answers_.at(slot); }
  // Runs until the operation has ended, and returns its terminal answer.
  Answer finish(std::uint16_t slot);
  Answer run(const BenchRank& rank, const Call& call) { return finish(submit(rank, call)); }

  // Store and wait until durable; pages are filled with their content first.
  void store(BenchRank& rank, const std::vector<std::uint32_t>& pages);
  // Loads one page; its content is compared. nullopt: a miss.
  std::optional<std::uint32_t> load(BenchRank& rank, std::uint32_t page);
  bool is_there(BenchRank& rank, std::uint32_t page) { return load(rank, page).has_value(); }
  // Every page in one load.
  Code load_all(BenchRank& rank, const std::vector<std::uint32_t>& pages);

  // Runs until the operator's order is done, and returns how it ended.
  Result<void> finish_order();
  void set_plan(const sim::FaultPlan& plan) {
    disk.set_plan(plan);
    index.set_plan(plan);
  }
  void step();  // to the next event
  void run_until(const std::function<bool()>& done);
  void run_for(std::int64_t ms);
  void drop_l2();  // evicts every page from memory
  void allocate_all();  // every slab gets every step that the budget has for it

  PageId page(std::uint32_t number, SpaceNo space = SpaceNo{0}) {
    return engine->core().catalog->find(space, page_hash(number));
  }
  Part& part(std::uint32_t number, std::uint32_t part_number) {
    Catalog& catalog = *engine->core().catalog;
    return catalog.part(catalog.ref(page(number), part_number));
  }
  // Bytes on disk of the slot that holds this part.
  std::uint64_t slot_offset(std::uint32_t number, std::uint32_t part_number);
  FileId slab_file(std::uint32_t part_number);
  Slab& slab_of(std::uint32_t part_number, std::uint16_t volume = 0);  // of the first family
  // Rewrites the header block of a stored part, as if something else had written there.
  void rewrite_header(std::uint32_t number, std::uint32_t part_number,
                      const std::function<void(BlobHeader&)>& change);
  void fill(BenchRank& rank, std::uint32_t row, std::uint32_t number) const;
  bool row_holds(const BenchRank& rank, std::uint32_t row, std::uint32_t number) const;

  void complete(SessionId session, const CompletionEntry& entry,
                std::span<const FrameRef> frames) override;

  sim::SimClock clock;
  sim::Trace trace{clock};
  sim::Laws laws;
  sim::SimDisk disk;
  sim::SimIndex index;
  sim::SimCopier copier;
  EngineOptions options;
  std::unique_ptr<Engine> engine;
  // Called inside of every answer, as a session layer that acts at once would be.
  std::function<void(const CompletionEntry&)> on_answer;

 private:
  std::map<std::uint16_t, std::vector<Answer>> answers_;
  std::uint16_t next_slot_ = 0;
  std::uint32_t next_sequence_ = 1;
};

}  // namespace hc::test
