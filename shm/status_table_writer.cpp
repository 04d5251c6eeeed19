// SPDX-License-Identifier: Apache-2.0
// status_table_writer: insert, update and removal by backward shift, under the eyes of readers.
#include "shm/status_table_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/check.h"
#include "proto/handshake.h"
#include "shm/shared_word.h"

namespace hc {
namespace {

bool says_nothing(const PageStatus& status) {
  return (status.resident | status.stored | status.durable) == 0 &&
         (status.remote & kStatusRemoteMask) == 0;
}

// W1 and W3: the sequence of an entry is odd exactly while its words change.
void toggle_sequence(StatusWords& entry) {
  store_release(entry.sequence, load_relaxed(entry.sequence) + 1);
}

void write_hash(StatusWords& entry, const HashWords& hash) {
  for (std::size_t i = 0; i < hash.size(); ++i) {
    store_release(entry.hash[i], hash[i]);
  }
}

HashWords read_hash(const StatusWords& entry) {
  HashWords hash;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    hash[i] = load_relaxed(entry.hash[i]);
  }
  return hash;
}

}  // namespace

std::uint64_t status_capacity_for(std::uint64_t pages_max) {
  return std::bit_ceil(std::clamp(pages_max, kStatusCapacityMin / 2, kStatusCapacityMax / 2) * 2);
}

StatusTableWriter::StatusTableWriter(MemoryFile file, Region region, std::uint64_t capacity,
                                     std::uint64_t key)
    : file_(std::move(file)),
      region_(std::move(region)),
      header_(region_.writable_at<StatusTableHeader>(0)),
      entries_(region_.writable_at<StatusWords>(kStatusEntriesOffset)),
      mask_(capacity - 1),
      key_(key) {}

Result<StatusTableWriter> StatusTableWriter::create(const StatusTableOptions& options) {
  if (!status_capacity_is_good(options.capacity)) {
    return make_error(Code::bad_argument,
                      "status table of " + std::to_string(options.capacity) +
                          " entries: capacity must be a power of two, 2 .. 2^30");
  }
  const std::uint64_t bytes = status_table_bytes(options.capacity);
  auto file = MemoryFile::create("hicache-status", bytes,
                                 {.try_huge_pages = false, .commit_memory = options.commit_memory});
  HC_TRY(file);
  auto region = Region::map(file->fd(), {.offset_bytes = 0,
                                         .size_bytes = bytes,
                                         .read_only = false,
                                         .keep_from_fork = true,
                                         .keep_from_dump = true,
                                         .hint_huge_pages = true});
  HC_TRY(region);
  HC_TRY_VOID(file->finish_seals(options.forbid_new_writers));
  StatusTableWriter writer(std::move(*file), std::move(*region), options.capacity, options.key);
  writer.header_->protocol = kProtocolVersion;
  writer.header_->fingerprint = layout_fingerprint();
  writer.header_->capacity = options.capacity;
  writer.header_->space = options.space;
  writer.header_->key = options.key;
  store_release(writer.header_->magic, kStatusTableMagic);
  return writer;
}

Code StatusTableWriter::put(const PageHash& hash, const PageStatus& status) {
  const HashWords words = hash_words(hash);
  const Spot spot = find(words);
  if (says_nothing(status)) {
    if (spot.found) {
      remove(spot.index);
    }
    return Code::ok;
  }
  StatusWords& entry = entries_[spot.index];
  if (spot.found) {
    toggle_sequence(entry);
    write_masks(entry, status);
    toggle_sequence(entry);
    return Code::ok;
  }
  if (spot.blocked || pages_ >= capacity() / 2) {
    return Code::no_space;
  }
  toggle_sequence(entry);
  write_hash(entry, words);
  write_masks(entry, status);
  toggle_sequence(entry);
  set_pages(pages_ + 1);
  return Code::ok;
}

void StatusTableWriter::clear() {
  toggle_moves();
  for (std::uint64_t index = 0; index <= mask_; ++index) {
    if (in_use(index)) {
      vacate(index);
    }
  }
  toggle_moves();
  set_pages(0);
}

void StatusTableWriter::prefetch(const PageHash& hash) const {
  __builtin_prefetch(&entries_[home_of(hash_words(hash), key_) & mask_], 1);
}

StatusTableWriter::Spot StatusTableWriter::find(const HashWords& hash) const {
  const std::uint64_t reach = std::min(capacity(), kStatusProbeMax);
  const std::uint64_t home = home_of(hash, key_);
  for (std::uint64_t step = 0; step < reach; ++step) {
    const std::uint64_t index = (home + step) & mask_;
    if (!in_use(index)) {
      return {.index = index, .found = false, .blocked = false};
    }
    if (read_hash(entries_[index]) == hash) {
      return {.index = index, .found = true, .blocked = false};
    }
  }
  return {.index = home & mask_, .found = false, .blocked = true};
}

bool StatusTableWriter::in_use(std::uint64_t index) const {
  return (load_relaxed(entries_[index].remote) & kStatusInUse) != 0;
}

// The word with the in-use bit comes last: an entry being inserted reads as empty until then.
void StatusTableWriter::write_masks(StatusWords& entry, const PageStatus& status) {
  store_release(entry.resident, status.resident);
  store_release(entry.stored, status.stored);
  store_release(entry.durable, status.durable);
  store_release(entry.remote, (status.remote & kStatusRemoteMask) | kStatusInUse);
}

void StatusTableWriter::move_entry(std::uint64_t from, std::uint64_t to) {
  const StatusWords& source = entries_[from];
  StatusWords& target = entries_[to];
  const PageStatus status{.resident = load_relaxed(source.resident),
                          .stored = load_relaxed(source.stored),
                          .durable = load_relaxed(source.durable),
                          .remote = load_relaxed(source.remote)};
  toggle_sequence(target);
  write_hash(target, read_hash(source));
  write_masks(target, status);
  toggle_sequence(target);
}

void StatusTableWriter::vacate(std::uint64_t index) {
  StatusWords& entry = entries_[index];
  toggle_sequence(entry);
  store_release(entry.remote, 0);
  toggle_sequence(entry);
}

// Fills the hole with the next entry that may stand there, whose place becomes the next hole,
// until the chain ends. An entry is copied before its old place changes, so a page is in the
// table at every moment, and an empty entry never cuts a page off from its home. `moves` is odd
// as long as a reader that walks away from the home could walk past a page that comes back.
void StatusTableWriter::remove(std::uint64_t index) {
  HC_CHECK(pages_ > 0);
  std::uint64_t hole = index;
  bool moving = false;
  std::uint64_t next = (index + 1) & mask_;
  for (; in_use(next); next = (next + 1) & mask_) {
    HC_CHECK(next != index);
    const std::uint64_t from_home = (next - home_of(read_hash(entries_[next]), key_)) & mask_;
    if (from_home < ((next - hole) & mask_)) {
      continue;
    }
    if (!moving) {
      toggle_moves();
      moving = true;
    }
    move_entry(next, hole);
    hole = next;
  }
  vacate(hole);
  if (moving) {
    toggle_moves();
  }
  set_pages(pages_ - 1);
}

void StatusTableWriter::toggle_moves() {
  store_release(header_->moves, ++moves_);
}

void StatusTableWriter::set_pages(std::uint64_t pages) {
  HC_CHECK(pages <= capacity() / 2);
  pages_ = pages;
  store_relaxed(header_->pages, static_cast<std::uint32_t>(pages));
}

}  // namespace hc
