// SPDX-License-Identifier: Apache-2.0
// sessions: a bounded table; an id carries the incarnation of its place.
#include "daemon/engine/sessions.h"

#include "proto/check.h"

namespace hc {

SessionTable::SessionTable(std::uint32_t sessions_max, const FlushLedger& ledger)
    : sessions_(sessions_max), ledger_(ledger) {
  HC_CHECK(sessions_max <= 0xFFFF);
}

SessionId SessionTable::open(SpaceNo space, std::uint16_t shard) {
  for (std::uint32_t place = 0; place < sessions_.size(); ++place) {
    EngineSession& session = sessions_[place];
    if (session.open) {
      continue;
    }
    const std::uint32_t incarnation = (session.incarnation + 1) & 0x7FFF;
    session = EngineSession{};
    session.open = true;
    session.space = space;
    session.shard = shard;
    session.incarnation = incarnation;
    session.losses_told = ledger_.last();
    session.op_of_slot.fill(kNone32);
    ++open_count_;
    return SessionId{incarnation << 16 | place};
  }
  return kNoSession;
}

EngineSession* SessionTable::find(SessionId id) {
  const std::uint32_t place = id.value & 0xFFFF;
  if (place >= sessions_.size() || !sessions_[place].open ||
      sessions_[place].incarnation != id.value >> 16) {
    return nullptr;
  }
  return &sessions_[place];
}

void SessionTable::close(SessionId id) {
  EngineSession* session = find(id);
  HC_CHECK(session != nullptr);
  HC_CHECK(session->ops == 0);
  HC_CHECK(session->leases == 0);
  session->open = false;
  --open_count_;
}

std::vector<SessionId> SessionTable::all() const {
  std::vector<SessionId> out;
  for (std::uint32_t place = 0; place < sessions_.size(); ++place) {
    if (sessions_[place].open) {
      out.push_back(SessionId{sessions_[place].incarnation << 16 | place});
    }
  }
  return out;
}

}  // namespace hc
