// SPDX-License-Identifier: Apache-2.0
// last_error: the one line that a thread can ask for after a call of it has failed.
//
// Owner thread: each thread has its own line. Invariants: the line is always terminated; setting
// it allocates nothing, so it works in a forked child and while memory is short.
#pragma once

#include <string_view>

#include "client/hicache.h"
#include "proto/result.h"

namespace hc {

inline constexpr std::size_t kLastErrorBytes = 512;

void set_last_error(std::string_view line);
const char* last_error();

// Keeps the error's line and returns its code as the C interface spells it.
hicache_code fail(const Error& error);
hicache_code fail(Code code, std::string_view line);

}  // namespace hc
