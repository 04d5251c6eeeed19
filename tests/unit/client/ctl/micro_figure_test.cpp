// SPDX-License-Identifier: Apache-2.0
// micro_figure_test: the arithmetic of a figure, and how it is printed.
#include "client/ctl/micro_figure.h"

#include <nlohmann/json.hpp>

#include "support/catch.h"

namespace hc {

namespace {

constexpr Goal kAtLeast{Goal::Of::ratio, Goal::Sense::at_least, 0.9};
constexpr Goal kAtMost{Goal::Of::value, Goal::Sense::at_most, 3};

FigureSpec spec_with(std::optional<Goal> goal) {
  return {"spill", "payload=2.5MiB", "GiB/s", goal, "a note"};
}

}  // namespace

TEST_CASE("a percentile lies between the two nearest ranks", "[ctl]") {
  CHECK(median({3}) == Approx(3));
  CHECK(median({5, 1, 3}) == Approx(3));
  CHECK(median({4, 1, 2, 3}) == Approx(2.5));
  CHECK(percentile({0, 10, 20, 30, 40}, 0.1) == Approx(4));
  CHECK(percentile({40, 30, 20, 10, 0}, 0.9) == Approx(36));
  CHECK(percentile({1, 2}, 0) == Approx(1));
  CHECK(percentile({1, 2}, 1) == Approx(2));
}

TEST_CASE("the ratio of a figure is the median of the ratios of its pairs", "[ctl]") {
  // The machine got four times as fast meanwhile; each pair saw the same share of it.
  const std::vector<Sample> samples{{9, 10}, {18, 20}, {36, 40}};

  const Figure figure = make_figure(spec_with(kAtLeast), samples);

  CHECK(figure.value == Approx(18));
  REQUIRE(figure.limit);
  CHECK(*figure.limit == Approx(20));
  REQUIRE(figure.ratio);
  CHECK(*figure.ratio == Approx(0.9));
  CHECK(figure.low == Approx(0.9));
  CHECK(figure.high == Approx(0.9));
  CHECK(figure.runs == 3);

  // Here the ratio of the medians would be 1.
  const std::vector<Sample> other{{1, 2}, {2, 1}, {3, 4}};
  const Figure crossed = make_figure(spec_with(kAtLeast), other);
  CHECK(*crossed.ratio == Approx(0.75));
  CHECK(crossed.low == Approx(0.55));
  CHECK(crossed.high == Approx(1.75));
}

TEST_CASE("a goal is met from its own side, its bound included", "[ctl]") {
  CHECK(goal_met(kAtLeast, 0.9));
  CHECK(goal_met(kAtLeast, 2));
  CHECK_FALSE(goal_met(kAtLeast, 0.89));
  CHECK(goal_met(kAtMost, 3));
  CHECK(goal_met(kAtMost, 1));
  CHECK_FALSE(goal_met(kAtMost, 3.01));
  CHECK(goal_text(kAtLeast) == "ratio >= 0.900");
  CHECK(goal_text(kAtMost) == "value <= 3.00");
}

TEST_CASE("a goal is judged on the median of what it speaks of", "[ctl]") {
  const std::vector<Sample> samples{{1, 10}, {2, 10}, {9, 10}};
  CHECK(make_figure(spec_with(kAtMost), samples).met == std::optional(true));      // value 2
  CHECK(make_figure(spec_with(kAtLeast), samples).met == std::optional(false));    // ratio 0.2
  CHECK(make_figure(spec_with(std::nullopt), samples).met == std::nullopt);
}

TEST_CASE("without a limit in every pair there is no ratio and no verdict on it", "[ctl]") {
  const std::vector<Sample> samples{{1, 1}, {2, std::nullopt}, {3, 1}};

  const Figure figure = make_figure(spec_with(kAtLeast), samples);

  CHECK(figure.value == Approx(2));
  CHECK(figure.limit == std::nullopt);
  CHECK(figure.ratio == std::nullopt);
  CHECK(figure.met == std::nullopt);
  CHECK(figure.low == Approx(1.2));  // of the values
  CHECK(figure.high == Approx(2.8));
}

TEST_CASE("a figure that was not measured says so in both forms", "[ctl]") {
  const std::vector<Figure> figures{make_figure(spec_with(kAtLeast), {})};

  const auto json = figures_json(figures);

  REQUIRE(json.size() == 1);
  CHECK(json[0]["name"] == "spill");
  CHECK(json[0]["value"].is_null());
  CHECK(json[0]["low"].is_null());
  CHECK(json[0]["met"].is_null());
  CHECK(json[0]["runs"] == 0);
  CHECK(json[0]["goal"] == "ratio >= 0.900");
  CHECK(figures_text(figures).find("spill payload=2.5MiB: a note") != std::string::npos);
}

TEST_CASE("the report has every field of a figure", "[ctl]") {
  const std::vector<Sample> samples{{1.5, 2.0}};
  const std::vector<Figure> figures{make_figure(spec_with(kAtLeast), samples)};

  const auto json = figures_json(figures);

  for (const char* field : {"name", "params", "value", "unit", "limit", "ratio", "low", "high",
                            "runs", "goal", "met"}) {
    INFO(field);
    CHECK(json[0].contains(field));
  }
  CHECK(json[0]["ratio"] == 0.75);
  CHECK(json[0]["met"] == false);
  const std::string text = figures_text(figures);
  CHECK(text.find("0.750") != std::string::npos);
  CHECK(text.find(" NO") != std::string::npos);
}

}  // namespace hc
