// SPDX-License-Identifier: Apache-2.0
// clients_rows: the rows of client memory that an operation names: what they hold, and when they
// are the client's again.
#include "tests/sim/clients.h"

namespace hc::sim {

void Clients::prepare_gpu(SimSession& session, std::uint32_t number) {
  if (!world_.gpus || world_.auditing || world_.gpu_prng.one_in(3)) {
    return;
  }
  EngineRegion& region = world_.core().sessions.find(session.id)->regions[0];
  session.gpu = world_.gpu_prng.one_in(2) ? GpuUse::ipc : GpuUse::rank;
  region.by_rank = session.gpu == GpuUse::rank;
  region.has_events = session.gpu == GpuUse::ipc;
  region.mapping = session.gpu == GpuUse::ipc ? number : kHostMapping;
}

// A store's rows hold the content of its pages, a load's rows hold junk, as do those of a store
// whose client is still at work.
void Clients::prepare_rows(SimSession& session, SimOp& op) {
  const bool may_await = session.gpu == GpuUse::ipc;
  if (may_await && world_.gpu_prng.one_in(2)) {
    op.entry.flags |= kFlagAwaitEvent;
    op.fills_later = op.verb() == Verb::store;
    ++world_.tally.awaits;
  }
  for (std::size_t i = 0; i < op.pages.size(); ++i) {
    op.rows.push_back(session.memory->take_row(op.serial));
    if (op.verb() == Verb::load || op.fills_later) {
      session.memory->scribble(op.rows[i], static_cast<std::uint8_t>(op.serial));
    }
  }
  if (op.verb() == Verb::store && !op.fills_later) {
    fill_rows(session, op);
  }
}

void Clients::fill_rows(SimSession& session, const SimOp& op) {
  std::vector<std::uint8_t> payload;
  for (std::uint32_t i = 0; i < op.pages.size(); ++i) {
    for (const std::uint32_t part : parts_of_page(session, op, i)) {
      const Family& family = world_.core().family_of(session.id);
      const PartSpec& spec = family.parts[part];
      payload.resize(family.descriptor.kinds[spec.kind].payload_bytes);
      fill_content(world_.scenario.universe, world_.content_key(op.version, op.pages[i], part),
                   payload);
      session.memory->write(op.rows[i], spec.kind, payload);
    }
  }
}

// The event of an operation slot is reached: the operation that has the slot now may be copied.
void Clients::finish_work(const CopyJob& await) {
  SimSession& session = sessions_[await.mapping];
  const auto found = ops_.find(session.op_of_slot[await.event]);
  if (found != ops_.end() && found->second.fills_later && !found->second.memory_back) {
    found->second.fills_later = false;
    fill_rows(session, found->second);
  }
}

void Clients::give_memory_back(SimSession& session, SimOp& op) {
  if (op.memory_back) {
    return;
  }
  op.memory_back = true;
  for (const std::uint32_t row : op.rows) {
    world_.laws.expect(session.memory->guards_are_whole(row), 7,
                       "bytes between the payloads were written");
    session.memory->set_owner(row, 0);
    session.memory->scribble(row, 0xEE);  // the client uses its memory for something else
  }
}

void Clients::scribble_late(std::uint32_t number) {
  SimSession& session = sessions_[number];
  for (const auto& [serial, op] : ops_) {
    if (op.session == number && op.late && op.verb() == Verb::store && !op.memory_back) {
      for (const std::uint32_t row : op.rows) {
        session.memory->scribble(row, 0xDD);
      }
    }
  }
}

}  // namespace hc::sim
