// SPDX-License-Identifier: Apache-2.0
// fake_live: what the fake daemon holds of its present session.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/check.h"
#include "unit/client/fake_daemon.h"

namespace hc::test {

template <typename T>
T must(Result<T> result) {
  HC_CHECK(result.has_value());
  return std::move(*result);
}

template <WireStruct Record>
std::span<const std::uint8_t> bytes_of(const Record& record) {
  return {reinterpret_cast<const std::uint8_t*>(&record), sizeof record};
}

inline std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

struct FakeDaemon::Live {
  AttachRequest request{};
  SpaceDescriptor space;
  Region client_file;
  MemoryFile server_memory;
  Region server_file;
  UniqueFd doorbell;
  StatusTableWriter table;
  GenerationsWriter generations;
  std::vector<MemoryFile> arena_memory;
  std::vector<Region> arenas;
  std::vector<ArenaInfo> infos;  // one arena per kind
  std::vector<LeaseId> leases;   // that the client listed
  std::map<std::uint32_t, std::pair<RegionRequest, UniqueFd>> regions;
  std::optional<RequestConsumer> requests;
  std::optional<CompletionProducer> completions;

  ClientHeader* client() { return const_cast<ClientHeader*>(client_file.at<ClientHeader>(0)); }
  ServerHeader* server() { return server_file.writable_at<ServerHeader>(0); }
};

}  // namespace hc::test
