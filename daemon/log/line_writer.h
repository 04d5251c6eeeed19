// SPDX-License-Identifier: Apache-2.0
// line_writer: writes whole lines to a descriptor without ever waiting for who reads it.
//
// Owner: one thread at a time. Invariant: the flags of the open file, which other processes may
// share, are left alone.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace hc {

class LineWriter {
 public:
  explicit LineWriter(int fd) : fd_(fd) {}
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  ~LineWriter();

  // `line` ends with its newline; what is longer than the kernel writes at once is cut.
  // False: nothing of it was written, as there is no room or the descriptor is broken.
  bool write(std::string_view line);

 private:
  void look_at_file();
  bool write_rest();
  ssize_t write_some(std::string_view bytes) const;

  int fd_;
  int own_ = -1;  // the same pipe or terminal, opened again to be non-blocking
  bool is_socket_ = false;
  bool known_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::string rest_;  // of a line that was taken in part
};

}  // namespace hc
