// SPDX-License-Identifier: Apache-2.0
// child: runs a piece of code in a forked process, which dies with the test.
//
// Fork before the test starts threads of its own: only the forking thread lives on in the child.
#pragma once

#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "proto/check.h"

namespace hc::test {

class Child {
 public:
  // The child exits with what `code` returns.
  template <typename Code>
  explicit Child(Code&& code) : pid_(::fork()) {
    HC_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(code());
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill_now();
    }
  }

  pid_t pid() const { return pid_; }

  // Waits for its end: the exit status, or minus the signal that ended it.
  int wait() {
    int status = 0;
    HC_CHECK(::waitpid(std::exchange(pid_, 0), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  void kill_now() {
    ::kill(pid_, SIGKILL);
    wait();
  }

 private:
  pid_t pid_;
};

}  // namespace hc::test
