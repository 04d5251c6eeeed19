// SPDX-License-Identifier: Apache-2.0
// weights: ranks of the default group with weights of their own, and pages stored by one of them.
#pragma once

#include <string>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "support/catch.h"

namespace hc::test {

inline RankOptions rank_of(const DaemonProcess& daemon, const std::string& weights = "1") {
  RankOptions options;
  options.socket = daemon.client_socket();
  options.weight_version = weights;
  return options;
}

inline void store_durably(const DaemonProcess& daemon, const Keys& keys,
                          const std::string& weights = "1") {
  Rank rank(rank_of(daemon, weights));
  REQUIRE(rank.open() == HICACHE_OK);
  REQUIRE(rank.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
}

}  // namespace hc::test
