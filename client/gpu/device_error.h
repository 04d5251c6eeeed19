// SPDX-License-Identifier: Apache-2.0
// device_error: refusals that name an address of a device.
//
// Owner thread: any; pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "proto/result.h"

namespace hc {

inline std::string address_text(std::uint64_t address) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (; address != 0; address >>= 4) {
    text.insert(text.begin(), kDigits[address & 15]);
  }
  return "0x" + (text.empty() ? "0" : text);
}

inline Error bad_address(std::uint64_t address, const std::string& why) {
  return make_error(Code::bad_argument, "region.address = " + address_text(address) + ": " + why);
}

// No way leads from this memory to another process.
inline Error not_exportable(std::uint64_t address, const std::string& why) {
  return make_error(Code::unsupported, "region.address = " + address_text(address) +
                                           ": its allocation can't be exported (" + why + ")");
}

}  // namespace hc
