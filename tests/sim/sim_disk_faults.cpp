// SPDX-License-Identifier: Apache-2.0
// sim_disk_faults: how requests end, well or by the plan, and what a crash leaves.
#include <algorithm>
#include <cerrno>

#include "proto/slab_header.h"
#include "tests/sim/sim_disk.h"

namespace hc::sim {

DiskCompletion SimDisk::complete(Pending& pending) {
  DiskCompletion out;
  out.ticket = pending.request.ticket;
  const Faulty& faulty = faulty_[volume_of(pending.request.file)];
  out.sys_errno = pending.request.op == DiskOp::read ? faulty.read_errno : faulty.write_errno;
  if (out.sys_errno != 0) {
    out.code = Code::io_error;
    return out;
  }
  if (pending.request.op != DiskOp::sync && prng_.per_10k(plan_.transient)) {
    out.code = refuse(pending);
    out.sys_errno = prng_.one_in(2) ? ENOMEM : ECANCELED;
    return out;
  }
  switch (pending.request.op) {
    case DiskOp::read: out.code = complete_read(pending.request); break;
    case DiskOp::write: out.code = complete_write(pending); break;
    case DiskOp::sync: out.code = complete_sync(pending); break;
    case DiskOp::allocate:
    case DiskOp::punch: out.code = complete_space(pending.request); break;
  }
  out.sys_errno = out.code == Code::ok ? 0 : 5;
  return out;
}

// The kernel could not take the request, or broke it off: the device is well, and so is what a read
// would have found. A write may have begun.
Code SimDisk::refuse(Pending& pending) {
  ++transients_;
  if (pending.request.op == DiskOp::write) {
    land(opened(pending.request.file), pending.request.offset_bytes, pending.snapshot, false);
  }
  return fault("fault transient", Code::io_error);
}

// `whole` false: each block lands or not.
void SimDisk::land(SimFile& file, std::uint64_t offset_bytes, std::span<const std::uint8_t> bytes,
                   bool whole) {
  for (std::size_t at = 0; at < bytes.size(); at += kBlockBytes) {
    if (whole || prng_.one_in(2)) {
      file.put((offset_bytes + at) / kBlockBytes, bytes.subspan(at, kBlockBytes), ++sequence_);
    }
  }
}

void SimDisk::mark(SimFile& file, std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  for (std::uint64_t at = 0; at < size_bytes; at += kBlockBytes) {
    file.set_damaged((offset_bytes + at) / kBlockBytes, true);
  }
}

// The write goes to the same place of another slot, of this slab or of another one. Both places
// are damaged: one has foreign bytes, the other has its old ones.
void SimDisk::misdirect(const DiskRequest& request, std::span<const std::uint8_t> bytes) {
  SimFile& meant = opened(request.file);
  std::vector<SimFile*> slabs;
  for (const auto& [key, file] : files_) {
    if (file->is_slab()) {
      slabs.push_back(file.get());
    }
  }
  SimFile* victim = prng_.one_in(3) ? slabs[prng_.below(slabs.size())] : &meant;
  std::vector<std::uint8_t> blocks(kSlabHeaderCopies * std::size_t{kBlockBytes});
  victim->get(0, std::span(blocks).subspan(0, kBlockBytes));
  victim->get(1, std::span(blocks).subspan(kBlockBytes, kBlockBytes));
  const auto header = parse_slab_header(blocks);
  mark(meant, request.offset_bytes, bytes.size());
  if (!header) {
    return;
  }
  const std::uint64_t slot = prng_.below(header->slot_count);
  const std::uint64_t inside = (request.offset_bytes - kFirstSlotOffset) % header->slot_bytes;
  const std::uint64_t offset = kFirstSlotOffset + slot * header->slot_bytes + inside;
  if (offset + bytes.size() > victim->size_bytes() ||
      !victim->has_space(offset / kBlockBytes, bytes.size() / kBlockBytes)) {
    return;
  }
  trace_.add("misdirected", request.offset_bytes, offset, bytes.size(), victim == &meant ? 1 : 0);
  land(*victim, offset, bytes, true);
  if (victim != &meant || offset != request.offset_bytes) {
    mark(*victim, offset, bytes.size());
  }
}

Code SimDisk::complete_write(Pending& pending) {
  const DiskRequest& request = pending.request;
  SimFile& file = opened(request.file);
  std::size_t at = 0;
  for (const DiskBuffer& buffer : request.buffers) {
    const std::uint8_t* submitted = pending.snapshot.data() + at;
    const bool same = buffer.size_bytes == 0 ||
                      std::memcmp(buffer.data, submitted, buffer.size_bytes) == 0;
    laws_.expect(same, 0, "a buffer was changed while its write was in flight");
    at += buffer.size_bytes;
  }
  const std::span<const std::uint8_t> bytes = pending.snapshot;
  if (prng_.per_10k(plan_.write_error)) {
    land(file, request.offset_bytes, bytes, false);
    mark(file, request.offset_bytes, bytes.size());
    return fault("fault write", Code::io_error);
  }
  if (file.is_slab() && prng_.per_10k(plan_.write_no_space)) {
    land(file, request.offset_bytes, bytes, false);
    mark(file, request.offset_bytes, bytes.size());
    return fault("fault no_space", Code::no_space);
  }
  if (file.is_slab() && prng_.per_10k(plan_.misdirected)) {
    misdirect(request, bytes);
    return fault("fault misdirected", Code::ok);
  }
  if (file.is_slab() && prng_.per_10k(plan_.lost_write)) {
    mark(file, request.offset_bytes, bytes.size());
    return fault("fault lost_write", Code::ok);
  }
  land(file, request.offset_bytes, bytes, true);
  return Code::ok;
}

Code SimDisk::complete_read(const DiskRequest& request) {
  SimFile& file = opened(request.file);
  if (prng_.per_10k(plan_.read_error)) {
    mark(file, request.offset_bytes, request.size_bytes());
    return fault("fault read", Code::io_error);
  }
  const bool rot = prng_.per_10k(plan_.rot);
  const bool rot_once = !rot && prng_.per_10k(plan_.rot_once);
  const std::uint64_t blocks = request.size_bytes() / kBlockBytes;
  const std::uint64_t victim = request.offset_bytes / kBlockBytes + prng_.below(blocks);
  // In a header block most bits say nothing; the rot goes where it can do harm.
  const std::uint32_t bit = prng_.below32(prng_.one_in(2) ? 64 * 8 : kBlockBytes * 8);
  if (rot) {
    fault("fault rot", Code::ok);
    file.flip_bit(victim, bit);
  }
  std::uint64_t block = request.offset_bytes / kBlockBytes;
  for (const DiskBuffer& buffer : request.buffers) {
    for (std::size_t at = 0; at < buffer.size_bytes; at += kBlockBytes, ++block) {
      file.get(block, {buffer.data + at, kBlockBytes});
      if (rot_once && block == victim) {
        fault("fault rot_once", Code::ok);
        buffer.data[at + bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
        file.set_damaged(block, true);
      }
    }
  }
  return Code::ok;
}

Code SimDisk::complete_sync(const Pending& pending) {
  SimFile& file = opened(pending.request.file);
  if (prng_.per_10k(plan_.sync_error)) {
    file.fail_sync(sequence_, prng_);
    return fault("fault sync", Code::io_error);
  }
  file.sync(pending.covers);
  return Code::ok;
}

// A range keeps its content when it gets space that it has already; without its space it is zeros.
Code SimDisk::complete_space(const DiskRequest& request) {
  SimFile& file = opened(request.file);
  const std::size_t first = request.offset_bytes / kBlockBytes;
  const std::size_t count = request.length_bytes / kBlockBytes;
  if (request.op == DiskOp::punch) {
    file.punch(first, count, ++sequence_);
    return Code::ok;
  }
  if (prng_.per_10k(plan_.write_no_space)) {
    return fault("fault allocate", Code::no_space);
  }
  file.set_space(first, count, true);
  return Code::ok;
}

void SimDisk::crash(Crash how) {
  std::sort(pending_.begin(), pending_.end(),
            [](const Pending& a, const Pending& b) { return a.order < b.order; });
  for (const Pending& pending : pending_) {
    SimFile& file = opened(pending.request.file);
    if (pending.request.op == DiskOp::write && prng_.one_in(2)) {
      land(file, pending.request.offset_bytes, pending.snapshot, prng_.one_in(2));
    } else if (pending.request.op == DiskOp::sync && prng_.one_in(2)) {
      file.sync(pending.covers);
    } else if (pending.request.length_bytes > 0 && prng_.one_in(2)) {
      complete_space(pending.request);
    }
  }
  pending_.clear();
  if (how == Crash::power) {
    for (const auto& [key, file] : files_) {
      file->lose_power(prng_);
    }
  }
  open_.clear();
  reads_.clear();
  writes_to_cut_ = 0;
  cut_ = false;
}

}  // namespace hc::sim
