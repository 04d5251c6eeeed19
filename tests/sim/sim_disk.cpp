// SPDX-License-Identifier: Apache-2.0
// sim_disk: files, blocking transfers, and the queue of requests with their completions.
#include "tests/sim/sim_disk.h"

#include <algorithm>

#include "proto/slab_header.h"

namespace hc::sim {

SimDisk::SimDisk(SimClock& clock, Trace& trace, Laws& laws, Prng prng)
    : clock_(clock), trace_(trace), laws_(laws), prng_(prng) {}

SimFile* SimDisk::file_named(const std::string& name, std::uint16_t volume) {
  const auto found = files_.find({volume, name});
  return found == files_.end() ? nullptr : found->second.get();
}

Code SimDisk::fault(const char* name, Code code) {
  ++faults_;
  trace_.add(name);
  return code;
}

Result<FileId> SimDisk::open(const FileSpec& spec) {
  SimFile* file = file_named(spec.name, spec.volume);
  if (cut_) {
    return make_error(Code::io_error, spec.name + ": no power");
  }
  if (file == nullptr && !spec.create) {
    return make_error(Code::not_found, spec.name);
  }
  const bool held = std::find(open_.begin(), open_.end(), file) != open_.end();
  if (file != nullptr && spec.exclusive && held) {
    return make_error(Code::refused, spec.name + ": locked by another process");
  }
  if (file == nullptr) {
    auto made = std::make_unique<SimFile>(spec.name, spec.volume, spec.size_bytes);
    made->set_space(0, made->block_count(), !spec.sparse);
    file = made.get();
    files_[{spec.volume, spec.name}] = std::move(made);
  } else if (spec.size_bytes > file->size_bytes()) {
    const std::size_t first = file->block_count();
    file->grow(spec.size_bytes);
    file->set_space(first, file->block_count() - first, !spec.sparse);
  }
  open_.push_back(file);
  return FileId{std::uint32_t{spec.volume} << kFileVolumeShift |
                static_cast<std::uint32_t>(open_.size() - 1)};
}

Result<void> SimDisk::close(FileId id) {
  for (const Pending& pending : pending_) {
    laws_.expect(pending.request.file != id, 0, "close of a file with requests in flight");
  }
  laws_.expect(open_[index_of(id)] != nullptr, 0, "close of a closed file");
  open_[index_of(id)] = nullptr;
  return {};
}

Result<void> SimDisk::remove(const std::string& name, std::uint16_t volume) {
  SimFile* file = file_named(name, volume);
  if (file == nullptr) {
    return {};
  }
  const bool held = std::find(open_.begin(), open_.end(), file) != open_.end();
  laws_.expect(!held, 0, "remove of an open file");
  files_.erase({volume, name});
  return {};
}

Result<std::vector<FileInfo>> SimDisk::list(std::uint16_t volume) {
  std::vector<FileInfo> out;
  for (const auto& [key, file] : files_) {
    if (key.first == volume) {
      out.push_back({key.second, file->size_bytes()});
    }
  }
  return out;
}

std::uint64_t SimDisk::slab_bytes(std::uint16_t volume) const {
  std::uint64_t bytes = 0;
  for (const auto& [name, file] : files_) {
    bytes += name.first == volume && file->is_slab() ? file->space_bytes() : 0;
  }
  return bytes;
}

std::uint64_t SimDisk::size_bytes(FileId id) const { return opened(id).size_bytes(); }

Result<void> SimDisk::read_now(FileId id, std::uint64_t offset_bytes,
                               std::span<std::uint8_t> out) {
  if (cut_ || prng_.per_10k(plan_.blocking_error)) {
    return make_error(fault("fault read_now", Code::io_error), "read_now");
  }
  bytes_read_ += out.size();
  for (std::size_t at = 0; at < out.size(); at += kBlockBytes) {
    opened(id).get((offset_bytes + at) / kBlockBytes, out.subspan(at, kBlockBytes));
  }
  return {};
}

Result<void> SimDisk::write_now(FileId id, std::uint64_t offset_bytes,
                                std::span<const std::uint8_t> bytes) {
  SimFile& file = opened(id);
  const bool cut = writes_to_cut_ != 0 && --writes_to_cut_ == 0;
  const bool failed = cut_ || cut || prng_.per_10k(plan_.blocking_error);
  for (std::size_t at = 0; at < bytes.size() && !cut_; at += kBlockBytes) {
    if (!failed || prng_.one_in(2)) {
      file.put_durable((offset_bytes + at) / kBlockBytes, bytes.subspan(at, kBlockBytes));
    }
  }
  cut_ = cut_ || cut;
  if (failed) {
    return make_error(fault("fault write_now", Code::io_error), "write_now");
  }
  return {};
}

// A start makes many of these calls.
bool SimDisk::range_call_fails() {
  return cut_ || (prng_.per_10k(plan_.blocking_error) && prng_.one_in(32));
}

Result<void> SimDisk::punch_now(FileId id, std::uint64_t offset_bytes,
                                std::uint64_t length_bytes) {
  if (range_call_fails()) {
    return make_error(fault("fault punch_now", Code::io_error), "punch_now");
  }
  opened(id).punch(offset_bytes / kBlockBytes, length_bytes / kBlockBytes, ++sequence_);
  return {};
}

Result<void> SimDisk::allocate_now(FileId id, std::uint64_t offset_bytes,
                                   std::uint64_t length_bytes) {
  if (range_call_fails()) {
    return make_error(fault("fault allocate_now", Code::io_error), "allocate_now");
  }
  opened(id).set_space(offset_bytes / kBlockBytes, length_bytes / kBlockBytes, true);
  return {};
}

Result<std::optional<std::uint64_t>> SimDisk::next_data(FileId id, std::uint64_t offset_bytes) {
  if (range_call_fails()) {
    return make_error(fault("fault next_data", Code::io_error), "next_data");
  }
  const auto block = opened(id).next_written(offset_bytes / kBlockBytes);
  return block ? std::optional(*block * std::uint64_t{kBlockBytes})
               : std::optional<std::uint64_t>();
}

void SimDisk::check(const DiskRequest& request) {
  const std::size_t index = index_of(request.file);
  const bool known = index < open_.size() && open_[index] != nullptr;
  laws_.expect(known, 0, "request on a file that is not open");
  if (request.op == DiskOp::sync) {
    return;
  }
  const bool names_range = request.op == DiskOp::allocate || request.op == DiskOp::punch;
  const std::uint64_t bytes = names_range ? request.length_bytes : request.size_bytes();
  const std::uint64_t end = request.offset_bytes + bytes;
  laws_.expect(end <= opened(request.file).size_bytes(), 0, "request outside of its file");
  laws_.expect(request.offset_bytes % kBlockBytes == 0, 0, "offset is not aligned");
  const SimFile& file = opened(request.file);
  laws_.expect(request.op != DiskOp::write || !file.is_slab() ||
                   file.has_space(request.offset_bytes / kBlockBytes, bytes / kBlockBytes),
               3, "a write to a range that has no space of its own");
  laws_.expect(bytes > 0 && (names_range || bytes <= kIoPieceBytes), 0, "size out of range");
  for (const DiskBuffer& buffer : request.buffers) {
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.data);
    laws_.expect(buffer.size_bytes % kBlockBytes == 0 && address % kBlockBytes == 0, 0,
                 "buffer is not aligned");
  }
  for (const Pending& pending : pending_) {
    const DiskRequest& other = pending.request;
    const bool apart = other.op == DiskOp::sync || other.file != request.file ||
                       other.offset_bytes >= end ||
                       other.offset_bytes + other.size_bytes() + other.length_bytes <=
                           request.offset_bytes;
    laws_.expect(apart || (other.op == DiskOp::read && request.op == DiskOp::read), 3,
                 "two requests in flight on one place, one of them a write");
  }
}

