// SPDX-License-Identifier: Apache-2.0
// daemon_options: keys of the configuration into options of rooms.
#include "daemon/daemon_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/process_setup.h"

namespace hc {

SessionServerOptions session_options(const Config& config, DeviceMemory& devices) {
  SessionServerOptions options;
  options.tenant = config.tenant;
  options.sessions_max = config.sessions_max;
  const bool copies = config.gpu_transfer == GpuTransfer::automatic ||
                      config.gpu_transfer == GpuTransfer::ipc;
  options.devices = copies ? &devices : nullptr;
  options.rank_copies = config.gpu_transfer == GpuTransfer::automatic ||
                        config.gpu_transfer == GpuTransfer::rank;
  // Half of the descriptors stay for files, rings and the index, whatever clients send.
  const auto quarter =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(file_limit() / 4, UINT32_MAX));
  options.fds.closing_max = std::min(options.fds.closing_max, quarter);
  options.fds.opening_max = std::min(config.sessions_max * kMessageFdsMax, quarter);
  options.no_devices = std::string("gpu.transfer = ") + gpu_transfer_name(config.gpu_transfer);
  return options;
}

EngineOptions engine_options(const Config& config, std::function<void()> on_progress) {
  EngineOptions options;
  options.commit_interval_ms = config.commit_interval_ms;
  options.commit_parts = config.commit_pages;
  options.io_timeout_ms = config.io_timeout_ms;
  options.volume_inflight_bytes = volume_inflight(config);
  options.sessions_max = config.sessions_max;
  options.spill = {config.spill_policy, config.spill_min_uses, config.dirty_percent};
  options.load_lazily = config.load_verify == LoadVerify::lazy;
  options.spaces.l2_bytes = config.l2_bytes;
  options.spaces.l2_family_bytes = config.family_bytes;
  options.spaces.volume_bytes = volume_bytes(config);
  options.drop_missing_volumes = config.missing_volume == MissingVolume::drop;
  options.spaces.reserve_slots = config.reserve_slots;
  options.spaces.status_key = random_word();
  options.spaces.arenas.try_huge_pages = config.huge_pages;
  options.spaces.arenas.prefault_threads = config.prefault_threads;
  options.spaces.arenas.on_progress = std::move(on_progress);
  const std::uint64_t chosen = std::min<std::uint64_t>(1ULL << 30, config.l2_bytes / 16);
  options.spaces.arenas.arena_bytes = config.arena_bytes != 0 ? config.arena_bytes : chosen;
  return options;
}

}  // namespace hc
