// SPDX-License-Identifier: Apache-2.0
// engine_bench: see the header.
#include "unit/daemon/engine/engine_bench.h"

#include <algorithm>
#include <cstring>

#include "proto/budget.h"

namespace hc::test {

namespace {

std::uint8_t content(std::uint32_t number, std::uint16_t shard, std::uint32_t at) {
  return static_cast<std::uint8_t>(number * 131 + shard * 29 + at * 7 + (at >> 8));
}

}  // namespace

PageHash page_hash(std::uint32_t number) {
  PageHash hash;
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) {
    hash.bytes[i] = static_cast<std::uint8_t>((number + 1) * 2'654'435'761U >> (i % 24));
  }
  hash.bytes[31] = static_cast<std::uint8_t>(number);
  return hash;
}

SpaceDescriptor bench_space(const std::string& weights) {
  SpaceDescriptor space;
  space.model = "bench";
  space.weight_version = weights;
  space.page_tokens = 64;
  space.world.tensor = 2;
  space.kinds = {{"kv", EngineBench::kPayload, Placement::sharded, HitPolicy::all_pages, 0}};
  return space;
}

EngineBench::EngineBench(std::uint32_t pages_l3, std::uint32_t pages_l2)
    : laws([](int law, const std::string& what) { FAIL("law " << law << ": " << what); }),
      disk(clock, trace, laws, sim::Prng(1)),
      index(clock, trace, laws, sim::Prng(2)),
      copier(clock, trace, laws, sim::Prng(3)) {
  const SpaceDescriptor space = bench_space();
  options.commit_interval_ms = 50;
  options.sessions_max = 8;
  options.ops_max = 64;
  options.items_max = 4096;
  options.leases_max = 64;
  options.lease_nodes_max = 1024;
  options.spaces.reserve_slots = 4;
  options.spaces.l2_bytes = pages_l2 * frame_bytes_per_page(space, 2);
  options.spaces.l3_bytes = slab_bytes(slots_for_pages(space, 2, pages_l3, 4));
  options.spaces.arenas.arena_bytes = 1U << 20;
  options.spaces.arenas.commit_memory = false;
}

void EngineBench::open() {
  disk.set_volumes(static_cast<std::uint16_t>(options.spaces.volumes().size()));
  Uuid uuid{};
  uuid[0] = 0x77;
  engine = std::make_unique<Engine>(disk, index, copier, *this, options);
  engine->turn(clock.now());
  REQUIRE(engine->open(uuid));
}

Result<void> EngineBench::finish_order() {
  run_until([&] { return engine->order_state() == OrderState::done; });
  Result<void> result = engine->order_result();
  engine->finish_order();
  return result;
}

void EngineBench::start(ColdStartMode mode) {
  open();
  const auto started = engine->cold_start(mode);
  INFO((started ? std::string() : started.error().text));
  REQUIRE(started);
  run_until([&] { return engine->state() == EngineState::serving; });
}

void EngineBench::kill(sim::Crash how) {
  engine.reset();
  disk.crash(how);
  index.crash();
  copier.crash();
  answers_.clear();
}

void EngineBench::step() {
  const Instant before = clock.time();
  Instant next = engine->next_deadline();
  for (const Instant due : {disk.next_due(), index.next_due(), copier.next_due()}) {
    next = std::min(next, due);
  }
  clock.advance_to(std::max(next, before + 1000));
  engine->turn(clock.now());
}

void EngineBench::run_until(const std::function<bool()>& done) {
  for (int steps = 0; !done(); ++steps) {
    REQUIRE(steps < 100'000);
    step();
  }
}

void EngineBench::run_for(std::int64_t ms) {
  const Instant end = clock.time() + ms * kNsPerMs;
  run_until([&] { return clock.time() >= end; });
}

BenchRank EngineBench::attach(std::uint16_t shard, const std::string& weights) {
  return attach_space(bench_space(weights), shard);
}

BenchRank EngineBench::attach_space(const SpaceDescriptor& space, std::uint16_t shard,
                                    const QuotaAsk& quota) {
  auto attached = engine->attach({space, 0, shard, quota});
  INFO((attached ? std::string() : attached.error().text));
  REQUIRE(attached);
  BenchRank rank;
  rank.session = attached->session;
  rank.space = attached->space;
  rank.shard = shard;
  rank.payload_bytes = space.kinds[0].payload_bytes;
  rank.salt = space.model == "bench" ? 0 : 57;
  const std::uint32_t payload = rank.payload_bytes;
  // Rows lie behind each other, as in a real region.
  rank.rows.assign(1, std::vector<std::uint8_t>(std::size_t{kRows} * payload));
  EngineRegion& region = engine->core().sessions.find(rank.session)->regions[0];
  region.present = true;
  region.base = reinterpret_cast<std::uintptr_t>(rank.rows[0].data());
  region.size_bytes = rank.rows[0].size();
  region.rows = kRows;
  region.layouts[0].present = true;
  region.layouts[0].runs = {{0, payload, 2000}, {2000, payload, payload - 2000}};
  return rank;
}

void EngineBench::detach(BenchRank& rank) {
  engine->end_service(rank.session);
  run_until([&] { return engine->is_quiet(rank.session); });
  engine->release_leases(rank.session);
  engine->close_session(rank.session);
}

std::uint16_t EngineBench::submit(const BenchRank& rank, const Call& call) {
  OpRequest request;
  request.entry.verb = static_cast<std::uint8_t>(call.verb);
  request.entry.flags = call.flags;
  request.entry.ack = static_cast<std::uint8_t>(call.ack);
  request.entry.op_slot = next_slot_++ % kOpSlotsPerSession;
  request.entry.op_sequence = next_sequence_++;
  request.entry.deadline_ms = call.deadline_ms;
  request.entry.lease = call.lease;
  request.entry.hint = call.hint;
  request.entry.page_count = static_cast<std::uint32_t>(call.pages.size());
  for (std::uint32_t i = 0; i < call.pages.size(); ++i) {
    PageEntry entry{};
    entry.hash = page_hash(call.pages[i]);
    entry.row = i;
    entry.owner = call.owner;
    request.pages.push_back(entry);
  }
  const std::uint16_t slot = request.entry.op_slot;
  answers_[slot].clear();
  engine->submit(rank.session, std::move(request));
  return slot;
}

void EngineBench::complete(SessionId, const CompletionEntry& entry,
                           std::span<const FrameRef> frames) {
  answers_[entry.op_slot].push_back({entry, {frames.begin(), frames.end()}});
  if (on_answer) {
    on_answer(entry);
  }
}

bool EngineBench::ended(std::uint16_t slot) const {
  const auto& answers = answers_.at(slot);
  return !answers.empty() && answers.back().entry.terminal == 1;
}

Answer EngineBench::finish(std::uint16_t slot) {
  run_until([&] { return ended(slot); });
  return last(slot);
}

void EngineBench::rewrite_header(std::uint32_t number, std::uint32_t part_number,
                                 const std::function<void(BlobHeader&)>& change) {
  const FileId file = slab_file(part_number);
  const std::uint64_t offset = slot_offset(number, part_number);
  std::vector<std::uint8_t> block(kBlockBytes);
  REQUIRE(disk.read_now(file, offset, block));
  BlobHeader header;
  std::memcpy(&header, block.data(), sizeof header);
  change(header);
  encode_header_block(block, header, engine->core().superblock->seed_of(SpaceNo{0}), {});
  REQUIRE(disk.write_now(file, offset, block));
}

void EngineBench::fill(BenchRank& rank, std::uint32_t row, std::uint32_t number) const {
  for (std::uint32_t at = 0; at < rank.payload_bytes; ++at) {
    rank.rows[0][std::size_t{row} * rank.payload_bytes + at] =
        content(number + rank.salt, rank.shard, at);
  }
}

bool EngineBench::row_holds(const BenchRank& rank, std::uint32_t row, std::uint32_t number) const {
  for (std::uint32_t at = 0; at < rank.payload_bytes; ++at) {
    if (rank.rows[0][std::size_t{row} * rank.payload_bytes + at] !=
        content(number + rank.salt, rank.shard, at)) {
      return false;
    }
  }
  return true;
}

void EngineBench::store(BenchRank& rank, const std::vector<std::uint32_t>& pages) {
  for (std::uint32_t i = 0; i < pages.size(); ++i) {
    fill(rank, i, pages[i]);
  }
  const Answer answer = run(rank, {.verb = Verb::store, .pages = pages, .ack = Ack::durable});
  REQUIRE(answer.entry.code == 0);
}

Code EngineBench::load_all(BenchRank& rank, const std::vector<std::uint32_t>& pages) {
  std::fill(rank.rows[0].begin(), rank.rows[0].end(), std::uint8_t{0});
  const Answer answer = run(rank, {.verb = Verb::load, .pages = pages});
  for (std::uint32_t i = 0; i < answer.entry.page_count && answer.entry.code == 0; ++i) {
    CHECK(row_holds(rank, i, pages[i]));
  }
  return static_cast<Code>(answer.entry.code);
}

std::optional<std::uint32_t> EngineBench::load(BenchRank& rank, std::uint32_t number) {
  std::fill(rank.rows[0].begin(), rank.rows[0].end(), std::uint8_t{0});
  const Answer answer = run(rank, {.verb = Verb::load, .pages = {number}});
  if (answer.entry.code != 0) {
    CHECK(answer.entry.code == static_cast<std::int32_t>(Code::not_found));
    return std::nullopt;
  }
  CHECK(row_holds(rank, 0, number));
  return answer.entry.pages_from_l3;
}

void EngineBench::drop_l2() {
  PageKeeper& pages = engine->pages();
  Catalog& catalog = *engine->core().catalog;
  for (std::uint16_t family = 0; family < catalog.families(); ++family) {
    LruList& order = catalog.l2_order(FamilyNo{family});
    while (!order.empty()) {
      pages.evict_l2(PageId{order.oldest()});
    }
  }
}

void EngineBench::allocate_all() {
  SlabSet& slabs = engine->core().spaces->slabs();
  for (std::uint16_t id = 0; id < slabs.count(); ++id) {
    while (slabs.slab(SlabId{id}).absent_step()) {
      engine->steps().grow(SlabId{id});
      REQUIRE(engine->steps().is_growing(SlabId{id}));
      run_until([&] { return !engine->steps().is_growing(SlabId{id}); });
    }
  }
}

Slab& EngineBench::slab_of(std::uint32_t part_number, std::uint16_t volume) {
  SpaceSet& spaces = *engine->core().spaces;
  return spaces.slabs().slab(*spaces.family(FamilyNo{}).slab(part_number, volume));
}

FileId EngineBench::slab_file(std::uint32_t part_number) {
  return slab_of(part_number).file();
}

std::uint64_t EngineBench::slot_offset(std::uint32_t number, std::uint32_t part_number) {
  return slab_of(part_number).slot_offset(
      part(number, part_number).slot);
}

}  // namespace hc::test
