// SPDX-License-Identifier: Apache-2.0
// uring_disk: requests to ring entries, ring results to completions.
#include "daemon/os/uring_disk.h"

#include <array>
#include <utility>

#include "daemon/log/log.h"
#include "proto/limits.h"

namespace hc {

std::uint32_t UringDisk::entries_for(std::size_t volumes) {
  return static_cast<std::uint32_t>(volumes) * kDiskRequestsMax;
}

UringDisk::UringDisk(std::vector<Volume> volumes, Uring ring, bool registered)
    : VolumeDisk(std::move(volumes)),
      ring_(std::move(ring)),
      transfers_(entries_for(volume_count())) {
  if (registered) {
    tables_.emplace();
  }
  free_.reserve(transfers_.size());
  for (auto slot = static_cast<std::uint32_t>(transfers_.size()); slot > 0; --slot) {
    free_.push_back(slot - 1);
  }
  finished_.reserve(transfers_.size());
}

UringDisk::~UringDisk() {
  while (free_.size() < transfers_.size()) {
    ring_.submit_and_wait();
    reap();
  }
  if (tables_) {
    ring_.drop_tables();  // a successor waits for the locks of these files
  }
}

std::string UringDisk::description() const {
  return std::string(tables_ ? "io_uring registered (" : "io_uring (") +
         uring_mode_name(ring_.mode()) + ")";
}

void UringDisk::file_opened(FileId file, int fd) {
  if (tables_) {
    tables_->add_file(ring_, file, fd);
  }
}

void UringDisk::file_closing(FileId file) {
  if (tables_) {
    tables_->drop_file(ring_, file);
  }
}

void UringDisk::add_memory(std::span<std::uint8_t> bytes) {
  if (!tables_) {
    return;
  }
  const auto added = tables_->add_memory(ring_, bytes);
  if (!added && !told_unregistered_) {
    told_unregistered_ = true;
    log_warn("disk.memory_not_registered",
             {{"bytes", bytes.size()}, {"reason", added.error().message()}});
  }
}

void UringDisk::drop_memory(std::span<std::uint8_t> bytes) {
  if (tables_) {
    tables_->drop_memory(ring_, bytes);
  }
}

Code UringDisk::submit(const DiskRequest& request) {
  Transfer transfer(request, volume(request.file).fd(request.file));
  if (is_full(request.file)) {
    return Code::busy;
  }
  HC_CHECK(!free_.empty());
  const std::uint32_t slot = free_.back();
  transfers_[slot] = transfer;
  free_.pop_back();
  begin(request.file);
  ++in_flight_;
  queue(slot);
  return Code::ok;
}

Uring::Target UringDisk::target_of(const Transfer& transfer,
                                   std::span<const iovec> vectors) const {
  Uring::Target target{transfer.fd(), std::nullopt, std::nullopt};
  if (tables_) {
    target.file = tables_->file_of(transfer.file());
    if (vectors.size() == 1) {  // a fixed transfer is one piece of one registered buffer
      target.buffer = tables_->buffer_of(vectors[0].iov_base, vectors[0].iov_len);
    }
  }
  return target;
}

void UringDisk::queue(std::uint32_t slot) {
  Transfer& transfer = transfers_[slot];
  const std::uint64_t offset = transfer.offset_bytes();
  const auto vectors = transfer.remaining();
  const Uring::Target target = target_of(transfer, vectors);
  switch (transfer.op()) {
    case DiskOp::read: ring_.queue_read(slot, target, vectors, offset); return;
    case DiskOp::write: ring_.queue_write(slot, target, vectors, offset); return;
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
  HC_CHECK(done.tag < transfers_.size());
  const auto slot = static_cast<std::uint32_t>(done.tag);
  Transfer& transfer = transfers_[slot];
  if (transfer.advance(done.result) == Transfer::Next::again) {
    queue(slot);
    return;
  }
  finished_.push_back(transfer.completion());
  finished_files_.push_back(transfer.file());
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
// arrived before is found by the call, what arrives after raises it again.
void UringDisk::poll(std::vector<DiskCompletion>& out) {
  do {
    ring_.clear_event();
    if (free_.size() < transfers_.size()) {
      ring_.submit();
    }
  } while (reap());
  HC_CHECK(in_flight_ >= finished_.size());
  in_flight_ -= static_cast<std::uint32_t>(finished_.size());
  for (const FileId file : finished_files_) {
    end(file);
  }
  finished_files_.clear();
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
