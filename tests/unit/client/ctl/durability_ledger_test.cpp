// SPDX-License-Identifier: Apache-2.0
// durability_ledger_test: what counts as lost, and what must not.
#include "client/ctl/durability_ledger.h"

#include <array>

#include "support/catch.h"

namespace hc {

namespace {

// Blocks 0..7, two ranks; requests are served and acknowledged by hand.
class Bench {
 public:
  explicit Bench(std::vector<std::uint16_t> groups = std::vector<std::uint16_t>(8, 0))
      : ledger(std::move(groups)) {}

  void serve(const std::vector<std::uint32_t>& blocks, std::uint64_t loaded = 0,
             bool touched = true) {
    ledger.served({request_, blocks, loaded, touched, loaded < blocks.size()});
    ++request_;
  }
  // Both ranks hear that their stores of request `request` are durable.
  void acknowledge(std::uint32_t request, const std::vector<std::uint32_t>& blocks) {
    for (auto& rank : acked_) {
      for (const std::uint32_t block : blocks) {
        rank[block] = request + 1;
      }
    }
    take();
  }
  void acknowledge_on_one_rank(std::uint32_t request, std::uint32_t block) {
    acked_[0][block] = request + 1;
    take();
  }
  void kill() { ledger.daemon_killed(request_); }
  std::uint64_t lost_with(const std::vector<std::uint32_t>& present) {
    std::vector<std::uint8_t> found(8, 0);
    for (const std::uint32_t block : present) {
      found[block] = 1;
    }
    return ledger.check(found);
  }

  DurabilityLedger ledger;

 private:
  void take() {
    const std::array<AckedRequests, 2> ranks{acked_[0], acked_[1]};
    ledger.take_acks(ranks);
  }
  std::uint64_t request_ = 0;
  std::array<std::vector<std::uint32_t>, 2> acked_{std::vector<std::uint32_t>(8, 0),
                                                   std::vector<std::uint32_t>(8, 0)};
};

}  // namespace

TEST_CASE("an acknowledged page that is absent while an older one is present is lost", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.serve({1});
  bench.acknowledge(0, {0});
  bench.acknowledge(1, {1});

  CHECK(bench.lost_with({0}) == 1);
  CHECK(bench.ledger.lost_count() == 1);
}

TEST_CASE("a lost page is counted once", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.serve({1});
  bench.acknowledge(1, {1});

  CHECK(bench.lost_with({0}) == 1);
  CHECK(bench.lost_with({0}) == 0);
  CHECK(bench.ledger.lost_count() == 1);
}

TEST_CASE("the oldest pages may be evicted, the tail of a request first", "[ctl]") {
  Bench bench;
  bench.serve({0, 1, 2});
  bench.serve({3});
  bench.acknowledge(0, {0, 1, 2});
  bench.acknowledge(1, {3});

  CHECK(bench.lost_with({0, 3}) == 0);
  CHECK(bench.lost_with({1, 2, 3}) == 1);
}

TEST_CASE("a page that one rank was not told of may be absent", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.serve({1});
  bench.acknowledge_on_one_rank(1, 1);

  CHECK_FALSE(bench.ledger.acknowledged(1));
  CHECK(bench.lost_with({0}) == 0);
}

TEST_CASE("a page stored anew needs a new acknowledgement", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.acknowledge(0, {0});
  bench.serve({1});
  bench.serve({0}, 0);

  CHECK_FALSE(bench.ledger.acknowledged(0));
  CHECK(bench.lost_with({1}) == 0);
}

TEST_CASE("a page that was found and touched keeps its acknowledgement", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.acknowledge(0, {0});
  bench.serve({1});
  bench.serve({0}, 1);

  CHECK(bench.ledger.acknowledged(0));
  CHECK(bench.lost_with({1}) == 1);
}

TEST_CASE("a kill may undo touches after the last commit that is known", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.acknowledge(0, {0});
  bench.serve({1});
  bench.acknowledge(1, {1});
  bench.serve({0}, 1);

  SECTION("without a kill the touch of page 0 stands") { CHECK(bench.lost_with({1}) == 1); }
  SECTION("after a kill page 0 may be as old as its store") {
    bench.kill();
    CHECK(bench.lost_with({1}) == 0);
  }
  SECTION("a later durable store proves the touch, so page 0 is lost again") {
    bench.serve({2});
    bench.acknowledge(3, {2});
    bench.kill();
    CHECK(bench.lost_with({1, 2}) == 1);
  }
  SECTION("an absent page that is older than what its rival may be is not accused") {
    bench.kill();
    CHECK(bench.lost_with({0}) == 0);
  }
}

TEST_CASE("an acknowledged store in the last group still accuses", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.acknowledge(0, {0});
  bench.serve({1, 2});
  bench.acknowledge(1, {1});
  bench.kill();

  CHECK(bench.lost_with({0}) == 1);
}

TEST_CASE("a durable store does not prove the other touches of its own request", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.acknowledge(0, {0});
  bench.serve({1});
  bench.acknowledge(1, {1});
  bench.serve({0, 2}, 1);
  bench.acknowledge(2, {0, 2});
  bench.kill();

  CHECK(bench.lost_with({1, 2}) == 0);
  CHECK(bench.lost_with({1}) == 1);
}

TEST_CASE("touches after a restart are certain again", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.acknowledge(0, {0});
  bench.serve({1});
  bench.acknowledge(1, {1});
  bench.serve({0}, 1);
  bench.kill();
  bench.serve({0}, 1);

  CHECK(bench.lost_with({1}) == 1);
}

TEST_CASE("what a first kill left uncertain stays so after a second", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.acknowledge(0, {0});
  bench.serve({1});
  bench.acknowledge(1, {1});
  bench.serve({0}, 1);
  bench.kill();
  bench.serve({2});
  bench.acknowledge(3, {2});
  bench.kill();

  CHECK(bench.lost_with({1, 2}) == 0);
}

TEST_CASE("a store that was refused leaves its order uncertain", "[ctl]") {
  Bench bench;
  bench.serve({0});
  bench.acknowledge(0, {0});
  bench.serve({1});
  bench.acknowledge(1, {1});
  bench.serve({0}, 1, false);

  CHECK(bench.lost_with({1}) == 0);
}

TEST_CASE("pages of different groups are not compared", "[ctl]") {
  Bench bench({0, 1, 0, 1, 0, 1, 0, 1});
  bench.serve({0});
  bench.serve({1});
  bench.serve({2});
  bench.acknowledge(0, {0});
  bench.acknowledge(1, {1});
  bench.acknowledge(2, {2});

  CHECK(bench.lost_with({0, 2}) == 0);
  CHECK(bench.lost_with({0}) == 1);
}

}  // namespace hc
