// SPDX-License-Identifier: Apache-2.0
// io_uring: whether this machine gives io_uring to us, by a bare system call.
//
// Many containers and hardened kernels deny it. What a test expects of the product follows this
// answer, which knows nothing of the product's own probe.
#pragma once

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "shm/unique_fd.h"

namespace hc::test {

// 0 if the kernel makes a ring of so many entries with these flags, else its errno.
inline int io_uring_refusal(std::uint32_t entries, std::uint32_t flags = 0) {
  io_uring_params params{};
  params.flags = flags;
  const UniqueFd ring(static_cast<int>(::syscall(SYS_io_uring_setup, entries, &params)));
  return ring ? 0 : errno;
}

inline bool has_io_uring() { return io_uring_refusal(8) == 0; }

}  // namespace hc::test
