// SPDX-License-Identifier: Apache-2.0
// render: bars, pairs and tables.
#include "client/ctl/render.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/ctl/amount.h"

namespace hc {

namespace {

using nlohmann::json;

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 6;

std::string fitted(const std::string& text, std::size_t width) {
  if (text.size() <= width) {
    return text;
  }
  return text.substr(0, width - 1) + "~";
}

void trim_end(std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
}

// The longest start of `text` of at most `width` columns that ends before a blank, if there is one.
std::size_t break_at(const std::string& text, std::size_t width) {
  if (text.size() <= width) {
    return text.size();
  }
  const std::size_t blank = text.rfind(' ', width);
  return blank == std::string::npos || blank == 0 ? width : blank;
}

}  // namespace

std::string bar(double share, std::size_t columns) {
  const double clamped = std::clamp(share, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(clamped * static_cast<double>(columns));
  std::string percent = format_percent(clamped);
  percent.insert(0, percent.size() < 7 ? 7 - percent.size() : 0, ' ');
  return "[" + std::string(full, '#') + std::string(columns - full, '.') + "] " + percent;
}

std::string render_pairs(const std::string& heading, const Pairs& pairs) {
  std::size_t name_columns = 0;
  for (const auto& [name, value] : pairs) {
    name_columns = std::max(name_columns, std::min(name.size(), kColumns / 2));
  }
  const std::string indent = heading.empty() ? "" : "  ";
  const std::size_t value_columns = kColumns - indent.size() - name_columns - kGap;
  std::string out = heading.empty() ? "" : heading + "\n";
  for (const auto& [name, value] : pairs) {
    std::string label = fitted(printable(name), name_columns);
    std::string rest = printable(value);
    do {
      const std::size_t length = break_at(rest, value_columns);
      std::string line = indent + label;
      line.resize(indent.size() + name_columns + kGap, ' ');
      line += rest.substr(0, length);
      trim_end(line);
      out += line + "\n";
      rest.erase(0, length + (length < rest.size() && rest[length] == ' ' ? 1 : 0));
      label.clear();
    } while (!rest.empty());
  }
  return out;
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) {
    cell = printable(cell);
  }
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths(std::size_t columns) const {
  std::vector<std::size_t> out;
  std::size_t total = 0;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = columns_[column].name.size();
    for (const auto& row : rows_) {
      width = std::max(width, row[column].size());
    }
    out.push_back(width);
    total += width + (column == 0 ? 0 : kGap);
  }
  while (total > columns) {
    const auto widest = std::max_element(out.begin(), out.end());
    if (*widest <= kNarrowest) {
      break;
    }
    --*widest;
    --total;
  }
  return out;
}

std::string Table::text(std::size_t columns) const {
  const std::vector<std::size_t> sizes = widths(columns);
  const auto line_of = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string cell = fitted(cell_of(column), sizes[column]);
      const std::string padding(sizes[column] - cell.size(), ' ');
      line += column == 0 ? "" : std::string(kGap, ' ');
      line += columns_[column].align == Align::left ? cell + padding : padding + cell;
    }
    trim_end(line);
    return line + "\n";
  };
  std::string out = line_of([&](std::size_t column) { return columns_[column].name; });
  for (const auto& row : rows_) {
    out += line_of([&](std::size_t column) { return row[column]; });
  }
  return out;
}

std::uint64_t number_at(const json& object, const std::string& pointer) {
  const json::json_pointer at(pointer);
  if (!object.contains(at)) {
    return 0;
  }
  const json& value = object.at(at);
  const bool fits = value.is_number_unsigned() ||
                    (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  return fits ? value.get<std::uint64_t>() : 0;
}

std::string text_at(const json& object, const std::string& pointer) {
  const json::json_pointer at(pointer);
  if (!object.contains(at)) {
    return "";
  }
  const json& value = object.at(at);
  return value.is_string() ? value.get<std::string>() : "";
}

const json& list_at(const json& object, const std::string& pointer) {
  static const json kNothing = json::array();
  const json::json_pointer at(pointer);
  if (!object.contains(at)) {
    return kNothing;
  }
  const json& value = object.at(at);
  return value.is_array() ? value : kNothing;
}

std::string printable(const std::string& text) {
  std::string out = text;
  for (char& letter : out) {
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F) {
      letter = '?';
    }
  }
  return out;
}

}  // namespace hc
