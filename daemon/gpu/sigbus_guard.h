// SPDX-License-Identifier: Apache-2.0
// sigbus_guard: touch memory that another process may have truncated, and live.
//
// A client's memory file that cannot be sealed against shrinking raises SIGBUS when it is touched
// past its end. Within a guarded call such a fault at the guarded range ends the call; any other
// fault goes to whoever handled SIGBUS before, which by default ends the process.
#pragma once

#include <cstddef>

namespace hc {

// Before the first guarded call; does nothing where the guard is in place already.
void install_sigbus_guard();

// What is guarded: bytes of foreign memory.
struct GuardedRange {
  const void* data = nullptr;
  std::size_t size_bytes = 0;
};

// Runs body(argument) on this thread; false if it touched missing memory of `range` and was cut
// off there. The body must own nothing and lock nothing: it is left without unwinding.
bool run_guarded(GuardedRange range, void (*body)(void*), void* argument);

}  // namespace hc
