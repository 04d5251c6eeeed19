// SPDX-License-Identifier: Apache-2.0
// synthetic_test: the generator of conversations.
#include "client/ctl/synthetic.h"

#include "support/catch.h"

namespace hc {

TEST_CASE("the same options give the same conversations", "[ctl]") {
  const auto options = parse_synthetic("users=6,turns=3,tokens=900,answer=100,system=1024,seed=4");
  REQUIRE(options);

  const auto first = make_synthetic(*options, 256, 0);
  const auto second = make_synthetic(*options, 256, 0);

  REQUIRE(first);
  REQUIRE(second);
  REQUIRE(first->request_count() == 18);
  REQUIRE(second->reference_count() == first->reference_count());
  for (std::size_t i = 0; i < first->request_count(); ++i) {
    const auto one = first->blocks_of(i);
    const auto two = second->blocks_of(i);
    CHECK(std::vector<std::uint32_t>(one.begin(), one.end()) ==
          std::vector<std::uint32_t>(two.begin(), two.end()));
  }
}

TEST_CASE("all conversations begin with the blocks of the system prompt and then part", "[ctl]") {
  const auto options = parse_synthetic("users=2,turns=1,tokens=2000,answer=0,system=1024,active=1");
  const auto trace = make_synthetic(*options, 256, 0);
  REQUIRE(trace);
  REQUIRE(trace->request_count() == 2);

  const auto one = trace->blocks_of(0);
  const auto two = trace->blocks_of(1);

  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(one[i] == two[i]);
  }
  CHECK(one[4] != two[4]);
}

TEST_CASE("each turn repeats the blocks of the turn before it", "[ctl]") {
  const auto options = parse_synthetic("users=1,turns=4,tokens=700,answer=300,system=512");
  const auto trace = make_synthetic(*options, 128, 0);
  REQUIRE(trace);

  for (std::size_t turn = 1; turn < trace->request_count(); ++turn) {
    const auto before = trace->blocks_of(turn - 1);
    const auto now = trace->blocks_of(turn);
    REQUIRE(now.size() >= before.size());
    CHECK(std::equal(before.begin(), before.end(), now.begin()));
    CHECK(trace->request(turn).timestamp_ms >= trace->request(turn - 1).timestamp_ms);
  }
}

TEST_CASE("the number of requests can be limited", "[ctl]") {
  CHECK(make_synthetic(SyntheticOptions{}, 256, 5)->request_count() == 5);
}

TEST_CASE("options of the generator that are not allowed are refused in one line", "[ctl]") {
  const std::string text = GENERATE("", "users", "users=", "users=0", "users=x", "colour=3",
                                    "users=1,users=2", "users=1,", "turns=99999999");
  const auto options = parse_synthetic(text);
  REQUIRE_FALSE(options);
  CHECK(options.error().text.find("--synthetic: ") == 0);
}

TEST_CASE("conversations that are too large or that fill no block are refused", "[ctl]") {
  const auto large = parse_synthetic("users=1000000,turns=10000,tokens=1000000");
  CHECK_FALSE(make_synthetic(*large, 1, 0));
  const auto small = parse_synthetic("users=1,turns=1,tokens=2,answer=0,system=0");
  CHECK_FALSE(make_synthetic(*small, 4096, 0));
}

}  // namespace hc
