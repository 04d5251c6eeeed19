// SPDX-License-Identifier: Apache-2.0
// rank_client: a rank's connection to the daemon, with the operations it has in flight.
//
// Owner thread: the rank process's only thread. Invariants: an operation stays known until its
// terminal completion; `acked` is raised by terminal durable completions only.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/ctl/bench_plan.h"
#include "client/ctl/rank_board.h"
#include "client/ctl/rank_region.h"
#include "client/hicache.h"

namespace hc {

// A part of a request: `count` blocks from `first` on.
struct Piece {
  std::uint64_t request = 0;
  std::uint64_t first = 0;
  std::uint32_t count = 0;
};

// A code that an engine survives by recomputing. Every other code is a fault of the caller.
bool is_miss(hicache_code code);

class RankClient {
 public:
  struct Options {
    const SpaceDescriptor& space;
    std::string socket_path;
    std::string weight_version;
    std::uint16_t rank;
    std::uint16_t world;
    std::uint64_t quota_bytes;
    std::uint32_t flags = 0;  // HICACHE_OPEN_*
  };
  // Acknowledgements go to the rank's board.
  RankClient(const RankBoards& boards, const Trace& trace, std::uint32_t rank);
  ~RankClient();
  RankClient(const RankClient&) = delete;
  RankClient& operator=(const RankClient&) = delete;

  // Calls answer HICACHE_OK, or a code that ends the bench.
  hicache_code open(const Options& options);
  hicache_code wait_attached(std::uint64_t instances);
  // A store or a load, retried while the daemon is busy. Returns when the memory of the rows is
  // ours again; `done.code` may be a miss. `pages` are those of the piece.
  hicache_code run(std::uint8_t verb, const Piece& piece, const std::vector<hicache_page>& pages,
                   hicache_completion& done);
  // Ends when every store is durable or has failed.
  hicache_code settle();
  hicache_code close();

  // Whose rows operations are on; outlives this.
  void set_region(const RankRegion& region) { region_ = &region; }
  hicache_client* handle() const { return client_; }
  // Readable when completions may be there; collect takes them without waiting.
  int event_fd() const { return event_fd_; }
  void collect() { pump(0); }

 private:
  struct Operation {
    Piece piece;
    std::uint64_t submitted_ns = 0;
    hicache_completion last{};
    std::uint8_t verb = 0;
    bool resident = false;  // the source memory is ours again
    bool ended = false;
    bool awaited = true;    // the caller of run still asks for it
  };

  hicache_code submit(std::uint8_t verb, const Piece& piece,
                      const std::vector<hicache_page>& pages, std::uint64_t& serial);
  hicache_code await_operation(std::uint64_t serial, hicache_completion& done);
  void pump(std::uint32_t timeout_ms);
  void take(const hicache_completion& completion);
  void end(std::uint64_t serial, Operation& operation);
  void acknowledge(const Operation& operation);

  const RankBoards& boards_;
  const Trace& trace_;
  const std::uint32_t rank_;
  RankTotals& totals_;
  const RankRegion* region_ = nullptr;
  hicache_client* client_ = nullptr;
  int event_fd_ = -1;
  std::unordered_map<std::uint64_t, Operation> operations_;  // by serial number
  std::uint64_t next_serial_ = 1;
};

}  // namespace hc
