// SPDX-License-Identifier: Apache-2.0
// micro_figure: what `bench micro` says of one thing that it measured: the median beside its limit.
//
// Owner thread: any; plain data and arithmetic. Invariants: value and limit of a sample were
// measured one right after the other; a figure's ratio is the median of its samples' ratios, not
// the ratio of medians, so that a slow drift of the machine cancels out.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hc {

// What a figure has to reach: its value or its ratio, from one side.
struct Goal {
  enum class Of : std::uint8_t { value, ratio };
  enum class Sense : std::uint8_t { at_least, at_most };
  Of of = Of::ratio;
  Sense sense = Sense::at_least;
  double bound = 0;
};
std::string goal_text(const Goal& goal);  // "ratio >= 0.90"
bool goal_met(const Goal& goal, double measured);

struct Sample {
  double value = 0;
  std::optional<double> limit;  // none: nothing to compare with
};

struct FigureSpec {
  std::string name;
  std::string params;               // "payload=2.5MiB"
  std::string unit;                 // of value and limit
  std::optional<Goal> goal;
  std::string note = {};            // one line: what a reader must know, or why there is no figure
};

struct Figure {
  FigureSpec spec;
  double value = 0;                 // medians
  std::optional<double> limit;
  std::optional<double> ratio;
  double low = 0;                   // 10th and 90th percentile of the ratios (values, without a
  double high = 0;                  // limit)
  std::uint64_t runs = 0;           // samples; 0: not measured, `note` says why
  std::optional<bool> met;          // none: no goal, or not measured
};

// Linear between the two nearest ranks; `share` 0..1. At least one number.
double percentile(std::vector<double> numbers, double share);
double median(std::vector<double> numbers);

// No samples: a figure that was not measured.
Figure make_figure(FigureSpec spec, std::span<const Sample> samples);

nlohmann::json figures_json(std::span<const Figure> figures);
std::string figures_text(std::span<const Figure> figures);

}  // namespace hc
