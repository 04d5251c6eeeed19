// SPDX-License-Identifier: Apache-2.0
// bench_stage: what every bench over a trace needs before its ranks are forked, and what is gone
// when it ends: keys, memory, a folder, a daemon that has not started yet.
//
// Owner thread: the bench's only thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/bench_plan.h"
#include "client/ctl/interrupt.h"
#include "client/ctl/private_daemon.h"
#include "client/ctl/rank_board.h"
#include "client/ctl/temporary_folder.h"
#include "proto/ids.h"

namespace hc {

struct BenchStage {
  std::string run_name;
  RankBoards boards;
  std::vector<PageHash> keys;
  Interrupt interrupt;
  std::optional<TemporaryFolder> folder;   // of a private daemon
  std::unique_ptr<PrivateDaemon> daemon{};
  std::string socket{};

  static Result<std::unique_ptr<BenchStage>> make(const BenchOptions& options,
                                                  const BenchPlan& plan, const Trace& trace);
};

// A daemon that died has more to say in its log than the socket has.
Error explain_error(const Error& error, const PrivateDaemon* daemon);
// As the daemon says; empty when it does not.
std::string ask_disk_backend(const PrivateDaemon& daemon);

}  // namespace hc
