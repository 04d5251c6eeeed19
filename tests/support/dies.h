// SPDX-License-Identifier: Apache-2.0
// dies: says whether a piece of code ends its process by abort, as a failed HC_CHECK does.
//
// The code runs in a forked child, so call it before the test starts threads of its own.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace hc::test {

// True only if `code` ended by SIGABRT. False if it returned, exited, or died of another signal: a
// crash by accident is not a check that fired.
template <typename Code>
[[nodiscard]] bool dies_by_check(Code&& code) {
  const pid_t child = ::fork();
  if (child == 0) {
    // The runner's own handler would print a second report from inside the child.
    std::signal(SIGABRT, SIG_DFL);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    const int null_fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null_fd >= 0) {
      ::dup2(null_fd, STDERR_FILENO);
    }
    code();
    ::_exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) {
    return false;
  }
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace hc::test
