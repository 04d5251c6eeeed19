// SPDX-License-Identifier: Apache-2.0
// trace_prefix: one pass that remembers what stood before each block.
#include "client/ctl/trace_prefix.h"

#include <vector>

namespace hc {

namespace {

constexpr std::uint32_t kFirst = 0xFFFFFFFF;    // a block that begins requests
constexpr std::uint32_t kUnseen = 0xFFFFFFFE;

std::string name_before(const Trace& trace, std::uint32_t before) {
  return before == kFirst ? "begins a request" : "follows " + std::to_string(trace.id_of(before));
}

}  // namespace

Result<void> check_prefixes(const std::string& source, const Trace& trace) {
  std::vector<std::uint32_t> before(trace.block_count(), kUnseen);
  for (std::size_t request = 0; request < trace.request_count(); ++request) {
    std::uint32_t last = kFirst;
    for (const std::uint32_t block : trace.blocks_of(request)) {
      if (before[block] != kUnseen && before[block] != last) {
        return make_error(Code::bad_argument,
                          source + ": request " + std::to_string(request) + ": block " +
                              std::to_string(trace.id_of(block)) + " " +
                              name_before(trace, last) + ", but elsewhere " +
                              name_before(trace, before[block]) +
                              "; --reload needs ids of prefixes");
      }
      before[block] = last;
      last = block;
    }
  }
  return {};
}

}  // namespace hc
