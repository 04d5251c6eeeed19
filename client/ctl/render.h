// SPDX-License-Identifier: Apache-2.0
// render: text for people that fits 80 columns, and safe reading of a daemon's JSON.
//
// Owner thread: any; there is no state.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hc {

inline constexpr std::size_t kColumns = 80;

// "[######......]  50.0 %"
std::string bar(double share, std::size_t columns);

// Names and values in two columns, under a heading when it is not empty. A value that would pass
// the last column goes on in the next line.
using Pairs = std::vector<std::pair<std::string, std::string>>;
std::string render_pairs(const std::string& heading, const Pairs& pairs);

// A table with a header. Columns are as wide as their longest cell; the widest are cut until the
// table fits, and a cell that was cut ends with "~".
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string name;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Missing cells are empty; cells past the last column are dropped.
  void add(std::vector<std::string> cells);
  std::string text(std::size_t columns = kColumns) const;

 private:
  std::vector<std::size_t> widths(std::size_t columns) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The value at a JSON pointer such as "/l2/bytes": 0 or empty when it is absent or of another type.
std::uint64_t number_at(const nlohmann::json& object, const std::string& pointer);
std::string text_at(const nlohmann::json& object, const std::string& pointer);
// The list at a pointer; an empty one when there is none.
const nlohmann::json& list_at(const nlohmann::json& object, const std::string& pointer);

// For a terminal: control characters become "?".
std::string printable(const std::string& text);

}  // namespace hc
