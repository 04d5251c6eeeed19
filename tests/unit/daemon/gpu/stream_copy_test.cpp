// SPDX-License-Identifier: Apache-2.0
// stream_copy_test: every byte arrives and none beside them changes, at all sizes and alignments.
#include "daemon/gpu/stream_copy.h"

#include <vector>

#include "support/catch.h"

namespace hc {

TEST_CASE("a copy past the caches moves exactly its bytes") {
  const std::size_t size = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{4096},
                                    kStreamBytesMin - 1, kStreamBytesMin, kStreamBytesMin + 1,
                                    kStreamBytesMin + 63, std::size_t{1} << 20);
  const std::size_t to = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{16}, std::size_t{63});
  const std::size_t from = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{8});
  constexpr std::size_t kMargin = 128;
  std::vector<std::uint8_t> source(size + kMargin);
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::uint8_t>(i * 31 + i / 251 + 1);
  }
  std::vector<std::uint8_t> target(size + 2 * kMargin, 0xEE);

  stream_copy(target.data() + kMargin + to, source.data() + from, size);

  std::size_t wrong = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const bool inside = i >= kMargin + to && i < kMargin + to + size;
    const std::uint8_t wanted = inside ? source[i - kMargin - to + from] : std::uint8_t{0xEE};
    wrong += target[i] != wanted ? 1U : 0U;
  }
  CHECK(wrong == 0);
}

}  // namespace hc
