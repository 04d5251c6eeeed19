// SPDX-License-Identifier: Apache-2.0
// use_sketch_test: estimates, how they age, and the bounds of their memory.
#include "daemon/engine/use_sketch.h"

#include "support/catch.h"

namespace {

using hc::UseSketch;

TEST_CASE("use sketch: uses of a key count up, other keys do not raise it") {
  UseSketch sketch(0);
  for (std::uint32_t use = 1; use <= 5; ++use) {
    CHECK(sketch.add(42) == use);
  }
  CHECK(sketch.add(43) == 1);
}

TEST_CASE("use sketch: over a whole window few new keys are taken for known ones") {
  UseSketch sketch(0);
  std::uint64_t mistaken = 0;
  for (std::uint64_t key = 0; key < sketch.window(); ++key) {
    mistaken += sketch.add(key * 0x10001) > 1 ? 1U : 0U;
  }
  CHECK(mistaken < sketch.window() / 256);
}

TEST_CASE("use sketch: a key that is seen no more is forgotten, one that is often seen is not") {
  UseSketch sketch(0);
  sketch.add(7);
  for (int use = 0; use < 8; ++use) {
    sketch.add(8);
  }
  for (std::uint64_t key = 100; key < 100 + sketch.window(); ++key) {
    sketch.add(key << 20);
  }
  const std::uint32_t seen_once = sketch.add(7);
  const std::uint32_t seen_often = sketch.add(8);
  CHECK(seen_once == 1);
  CHECK(seen_often >= 4);
}

TEST_CASE("use sketch: counts stop at their highest value, and memory is bounded both ways") {
  UseSketch sketch(UINT64_MAX);
  CHECK(sketch.size_bytes() == UseSketch::kWindowMax * UseSketch::kCellsPerUse);
  for (int use = 0; use < 300; ++use) {
    sketch.add(9);
  }
  CHECK(sketch.add(9) == 255);
  CHECK(UseSketch(1).window() == UseSketch::kWindowMin);
}

}  // namespace
