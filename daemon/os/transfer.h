// SPDX-License-Identifier: Apache-2.0
// transfer: one disk request on its way: what is left of it, and what a kernel result means.
//
// Shared by both back ends, so that short transfers, retries and error codes are the same. Pure:
// it calls nothing.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <span>

#include "daemon/os/disk.h"

namespace hc {

inline constexpr std::uint32_t kTransferStepsMax = 16;  // Continuations and retries, each.
inline constexpr std::uint32_t kSectorBytes = 512;      // A short transfer ends on one of these.

class Transfer {
 public:
  Transfer() = default;
  Transfer(const DiskRequest& request, int fd);

  enum class Next : std::uint8_t { again, done };
  // Takes the result of one kernel operation: bytes moved or -errno. `again`: issue the rest.
  Next advance(std::int64_t result);

  DiskOp op() const { return request_.op; }
  FileId file() const { return request_.file; }
  int fd() const { return fd_; }
  std::uint64_t offset_bytes() const { return request_.offset_bytes + moved_bytes_; }
  std::uint64_t length_bytes() const { return request_.length_bytes; }
  // The parts of the buffers still to move. Points into this object: it must stay where it is
  // while the kernel works on it.
  std::span<const iovec> remaining();
  DiskCompletion completion() const { return {request_.ticket, code_, sys_errno_}; }

 private:
  Next fail(int error);
  Next retry(int error);

  DiskRequest request_{};
  int fd_ = -1;
  std::uint64_t moved_bytes_ = 0;
  std::array<iovec, 2> vectors_{};
  std::uint32_t continuations_ = 0;
  std::uint32_t retries_ = 0;
  Code code_ = Code::ok;
  int sys_errno_ = 0;
};

}  // namespace hc
