// SPDX-License-Identifier: Apache-2.0
// size_text: parse and print sizes with units.
#include "daemon/config/size_text.h"

#include <array>
#include <charconv>
#include <limits>

namespace hc {

namespace {

struct Unit {
  std::string_view name;
  std::uint64_t size_bytes;
};

// Binary units first, largest first: format_size takes the first of those that divides.
constexpr std::array<Unit, 12> kUnits{{
    {"PiB", 1ULL << 50},
    {"TiB", 1ULL << 40},
    {"GiB", 1ULL << 30},
    {"MiB", 1ULL << 20},
    {"KiB", 1ULL << 10},
    {"PB", 1'000'000'000'000'000},
    {"TB", 1'000'000'000'000},
    {"GB", 1'000'000'000},
    {"MB", 1'000'000},
    {"KB", 1'000},
    {"B", 1},
    {"", 1},
}};
constexpr std::size_t kBinaryUnits = 5;

Error bad_size(std::string_view text, const char* why) {
  return make_error(Code::bad_argument, "'" + std::string(text) + "' " + why);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) {
    return bad_size(text, "is too large");
  }
  if (error != std::errc()) {
    return bad_size(text, "is no size: write a whole number and a unit, such as 64GiB");
  }
  std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  if (name.size() > 1 && name.front() == ' ') {
    name.remove_prefix(1);
  }
  for (const Unit& unit : kUnits) {
    if (name != unit.name) {
      continue;
    }
    if (number > std::numeric_limits<std::uint64_t>::max() / unit.size_bytes) {
      return bad_size(text, "is too large");
    }
    return number * unit.size_bytes;
  }
  return bad_size(text, "has no known unit: B, KiB, MiB, GiB, TiB, PiB, KB, MB, GB, TB or PB");
}

std::string format_size(std::uint64_t size_bytes) {
  for (std::size_t i = 0; i < kBinaryUnits; ++i) {
    if (size_bytes != 0 && size_bytes % kUnits[i].size_bytes == 0) {
      return std::to_string(size_bytes / kUnits[i].size_bytes) + std::string(kUnits[i].name);
    }
  }
  return std::to_string(size_bytes);
}

}  // namespace hc
