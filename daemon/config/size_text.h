// SPDX-License-Identifier: Apache-2.0
// size_text: sizes as people write them ("64GiB") and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace hc {

// A whole number, then nothing or one of B, KiB, MiB, GiB, TiB, PiB (powers of 1024) or KB, MB, GB,
// TB, PB (powers of 1000); one space between them is fine. Signs, fractions, overflow are refused.
Result<std::uint64_t> parse_size(std::string_view text);

// The shortest exact form: "64GiB", "1536MiB", "1000000".
std::string format_size(std::uint64_t size_bytes);

}  // namespace hc
