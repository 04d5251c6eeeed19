// SPDX-License-Identifier: Apache-2.0
// line_writer: a non-blocking write for each kind of file that a log can go to.
//
// Owner: one thread at a time.
#include "daemon/log/line_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace hc {

namespace {

constexpr std::string_view kCutEnd = "...\n";

}  // namespace

LineWriter::~LineWriter() {
  if (own_ >= 0) {
    ::close(own_);
  }
}

// The descriptor can be pointed elsewhere at any time. A pipe or a terminal is opened again, which
// gives an open file of our own; that can fail for want of rights, and write_some can do without.
void LineWriter::look_at_file() {
  struct stat info {};
  const bool valid = ::fstat(fd_, &info) == 0;
  if (valid && known_ && info.st_dev == device_ && info.st_ino == inode_) {
    return;
  }
  if (own_ >= 0) {
    ::close(own_);
    own_ = -1;
  }
  rest_.clear();  // its begin went to another file
  known_ = valid;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  is_socket_ = valid && S_ISSOCK(info.st_mode);
  if (valid && (S_ISFIFO(info.st_mode) || ::isatty(fd_) == 1)) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd_);
    own_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }
}

ssize_t LineWriter::write_some(std::string_view bytes) const {
  if (is_socket_) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (own_ >= 0) {
    return ::write(own_, bytes.data(), bytes.size());
  }
  // A pipe that polls writable takes PIPE_BUF bytes at once.
  pollfd room{fd_, POLLOUT, 0};
  if (::poll(&room, 1, 0) <= 0 || (room.revents & POLLOUT) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return ::write(fd_, bytes.data(), bytes.size());
}

bool LineWriter::write_rest() {
  while (!rest_.empty()) {
    const ssize_t done = write_some(rest_);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      return false;
    }
    rest_.erase(0, static_cast<std::size_t>(done));
  }
  return true;
}

bool LineWriter::write(std::string_view line) {
  look_at_file();
  if (!write_rest()) {
    return false;
  }
  rest_ = line;
  if (rest_.size() > PIPE_BUF) {
    rest_.resize(PIPE_BUF - kCutEnd.size());
    rest_ += kCutEnd;
  }
  const std::size_t whole = rest_.size();
  if (!write_rest() && rest_.size() == whole) {
    rest_.clear();
    return false;
  }
  return true;  // a line taken in part is finished before the next one
}

}  // namespace hc
