// SPDX-License-Identifier: Apache-2.0
// session: the shared-memory files of a session.
#include "daemon/session/session.h"

#include <cstring>

#include "proto/check.h"

namespace hc {

namespace {

std::span<const std::uint8_t> request_bytes(const Region& client) {
  return client.bytes().subspan(kRequestsOffset, kRingEntries * sizeof(RequestEntry));
}

std::span<std::uint8_t> completion_bytes(Region& server) {
  return server.writable_bytes().subspan(kCompletionsOffset,
                                         kCompletionEntries * sizeof(CompletionEntry));
}

}  // namespace

SessionRings::SessionRings(MemoryFile client, Region client_map, MemoryFile server,
                           Region server_map, UniqueFd doorbell)
    : requests(request_bytes(client_map),
               server_map.writable_at<ServerHeader>(0)->request_head,
               client_map.at<ClientHeader>(0)->request_tail),
      completions(completion_bytes(server_map),
                  server_map.writable_at<ServerHeader>(0)->completion_tail,
                  client_map.at<ClientHeader>(0)->completion_head),
      client_(std::move(client)),
      client_map_(std::move(client_map)),
      server_(std::move(server)),
      server_map_(std::move(server_map)),
      doorbell_(std::move(doorbell)) {}

Result<std::unique_ptr<SessionRings>> SessionRings::create(UniqueFd&& client_file) {
  WantedFile wanted;
  wanted.size_bytes = kClientFileBytes;
  wanted.is_exact = true;
  wanted.require_sealed = true;
  wanted.allow_huge_pages = false;
  auto client = MemoryFile::from_fd(std::move(client_file), wanted);
  HC_TRY(client);
  RegionOptions client_options;
  client_options.size_bytes = kClientFileBytes;
  auto client_map = Region::map(client->fd(), client_options);
  HC_TRY(client_map);
  auto server = MemoryFile::create("hicache-server", kServerFileBytes);
  HC_TRY(server);
  RegionOptions server_options;
  server_options.size_bytes = kServerFileBytes;
  server_options.read_only = false;
  auto server_map = Region::map(server->fd(), server_options);
  HC_TRY(server_map);
  HC_TRY_VOID(server->finish_seals(true));
  auto doorbell = make_doorbell();
  HC_TRY(doorbell);
  auto& header = *server_map->writable_at<ServerHeader>(0);
  header.magic = kServerFileMagic;
  header.protocol = kProtocolVersion;
  header.fingerprint = layout_fingerprint();
  const auto& theirs = *client_map->at<ClientHeader>(0);
  if (theirs.magic != kClientFileMagic || theirs.fingerprint != layout_fingerprint()) {
    return make_error(Code::refused, "client file: not one of this protocol version");
  }
  return std::make_unique<SessionRings>(std::move(*client), std::move(*client_map),
                                        std::move(*server), std::move(*server_map),
                                        std::move(*doorbell));
}

void SessionRings::write_results(std::uint16_t op_slot, std::span<const FrameRef> frames) {
  HC_CHECK(op_slot < kOpSlotsPerSession);
  HC_CHECK(frames.size_bytes() <= kResultAreaBytes);
  std::memcpy(server_map_.writable_bytes().data() + result_area_offset(op_slot), frames.data(),
              frames.size_bytes());
}

}  // namespace hc
