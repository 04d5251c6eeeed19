// SPDX-License-Identifier: Apache-2.0
// pidfd: a descriptor that stands for one process, whatever becomes of its number.
#pragma once

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

// glibc of Debian 12 has no header for it that C++ can include.
inline Result<UniqueFd> open_pidfd(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  if (!fd) {
    return make_error(errno == ESRCH ? Code::not_found : Code::io_error,
                      "pidfd_open of process " + std::to_string(pid), errno);
  }
  return fd;
}

// True once the process has exited: its memory is gone and nothing of it runs, reaped or not.
// Whether a descriptor that somebody sent is a pidfd; anything else may never say that it ended.
inline bool is_pidfd(int fd) {
  std::array<char, 64> link{};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(path.c_str(), link.data(), link.size());
  const std::string_view name(link.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return name == "anon_inode:[pidfd]" || name.rfind("pidfd:", 0) == 0;
}

inline bool pidfd_is_dead(int pidfd) {
  pollfd entry{pidfd, POLLIN, 0};
  int count = 0;
  do {
    count = ::poll(&entry, 1, 0);
  } while (count < 0 && errno == EINTR);
  HC_CHECK(count >= 0);
  return count == 1 && (entry.revents & POLLIN) != 0;
}

// Whether both stand for one process. False where the kernel can't say (before Linux 6.9 all pidfds
// have one inode).
inline bool pidfds_are_of_one(int first, int second) {
  constexpr auto kPidFileSystem = 0x50494446;
  struct statfs system {};
  struct stat one {};
  struct stat other {};
  return ::fstatfs(first, &system) == 0 && system.f_type == kPidFileSystem &&
         ::fstat(first, &one) == 0 && ::fstat(second, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace hc
