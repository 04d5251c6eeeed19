// SPDX-License-Identifier: Apache-2.0
// uring_disk: requests to ring entries, ring results to completions.
#include "daemon/os/uring_disk.h"

#include <array>
#include <utility>

#include "proto/limits.h"

namespace hc {

UringDisk::UringDisk(Volume volume, Uring ring)
    : VolumeDisk(std::move(volume)), ring_(std::move(ring)), transfers_(kDiskRequestsMax) {
  free_.reserve(kDiskRequestsMax);
  for (std::uint32_t slot = kDiskRequestsMax; slot > 0; --slot) {
    free_.push_back(slot - 1);
  }
  finished_.reserve(kDiskRequestsMax);
}

UringDisk::~UringDisk() {
  while (free_.size() < kDiskRequestsMax) {
    ring_.submit_and_wait();
    reap();
  }
}

std::string UringDisk::description() const {
  return std::string("io_uring (") + uring_mode_name(ring_.mode()) + ")";
}

Code UringDisk::submit(const DiskRequest& request) {
  if (in_flight_ == kDiskRequestsMax) {
    return Code::busy;
  }
  HC_CHECK(!free_.empty());
  const std::uint32_t slot = free_.back();
  transfers_[slot] = Transfer(request, volume_.fd(request.file));
  free_.pop_back();
  volume_.begin_io(request.file);
  ++in_flight_;
  queue(slot);
  return Code::ok;
}

void UringDisk::queue(std::uint32_t slot) {
  Transfer& transfer = transfers_[slot];
  switch (transfer.op()) {
    case DiskOp::read:
      ring_.queue_read(slot, transfer.fd(), transfer.remaining(), transfer.offset_bytes());
      return;
    case DiskOp::write:
      ring_.queue_write(slot, transfer.fd(), transfer.remaining(), transfer.offset_bytes());
      return;
    case DiskOp::sync: ring_.queue_sync(slot, transfer.fd()); return;
  }
  HC_UNREACHABLE();
}

void UringDisk::settle(const Uring::Done& done) {
  HC_CHECK(done.tag < kDiskRequestsMax);
  const auto slot = static_cast<std::uint32_t>(done.tag);
  Transfer& transfer = transfers_[slot];
  if (transfer.advance(done.result) == Transfer::Next::again) {
    queue(slot);
    return;
  }
  volume_.end_io(transfer.file());
  finished_.push_back(transfer.completion());
  free_.push_back(slot);
}

bool UringDisk::reap() {
  std::array<Uring::Done, 64> batch;
  bool any = false;
  while (const std::uint32_t count = ring_.reap(batch)) {
    any = true;
    for (std::uint32_t i = 0; i < count; ++i) {
      settle(batch[i]);
    }
  }
  return any;
}

// With deferred task work the kernel raises the event only when its list of finished work was
// empty, and works off only a part of a long list per call. So after each call that brought
// something there is another one, until one brings nothing; only then is it safe to sleep.
void UringDisk::poll(std::vector<DiskCompletion>& out) {
  ring_.clear_event();  // Also when idle: the last poll may have reaped what raised it again.
  while (free_.size() < kDiskRequestsMax) {
    ring_.submit();
    if (!reap()) {
      break;
    }
  }
  HC_CHECK(in_flight_ >= finished_.size());
  in_flight_ -= static_cast<std::uint32_t>(finished_.size());
  out.insert(out.end(), finished_.begin(), finished_.end());
  finished_.clear();
}

void UringDisk::wait() {
  while (in_flight_ > 0 && finished_.empty()) {
    ring_.submit_and_wait();
    reap();
  }
}

}  // namespace hc