std::int64_t SimDisk::draw_delay(DiskOp op) {
  if (op == DiskOp::read && read_delay_ns_ != 0) {
    return read_delay_ns_;
  }
  const bool slow = prng_.per_10k(plan_.slow_io);
  const std::uint64_t longest = slow ? std::uint64_t{plan_.slow_ms} * 1'000'000
                                     : std::uint64_t{plan_.io_delay_us} * 1'000;
  return static_cast<std::int64_t>(prng_.between(1, longest));
}

Code SimDisk::submit(const DiskRequest& request) {
  if (pending_.size() >= kDiskRequestsMax) {
    return Code::busy;
  }
  check(request);
  ++submitted_;
  Pending pending;
  pending.request = request;
  pending.order = next_order_++;
  pending.covers = sequence_;
  pending.due = clock_.time() + draw_delay(request.op);
  if (request.op == DiskOp::write) {
    for (const DiskBuffer& buffer : request.buffers) {
      if (buffer.size_bytes > 0) {
        pending.snapshot.insert(pending.snapshot.end(), buffer.data,
                                buffer.data + buffer.size_bytes);
      }
    }
  } else if (request.op == DiskOp::read) {
    reads_.push_back({request.file, request.offset_bytes, request.size_bytes()});
    bytes_read_ += request.size_bytes();
  }
  pending_.push_back(std::move(pending));
  return Code::ok;
}

void SimDisk::poll(std::vector<DiskCompletion>& out) {
  clock_.tick(static_cast<std::int64_t>(prng_.below(2'000)));
  std::vector<Pending> due;
  for (std::size_t i = 0; i < pending_.size();) {
    if (pending_[i].due <= clock_.time() && !is_held(pending_[i])) {
      due.push_back(std::move(pending_[i]));
      pending_[i] = std::move(pending_.back());
      pending_.pop_back();
    } else {
      ++i;
    }
  }
  std::sort(due.begin(), due.end(), [](const Pending& a, const Pending& b) {
    return a.due != b.due ? a.due < b.due : a.order < b.order;
  });
  for (Pending& pending : due) {
    out.push_back(complete(pending));
  }
}

void SimDisk::wait() {
  if (const Instant due = next_due(); due != SimClock::kNever) {
    clock_.advance_to(due);
  }
}

Instant SimDisk::next_due() const {
  Instant next = SimClock::kNever;
  for (const Pending& pending : pending_) {
    if (!is_held(pending)) {
      next = std::min(next, pending.due);
    }
  }
  return next;
}

bool SimDisk::damaged(FileId id, std::uint64_t offset_bytes, std::uint64_t size_bytes) const {
  return opened(id).damaged(offset_bytes / kBlockBytes, size_bytes / kBlockBytes);
}

bool SimDisk::synced(FileId id, std::uint64_t offset_bytes, std::uint64_t size_bytes) const {
  return opened(id).synced(offset_bytes / kBlockBytes, size_bytes / kBlockBytes);
}

void SimDisk::read_durable(FileId id, std::uint64_t offset_bytes,
                           std::span<std::uint8_t> out) const {
  for (std::size_t at = 0; at < out.size(); at += kBlockBytes) {
    opened(id).get_durable((offset_bytes + at) / kBlockBytes, out.subspan(at, kBlockBytes));
  }
}

std::vector<DiskRead> SimDisk::take_reads() {
  std::vector<DiskRead> out;
  out.swap(reads_);
  return out;
}

}  // namespace hc::sim
