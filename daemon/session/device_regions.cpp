// SPDX-License-Identifier: Apache-2.0
// device_regions: registrations of device memory, which are answered when it has been opened.
#include <algorithm>
#include <utility>

#include "daemon/session/session_server.h"
#include "proto/check.h"
#include "proto/test_hooks.h"
#include "shm/control_message.h"

namespace hc {

Result<void> SessionServer::check_devices() const {
  if (options_.devices == nullptr) {
    return make_error(Code::unsupported, "region_kind = 2 (cuda): " + options_.no_devices);
  }
  return {};
}

Result<void> SessionServer::check_region_is_free(const Session& session,
                                                 std::uint32_t region) {
  const std::string field = "region = " + std::to_string(region);
  if (engine_->core().sessions.find(session.engine_id)->regions[region].present) {
    return make_error(Code::bad_argument, field + ": is registered already");
  }
  const auto is_it = [&](const auto& at) { return at.region == region; };
  const bool comes = std::any_of(session.pending_regions.begin(), session.pending_regions.end(),
                                 is_it);
  const bool goes = std::any_of(session.pending_ends.begin(), session.pending_ends.end(), is_it);
  return comes  ? make_error(Code::busy, field + ": is being registered")
         : goes ? make_error(Code::busy, field + ": is being unregistered")
                : Result<void>();
}

Result<void> SessionServer::open_region(Session& session, const MessageHeader& header,
                                        const RegionBody& body, EngineRegion judged,
                                        std::vector<UniqueFd>& fds) {
  HC_TRY_VOID(check_devices());
  // So a session never holds more of our descriptors than one message brings.
  const bool has_fds = !fds.empty();
  if (has_fds && std::any_of(session.pending_regions.begin(), session.pending_regions.end(),
                             [](const Session::PendingRegion& at) { return at.has_fds; })) {
    return make_error(Code::busy, "chunks of another region are being opened");
  }
  if (!client_fds_.begin_opening(fds.size())) {
    return make_error(Code::busy, "the driver is asked about " +
                                      std::to_string(client_fds_.opening_max()) +
                                      " chunks of sessions at most");
  }
  const RegionRequest& request = body.request;
  DeviceExport wanted;
  wanted.owner = session.serial;
  wanted.device = request.device;
  wanted.kind = static_cast<ExportKind>(request.export_kind);
  wanted.handle = request.ipc_handle;
  wanted.chunks = body.chunks;
  wanted.fds = std::move(fds);
  wanted.buffer = request.buffer;
  wanted.registration = request.registration;
  wanted.allocation_bytes = request.allocation_bytes;
  wanted.offset_bytes = request.offset_bytes;
  wanted.size_bytes = request.size_bytes;
  wanted.device_free_bytes = request.device_free_bytes;
  wanted.events = body.events;
  fds.clear();
  session.pending_regions.push_back(
      {header.request_id, request.region, has_fds, std::move(judged)});
  options_.devices->open(region_ticket(session, request.region), std::move(wanted));
  HC_FAILPOINT(gpu_export_taken);
  return {};
}

// Nothing is mapped: the client alone knows where the memory is.
Result<void> SessionServer::take_rank_region(Session& session, const RegionBody& body,
                                             EngineRegion judged) {
  if (!session.writes_frames) {
    return make_error(Code::unsupported,
                      "region_kind = 3 (rank): " +
                          (options_.rank_copies
                               ? "the client did not ask for writable arenas when it attached"
                               : options_.no_devices));
  }
  const std::uint32_t number = body.request.region;
  session.copies_itself = body.reason;
  judged.by_rank = true;
  engine_->core().sessions.find(session.engine_id)->regions[number] = std::move(judged);
  ++engine_->core().counters.regions_registered;
  HC_FAILPOINT(rank_region_taken);
  return {};
}

std::uint64_t SessionServer::region_ticket(const Session& session, std::uint32_t region) {
  return session.serial * kRegionsPerSession + region;
}

Session* SessionServer::by_serial(std::uint64_t serial) {
  for (const auto& session : sessions_) {
    if (session != nullptr && session->serial == serial) {
      return session.get();
    }
  }
  return nullptr;
}

void SessionServer::take_opened() {
  if (options_.devices == nullptr) {
    return;
  }
  take_closed();
  opened_.clear();
  options_.devices->poll_opened(opened_);
  for (DeviceOpened& opened : opened_) {
    client_fds_.end_opening(opened.spent);
    Session* const session = by_serial(opened.ticket / kRegionsPerSession);
    const auto region = static_cast<std::uint32_t>(opened.ticket % kRegionsPerSession);
    bool taken = false;
    if (session != nullptr) {
      auto& pending = session->pending_regions;
      const auto found =
          std::find_if(pending.begin(), pending.end(), [&](const Session::PendingRegion& at) {
            return at.region == region;
          });
      taken = found != pending.end() && session->phase == SessionPhase::attached;
      if (taken) {
        const Session::PendingRegion of = std::move(*found);
        pending.erase(found);
        finish_region(*session, of, opened);
      }
    }
    if (!taken && opened.code == Code::ok) {
      options_.devices->close(opened.mapping, 0);  // its session has ended meanwhile
    }
  }
}

void SessionServer::take_closed() {
  closed_.clear();
  options_.devices->poll_closed(closed_);
  for (const std::uint64_t ticket : closed_) {
    Session* const session = by_serial(ticket / kRegionsPerSession);
    if (session == nullptr) {
      continue;
    }
    auto& pending = session->pending_ends;
    const auto found =
        std::find_if(pending.begin(), pending.end(), [&](const Session::PendingEnd& at) {
          return at.region == ticket % kRegionsPerSession;
        });
    if (found != pending.end()) {
      reply(*session, header_for(MessageType::unregister_region, found->request_id), {});
      HC_FAILPOINT(gpu_unregister_answered);
      pending.erase(found);
    }
  }
}

void SessionServer::finish_region(Session& session, const Session::PendingRegion& pending,
                                  const DeviceOpened& opened) {
  const MessageHeader request = header_for(MessageType::register_region, pending.request_id);
  if (opened.code != Code::ok) {
    reply(session, request,
          make_error(opened.code, "region " + std::to_string(pending.region) + ": " + opened.text));
    return;
  }
  EngineSession* engine_session = engine_->core().sessions.find(session.engine_id);
  HC_CHECK(engine_session != nullptr && !engine_session->regions[pending.region].present);
  EngineRegion region = pending.judged;
  region.mapping = opened.mapping;
  region.has_events = opened.has_events;
  engine_session->regions[pending.region] = std::move(region);
  session.regions[pending.region].emplace(ClientRegion{std::nullopt, opened.mapping});
  ++engine_->core().counters.regions_registered;
  reply(session, request, {});
  HC_FAILPOINT(gpu_region_answered);
}

// No copy on it is in flight.
void SessionServer::drop_region(Session& session, std::uint32_t region, std::uint64_t ticket) {
  engine_->core().sessions.find(session.engine_id)->regions[region] = EngineRegion{};
  std::optional<ClientRegion>& at = session.regions[region];
  if (!at) {
    return;
  }
  if (at->mapping != kHostMapping) {
    options_.devices->close(at->mapping, ticket);
  } else {
    regions_.dispose(std::make_shared<ClientRegion>(std::move(*at)));
  }
  at.reset();
}

}  // namespace hc
