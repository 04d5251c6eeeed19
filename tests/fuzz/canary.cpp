// SPDX-License-Identifier: Apache-2.0
// canary: a fuzz target with a law that an input of its corpus breaks on purpose.
//
// If its replay passes, replays have stopped reading inputs or checks have stopped ending them.
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  hc::fuzz::Input input(data, size_bytes);
  const hc::fuzz::Bytes bytes = input.take_rest();
  const bool canary_sings = bytes.size() >= 4 && std::memcmp(bytes.data(), "sing", 4) == 0;
  HC_CHECK(!canary_sings);
  return 0;
}
