// SPDX-License-Identifier: Apache-2.0
// blocking_io: preadv, pwritev and fdatasync, continued and retried as Transfer says.
#include "daemon/os/blocking_io.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace hc {

namespace {

std::int64_t run_once(Transfer& transfer) {
  const std::span<const iovec> vectors = transfer.remaining();
  const auto count = static_cast<int>(vectors.size());
  const auto offset = static_cast<off_t>(transfer.offset_bytes());
  const auto length = static_cast<off_t>(transfer.length_bytes());
  std::int64_t result = 0;
  switch (transfer.op()) {
    case DiskOp::read: result = ::preadv(transfer.fd(), vectors.data(), count, offset); break;
    case DiskOp::write: result = ::pwritev(transfer.fd(), vectors.data(), count, offset); break;
    case DiskOp::sync: result = ::fdatasync(transfer.fd()); break;
    case DiskOp::allocate: result = ::fallocate(transfer.fd(), 0, offset, length); break;
    case DiskOp::punch:
      result = ::fallocate(transfer.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                           length);
      break;
  }
  return result < 0 ? -std::int64_t{errno} : result;
}

}  // namespace

DiskCompletion run_blocking(Transfer& transfer) {
  while (transfer.advance(run_once(transfer)) == Transfer::Next::again) {
  }
  return transfer.completion();
}

}  // namespace hc
