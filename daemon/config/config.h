// SPDX-License-Identifier: Apache-2.0
// config: what an operator can set, as one plain struct. The key names are those of the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <vector>

#include "proto/result.h"

namespace hc {

enum class ColdStart : std::uint8_t { clear, load, hold };
enum class DiskBackend : std::uint8_t { automatic, uring_fixed, uring, threads };
// A start without a volume that the store has had.
enum class MissingVolume : std::uint8_t { refuse, drop };

// One [[l3.volume]].
struct VolumeConfig {
  std::string dir;
  std::uint64_t bytes = 0;
  std::uint64_t inflight_bytes = 0;  // 0: l3.io_inflight_bytes
};

// Who copies between a GPU and L2: the daemon (ipc), or the engine's rank; off: nobody.
enum class GpuTransfer : std::uint8_t { automatic, ipc, rank, off };
enum class LoadVerify : std::uint8_t { before, lazy };
// When a stored page goes to disk: at once; once it has proved its use; when it leaves memory.
enum class SpillPolicy : std::uint8_t { write_through, selective, write_back };

const char* cold_start_name(ColdStart mode);
// unsupported: no such mode.
Result<ColdStart> parse_cold_start(const std::string& name);
const char* disk_backend_name(DiskBackend backend);
const char* spill_policy_name(SpillPolicy policy);
const char* gpu_transfer_name(GpuTransfer transfer);

struct Config {
  // [daemon]
  std::string runtime_dir = "/run/hicached";    // sockets: hicached.sock, admin.sock
  std::string log_level = "info";
  std::string tenant = "default";               // tenant of every peer of this socket
  std::string socket_mode = "0660";             // octal, of hicached.sock
  std::uint32_t spin_us = 0;                    // look at rings that long before sleeping; 0: auto

  // [l2]
  std::uint64_t l2_bytes = 1ULL << 30;          // sum of all frames
  std::uint64_t arena_bytes = 0;                // 0: min(1 GiB, l2 / 16)
  bool huge_pages = false;                      // try; one log line when it does not work
  std::uint32_t prefault_threads = 0;           // 0: one per processor, at most 16
  std::uint32_t copier_threads = 0;             // 0: min(4, cores)
  std::uint64_t family_bytes = 0;               // the most one family takes; 0: what is left

  // [l3]
  std::string volume_dir = "/var/lib/hicached"; // slabs and superblock
  std::string index_dir;                        // LMDB; empty: volume_dir
  std::uint64_t l3_bytes = 16ULL << 30;         // hard budget of allocated slab bytes
  std::uint32_t reserve_slots = 0;              // per slab, kept free for commits; 0: automatic
  DiskBackend disk_backend = DiskBackend::automatic;
  std::uint32_t io_threads = 8;                 // threads back end only
  std::uint64_t io_inflight_bytes = 96ULL << 20;  // of each volume
  std::uint32_t io_timeout_ms = 30'000;         // by when a device must have answered
  std::uint32_t commit_interval_ms = 2000;
  std::uint32_t commit_pages = 8192;            // commit early at this many waiting parts
  std::uint32_t lock_wait_ms = 60'000;          // for a predecessor that still holds the volume
  MissingVolume missing_volume = MissingVolume::refuse;
  std::vector<VolumeConfig> volumes;            // empty: volume_dir with l3_bytes is the only one

  SpillPolicy spill_policy = SpillPolicy::write_through;
  std::uint32_t spill_min_uses = 2;             // selective: uses before a page goes to disk
  std::uint32_t dirty_percent = 75;             // write_back: of the frames; more are spilled

  // [cold_start]
  ColdStart cold_start = ColdStart::clear;
  LoadVerify load_verify = LoadVerify::before;

  // [gpu]
  GpuTransfer gpu_transfer = GpuTransfer::automatic;
  std::string gpu_library = "libcuda.so.1";     // the CUDA driver: a name or a path

  // [limits]
  std::uint32_t sessions_max = 64;
};

// The volumes in their order, in either form.
std::vector<VolumeConfig> effective_volumes(const Config& config);
std::vector<std::string> volume_dirs(const Config& config);
std::vector<std::uint64_t> volume_bytes(const Config& config);
std::vector<std::uint64_t> volume_inflight(const Config& config);
std::uint64_t total_l3_bytes(const Config& config);
// Every rule on values; names the key, the value and the allowed range.
Result<void> validate_config(const Config& config);
// Reads a TOML file over the defaults. Unknown keys are errors. The line names file and line.
Result<Config> load_config(const std::string& path);
// The effective configuration as TOML, for --check-config.
std::string render_config(const Config& config);

}  // namespace hc
