// SPDX-License-Identifier: Apache-2.0
// reload_chaos_test: the words of --chaos, and draws that can be repeated.
#include "client/ctl/reload_chaos.h"

#include "support/catch.h"

namespace hc {

TEST_CASE("each word of chaos stands for one thing, and all for all but a killed rank", "[ctl]") {
  CHECK_FALSE(parse_chaos("", 2)->any());
  CHECK(parse_chaos("", 2)->text() == "none");
  CHECK(parse_chaos("skew,failed_reads", 2)->text() == "skew, failed_reads");
  CHECK(parse_chaos("slow_acks,aborts,restart", 2)->text() == "aborts, slow_acks, restart");
  CHECK(parse_chaos("all", 2)->text() == "skew, aborts, slow_acks, failed_reads, restart");
  CHECK(parse_chaos("kill_rank=1@300", 2)->text() == "kill_rank=1@300");
  CHECK(parse_chaos("kill_rank=1@300", 2)->any());
}

TEST_CASE("a wrong word of chaos is one line that names it", "[ctl]") {
  struct Case {
    const char* text;
    std::uint32_t ranks;
    const char* named;
  };
  const Case at = GENERATE(Case{"skew,noise", 2, "\"noise\""}, Case{"skew,", 2, "\"\""},
                           Case{"kill_rank=1", 2, "kill_rank=RANK@TICK"},
                           Case{"kill_rank=0@5", 2, "kill_rank"},
                           Case{"kill_rank=2@5", 2, "kill_rank"},
                           Case{"kill_rank=1@0", 2, "kill_rank"},
                           Case{"kill_rank=0@5", 1, "kill_rank"});

  const auto plan = parse_chaos(at.text, at.ranks);

  INFO(at.text);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == Code::bad_argument);
  CHECK(plan.error().text.find("--chaos: ") == 0);
  CHECK(plan.error().text.find(at.named) != std::string::npos);
}

TEST_CASE("one seed draws the same again, on each rank something else", "[ctl]") {
  const ChaosPlan plan = *parse_chaos("all", 4);
  ChaosDraws one(plan, 7, 1);
  ChaosDraws again(plan, 7, 1);
  ChaosDraws other(plan, 7, 2);
  int delays = 0;
  int differences = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t delay_ns = one.tick_delay_ns();
    REQUIRE(delay_ns == again.tick_delay_ns());
    differences += delay_ns != other.tick_delay_ns() ? 1 : 0;
    delays += delay_ns != 0 ? 1 : 0;
  }
  CHECK(delays > 50);
  CHECK(delays < 300);
  CHECK(differences > 50);
}

TEST_CASE("without chaos nothing is drawn, and nobody leaves an empty queue", "[ctl]") {
  ChaosDraws quiet(ChaosPlan{}, 1, 0);
  ChaosDraws wild(*parse_chaos("all", 2), 1, 0);
  int aborts = 0;
  for (int i = 0; i < 200; ++i) {
    CHECK(quiet.tick_delay_ns() + quiet.ack_delay_ns() == 0);
    CHECK_FALSE(quiet.fails_read());
    CHECK_FALSE(quiet.aborted(5));
    CHECK_FALSE(wild.aborted(0));
    const auto aborted = wild.aborted(3);
    aborts += aborted ? 1 : 0;
    CHECK((!aborted || *aborted < 3));
  }
  CHECK(aborts > 0);
}

}  // namespace hc
