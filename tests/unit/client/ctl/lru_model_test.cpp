// SPDX-License-Identifier: Apache-2.0
// lru_model_test: the model by hand, and against a known figure on a real trace.
#include "client/ctl/lru_model.h"

#include <cstdlib>
#include <filesystem>

#include "client/ctl/trace.h"
#include "support/catch.h"
#include "support/paths.h"

namespace hc {

namespace {

using Blocks = std::vector<std::uint32_t>;

double model_ratio(const Trace& trace, std::uint64_t capacity) {
  LruModel model(trace.block_count(), capacity);
  std::uint64_t hits = 0;
  for (std::size_t i = 0; i < trace.request_count(); ++i) {
    hits += model.hit_prefix(trace.blocks_of(i));
    model.touch_request(trace.blocks_of(i));
  }
  return static_cast<double>(hits) / static_cast<double>(trace.reference_count());
}

std::filesystem::path trace_path() {
  const char* const given = std::getenv("HICACHE_TRACES");
  const std::filesystem::path folder =
      given != nullptr ? std::filesystem::path(given)
                       : test::source_dir().parent_path() / "shared" / "traces";
  return folder / "conversation.jsonl";
}

}  // namespace

TEST_CASE("a hit is the leading blocks that are held", "[ctl]") {
  LruModel model(5, 5);
  model.touch_request(Blocks{0, 1, 3});

  CHECK(model.hit_prefix(Blocks{0, 1, 2, 3}) == 2);
  CHECK(model.hit_prefix(Blocks{2, 0, 1}) == 0);
  CHECK(model.hit_prefix(Blocks{}) == 0);
}

TEST_CASE("the tail of a request is forgotten before its head", "[ctl]") {
  LruModel model(5, 3);
  model.touch_request(Blocks{0, 1, 2});

  model.touch_request(Blocks{3});

  CHECK(model.hit_prefix(Blocks{0, 1, 2}) == 2);
  CHECK_FALSE(model.holds(2));
  CHECK(model.size() == 3);
}

TEST_CASE("a request longer than the cache keeps its head", "[ctl]") {
  LruModel model(6, 3);

  model.touch_request(Blocks{0, 1, 2, 3, 4, 5});

  CHECK(model.hit_prefix(Blocks{0, 1, 2, 3, 4, 5}) == 3);
  CHECK(model.size() == 3);
}

TEST_CASE("a touch makes a block the newest", "[ctl]") {
  LruModel model(4, 3);
  model.touch_request(Blocks{0});
  model.touch_request(Blocks{1});
  model.touch_request(Blocks{2});

  model.touch_request(Blocks{0});
  model.touch_request(Blocks{3});

  CHECK(model.holds(0));
  CHECK_FALSE(model.holds(1));
}

TEST_CASE("a crash drops what was not acknowledged and keeps the order of the rest", "[ctl]") {
  LruModel model(5, 3);
  model.touch_request(Blocks{0, 1, 2});

  model.drop_unless([](std::uint32_t block) { return block != 1; });
  model.touch_request(Blocks{3});
  model.touch_request(Blocks{4});

  CHECK(model.holds(0));
  CHECK_FALSE(model.holds(1));
  CHECK_FALSE(model.holds(2));
  CHECK(model.size() == 3);
}

TEST_CASE("on an hour of real conversations 50,000 blocks hit 0.355 of all references", "[ctl]") {
  if (!std::filesystem::exists(trace_path())) {
    WARN("skipped: no trace at " << trace_path() << "; set HICACHE_TRACES to its folder");
    return;
  }
  const auto trace = read_trace(trace_path().string(), 0);
  REQUIRE(trace);
  REQUIRE(trace->request_count() == 12031);

  CHECK(model_ratio(*trace, 50000) == Approx(0.355).margin(0.0005));
  CHECK(model_ratio(*trace, 20000) == Approx(0.288).margin(0.0005));
  CHECK(model_ratio(*trace, 1000000) == Approx(0.366).margin(0.0005));
}

}  // namespace hc
