// SPDX-License-Identifier: Apache-2.0
// interrupt: turns SIGINT and SIGTERM into something to poll, so that the bench can clean up.
//
// Owner thread: the main thread, before any other thread or process exists. Child processes that
// run another program must call restore_signals between fork and exec.
#pragma once

#include <csignal>

#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

class Interrupt {
 public:
  static Result<Interrupt> make();
  Interrupt(Interrupt&&) noexcept = default;
  Interrupt& operator=(Interrupt&&) = delete;
  ~Interrupt();

  int fd() const { return fd_.get(); }  // readable once the person wants to stop
  bool raised() const;
  void restore_signals() const;         // async-signal-safe

 private:
  Interrupt(UniqueFd fd, const sigset_t& before) : fd_(std::move(fd)), before_(before) {}
  UniqueFd fd_;
  sigset_t before_;
};

}  // namespace hc
