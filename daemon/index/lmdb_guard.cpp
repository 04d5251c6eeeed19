// SPDX-License-Identifier: Apache-2.0
// lmdb_guard: a jump back out of LMDB, from its assertion and from the signals of a bad map.
#include "daemon/index/lmdb_guard.h"

#include <unistd.h>

#include <array>
#include <csetjmp>
#include <csignal>
#include <mutex>

#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

namespace {

constexpr int kExitDamaged = 5;  // as for damage that a start finds by itself

struct Frame {
  sigjmp_buf back;
};

// The guarded call of this thread. Volatile: written before and read inside a signal handler.
thread_local Frame* volatile current_frame = nullptr;

struct Handled {
  int number;
  struct sigaction previous;
};
std::array<Handled, 2> handled{{{SIGSEGV, {}}, {SIGBUS, {}}}};

void on_fault(int number, siginfo_t* info, void* context) {
  if (current_frame != nullptr) {
    siglongjmp(current_frame->back, 1);
  }
  const struct sigaction& previous = handled[number == SIGSEGV ? 0 : 1].previous;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
    return;
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
    return;
  }
  // The access is repeated after the return and then ends the process.
  std::signal(number, SIG_DFL);
}

}  // namespace

void install_lmdb_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (Handled& at : handled) {
      HC_CHECK(::sigaction(at.number, nullptr, &at.previous) == 0);
      struct sigaction action {};
      action.sa_sigaction = on_fault;
      // SA_NODEFER: the handler is left by a jump, which then need not restore the signal mask.
      action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
      sigemptyset(&action.sa_mask);
      HC_CHECK(::sigaction(at.number, &action, nullptr) == 0);
    }
  });
}

// On return LMDB would abort. Exit handlers would wait for threads that may wait for this one.
void leave_damaged_call(MDB_env* env, const char* message) {
  const char* path = nullptr;
  const bool known = mdb_env_get_path(env, &path) == 0 && path != nullptr;
  log_error("index.damaged_page", {{"file", known ? path : "?"}, {"lmdb", message}});
  if (current_frame != nullptr) {
    siglongjmp(current_frame->back, 1);
  }
  ::_exit(kExitDamaged);
}

int run_lmdb_call(int (*body)(void*), void* argument) {
  HC_CHECK(current_frame == nullptr);
  Frame frame;
  if (sigsetjmp(frame.back, 0) != 0) {
    current_frame = nullptr;
    return kLmdbBroken;
  }
  current_frame = &frame;
  const int rc = body(argument);
  current_frame = nullptr;
  return rc;
}

}  // namespace hc
