// SPDX-License-Identifier: Apache-2.0
// stream_test: any range of a stream can be made alone, and any wrong byte is found.
#include "client/ctl/stream.h"

#include <set>
#include <vector>

#include "support/catch.h"

namespace hc {

namespace {

std::vector<std::uint8_t> bytes_of(const StreamKey& key, std::uint64_t offset, std::size_t size) {
  std::vector<std::uint8_t> out(size, 0);
  fill_stream(key, offset, out);
  return out;
}

}  // namespace

TEST_CASE("every range of a stream is a piece of the whole", "[ctl]") {
  const StreamKey key{42, 1, 0};
  const auto whole = bytes_of(key, 0, 200);

  for (std::size_t begin = 0; begin < 24; ++begin) {
    for (std::size_t size = 0; size < 40; ++size) {
      const std::vector<std::uint8_t> expected(
          whole.begin() + static_cast<std::ptrdiff_t>(begin),
          whole.begin() + static_cast<std::ptrdiff_t>(begin + size));
      REQUIRE(bytes_of(key, begin, size) == expected);
    }
  }
}

TEST_CASE("hash, shard, kind and offset each change the stream", "[ctl]") {
  std::set<std::vector<std::uint8_t>> seen;
  for (const StreamKey& key : {StreamKey{1, 0, 0}, StreamKey{2, 0, 0}, StreamKey{1, 1, 0},
                               StreamKey{1, 0, 1}, StreamKey{1, 0xFFFF, 0}}) {
    for (const std::uint64_t offset : {0U, 1U, 8U, 4096U}) {
      seen.insert(bytes_of(key, offset, 64));
    }
  }
  CHECK(seen.size() == 20);
}

TEST_CASE("equal bytes compare equal, over piece borders and odd ends", "[ctl]") {
  const StreamKey key{7, 3, 2};
  for (const std::size_t size : {1U, 8U, 4095U, 4096U, 4097U, 10001U}) {
    CHECK(compare_stream(key, 5, bytes_of(key, 5, size)).wrong_bytes == 0);
  }
}

TEST_CASE("a single wrong byte is found where it is", "[ctl]") {
  const StreamKey key{7, 3, 2};
  for (const std::size_t at : {0U, 1U, 4095U, 4096U, 9998U, 10000U}) {
    auto bytes = bytes_of(key, 100, 10001);
    bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ 1U);
    const StreamMismatch found = compare_stream(key, 100, bytes);
    CHECK(found.wrong_bytes == 1);
    CHECK(found.first_offset == 100 + at);
  }
}

TEST_CASE("zeroes and another page's bytes are almost all wrong", "[ctl]") {
  const StreamKey key{7, 3, 2};
  CHECK(compare_stream(key, 0, std::vector<std::uint8_t>(10000, 0)).wrong_bytes > 9900);
  CHECK(compare_stream(key, 0, bytes_of({8, 3, 2}, 0, 10000)).wrong_bytes > 9900);
  CHECK(compare_stream(key, 0, bytes_of(key, 1, 10000)).wrong_bytes > 9900);
}

}  // namespace hc
