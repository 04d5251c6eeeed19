// SPDX-License-Identifier: Apache-2.0
// session_line: what an operator is told of one session. Between the rooms session and admin.
#pragma once

#include <cstdint>
#include <string>

namespace hc {

// One attached session, for the operator.
struct SessionLine {
  std::uint32_t session = 0;
  std::string group;
  std::uint32_t rank = 0;
  std::uint32_t world = 0;
  int pid = 0;
  std::uint32_t shard = 0;
  std::uint32_t ops = 0;
  std::uint32_t leases = 0;
  std::uint64_t leased_pages = 0;
  std::uint32_t quota_pages = 0;     // of each owner; 0: no quota
  std::uint32_t regions = 0;
  std::string state;
  std::string transfer;              // who copies memory of a GPU, and why; empty: there is none
  std::uint64_t board = 0;           // on which its rank has a place; 0: none
};

}  // namespace hc
