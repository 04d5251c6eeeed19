// SPDX-License-Identifier: Apache-2.0
// sigbus_guard: a SIGBUS handler that jumps back to the guarded call of its thread.
#include "daemon/gpu/sigbus_guard.h"

#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <mutex>

#include "proto/check.h"

namespace hc {

namespace {

struct Guard {
  sigjmp_buf back;
  GuardedRange range;
};

// The guarded call of this thread. Volatile: written before and read inside a signal handler.
thread_local Guard* volatile current_guard = nullptr;

struct sigaction previous_action;

constexpr std::uintptr_t kPageMask = 4095;

// In whole pages, because some machines report only the page that faulted.
bool covers(const GuardedRange& range, const void* address) {
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address) & ~kPageMask;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(range.data);
  return at >= (begin & ~kPageMask) && at < begin + range.size_bytes;
}

void on_sigbus(int number, siginfo_t* info, void* context) {
  Guard* const guard = current_guard;
  if (guard != nullptr && covers(guard->range, info->si_addr)) {
    siglongjmp(guard->back, 1);
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(number, info, context);
    return;
  }
  if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
    return;
  }
  // The access is repeated after the return and then ends the process.
  std::signal(SIGBUS, SIG_DFL);
}

}  // namespace

void install_sigbus_guard() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction current {};
  HC_CHECK(::sigaction(SIGBUS, nullptr, &current) == 0);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_sigbus) {
    return;
  }
  previous_action = current;
  struct sigaction action {};
  action.sa_sigaction = on_sigbus;
  // SA_NODEFER: the handler is left by a jump, which then need not restore the signal mask.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  HC_CHECK(::sigaction(SIGBUS, &action, nullptr) == 0);
}

bool run_guarded(GuardedRange range, void (*body)(void*), void* argument) {
  HC_CHECK(current_guard == nullptr);
  Guard guard;
  guard.range = range;
  if (sigsetjmp(guard.back, 0) != 0) {
    current_guard = nullptr;
    return false;
  }
  current_guard = &guard;
  body(argument);
  current_guard = nullptr;
  return true;
}

}  // namespace hc
