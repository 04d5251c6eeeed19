// SPDX-License-Identifier: Apache-2.0
// argument_error: the wording of every refusal of an argument: field, value, what is allowed.
//
// Owner thread: any.
#pragma once

#include <cstdint>
#include <string>

#include "proto/result.h"

namespace hc {

struct Bounds {
  std::uint64_t low;
  std::uint64_t high;
};

inline Error out_of_range(const std::string& field, std::uint64_t value, Bounds allowed) {
  return make_error(Code::bad_argument, field + " = " + std::to_string(value) + ": must be " +
                                            std::to_string(allowed.low) + ".." +
                                            std::to_string(allowed.high));
}

inline Result<void> check_bounds(const char* field, std::uint64_t value, Bounds allowed) {
  if (value >= allowed.low && value <= allowed.high) return {};
  return out_of_range(field, value, allowed);
}

// A number that has to be one certain number: a size, a version, a reserved field.
inline Result<void> check_equal(const char* field, std::uint64_t value, std::uint64_t expected) {
  if (value == expected) return {};
  return make_error(Code::bad_argument, std::string(field) + " = " + std::to_string(value) +
                                            ": must be " + std::to_string(expected));
}

inline Result<void> check_given(const char* field, const void* pointer) {
  if (pointer != nullptr) return {};
  return make_error(Code::bad_argument, std::string(field) + " = NULL: must be given");
}

}  // namespace hc
