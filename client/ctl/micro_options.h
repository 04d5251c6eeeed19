// SPDX-License-Identifier: Apache-2.0
// micro_options: what `bench micro` was asked for, and how much of everything it then does.
//
// Owner thread: any; plain data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace hc {

// As the command line gives it.
struct MicroOptions {
  std::string hicached;
  std::string directory;         // where the temporary folder is made
  std::string disk_backend = "automatic";
  std::string fio = "fio";
  std::vector<std::string> only; // figures or groups; empty: all
  std::uint64_t pairs = 0;       // 0: chosen
  bool quick = false;
  bool keep_folder = false;
};

// Figures that are measured together, on one daemon and one store.
struct MicroGroup {
  const char* name;
  std::vector<const char*> figures;
};
std::span<const MicroGroup> micro_groups();

// How much is done. A quick run shows that everything works; its figures are rough, and those whose
// goal speaks of a size that it does not reach have no verdict.
struct MicroPlan {
  std::uint32_t pairs = 20;
  std::vector<std::uint32_t> payloads;       // bytes, of spill and reload
  std::uint64_t disk_sample_bytes = 0;       // of one sample of spill or reload
  std::uint64_t fio_ms = 0;                  // of one sample of fio
  std::uint64_t memory_sample_bytes = 0;     // of one copy or pre-fault
  std::uint64_t store_window_ms = 0;         // of one sample of open-loop stores
  std::uint64_t pages = 0;                   // of the store of many small pages
  std::uint64_t scan_pages = 0;              // of the store whose headers are scanned
  std::uint32_t round_trips = 0;             // of one sample of the ring
  bool quick = false;
  std::vector<std::string> only;

  // Whether a figure, or any figure of a group, was asked for.
  bool wants(std::string_view figure) const;
  bool wants_group(const MicroGroup& group) const;
};

// Errors: bad_argument, one line that begins with the option.
Result<MicroPlan> make_micro_plan(const MicroOptions& options);

}  // namespace hc
