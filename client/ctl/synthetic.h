// SPDX-License-Identifier: Apache-2.0
// synthetic: makes a trace of multi-turn conversations for people who have none.
//
// Owner thread: any; there is no state. Invariants: the same options give the same trace on every
// machine and compiler.
#pragma once

#include <cstdint>
#include <string>

#include "client/ctl/trace.h"
#include "proto/result.h"

namespace hc {

struct SyntheticOptions {
  std::uint64_t users = 32;           // conversations
  std::uint64_t turns = 8;            // requests of each conversation
  std::uint64_t tokens = 512;         // mean length of a question; from half to one and a half
  std::uint64_t answer = 256;         // mean length of an answer, likewise
  std::uint64_t system = 2048;        // tokens of the system prompt that all conversations share
  std::uint64_t active = 8;           // conversations that go on at the same time
  std::uint64_t seed = 1;
};

// "turns=8,users=32,...": any of the fields above, each at most once.
Result<SyntheticOptions> parse_synthetic(const std::string& text);
// Requests hold full blocks only. Refused when it would make more than 2^24 block references.
// Stops after `requests_max` requests; 0 means all.
Result<Trace> make_synthetic(const SyntheticOptions& options, std::uint64_t block_tokens,
                             std::uint64_t requests_max);

}  // namespace hc
