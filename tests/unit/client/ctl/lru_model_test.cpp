// SPDX-License-Identifier: Apache-2.0
// lru_model_test: the model by hand, against a second one that counts, and against known figures.
#include "client/ctl/lru_model.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>

#include "client/ctl/synthetic.h"
#include "client/ctl/trace.h"
#include "support/catch.h"

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

// LRU by its definition, with nothing but the list of all touches: a block is held if fewer than
// `capacity` other blocks were touched after it.
class CountingModel {
 public:
  explicit CountingModel(std::uint64_t capacity) : capacity_(capacity) {}

  bool holds(std::uint32_t block) const {
    const auto last = std::find(touches_.rbegin(), touches_.rend(), block);
    const std::set<std::uint32_t> later(touches_.rbegin(), last);
    return last != touches_.rend() && later.size() < capacity_;
  }
  std::uint64_t hit_prefix(std::span<const std::uint32_t> blocks) const {
    const auto miss = std::find_if_not(blocks.begin(), blocks.end(),
                                       [this](std::uint32_t block) { return holds(block); });
    return static_cast<std::uint64_t>(miss - blocks.begin());
  }
  void touch_request(std::span<const std::uint32_t> blocks) {
    touches_.insert(touches_.end(), blocks.rbegin(), blocks.rend());
  }

 private:
  std::uint64_t capacity_;
  std::vector<std::uint32_t> touches_;
};

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

  model.start_again(Blocks{2, 0});
  CHECK(model.size() == 2);
  model.touch_request(Blocks{3});
  model.touch_request(Blocks{4});

  CHECK(model.holds(0));
  CHECK_FALSE(model.holds(1));
  CHECK_FALSE(model.holds(2));
  CHECK(model.size() == 3);
}

TEST_CASE("of more blocks than fit a crash leaves the newest", "[ctl]") {
  LruModel model(5, 3);
  model.touch_request(Blocks{4});

  model.start_again(Blocks{3, 0, 1, 2});

  CHECK_FALSE(model.holds(3));
  CHECK_FALSE(model.holds(4));
  CHECK(model.hit_prefix(Blocks{0, 1, 2}) == 3);
}

TEST_CASE("on made conversations the model hits what counting finds, request by request", "[ctl]") {
  const auto options = parse_synthetic("users=12,turns=5,tokens=300,answer=99,system=256,active=4");
  REQUIRE(options);
  const auto trace = make_synthetic(*options, 64, 0);
  REQUIRE(trace);
  const std::uint64_t capacity = GENERATE(1U, 2U, 13U, 40U, 120U, 100000U);
  CAPTURE(capacity);
  LruModel model(trace->block_count(), capacity);
  CountingModel counted(capacity);
  std::uint64_t hits = 0;

  for (std::size_t i = 0; i < trace->request_count(); ++i) {
    INFO("request " << i);
    const auto blocks = trace->blocks_of(i);
    REQUIRE(model.hit_prefix(blocks) == counted.hit_prefix(blocks));
    hits += model.hit_prefix(blocks);
    model.touch_request(blocks);
    counted.touch_request(blocks);
  }

  std::uint64_t held = 0;
  for (std::uint32_t block = 0; block < trace->block_count(); ++block) {
    REQUIRE(model.holds(block) == counted.holds(block));
    held += model.holds(block) ? 1U : 0U;
  }
  CHECK(model.size() == held);
  CHECK(held == std::min<std::uint64_t>(capacity, trace->block_count()));
  CHECK(hits > 0);
  CHECK(hits < trace->reference_count());
}

// Not run by default: it needs the Mooncake conversation trace, which is not part of the tree.
// `HICACHE_TRACES=FOLDER hc_unit_client_ctl "[traces]"`.
TEST_CASE("on an hour of real conversations 50,000 blocks hit 0.355 of all references",
          "[.][traces]") {
  const char* const folder = std::getenv("HICACHE_TRACES");
  REQUIRE(folder != nullptr);
  const auto trace = read_trace(std::filesystem::path(folder) / "conversation.jsonl", 0);
  REQUIRE(trace);
  REQUIRE(trace->request_count() == 12031);

  CHECK(model_ratio(*trace, 50000) == Approx(0.355).margin(0.0005));
  CHECK(model_ratio(*trace, 20000) == Approx(0.288).margin(0.0005));
  CHECK(model_ratio(*trace, 1000000) == Approx(0.366).margin(0.0005));
}

}  // namespace hc
