// SPDX-License-Identifier: Apache-2.0
// bench_plan: what `bench replay` was asked for, and what follows from it.
//
// Owner thread: any; plain data. Invariants: a BenchPlan has passed every check on values, so
// later steps can fail for reasons of the machine only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/rank_region.h"
#include "client/ctl/reload_options.h"
#include "client/ctl/trace.h"
#include "proto/result.h"
#include "proto/space.h"

namespace hc {

// As the command line gives it. Empty texts and zeros mean "not given".
struct BenchOptions {
  std::string trace_path;
  std::string synthetic;         // "turns=8,users=32,..."
  std::string write_trace_path;
  std::string kinds = "kv=65536";
  std::string placement = "sharded";
  std::string l2;
  std::string l3;
  std::string client_socket;     // a running daemon instead of a private one
  std::string hicached;
  std::string directory;         // where the temporary folder is made
  std::string disk_backend = "automatic";
  std::string device = "host";
  std::string transfer = "auto";
  std::uint64_t ranks = 2;
  std::uint64_t block_tokens = 512;
  std::uint64_t requests = 0;    // 0: all
  std::uint64_t reserve = 0;     // 0: chosen
  std::uint64_t commit_interval_ms = 250;
  std::uint64_t runs = 1;        // pieces that a payload is cut into in the ranks' memory
  std::vector<std::uint64_t> restart_at;
  bool keep_folder = false;
  ReloadOptions reload;
};

struct BenchPlan {
  SpaceDescriptor space;          // tenant and weight version are set when the run begins
  std::uint16_t ranks = 1;
  std::uint32_t runs = 1;
  BenchDevice device = BenchDevice::host;
  std::uint32_t transfer = HICACHE_TRANSFER_AUTO;  // of cuda
  std::uint64_t l2_blocks = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t l3_blocks = 0;    // N of the model
  std::uint64_t l3_bytes = 0;
  std::uint32_t reserve_slots = 0;
  std::uint64_t reserve_bytes = 0;
  std::uint32_t region_rows = 0;  // pages that a rank's memory holds
  std::vector<std::uint64_t> restart_at;  // ascending, distinct

  // How its ranks open their clients.
  std::uint32_t open_flags() const {
    const bool copies = device != BenchDevice::host && transfer != HICACHE_TRANSFER_IPC;
    return copies ? HICACHE_OPEN_RANK_COPIES : 0;
  }
};

Result<std::vector<KindSpec>> parse_kinds(const std::string& text, Placement placement);
// Everything but the trace; `restart_at` is checked against the trace by check_restarts.
Result<BenchPlan> make_plan(const BenchOptions& options);
Result<void> check_restarts(const BenchPlan& plan, const Trace& trace);
// The trace that the options name or describe; writes it out when they say so.
Result<Trace> make_trace(const BenchOptions& options);

}  // namespace hc
