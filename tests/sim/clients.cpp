// SPDX-License-Identifier: Apache-2.0
// clients: sessions and requests.
#include "tests/sim/clients.h"

#include <algorithm>

#include "tests/sim/rank_side.h"

namespace hc::sim {

Clients::Clients(World& world) : world_(world), rank_side_(std::make_unique<RankSide>(world)) {
  for (SimCopier* copier : {&world_.copier, &world_.ranks}) {
    copier->set_may_touch(
        [this](const CopyRun& run, bool write) { return may_touch(run, write); });
    copier->set_on_fault([this](const CopyRun& run) {
      if (SimOp* op = op_of_memory(run)) {
        op->faulted = true;
      }
    });
  }
  world_.copier.set_on_await([this](const CopyJob& job) { finish_work(job); });
}

Clients::~Clients() = default;

bool Clients::may_touch(const CopyRun& run, bool write) {
  const SimOp* op = op_of_memory(run);
  return op != nullptr && op->verb() == (write ? Verb::load : Verb::store);
}

SimOp* Clients::op_of_memory(const CopyRun& run) {
  for (const SimSession& session : sessions_) {
    std::uint32_t row = 0;
    if (session.memory == nullptr ||
        !session.memory->find_row(host_address(run), run.size_bytes, row)) {
      continue;
    }
    const auto op = ops_.find(session.memory->owner(row));
    return op == ops_.end() ? nullptr : &op->second;
  }
  return nullptr;
}

bool Clients::attach(std::uint32_t number, std::uint32_t version, std::uint16_t shard,
                     const QuotaAsk& quota) {
  const Scenario& scenario = world_.scenario;
  SimSession& session = sessions_[number];
  HC_CHECK(session.state == SimSession::State::closed);
  const auto attached = world_.engine->attach(
      {scenario.with_version(version), scenario.shards_on_node, shard, quota});
  world_.trace.add("attach", number, version, shard,
                   attached ? 0 : static_cast<std::uint64_t>(attached.error().code));
  if (!attached) {
    return false;
  }
  session = SimSession{};
  session.state = SimSession::State::open;
  session.id = attached->session;
  session.version = version;
  session.shard = shard;
  session.losses_told = world_.losses.size();
  session.memory = std::make_unique<ClientMemory>(scenario.space_of(version), scenario.region_rows,
                                                  world_.prng);
  world_.core().sessions.find(session.id)->regions[0] = session.memory->engine_region();
  prepare_gpu(session, number);
  return true;
}

void Clients::begin_close(std::uint32_t number) {
  SimSession& session = sessions_[number];
  world_.trace.add("close", number);
  session.state = SimSession::State::closing;
  session.quiet_by = world_.clock.time() + memory_bound_ns_;
  session.dead = session.gpu == GpuUse::rank && world_.gpu_prng.one_in(2);
  mark_cancelled(number);
  world_.engine->end_service(session.id);
}

void Clients::mark_cancelled(std::uint32_t number) {
  for (auto& [serial, op] : ops_) {
    op.cancelled = op.cancelled || op.session == number;
  }
}

void Clients::begin_switch(std::uint32_t number, std::uint32_t version) {
  SimSession& session = sessions_[number];
  world_.trace.add("switch", number, version);
  session.state = SimSession::State::switching;
  session.next_version = version;
  session.quiet_by = world_.clock.time() + memory_bound_ns_;
  mark_cancelled(number);
  world_.engine->begin_switch(session.id);
}

void Clients::turn() {
  if (world_.gpus) {
    rank_side_->turn(sessions_, ops_);
  }
  for (SimSession& session : sessions_) {
    const bool closing = session.state == SimSession::State::closing;
    if (!closing && session.state != SimSession::State::switching) {
      continue;
    }
    if (!world_.engine->is_quiet(session.id)) {
      world_.laws.expect(world_.clock.time() <= session.quiet_by, 5,
                         "an ended session does not get quiet");
      continue;
    }
    world_.laws.expect(session.ops == 0, 4, "a quiet session has open operations");
    const std::size_t leases = world_.engine->release_leases(session.id);
    world_.laws.expect(leases == session.leases.size(), 5, "leases that the client never got");
    session.leases.clear();
    if (closing) {
      world_.copier.cancel_awaits(static_cast<MappingId>(&session - sessions_.data()));
      world_.engine->close_session(session.id);
      session = SimSession{};
      continue;
    }
    const Scenario& scenario = world_.scenario;
    const auto switched = world_.engine->switch_space(
        session.id, scenario.with_version(session.next_version).weight_version);
    world_.trace.add("switched", session.next_version, switched ? 1 : 0);
    if (!switched) {
      session.state = SimSession::State::closing;
      continue;
    }
    session.version = session.next_version;
    session.state = SimSession::State::open;
  }
}

void Clients::daemon_died() {
  rank_side_->daemon_died();
  ops_.clear();
  for (SimSession& session : sessions_) {
    session = SimSession{};
  }
}

OpRequest Clients::make_request(const SimOp& op, bool metadata) const {
  OpRequest request;
  request.entry = op.entry;
  for (std::uint32_t i = 0; i < op.pages.size(); ++i) {
    PageEntry page{};
    page.hash = world_.scenario.universe.hash(op.pages[i]);
    page.row = op.rows.empty() ? 0 : op.rows[i];
    page.owner = world_.scenario.universe.owner(op.pages[i]);
    if (metadata) {
      const auto bytes = content_metadata(world_.scenario.universe, op.pages[i]);
      page.metadata_offset = static_cast<std::uint32_t>(request.metadata.size());
      page.metadata_bytes = static_cast<std::uint16_t>(bytes.size());
      request.metadata.insert(request.metadata.end(), bytes.begin(), bytes.end());
    }
    request.pages.push_back(page);
  }
  return request;
}

bool Clients::submit(std::uint32_t number, const Draft& draft) {
  SimSession& session = sessions_[number];
  const auto slot = static_cast<std::uint16_t>(
      std::find(session.op_of_slot.begin(), session.op_of_slot.end(), 0U) -
      session.op_of_slot.begin());
  const bool needs_rows = draft.verb == Verb::store || draft.verb == Verb::load;
  if (slot >= kOpSlotsPerSession ||
      (needs_rows && session.memory->free_rows() < draft.pages.size())) {
    return false;
  }
  SimOp op;
  op.serial = next_serial_++;
  op.session = number;
  op.version = session.version;
  op.pages = draft.pages;
  op.entry.verb = static_cast<std::uint8_t>(draft.verb);
  op.entry.flags = draft.flags;
  op.entry.ack = static_cast<std::uint8_t>(draft.ack);
  op.entry.kind_mask = draft.kind_mask;
  op.entry.hint = draft.hint;
  op.entry.op_slot = slot;
  op.entry.op_sequence = ++session.uses[slot];
  op.entry.deadline_ms = draft.deadline_ms;
  op.entry.page_count = static_cast<std::uint32_t>(draft.pages.size());
  op.entry.lease = draft.lease;
  op.entry.client_data = op.serial;
  if (const auto target = ops_.find(draft.target); target != ops_.end()) {
    target->second.cancelled = true;
    op.entry.target_slot = target->second.entry.op_slot;
    op.entry.target_sequence = target->second.entry.op_sequence;
  }
  op.deadline = world_.clock.time() + std::int64_t{draft.deadline_ms} * kNsPerMs;
  if (needs_rows) {
    prepare_rows(session, op);
  }
  before_submit(session, op);
  world_.trace.add("submit", op.serial, op.entry.verb, number,
                   draft.pages.empty() ? 0 : draft.pages.front());
  const std::uint32_t serial = op.serial;
  const OpRequest request = make_request(op, draft.metadata);
  op.in_submit = true;
  session.op_of_slot[slot] = serial;
  ++session.ops;
  ++world_.tally.operations;
  ops_.emplace(serial, std::move(op));
  world_.engine->begin_turn(world_.clock.time());
  world_.engine->submit(session.id, request);
  after_submit(serial);
  return true;
}

void Clients::before_submit(SimSession& session, SimOp& op) {
  op.submitted = world_.model.next();
  const bool reads = op.verb() == Verb::load || op.verb() == Verb::reload ||
                     op.verb() == Verb::pin;
  for (std::uint32_t i = 0; i < op.pages.size(); ++i) {
    PageTruth& truth = world_.model.at(op.version, op.pages[i]);
    if (op.verb() == Verb::store) {
      truth.stored = op.submitted;
    } else if (op.verb() == Verb::free_object) {
      ++truth.frees_open;
      op.gone_before.push_back(truth.gone);
      truth.gone = op.submitted;
    }
    if (reads) {
      op.there.push_back(page_is_there(session, op, i, op.verb() == Verb::pin));
      op.blobs.push_back(blobs_of(session, op, i));
    }
  }
  op.unanswered = world_.unanswered();
  op.meets_overdue = world_.core().io.overdue() > 0;
  if (op.verb() == Verb::free_object) {
    note_wipes(session, op);
  }
  if (op.verb() == Verb::flush) {
    note_underway(op, true);
    for (const Underway& part : op.underway) {
      op.barrier = std::max(op.barrier, part.barrier);
    }
    const LruList& held_back = world_.core().catalog->held_back();
    for (std::uint32_t at = held_back.oldest(); at != kNone32; at = held_back.newer_than(at)) {
      op.barrier = std::max(op.barrier, world_.core().catalog->part(PartRef{at}).barrier);
    }
    op.losses = world_.losses.size();
  }
}

// The parts that are unsettled now: of everybody, or those of the operation's own pages.
void Clients::note_underway(SimOp& op, bool all) {
  Catalog& catalog = *world_.core().catalog;
  LruList& unsettled = catalog.unsettled();
  for (std::uint32_t at = unsettled.oldest(); at != kNone32; at = unsettled.newer_than(at)) {
    const PageHash& hash = catalog.page(catalog.page_of(PartRef{at})).hash;
    const SimSession& session = sessions_[op.session];
    bool mine = all;
    for (std::uint32_t i = 0; i < op.pages.size() && !mine; ++i) {
      const Parts parts = parts_of_page(session, op, i);
      mine = world_.scenario.universe.hash(op.pages[i]) == hash &&
             catalog.page(catalog.page_of(PartRef{at})).space ==
                 world_.core().sessions.find(session.id)->space &&
             std::count(parts.begin(), parts.end(), catalog.part_of(PartRef{at})) > 0;
    }
    if (mine) {
      op.underway.push_back({PartRef{at}, catalog.part(PartRef{at}).barrier, hash});
    }
  }
}

void Clients::note_wipes(const SimSession& session, SimOp& op) {
  Core& core = world_.core();
  for (const std::uint32_t number : op.pages) {
    const PageHash hash = world_.scenario.universe.hash(number);
    const PageId page = core.catalog->find(core.sessions.find(session.id)->space, hash);
    for (std::uint32_t at = 0; page != kNoPage && at < core.catalog->parts_per_page(page); ++at) {
      const Part& part = core.catalog->part(core.catalog->ref(page, at));
      if (part.l3 >= L3State::written) {
        const Slab& slab = core.spaces->slabs().slab(part.slab);
        op.wipes.push_back({slab.file(), slab.slot_offset(part.slot), part.generation, hash});
      }
    }
  }
}

void Clients::after_submit(std::uint32_t serial) {
  const auto found = ops_.find(serial);
  if (found == ops_.end()) {
    return;
  }
  found->second.in_submit = false;
  if (found->second.verb() == Verb::store) {
    note_underway(found->second, false);
  }
  if (found->second.verb() == Verb::flush) {  // what was held back is on its way, all of it
    found->second.barrier = world_.core().next_barrier - 1;
    world_.laws.expect(world_.core().catalog->held_back().empty(), 2,
                       "a flush leaves something behind");
  }
  SimSession& session = sessions_[found->second.session];
  found->second.waited = waits_for_room(session, found->second);
  if (!found->second.waited) {
    judge_touches(session, found->second);
  }
}

// Every page, when the operation began.
bool Clients::were_there(const SimSession& session, const SimOp& op) {
  bool all = true;
  for (std::uint32_t i = 0; i < op.pages.size(); ++i) {
    all = all && (op.waited ? page_is_there(session, op, i, op.verb() == Verb::pin) : op.there[i]);
  }
  return all;
}

bool Clients::waits_for_room(const SimSession& session, const SimOp& op) const {
  const std::uint32_t index =
      world_.core().sessions.find(session.id)->op_of_slot[op.entry.op_slot];
  return world_.core().ops.op(index).waits;
}

void Clients::end_op(SimSession& session, SimOp& op, const CompletionEntry& entry) {
  if (op.session >= kSimSessions) {
    on_quota_end_(op, entry);
  }
  give_memory_back(session, op);
  session.op_of_slot[op.entry.op_slot] = 0;
  --session.ops;
  ops_.erase(op.serial);
}

void Clients::check_deadlines(Instant now) {
  for (const auto& [serial, op] : ops_) {
    // What a dead rank's device has not done yet holds all that it was told of: law 5 bounds that.
    if (op.deadline > now || sessions_[op.session].dead) {
      continue;
    }
    world_.laws.expect(op.late, 4, "an operation is silent past its deadline");
    world_.laws.expect(now - op.deadline <= memory_bound_ns_, 4,
                       "a late operation does not end");
  }
}

}  // namespace hc::sim
