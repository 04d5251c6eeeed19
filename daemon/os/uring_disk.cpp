// SPDX-License-Identifier: Apache-2.0
// uring_disk: requests to ring entries, ring results to completions.
#include "daemon/os/uring_disk.h"

#include <array>
#include <utility>

#include "proto/limits.h"

namespace hc {

UringDisk::UringDisk(std::vector<Volume> volumes, Uring ring)
    : VolumeDisk(std::move(volumes)), ring_(std::move(ring)), transfers_(kDiskRequestsMax) {
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
  Volume& on = volume(request.file);
  transfers_[slot] = Transfer(request, on.fd(request.file));
  free_.pop_back();
  on.begin_io(request.file);
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
    case DiskOp::allocate:
    case DiskOp::punch:
      ring_.queue_space(slot, transfer.fd(),
                        {transfer.op() == DiskOp::punch, transfer.offset_bytes(),
                         transfer.length_bytes()});
      return;
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
  volume(transfer.file()).end_io(transfer.file());
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

// With deferred task work the kernel raises the event when work arrives, but only if its list was
// empty, and a call works off only a part of a long list. So the ring is entered until a call
// brings nothing; only then may the event stay down. It is lowered before each of these calls: what
// arrived before is found by the call, what arrives after raises it again. With nothing in flight
// there is nothing to enter for: an event that comes late wakes the loop once, by its edge.
void UringDisk::poll(std::vector<DiskCompletion>& out) {
  if (free_.size() == kDiskRequestsMax && finished_.empty()) {
    return;
  }
  do {
    ring_.clear_event();
    if (free_.size() < kDiskRequestsMax) {
      ring_.submit();
    }
  } while (reap());
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
