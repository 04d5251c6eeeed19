// SPDX-License-Identifier: Apache-2.0
// rank_side: see the header.
#include "tests/sim/rank_side.h"

namespace hc::sim {

void RankSide::begin(SimSession& session, SimOp& op, std::span<const FrameRef> frames) {
  Core& core = world_.core();
  Family& family = core.family_of(session.id);
  const EngineRegion& region = core.sessions.find(session.id)->regions[0];
  const std::uint32_t number = next_batch_++;
  Batch& batch = batches_[number];
  batch.serial = op.serial;
  batch.session = op.session;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const FrameRef& ref = frames[i];
    if (ref.frame == kNone32) {
      continue;
    }
    const std::size_t page = i / kKindsMax;
    world_.laws.expect(ref.kind == i % kKindsMax && page < op.rows.size(), 0,
                       "a rank is told of a frame in another page's place");
    std::vector<CopyRun>& runs = batch.runs.emplace_back();
    CopyJob job;
    for (const LayoutRun& run : region.layouts[ref.kind].runs) {
      const std::uint64_t at = op.rows[page] * run.stride_bytes;
      runs.push_back({region.base + run.offset_bytes + at, run.length_bytes});
      job.payload_bytes += run.length_bytes;
    }
    job.kind = op.verb() == Verb::store ? CopyKind::gather : CopyKind::scatter;
    job.frame = family.frames[ref.kind].payload(FrameId{ref.frame});
    job.padded_bytes = job.payload_bytes;  // what follows is the daemon's to write
    job.runs = runs;
    job.ticket = next_ticket_++;
    batch_of_[job.ticket] = number;
    ++batch.left;
    HC_CHECK(world_.ranks.submit(job) == Code::ok);
  }
  world_.laws.expect(batch.left > 0, 4, "a rank is told of nothing");
  ++world_.tally.rank_batches;
}

void RankSide::turn(std::span<SimSession> sessions, std::map<std::uint32_t, SimOp>& ops) {
  std::vector<CopyCompletion> done;
  world_.ranks.poll(done);
  for (const CopyCompletion& copy : done) {
    const auto found = batches_.find(batch_of_.at(copy.ticket));
    batch_of_.erase(copy.ticket);
    Batch& batch = found->second;
    batch.failed = batch.failed || copy.code != Code::ok;
    if (--batch.left > 0) {
      continue;
    }
    const SimSession& session = sessions[batch.session];
    const auto op = ops.find(batch.serial);
    world_.laws.expect(op != ops.end(), 7, "an operation ended while its rank was copying");
    RequestEntry word = op->second.entry;
    word.verb = static_cast<std::uint8_t>(Verb::copied);
    word.target_sequence =
        batch.failed ? static_cast<std::uint32_t>(Code::memory_fault) : 0;
    batches_.erase(found);
    world_.laws.expect(world_.engine->awaits_rank(session.id, word), 4,
                       "nobody waits for the word of a rank");
    if (!session.dead) {
      world_.engine->rank_copied(session.id, word);
    }
  }
  for (std::uint32_t number = 0; number < sessions.size(); ++number) {
    const SimSession& session = sessions[number];
    if (session.dead && !copies_for(number) && world_.engine->is_with_rank(session.id)) {
      world_.engine->give_up_rank(session.id);
    }
  }
}

bool RankSide::copies_for(std::uint32_t session) const {
  for (const auto& [number, batch] : batches_) {
    if (batch.session == session) {
      return true;
    }
  }
  return false;
}

void RankSide::daemon_died() {
  batches_.clear();
  batch_of_.clear();
}

}  // namespace hc::sim
