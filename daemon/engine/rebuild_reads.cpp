// SPDX-License-Identifier: Apache-2.0
// rebuild_reads: reads every unscanned slot once, on each volume as far as it answers.
#include <algorithm>
#include <iterator>

#include "daemon/engine/rebuild.h"
#include "daemon/engine/works.h"
#include "proto/check.h"

namespace hc {

namespace {

constexpr std::uint8_t kRebuildTriesMax = 16;

}  // namespace

std::uint16_t Rebuild::volume_of_slab(SlabId slab) const {
  return volume_of(works_.core.spaces->slabs().slab(slab).file());
}

// A slot is not judged by a volume that fails.
bool Rebuild::answers(SlabId slab) const {
  return !works_.core.io.refuses(IoKind::read_header, volume_of_slab(slab));
}

bool Rebuild::can_read(SlabId slab) const {
  return answers(slab) && works_.core.io.can_start(IoKind::read_header, volume_of_slab(slab));
}

// Moves its cursor on to an unscanned slot.
bool Rebuild::has_unread(SlabId id) {
  const Slab& slab = works_.core.spaces->slabs().slab(id);
  std::uint32_t& at = cursors_[id.value];
  while (at < slab.slot_count() && slab.state(SlotId{at}) != SlotState::unscanned) {
    ++at;
  }
  return at < slab.slot_count();
}

// Whatever can be known for now is known: the rest is on volumes that fail or do not answer.
bool Rebuild::all_read() {
  const auto is_awaited = [this](const Read& read) {
    return read.in_use && !read.overdue && answers(read.at.slab);
  };
  bool all = waiting_.empty() && std::none_of(reads_.begin(), reads_.end(), is_awaited);
  for (std::uint16_t id = first_slab_; id < slabs_ && all; ++id) {
    all = !has_unread(SlabId{id}) || !answers(SlabId{id});
  }
  return all;
}

bool Rebuild::repeat_one() {
  const auto found = std::find_if(repeats_.rbegin(), repeats_.rend(), [this](std::uint32_t read) {
    return can_read(reads_[read].at.slab);
  });
  if (found == repeats_.rend()) {
    return false;
  }
  const std::uint32_t read = *found;
  repeats_.erase(std::next(found).base());
  start_read(read);
  return true;
}

// The first slab in order whose volume takes one more: no volume waits for another.
bool Rebuild::read_next() {
  while (first_slab_ < slabs_ && !has_unread(SlabId{first_slab_})) {
    ++first_slab_;
  }
  for (std::uint16_t id = first_slab_; id < slabs_; ++id) {
    const SlabId slab{id};
    std::uint32_t& in_use = reads_of_[volume_of_slab(slab)];
    if (in_use == kReadsMax || !can_read(slab) || !has_unread(slab)) {
      continue;
    }
    ++in_use;
    const std::uint32_t read = free_reads_.back();
    free_reads_.pop_back();
    reads_[read] = {{slab, SlotId{cursors_[id]++}}, 0, true, false};
    start_read(read);
    return true;
  }
  return false;
}

void Rebuild::end_read(std::uint32_t read) {
  reads_[read].in_use = false;
  --reads_of_[volume_of_slab(reads_[read].at.slab)];
  free_reads_.push_back(read);
}

void Rebuild::start_read(std::uint32_t read) {
  const SlotRef& at = reads_[read].at;
  const Slab& slab = works_.core.spaces->slabs().slab(at.slab);
  ++in_flight_;
  works_.core.io.start_read_header(slab.file(), slab.slot_offset(at.slot),
                                   io_cookie(IoOwner::rebuild, read));
}

void Rebuild::on_read(const IoEvent& event) {
  const std::uint32_t index = io_value(event.cookie);
  HC_CHECK(index < reads_.size() && reads_[index].in_use);
  HC_CHECK(in_flight_ > 0);
  Core& core = works_.core;
  Read& read = reads_[index];
  ++core.moves;
  read.overdue = event.overdue;
  if (event.overdue) {
    return;  // nothing is known about the slot until the device has answered
  }
  --in_flight_;
  const bool refused = event.code != Code::ok && !event.device_failed();
  const bool volume_failed = event.not_tried || event.volume_fault;
  if (refused && (volume_failed || ++read.tries < kRebuildTriesMax)) {
    repeats_.push_back(index);  // says nothing about the slot
    return;
  }
  const SlotRef at = read.at;
  end_read(index);
  ++progress_.scanned;
  if (event.code == Code::ok) {
    judge(at, event.header_block);
    return;
  }
  ++progress_.unreadable;
  core.counters.read_failures += refused ? 0U : 1U;
  core.spaces->slabs().slab(at.slab).mark_quarantined(at.slot);
  ++core.counters.slots_quarantined;
}

}  // namespace hc
