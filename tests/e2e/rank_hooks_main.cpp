// SPDX-License-Identifier: Apache-2.0
// rank_hooks_main: a rank whose client library has the failpoints of proto/test_hooks.h: its whole
// life with device memory, in which each of them is passed while operations run.
//
//   hc_rank_hooks SOCKET GROUP ipc|rank store|load FIRST_PAGE
//
// Owner thread: its only one. What it finds as libcuda.so.1 is the stand-in, by the environment.
#include <array>
#include <cstdlib>
#include <string>

#include "client/ctl/rank_region.h"
#include "e2e/copy_edges.h"
#include "e2e/process.h"
#include "e2e/rank.h"
#include "proto/check.h"
#include "support/doubles.h"

namespace hc::test {
namespace {

Keys keys_of(std::uint64_t first, std::uint32_t number) {
  return {first + number * kEdgePages, kEdgePages, number * kEdgePages};
}

// One that finds no room is submitted once more.
bool ends_well(Rank& rank, std::uint8_t verb, const Keys& keys, std::uint64_t& op) {
  const hicache_code code = rank.finish(op).code;
  HC_CHECK(code == HICACHE_OK || code == HICACHE_BUSY);
  HC_CHECK(code == HICACHE_OK ||
           rank.submit(verb, keys, op, HICACHE_ACK_RESIDENT) == HICACHE_OK);
  return code == HICACHE_OK;
}

// Whoever is to die must not have been told of a failure before.
int live(RankOptions options, std::uint8_t verb, std::uint64_t first) {
  options.rows = kEdgeRows;
  Rank rank(options);
  HC_EXPECT(rank.open() == HICACHE_OK);
  std::array<std::uint64_t, 2> ops{};
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    HC_EXPECT(rank.submit(verb, keys_of(first, i), ops[i], HICACHE_ACK_RESIDENT) == HICACHE_OK);
  }
  const auto more = RankRegion::make(make_space(options), {.rows = 2,
                                                           .runs = 1,
                                                           .device = BenchDevice::cuda,
                                                           .rank = options.rank,
                                                           .transfer = options.transfer});
  HC_EXPECT(more.has_value());
  HC_EXPECT(more->attach(rank.client(), 1, Rank::kDeadlineMs) == HICACHE_OK);
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    HC_EXPECT(eventually([&] { return ends_well(rank, verb, keys_of(first, i), ops[i]); }));
  }
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    HC_EXPECT(rank.submit(verb, keys_of(first, 2 + i), ops[i], HICACHE_ACK_RESIDENT) == HICACHE_OK);
  }
  HC_EXPECT(hicache_unregister_region(rank.client(), 1, Rank::kDeadlineMs) == HICACHE_OK);
  HC_EXPECT(rank.close() == HICACHE_OK);
  return 0;
}

int run(int count, char** words) {
  HC_EXPECT(count == 6);
  const std::string mode = words[3];
  const std::string verb = words[4];
  HC_EXPECT(mode == "ipc" || mode == "rank");
  HC_EXPECT(verb == "store" || verb == "load");
  RankOptions options;
  options.socket = words[1];
  options.group = words[2];
  options.device = BenchDevice::cuda;
  options.transfer = mode == "rank" ? HICACHE_TRANSFER_RANK : HICACHE_TRANSFER_IPC;
  options.open_flags = HICACHE_OPEN_RANK_COPIES;
  return live(options, verb == "store" ? HICACHE_VERB_STORE : HICACHE_VERB_LOAD,
              std::strtoull(words[5], nullptr, 10));
}

}  // namespace
}  // namespace hc::test

int main(int count, char** words) { return hc::test::run(count, words); }
