// SPDX-License-Identifier: Apache-2.0
// last_error: a fixed buffer per thread, cut at its end.
#include "client/last_error.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace hc {

namespace {

thread_local std::array<char, kLastErrorBytes> line_of_thread{};

}  // namespace

void set_last_error(std::string_view line) {
  const std::size_t bytes = std::min(line.size(), kLastErrorBytes - 1);
  std::memcpy(line_of_thread.data(), line.data(), bytes);
  line_of_thread[bytes] = '\0';
  // A text of the daemon may end in a newline; the promise is one line.
  for (std::size_t i = 0; i < bytes; ++i) {
    if (static_cast<unsigned char>(line_of_thread[i]) < 0x20) {
      line_of_thread[i] = ' ';
    }
  }
}

const char* last_error() {
  return line_of_thread.data();
}

hicache_code fail(Code code, std::string_view line) {
  set_last_error(line);
  return static_cast<hicache_code>(code);
}

hicache_code fail(const Error& error) {
  return fail(error.code, error.message());
}

}  // namespace hc
