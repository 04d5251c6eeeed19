// SPDX-License-Identifier: Apache-2.0
// check: invariants of our own code, checked in every build.
//
// A failed check is our bug and aborts the process. Bytes from outside (disk, ring, socket,
// config) are values to judge and must never reach one of these.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace hc {

[[noreturn]] inline void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "hicache: check failed: %s at %s:%d\n", expression, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace hc

#define HC_CHECK(expression)                                     \
  do {                                                           \
    if (!(expression)) [[unlikely]] {                            \
      ::hc::check_failed(#expression, __FILE__, __LINE__);       \
    }                                                            \
  } while (false)

#define HC_UNREACHABLE() ::hc::check_failed("unreachable", __FILE__, __LINE__)
