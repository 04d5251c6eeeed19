// SPDX-License-Identifier: Apache-2.0
// superblock_file: copy-alternating writes and the reservation of generations.
#include "daemon/store/superblock_file.h"

#include <cstring>

#include "daemon/log/log.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr const char* kFileName = "superblock";
constexpr std::uint64_t kFileBytes = kSuperblockCopies * kSuperblockCopyBytes;
constexpr std::uint32_t kGenerationBlock = 1U << 20;

std::uint32_t generation_after(std::uint32_t generation) {
  const std::uint32_t next = generation + 1;
  return next == kNoGeneration.value ? next + 1 : next;
}

}  // namespace

SuperblockFile::SuperblockFile(Disk& disk, FileId file)
    : disk_(disk),
      file_(file),
      current_(std::make_unique<Superblock>()),
      durable_(std::make_unique<Superblock>()),
      staging_(kSuperblockCopyBytes) {}

Result<std::unique_ptr<SuperblockFile>> SuperblockFile::open(Disk& disk, const Uuid& new_uuid) {
  auto file = disk.open(FileSpec{kFileName, kFileBytes, true, true});
  HC_TRY(file);
  std::unique_ptr<SuperblockFile> self(new SuperblockFile(disk, *file));
  AlignedBuffer copies(kFileBytes);
  HC_TRY_VOID(disk.read_now(*file, 0, copies.bytes()));
  auto found = parse_superblock(copies.bytes());
  if (!found && found.error().code != Code::not_found) {
    return found.error();
  }
  // Both copies have been written from the second write on.
  if (found && found->sequence > 1 && good_superblock_copies(copies.bytes()) < kSuperblockCopies) {
    log_warn("superblock.copy_damaged",
             {{"reason", "one of two copies does not verify: its write was cut off, or the disk "
                         "damaged it; what only it knew is gone"}});
  }
  if (found) {
    *self->current_ = *found;
    *self->durable_ = *found;
    self->durable_sequence_ = found->sequence;
    // The next write must not touch the newer copy.
    const bool in_first = std::memcmp(copies.data(), &*found, sizeof(Superblock)) == 0;
    self->next_copy_ = in_first ? 1 : 0;
  } else {
    self->current_->store_uuid = new_uuid;
    self->current_->epoch = 1;
    self->created_ = true;
  }
  // Generations below the old mark may have been used: start at it.
  self->next_generation_ = generation_after(
      HC_MUTANT(generation_mark_not_kept) ? 0 : self->current_->generation_high);
  self->durable_generation_high_ = self->next_generation_;
  self->reserve_generations();
  HC_TRY_VOID(self->write_blocking_now());
  return self;
}

BlobSeed SuperblockFile::seed_of(SpaceNo space) const {
  HC_CHECK(space.value < current_->space_count);
  return BlobSeed{current_->store_uuid, current_->epoch, current_->spaces[space.value].epoch};
}

std::optional<SpaceNo> SuperblockFile::find_space(const SpaceId& space) const {
  for (std::uint32_t i = 0; i < current_->space_count; ++i) {
    if (current_->spaces[i].space == space) {
      return SpaceNo{i};
    }
  }
  return std::nullopt;
}

Result<SpaceNo> SuperblockFile::add_space(const SpaceId& space) {
  if (const auto known = find_space(space)) {
    return *known;
  }
  if (const auto dropped = find_space(SpaceId{})) {
    current_->spaces[dropped->value] = SpaceEpoch{space, 1};
    changed();
    return *dropped;
  }
  if (current_->space_count == kSpaceEpochsMax) {
    return make_error(Code::no_space, "this store knows " + std::to_string(kSpaceEpochsMax) +
                                          " spaces, the most it can: clear it to start anew");
  }
  const SpaceNo number{current_->space_count++};
  current_->spaces[number.value] = SpaceEpoch{space, 1};
  changed();
  return number;
}

void SuperblockFile::raise_epoch(bool forget_spaces) {
  current_->epoch += HC_MUTANT(epoch_not_raised) ? 0U : 1U;
  if (forget_spaces) {
    current_->space_count = 0;
    current_->spaces.fill(SpaceEpoch{});
  }
  changed();
}

void SuperblockFile::raise_space_epoch(SpaceNo space) {
  HC_CHECK(space.value < current_->space_count);
  ++current_->spaces[space.value].epoch;
  changed();
}

