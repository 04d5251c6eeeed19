// SPDX-License-Identifier: Apache-2.0
// transfer: judge kernel results; continue short transfers and retry, with a bound.
#include "daemon/os/transfer.h"

#include <algorithm>
#include <cerrno>

#include "proto/limits.h"

namespace hc {

namespace {

bool names_range(DiskOp op) { return op == DiskOp::allocate || op == DiskOp::punch; }
bool moves_bytes(DiskOp op) { return op == DiskOp::read || op == DiskOp::write; }

}  // namespace

Transfer::Transfer(const DiskRequest& request, int fd) : request_(request), fd_(fd) {
  for (const DiskBuffer& buffer : request.buffers) {
    HC_CHECK(reinterpret_cast<std::uintptr_t>(buffer.data) % kBlockBytes == 0);
    HC_CHECK(buffer.size_bytes % kBlockBytes == 0);
  }
  HC_CHECK(request.offset_bytes % kBlockBytes == 0);
  HC_CHECK(request.length_bytes % kBlockBytes == 0);
  HC_CHECK(moves_bytes(request.op) == (request.size_bytes() > 0));
  HC_CHECK(names_range(request.op) == (request.length_bytes > 0));
}

std::span<const iovec> Transfer::remaining() {
  std::uint64_t skip = moved_bytes_;
  std::size_t count = 0;
  for (const DiskBuffer& buffer : request_.buffers) {
    const std::uint64_t skipped = std::min<std::uint64_t>(skip, buffer.size_bytes);
    skip -= skipped;
    if (skipped < buffer.size_bytes) {
      vectors_[count++] = {buffer.data + skipped, buffer.size_bytes - skipped};
    }
  }
  return {vectors_.data(), count};
}

Transfer::Next Transfer::fail(int error) {
  code_ = error == ENOSPC || error == EDQUOT                       ? Code::no_space
          : names_range(request_.op) && error == EOPNOTSUPP ? Code::unsupported
                                                            : Code::io_error;
  sys_errno_ = error;
  return Next::done;
}

Transfer::Next Transfer::retry(int error) {
  return ++retries_ <= kTransferStepsMax ? Next::again : fail(error);
}

Transfer::Next Transfer::advance(std::int64_t result) {
  if (result < 0) {
    const int error = static_cast<int>(-result);
    return error == EINTR || error == EAGAIN ? retry(error) : fail(error);
  }
  if (!moves_bytes(request_.op)) {
    return Next::done;
  }
  const std::uint64_t left = request_.size_bytes() - moved_bytes_;
  const auto moved = static_cast<std::uint64_t>(result);
  HC_CHECK(moved <= left);
  moved_bytes_ += moved;
  if (moved == left) {
    return Next::done;
  }
  // Nothing moved: a read past the end of the file, or a write that makes no progress. An odd
  // count can't be continued with O_DIRECT: the file ends there.
  if (moved == 0 || moved % kSectorBytes != 0 || ++continuations_ > kTransferStepsMax) {
    return fail(EIO);
  }
  return Next::again;
}

}  // namespace hc
