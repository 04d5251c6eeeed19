// SPDX-License-Identifier: Apache-2.0
// engine_sessions: attaching, ending and rebinding sessions.
#include "daemon/engine/engine.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

Error not_serving(EngineState state) {
  return make_error(Code::not_ready,
                    state == EngineState::loading
                        ? "the daemon loads its store: cachectl status shows how far it is"
                        : "the daemon holds its cold start: cachectl cold-start load|clear");
}

Result<Engine::Attachment> Engine::attach(const AttachSpec& spec) {
  if (state_ != EngineState::serving) {
    return not_serving(state_);
  }
  if (clearing_store_) {
    return make_error(Code::busy, "the store is being cleared");
  }
  HC_TRY_VOID(validate_space(spec.descriptor));
  auto space = spaces_->add(spec.descriptor, spec.shards_on_node);
  HC_TRY(space);
  HC_FAILPOINT(attach_space_added);
  Family& family = core_->family_of(*space);
  // Whatever fails: a family has its records, and every open slab its order.
  const auto opened = spaces_->open_slabs(family.number, spec.shard);
  works_->open_catalog();
  HC_TRY(opened);
  HC_TRY_VOID(core_->quotas.judge(family, spec.quota));
  const SessionId session = core_->sessions.open(*space, spec.shard);
  if (session == SessionTable::kNoSession) {
    return make_error(Code::busy, "limits.sessions_max = " +
                                      std::to_string(core_->options.sessions_max) +
                                      " sessions are attached");
  }
  core_->sessions.find(session)->group = spec.quota.group;
  const std::uint64_t granted = core_->quotas.join(session, family, spec.quota);
  ++family.sessions;
  ++core_->counters.sessions_opened;
  HC_FAILPOINT(attach_done);
  return Attachment{session, *space, granted};
}

void Engine::begin_switch(SessionId session) {
  end_service(session);
  core_->sessions.find(session)->switches = true;
}

void Engine::stay(SessionId id) {
  EngineSession* session = core_->sessions.find(id);
  session->ended = false;
  session->switches = false;
}

void Engine::end_service(SessionId session) {
  wants_turn_ = true;
  core_->sessions.find(session)->switches = false;
  verbs_->end_session_ops(session);
  if (HC_MUTANT(lease_freed_at_eof)) {
    release_leases(session);
  }
}

bool Engine::is_quiet(SessionId session) {
  const EngineSession* found = core_->sessions.find(session);
  HC_CHECK(found != nullptr);
  return found->ops == 0;
}

bool Engine::awaits_rank(SessionId session, const RequestEntry& entry) {
  const EngineSession* found = core_->sessions.find(session);
  const std::uint32_t op = found->op_of_slot[entry.op_slot];
  return op != kNone32 && !core_->ops.op(op).with_rank.empty() &&
         (core_->ops.op(op).request.entry.op_sequence == entry.op_sequence ||
          HC_MUTANT(rank_word_of_any_use));
}

void Engine::rank_copied(SessionId session, const RequestEntry& entry) {
  wants_turn_ = true;
  const std::uint32_t op = core_->sessions.find(session)->op_of_slot[entry.op_slot];
  const bool failed = entry.target_sequence != 0 && !HC_MUTANT(rank_failure_believed);
  works_->ranks.finish(op, failed ? Code::io_error : Code::ok);
}

void Engine::give_up_rank(SessionId session) {
  wants_turn_ = true;
  works_->ranks.give_up(session);
}

std::size_t Engine::release_leases(SessionId session) {
  const std::vector<LeaseId> leases = core_->leases.leases_of(session);
  wants_turn_ = true;
  for (const LeaseId lease : leases) {
    verbs_->ends().release_lease(lease);
  }
  return leases.size();
}

void Engine::close_session(SessionId session) {
  Family& family = core_->family_of(session);
  HC_CHECK(family.sessions > 0);
  --family.sessions;
  core_->quotas.leave(session);
  core_->sessions.close(session);
  ++core_->counters.sessions_closed;
}

Result<SpaceNo> Engine::switch_space(SessionId id, const std::string& weight_version) {
  EngineSession* session = core_->sessions.find(id);
  HC_CHECK(session != nullptr);
  HC_CHECK(session->ops == 0);
  SpaceDescriptor descriptor = spaces_->space(session->space).descriptor;
  descriptor.weight_version = weight_version;
  HC_TRY_VOID(validate_space(descriptor));
  auto space = spaces_->add(descriptor, core_->family_of(id).shards_on_node);
  HC_TRY(space);
  HC_FAILPOINT(switch_space_added);
  release_leases(id);  // only now: a refused switch costs nothing
  session->space = *space;
  session->ended = false;
  session->switches = false;
  return *space;
}

}  // namespace hc
