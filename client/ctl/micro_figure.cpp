// SPDX-License-Identifier: Apache-2.0
// micro_figure: medians, percentiles, and how they are printed.
#include "client/ctl/micro_figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/ctl/render.h"
#include "proto/check.h"

namespace hc {

namespace {

std::string print_double(const char* pattern, double number) {
  std::array<char, 48> text{};
  const int length = std::snprintf(text.data(), text.size(), pattern, number);
  return {text.data(), static_cast<std::size_t>(std::max(length, 0))};
}

// A name, eight numbers and words beside it; wider than the other tables.
constexpr std::size_t kFigureColumns = 118;

// Three digits that matter, without an exponent.
std::string number_text(double number) {
  const double size = std::fabs(number);
  return print_double(
      size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : size >= 1 ? "%.2f" : "%.3f", number);
}

std::string optional_text(const std::optional<double>& number) {
  return number ? number_text(*number) : std::string("-");
}

}  // namespace

std::string goal_text(const Goal& goal) {
  return std::string(goal.of == Goal::Of::ratio ? "ratio " : "value ") +
         (goal.sense == Goal::Sense::at_least ? ">= " : "<= ") + number_text(goal.bound);
}

bool goal_met(const Goal& goal, double measured) {
  return goal.sense == Goal::Sense::at_least ? measured >= goal.bound : measured <= goal.bound;
}

double percentile(std::vector<double> numbers, double share) {
  HC_CHECK(!numbers.empty());
  HC_CHECK(share >= 0 && share <= 1);
  std::sort(numbers.begin(), numbers.end());
  const double rank = share * static_cast<double>(numbers.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, numbers.size() - 1);
  return numbers[below] + (rank - static_cast<double>(below)) * (numbers[above] - numbers[below]);
}

double median(std::vector<double> numbers) { return percentile(std::move(numbers), 0.5); }

Figure make_figure(FigureSpec spec, std::span<const Sample> samples) {
  Figure figure;
  figure.spec = std::move(spec);
  figure.runs = samples.size();
  if (samples.empty()) {
    return figure;
  }
  std::vector<double> values;
  std::vector<double> limits;
  std::vector<double> ratios;
  for (const Sample& sample : samples) {
    values.push_back(sample.value);
    if (sample.limit && *sample.limit > 0) {
      limits.push_back(*sample.limit);
      ratios.push_back(sample.value / *sample.limit);
    }
  }
  figure.value = median(values);
  // A ratio of a part of the samples would speak of other runs than the value does.
  if (ratios.size() == samples.size()) {
    figure.limit = median(limits);
    figure.ratio = median(ratios);
  }
  const std::vector<double>& spread = figure.ratio ? ratios : values;
  figure.low = percentile(spread, 0.1);
  figure.high = percentile(spread, 0.9);
  if (const auto& goal = figure.spec.goal) {
    if (goal->of == Goal::Of::value) {
      figure.met = goal_met(*goal, figure.value);
    } else if (figure.ratio) {
      figure.met = goal_met(*goal, *figure.ratio);
    }
  }
  return figure;
}

nlohmann::json figures_json(std::span<const Figure> figures) {
  using nlohmann::json;
  const auto or_null = [](const auto& field) { return field ? json(*field) : json(nullptr); };
  json out = json::array();
  for (const Figure& figure : figures) {
    const bool measured = figure.runs > 0;
    out.push_back({{"name", figure.spec.name},
                   {"params", figure.spec.params},
                   {"value", measured ? json(figure.value) : json(nullptr)},
                   {"unit", figure.spec.unit},
                   {"limit", or_null(figure.limit)},
                   {"ratio", or_null(figure.ratio)},
                   {"low", measured ? json(figure.low) : json(nullptr)},
                   {"high", measured ? json(figure.high) : json(nullptr)},
                   {"runs", figure.runs},
                   {"goal", figure.spec.goal ? json(goal_text(*figure.spec.goal)) : json(nullptr)},
                   {"met", or_null(figure.met)},
                   {"note", figure.spec.note}});
  }
  return out;
}

std::string figures_text(std::span<const Figure> figures) {
  using Align = Table::Align;
  Table table({{"figure"}, {"value", Align::right}, {"limit", Align::right}, {"unit"},
               {"ratio", Align::right}, {"low", Align::right}, {"high", Align::right},
               {"goal"}, {"met"}});
  std::string notes;
  for (const Figure& figure : figures) {
    const bool measured = figure.runs > 0;
    const std::string name =
        figure.spec.name + (figure.spec.params.empty() ? "" : " " + figure.spec.params);
    const std::string met = !figure.met ? "-" : *figure.met ? "yes" : "NO";
    table.add({name, measured ? number_text(figure.value) : "-", optional_text(figure.limit),
               figure.spec.unit, optional_text(figure.ratio),
               measured ? number_text(figure.low) : "-", measured ? number_text(figure.high) : "-",
               figure.spec.goal ? goal_text(*figure.spec.goal) : "-", met});
    if (!figure.spec.note.empty()) {
      notes += "  " + name + ": " + figure.spec.note + "\n";
    }
  }
  return table.text(kFigureColumns) + (notes.empty() ? "" : "\n" + notes);
}

}  // namespace hc
