// SPDX-License-Identifier: Apache-2.0
// amount: parsing and printing of sizes, counts and durations.
#include "client/ctl/amount.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <system_error>

namespace hc {

namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array<Unit, 14> kUnits{{
    {"", 1},
    {"B", 1},
    {"K", 1ULL << 10}, {"KiB", 1ULL << 10}, {"kB", 1000ULL},
    {"M", 1ULL << 20}, {"MiB", 1ULL << 20}, {"MB", 1000000ULL},
    {"G", 1ULL << 30}, {"GiB", 1ULL << 30}, {"GB", 1000000000ULL},
    {"T", 1ULL << 40}, {"TiB", 1ULL << 40}, {"TB", 1000000000000ULL},
}};

Error refuse(const std::string& field, std::string_view text, std::string_view allowed) {
  return make_error(Code::bad_argument,
                    field + ": \"" + std::string(text) + "\" is not allowed; " +
                        std::string(allowed));
}

// Splits leading digits from the rest; false when there are none or they overflow.
bool split_number(std::string_view text, std::uint64_t& number, std::string_view& rest) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop == text.data()) {
    return false;
  }
  rest = std::string_view(stop, static_cast<std::size_t>(end - stop));
  return true;
}

template <typename... Values>
std::string print(const char* pattern, Values... values) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), pattern, values...);
  return {text.data(), static_cast<std::size_t>(length < 0 ? 0 : length)};
}

}  // namespace

Result<Amount> parse_amount(const std::string& field, std::string_view text) {
  constexpr std::string_view kAllowed =
      "a size such as 4GiB or 65536, or a number of pages such as 5000blocks, above 0";
  std::uint64_t number = 0;
  std::string_view rest;
  if (!split_number(text, number, rest) || number == 0) {
    return refuse(field, text, kAllowed);
  }
  if (rest == "blocks" || rest == "block") {
    return Amount{number, true};
  }
  auto bytes = parse_bytes(field, text);
  if (!bytes) {
    return refuse(field, text, kAllowed);
  }
  return Amount{*bytes, false};
}

Result<std::uint64_t> parse_bytes(const std::string& field, std::string_view text) {
  constexpr std::string_view kAllowed = "a whole number, with a unit such as KiB, MiB, GB if any";
  std::uint64_t number = 0;
  std::string_view rest;
  if (!split_number(text, number, rest)) {
    return refuse(field, text, kAllowed);
  }
  for (const Unit& unit : kUnits) {
    if (unit.name == rest && number <= std::numeric_limits<std::uint64_t>::max() / unit.factor) {
      return number * unit.factor;
    }
  }
  return refuse(field, text, kAllowed);
}

Result<std::uint64_t> parse_count(const std::string& field, std::string_view text, Range range) {
  std::uint64_t number = 0;
  std::string_view rest;
  if (split_number(text, number, rest) && rest.empty() && number >= range.low &&
      number <= range.high) {
    return number;
  }
  return refuse(field, text,
                "a whole number from " + std::to_string(range.low) + " to " +
                    std::to_string(range.high));
}

std::string format_bytes(std::uint64_t size_bytes) {
  constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  if (size_bytes < 1024) {
    return std::to_string(size_bytes) + " B";
  }
  double value = static_cast<double>(size_bytes);
  std::size_t name = 0;
  while (value >= 1024.0 && name + 1 < kNames.size()) {
    value /= 1024.0;
    ++name;
  }
  return print("%.1f %s", value, kNames[name]);
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string format_ratio(double ratio) { return print("%.4f", ratio); }

std::string format_percent(double ratio) { return print("%.1f %%", ratio * 100.0); }

std::string format_nanoseconds(std::uint64_t elapsed_ns) {
  const double value = static_cast<double>(elapsed_ns);
  if (elapsed_ns < 1000) {
    return std::to_string(elapsed_ns) + " ns";
  }
  if (elapsed_ns < 1000000) {
    return print("%.2f us", value / 1e3);
  }
  if (elapsed_ns < 1000000000) {
    return print("%.2f ms", value / 1e6);
  }
  return print("%.2f s", value / 1e9);
}

std::string format_seconds(double elapsed_s) { return print("%.1f s", elapsed_s); }

}  // namespace hc
