// SPDX-License-Identifier: Apache-2.0
// status_table_reader: bounded lookups in a table that changes meanwhile.
#include "shm/status_table_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/check.h"
#include "proto/handshake.h"
#include "shm/memory_file.h"
#include "shm/shared_word.h"

namespace hc {
namespace {

// A writer is inside an entry for some ten nanoseconds, unless it lost its processor there.
constexpr int kEntryTriesMax = 256;
// Enough lookups ahead to fill the miss buffers of a core.
constexpr std::size_t kPrefetchAhead = 12;

Error refuse(const std::string& why) {
  return make_error(Code::refused, "status table: " + why);
}

Result<void> judge_header(const StatusTableHeader& header, std::uint64_t file_bytes) {
  if (header.magic != kStatusTableMagic) {
    return refuse("magic is wrong");
  }
  if (header.protocol != kProtocolVersion) {
    return refuse("protocol is " + std::to_string(header.protocol) + ", wanted " +
                  std::to_string(kProtocolVersion));
  }
  if (header.fingerprint != layout_fingerprint()) {
    return refuse("layout differs from this build");
  }
  if (!status_capacity_is_good(header.capacity)) {
    return refuse("capacity " + std::to_string(header.capacity) +
                  " is not a power of two, 2 .. 2^30");
  }
  if (status_table_bytes(header.capacity) > file_bytes) {
    return refuse("capacity " + std::to_string(header.capacity) + " does not fit in " +
                  std::to_string(file_bytes) + " bytes");
  }
  return {};
}

}  // namespace

StatusTableReader::StatusTableReader(Region region, const StatusTableHeader& header)
    : region_(std::move(region)),
      header_(region_.at<StatusTableHeader>(0)),
      entries_(region_.at<StatusWords>(kStatusEntriesOffset)),
      mask_(header.capacity - 1),
      key_(header.key),
      space_(header.space) {}

Result<StatusTableReader> StatusTableReader::attach(UniqueFd fd, std::uint64_t size_bytes) {
  auto file = MemoryFile::from_fd(
      std::move(fd), {.size_bytes = size_bytes, .require_sealed = true, .allow_huge_pages = true});
  HC_TRY(file);
  auto region = Region::map(file->fd(), {.offset_bytes = 0,
                                         .size_bytes = size_bytes,
                                         .read_only = true,
                                         .keep_from_fork = true,
                                         .keep_from_dump = true,
                                         .hint_huge_pages = true});
  HC_TRY(region);
  return attach(std::move(*region));
}

Result<StatusTableReader> StatusTableReader::attach(Region region) {
  if (region.size_bytes() < kStatusEntriesOffset) {
    return refuse("file has " + std::to_string(region.size_bytes()) + " bytes, no header");
  }
  // One copy of the fixed fields; only the copy is judged and used.
  const auto* shared = region.at<StatusTableHeader>(0);
  StatusTableHeader header{};
  header.magic = load_acquire(shared->magic);
  header.protocol = load_acquire(shared->protocol);
  header.fingerprint = load_acquire(shared->fingerprint);
  header.capacity = load_acquire(shared->capacity);
  header.space = shared->space;
  header.key = load_acquire(shared->key);
  HC_TRY_VOID(judge_header(header, region.size_bytes()));
  return StatusTableReader(std::move(region), header);
}

StatusAnswer StatusTableReader::look(const PageHash& hash, PageStatus& status) const {
  const HashWords words = hash_words(hash);
  const std::uint64_t reach = std::min(capacity(), kStatusProbeMax);
  const std::uint64_t home = home_of(words, key_);
  const std::uint32_t moves = load_acquire(header_->moves);
  bool sure = (moves & 1) == 0;
  std::uint64_t step = 0;
  for (; step < reach; ++step) {
    const Entry entry = read_entry((home + step) & mask_, words, status);
    if (entry == Entry::match) {
      return StatusAnswer::found;
    }
    if (entry == Entry::empty) {
      break;
    }
    sure = sure && entry != Entry::busy;
  }
  if (sure && load_acquire(header_->moves) == moves) {
    status = {};
    return StatusAnswer::absent;
  }
  return walk_back(words, step, status);
}

std::optional<PageStatus> StatusTableReader::lookup(const PageHash& hash) const {
  PageStatus status;
  if (look(hash, status) == StatusAnswer::found) {
    return status;
  }
  return std::nullopt;
}

std::size_t StatusTableReader::lookup_many(std::span<const PageHash> hashes,
                                           std::span<PageStatus> out) const {
  HC_CHECK(out.size() >= hashes.size());
  const auto prefetch = [this, hashes](std::size_t i) {
    __builtin_prefetch(&entries_[home_of(hash_words(hashes[i]), key_) & mask_]);
  };
  for (std::size_t i = 0; i < std::min(kPrefetchAhead, hashes.size()); ++i) {
    prefetch(i);
  }
  std::size_t found = 0;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (hashes.size() - i > kPrefetchAhead) {
      prefetch(i + kPrefetchAhead);
    }
    if (look(hashes[i], out[i]) == StatusAnswer::found) {
      ++found;
    }
  }
  return found;
}

std::uint64_t StatusTableReader::pages() const {
  return load_acquire(header_->pages);
}

// Whether an entry is empty or another page's is told by one load, with no look at the sequence:
// the page has left this entry, or has not come yet and still stands where it came from.
StatusTableReader::Entry StatusTableReader::read_entry(std::uint64_t index, const HashWords& hash,
                                                       PageStatus& status) const {
  const StatusWords& entry = entries_[index];
  if ((load_acquire(entry.remote) & kStatusInUse) == 0) {
    return Entry::empty;
  }
  if (load_acquire(entry.hash[0]) != hash[0]) {
    return Entry::other;
  }
  return read_match(entry, hash, status);
}

// R1 to R3 of status_table_writer.h.
StatusTableReader::Entry StatusTableReader::read_match(const StatusWords& entry,
                                                       const HashWords& hash,
                                                       PageStatus& status) const {
  for (int tries = 0; tries < kEntryTriesMax; ++tries) {
    const std::uint32_t sequence = load_acquire(entry.sequence);
    if ((sequence & 1) != 0) {
      spin_pause();
      continue;
    }
    bool same = true;
    for (std::size_t i = 0; i < hash.size(); ++i) {
      same = load_acquire(entry.hash[i]) == hash[i] && same;
    }
    const PageStatus seen{.resident = load_acquire(entry.resident),
                          .stored = load_acquire(entry.stored),
                          .durable = load_acquire(entry.durable),
                          .remote = load_acquire(entry.remote)};
    if (load_acquire(entry.sequence) != sequence) {
      continue;
    }
    if ((seen.remote & kStatusInUse) == 0) {
      return Entry::empty;
    }
    if (!same) {
      return Entry::other;
    }
    status = seen;
    status.remote &= kStatusRemoteMask;
    return Entry::match;
  }
  return Entry::busy;
}

StatusAnswer StatusTableReader::walk_back(const HashWords& hash, std::uint64_t steps,
                                          PageStatus& status) const {
  bool sure = true;
  const std::uint64_t home = home_of(hash, key_);
  while (steps > 0) {
    --steps;
    const Entry entry = read_entry((home + steps) & mask_, hash, status);
    if (entry == Entry::match) {
      return StatusAnswer::found;
    }
    sure = sure && entry != Entry::busy;
  }
  status = {};
  return sure ? StatusAnswer::absent : StatusAnswer::unsure;
}

}  // namespace hc
