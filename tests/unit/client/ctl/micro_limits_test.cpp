// SPDX-License-Identifier: Apache-2.0
// micro_limits_test: each limit ends and says something; nothing here expects a speed.
#include "client/ctl/micro_limits.h"

#include <fstream>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace hc {

TEST_CASE("copies by one and by several threads move everything", "[ctl]") {
  auto buffers = CopyBuffers::make(1 << 20);
  REQUIRE(buffers);
  CHECK((*buffers)->copy(1, 1 << 20) > 0);
  CHECK((*buffers)->copy(3, 10'000) > 0);
}

TEST_CASE("fresh memory is set", "[ctl]") {
  const auto rate = set_fresh_memory(1 << 20);
  REQUIRE(rate);
  CHECK(*rate > 0);
}

TEST_CASE("both ping-pongs come back", "[ctl]") {
  for (const PingPong how : {PingPong::futex, PingPong::spin}) {
    const auto median_ns = ping_pong(how, 20);
    REQUIRE(median_ns);
    CHECK(*median_ns > 0);
  }
}

TEST_CASE("a flush of a file that is not there is an error that names it", "[ctl]") {
  const test::TempDir folder;
  const auto elapsed_ns = time_fdatasync(folder.file("absent"));
  REQUIRE_FALSE(elapsed_ns);
  CHECK(elapsed_ns.error().text.find("/absent") != std::string::npos);
}

TEST_CASE("a raw writer flushes within its window", "[ctl]") {
  const test::TempDir folder;
  RawWriter writer;
  writer.file = folder.file("raw");
  writer.span_bytes = 64 << 10;
  writer.piece_bytes = 16 << 10;
  writer.pieces_per_s = 1000;
  writer.window_ns = 100'000'000;
  writer.flush_interval_ns = 1'000'000;
  std::ofstream(writer.file) << std::string(writer.span_bytes, 'x');

  const auto stall = longest_stall(writer);

  REQUIRE(stall);
  CHECK(stall->longest_ns > 0);
  CHECK(stall->flushes > 0);

  writer.flush_interval_ns = 2 * writer.window_ns;
  const auto without = longest_stall(writer);
  REQUIRE(without);
  CHECK(without->flushes == 0);
}

}  // namespace hc