// A dropped number in the middle stays as an entry of no space; numbers never move.
void SuperblockFile::drop_space(SpaceNo space) {
  HC_CHECK(space.value < current_->space_count);
  current_->spaces[space.value] = SpaceEpoch{};
  while (current_->space_count > 0 &&
         current_->spaces[current_->space_count - 1].space == SpaceId{}) {
    --current_->space_count;
  }
  changed();
}

void SuperblockFile::set_volume(std::uint16_t volume, bool claimed) {
  HC_CHECK(volume > 0 && volume < kVolumesMax);
  if (has_volume(volume) != claimed) {
    current_->volumes = static_cast<std::uint16_t>(current_->volumes ^ (1U << volume));
    changed();
  }
}

void SuperblockFile::reserve_generations() {
  current_->generation_high = next_generation_ + kGenerationBlock;
  changed();
}

std::optional<Generation> SuperblockFile::next_generation() {
  if (!generation_is_before(next_generation_, durable_generation_high_)) {
    return std::nullopt;
  }
  // Half a block ahead, so that the write is over long before the block is.
  if (current_->generation_high - next_generation_ <= kGenerationBlock / 2) {
    reserve_generations();
  }
  const Generation out{next_generation_};
  next_generation_ = generation_after(next_generation_);
  return out;
}

void SuperblockFile::stage() {
  HC_CHECK(!in_flight_);
  seal_superblock(*current_);
  std::memset(staging_.data(), 0, staging_.bytes().size());
  std::memcpy(staging_.data(), current_.get(), sizeof(Superblock));
  staged_sequence_ = current_->sequence;
  staged_generation_high_ = current_->generation_high;
}

void SuperblockFile::start_write(IoQueue& io, std::uint64_t cookie) {
  stage();
  in_flight_ = true;
  HC_FAILPOINT(superblock_staged);
  const BlobPlace place{file_, next_copy_ * kSuperblockCopyBytes, staging_.data(),
                        kSuperblockCopyBytes};
  io.start_write_raw(place, cookie);
}

// The write ends first, then its sync; the copy counts only after both.
void SuperblockFile::on_event(IoQueue& io, const IoEvent& event, Instant retry_at) {
  HC_CHECK(in_flight_);
  if (event.kind == IoKind::write_raw && event.code == Code::ok) {
    HC_FAILPOINT(superblock_written);
    io.start_sync(file_, event.cookie);
    return;
  }
  finish_write(event.code);
  if (event.code == Code::ok) {
    if (failures_ > 0) {
      log_info("superblock.written", {{"after_failures", failures_}});
    }
    failures_ = 0;
    return;
  }
  not_before_ = retry_at;
  if (++failures_ == 1) {  // the first of a row speaks for all
    log_warn("superblock.write_failed",
             {{"reason", make_error(event.code, "superblock", event.sys_errno).message()}});
  }
}

// A failed write may have torn the copy it went to; the next attempt goes to the same copy, so
// the other one stays good.
void SuperblockFile::finish_write(Code code) {
  HC_CHECK(in_flight_);
  in_flight_ = false;
  overdue_ = false;
  if (code != Code::ok) {
    return;
  }
  HC_FAILPOINT(superblock_synced);
  std::memcpy(durable_.get(), staging_.data(), sizeof(Superblock));
  durable_sequence_ = staged_sequence_;
  durable_generation_high_ = staged_generation_high_;
  next_copy_ = (next_copy_ + 1) % kSuperblockCopies;
}

void SuperblockFile::restore_durable() {
  if (is_durable()) {
    return;
  }
  const std::uint64_t sequence = current_->sequence;
  *current_ = *durable_;
  current_->sequence = sequence;
  changed();  // above whatever the failed write may have left
}

Result<void> SuperblockFile::write_blocking_now() {
  if (in_flight_) {
    return make_error(Code::busy, "superblock: a write is in flight, try again");
  }
  stage();
  in_flight_ = true;
  auto written = disk_.write_now(file_, next_copy_ * kSuperblockCopyBytes, staging_.bytes());
  if (HC_FAILPOINT_FAILS(superblock_written_now)) {
    written = make_error(Code::io_error, "superblock");
  }
  finish_write(written ? Code::ok : written.error().code);
  return written;
}

}  // namespace hc
