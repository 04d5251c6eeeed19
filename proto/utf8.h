// SPDX-License-Identifier: Apache-2.0
// utf8: whether a text from outside can be shown and written as JSON.
#pragma once

#include <cstddef>
#include <string_view>

namespace hc {

// Well-formed UTF-8: shortest forms only, no surrogates, at most U+10FFFF.
constexpr bool is_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto lead = static_cast<unsigned char>(text[at++]);
    if (lead < 0x80) {
      continue;
    }
    if (lead < 0xC2 || lead > 0xF4) {
      return false;
    }
    const std::size_t more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    if (text.size() - at < more) {
      return false;
    }
    const auto first = static_cast<unsigned char>(text[at]);
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (first < low || first > high) {
      return false;
    }
    for (std::size_t i = 1; i < more; ++i) {
      if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) {
        return false;
      }
    }
    at += more;
  }
  return true;
}

}  // namespace hc
