// SPDX-License-Identifier: Apache-2.0
// amount: sizes and counts as a person writes and reads them.
//
// Owner thread: any; there is no state. Every parse error is one line that names the field, the
// value and what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace hc {

// A tier's size: bytes ("4GiB", "1500MB", "65536") or pages ("5000blocks").
struct Amount {
  std::uint64_t value = 0;
  bool in_blocks = false;
};

Result<Amount> parse_amount(const std::string& field, std::string_view text);
// A count of bytes with an optional unit: B, KiB, MiB, GiB, TiB (or K, M, G, T), kB, MB, GB, TB.
Result<std::uint64_t> parse_bytes(const std::string& field, std::string_view text);
// Decimal digits only, within [low, high].
struct Range {
  std::uint64_t low;
  std::uint64_t high;
};
Result<std::uint64_t> parse_count(const std::string& field, std::string_view text, Range range);

std::string format_bytes(std::uint64_t size_bytes);        // "4.0 GiB"
std::string format_count(std::uint64_t count);             // "182,790"
std::string format_ratio(double ratio);                    // "0.3551"
std::string format_percent(double ratio);                  // "35.5 %"
std::string format_nanoseconds(std::uint64_t elapsed_ns);  // "4.21 us"
std::string format_seconds(double elapsed_s);              // "12.3 s"

}  // namespace hc
