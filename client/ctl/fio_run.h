// SPDX-License-Identifier: Apache-2.0
// fio_run: what the disk gives without us: one run of fio, and what its report says.
//
// Owner thread: the bench's only thread.
#pragma once

#include <cstdint>
#include <string>

#include "client/ctl/interrupt.h"
#include "proto/result.h"

namespace hc {

struct FioJob {
  std::string file;
  std::string rw;                 // "write", "randread", ...
  std::uint64_t offset_bytes = 0;
  std::uint64_t span_bytes = 0;   // the part of the file that is used, from offset_bytes on
  std::uint64_t runtime_ms = 0;   // what is measured, after as much that warms up
  std::uint64_t block_bytes = 0;
  std::uint32_t depth = 1;
};

struct FioResult {
  double elapsed_s = 0;  // from the first request to the end of the last
  double bytes = 0;
  double requests = 0;
  double cpu_s = 0;      // user and system time of fio
};

// Whether the program can be run: its version, or why not.
Result<std::string> fio_version(const std::string& program);
// O_DIRECT through io_uring, `depth` requests in flight. Before it measures it has touched all its
// buffers, as the daemon has touched its own.
Result<FioResult> run_fio(const std::string& program, const FioJob& job,
                          const Interrupt& interrupt);
// What the JSON report says; for run_fio and its test.
Result<FioResult> parse_fio_report(const std::string& text);

}  // namespace hc
