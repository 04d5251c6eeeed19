// SPDX-License-Identifier: Apache-2.0
// interrupt: a signalfd.
#include "client/ctl/interrupt.h"

#include <poll.h>
#include <sys/signalfd.h>

#include <cerrno>

namespace hc {

Result<Interrupt> Interrupt::make() {
  sigset_t wanted;
  sigset_t before;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGINT);
  ::sigaddset(&wanted, SIGTERM);
  if (::sigprocmask(SIG_BLOCK, &wanted, &before) != 0) {
    return make_error(Code::io_error, "blocking of signals", errno);
  }
  UniqueFd fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd.get() < 0) {
    return make_error(Code::io_error, "a descriptor for signals", errno);
  }
  return Interrupt(std::move(fd), before);
}

Interrupt::~Interrupt() {
  if (fd_.get() >= 0) {
    // A signal that was noticed must not end the process now that cleaning up is over.
    signalfd_siginfo taken;
    while (::read(fd_.get(), &taken, sizeof(taken)) == static_cast<ssize_t>(sizeof(taken))) {
    }
    restore_signals();
  }
}

bool Interrupt::raised() const {
  pollfd event{fd_.get(), POLLIN, 0};
  return ::poll(&event, 1, 0) > 0;
}

void Interrupt::restore_signals() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace hc
