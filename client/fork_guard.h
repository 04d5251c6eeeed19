// SPDX-License-Identifier: Apache-2.0
// fork_guard: tells a forked child from the process that opened the client, with no system call.
//
// Owner thread: any; reads one word. How: a page of its own that the kernel hands to a child as
// zeros (MADV_WIPEONFORK). It works for every kind of fork, also those that run no atfork handler.
#pragma once

#include <cstddef>

namespace hc {

class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  // False where the kernel could not give such a page; then the client must not be opened.
  bool works() const { return page_ != nullptr; }
  bool in_child() const { return *page_ == 0; }

 private:
  volatile unsigned char* page_ = nullptr;
  std::size_t page_bytes_ = 0;
};

}  // namespace hc
