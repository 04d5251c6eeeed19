// SPDX-License-Identifier: Apache-2.0
// rank_engine: one engine rank of the bench: what it asks of the cache, and what it checks.
//
// Owner thread: the rank process's only thread. Invariants: memory of a row is written only while
// no operation names it; every byte that a load brought is compared before it is counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/bench_plan.h"
#include "client/ctl/rank_board.h"
#include "client/ctl/rank_client.h"
#include "client/ctl/rank_pages.h"
#include "client/ctl/rank_region.h"
#include "proto/ids.h"

namespace hc {

struct ReloadShare;

// Made in the bench before the fork, and so known to every rank after it.
struct RankSetup {
  const BenchPlan& plan;
  const Trace& trace;
  const std::vector<PageHash>& keys;  // per block
  const RankBoards& boards;
  std::string socket_path;
  std::string weight_version;         // keeps the pages of one run apart from all others
  const ReloadShare* reload = nullptr;  // of a bench with reloads
};

// The key of each block: the SHA-256 of its id.
std::vector<PageHash> make_page_keys(const Trace& trace);

class RankEngine {
 public:
  RankEngine(const RankSetup& setup, std::uint32_t rank);

  // Every call answers HICACHE_OK, or a code that ends the bench; misses are counted instead.
  hicache_code open(std::string& why);
  hicache_code exists(std::uint64_t request, std::uint64_t& pages);
  hicache_code load(std::uint64_t request, std::uint64_t wanted, std::uint64_t& loaded);
  hicache_code store(std::uint64_t request, std::uint64_t& written, std::uint32_t& refused);
  hicache_code probe(std::uint64_t& found);
  RankClient& client() { return client_; }

 private:
  void answer_for_foreign();
  void list_pages(const Piece& piece);
  void check_rows(const Piece& piece, std::uint32_t pages);
  void fill_rows(const Piece& piece);
  void spoil_rows(const Piece& piece);

  const RankSetup& setup_;
  const std::uint16_t rank_;
  RankTotals& totals_;
  RankClient client_;
  const RankPages bytes_;
  std::optional<RankRegion> region_;  // made by open
  std::vector<hicache_page> pages_;
};

}  // namespace hc
