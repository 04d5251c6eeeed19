// SPDX-License-Identifier: Apache-2.0
// hand_over: a client that attaches again brings the leases that it still holds of the session
// before. They are its own when the kernel says that it is the same process, and nothing else than
// the session has come to an end: what a breach of protocol has ended stays ended.
#include <unistd.h>

#include "daemon/log/log.h"
#include "daemon/os/pidfd.h"
#include "daemon/session/session_server.h"
#include "proto/check.h"

namespace hc {

namespace {

// A process that lives keeps its number, so equal numbers are one process. Where the numbers of
// another process namespace read 0 the descriptors may tell.
bool is_same_process(const Session& older, const Session& newer) {
  const bool can_tell = older.is_named && newer.is_named && !older.client_dead &&
                        !pidfd_is_dead(older.client_pidfd.get()) &&
                        !pidfd_is_dead(newer.client_pidfd.get());
  return can_tell && ((older.peer.pid != 0 && older.peer.pid == newer.peer.pid) ||
                      pidfds_are_of_one(older.client_pidfd.get(), newer.client_pidfd.get()));
}

bool may_follow(const Session& newer, const Session& older) {
  const bool same_place = older.group == newer.group && older.rank == newer.rank;
  const bool is_sound = !older.detached && !older.broken && older.end_code != Code::protocol;
  return same_place && is_sound && is_same_process(older, newer);
}

}  // namespace

// The session that the request names. A client may never have heard of one that followed it: its
// attach was given up while the answer was on its way. Then that one has the leases.
Session* SessionServer::predecessor(const Session& newer, const AttachRequest& request) {
  Session* found = nullptr;
  for (const auto& other : sessions_) {
    const bool is_named = request.previous_session != 0 && other != nullptr &&
                          other->number != newer.number && other->in_engine() &&
                          (other->serial == request.previous_session ||
                           other->follows == request.previous_session);
    if (is_named && (found == nullptr || found->serial < other->serial)) {
      found = other.get();
    }
  }
  const bool is_ours = found != nullptr && request.previous_daemon == daemon_instance_ &&
                       may_follow(newer, *found);
  return is_ours ? found : nullptr;
}

// The list is read once, into private memory, and only where somebody holds as many leases.
Result<SessionServer::BroughtLeases> SessionServer::brought_leases(
    const Session& newer, const AttachRequest& request, std::span<const UniqueFd> list) {
  BroughtLeases brought;
  Session* const older = predecessor(newer, request);
  if (older == nullptr ||
      request.lease_count > engine_->core().sessions.find(older->engine_id)->leases) {
    return brought;
  }
  brought.older = older;
  brought.named = request.previous_session;
  brought.leases.resize(request.lease_count);
  if (list.empty()) {
    return brought;
  }
  const std::size_t bytes = brought.leases.size() * sizeof(LeaseId);
  if (!is_memory_file(list.front().get()) ||
      ::pread(list.front().get(), brought.leases.data(), bytes, 0) !=
          static_cast<ssize_t>(bytes)) {
    return make_error(Code::bad_argument, "attach: the list of leases is no memory file of " +
                                              std::to_string(bytes) + " bytes");
  }
  return brought;
}

// A client that is refused for good does not come back for what it has.
void SessionServer::give_up(const BroughtLeases& brought, Code code) {
  if (brought.older != nullptr && attach_is_final(code)) {
    brought.older->hands_off = true;
    brought.older->detached = true;
    end(*brought.older, Code::cancelled, "its client was refused");
  }
}

// In one step, before the older session hears of its end: what it does not hand over, and what its
// operations still bring it, ends with it.
void SessionServer::take_over(Session& newer, const BroughtLeases& brought) {
  if (brought.older == nullptr) {
    return;
  }
  Session& older = *brought.older;
  older.hands_off = true;  // its client attaches again only when its own copies have ended
  end(older, Code::superseded, "its client attached again");
  newer.leases_kept = engine_->hand_over(older.engine_id, newer.engine_id, brought.leases);
  newer.follows = newer.leases_kept ? brought.named : 0;
  log_info("session.leases", {{"session", newer.number},
                              {"before", older.number},
                              {"listed", std::uint64_t{brought.leases.size()}},
                              {"kept", std::uint32_t{newer.leases_kept ? 1U : 0U}}});
}

}  // namespace hc
