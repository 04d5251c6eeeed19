// SPDX-License-Identifier: Apache-2.0
// status_table_reader: what the daemon knows of a page, from shared memory, with no system call.
//
// Owner thread: any number; lookups are const and share nothing but the mapping.
// Invariants: the capacity is a private copy, judged at attach; every walk and every repetition is
// bounded, so that no content of the table can crash or hold a reader.
//
// A lookup walks from the home of the page to the first empty entry. One load tells that an entry
// is empty or another page's; only an entry with the same first hash word is read under its
// sequence. A page that stays in the table is never reported absent:
//   1. At the moment that entry E was seen empty, the page stood between its home and E.
//   2. If `moves` is even and unchanged since before the walk, nothing was shifted: it is absent.
//   3. Else the page may have been shifted, from ahead of the walk to behind it. Shifts go only
//      towards the home, and copy before they overwrite. So a second walk, from E back to the
//      home, meets it, however often it is shifted meanwhile.
// A writer that stopped in the middle of the very entry (a daemon that was stopped) can't be
// waited for; the answer is then `unsure`, and callers treat it as absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "proto/ids.h"
#include "proto/result.h"
#include "proto/status_table_layout.h"
#include "shm/region.h"
#include "shm/status_entry.h"
#include "shm/unique_fd.h"

namespace hc {

enum class StatusAnswer : std::uint8_t { found, absent, unsure };

class [[nodiscard]] StatusTableReader {
 public:
  // Judges the file and its header. `size_bytes` is what the daemon announced.
  // Errors: refused (seal, size, magic, version, fingerprint, capacity), and those of Region.
  static Result<StatusTableReader> attach(UniqueFd fd, std::uint64_t size_bytes);
  static Result<StatusTableReader> attach(Region region);

  // Fills `status` if found, clears it otherwise.
  StatusAnswer look(const PageHash& hash, PageStatus& status) const;

  // Absent and unsure are both empty.
  std::optional<PageStatus> lookup(const PageHash& hash) const;

  // Looks up many pages with their cache misses in parallel; out[i] is all zero when absent.
  // `out` is at least as long. Returns how many were found.
  std::size_t lookup_many(std::span<const PageHash> hashes, std::span<PageStatus> out) const;

  std::uint64_t pages() const;  // as published; a number for people
  std::uint64_t capacity() const { return mask_ + 1; }
  const SpaceId& space() const { return space_; }

 private:
  enum class Entry : std::uint8_t { match, other, empty, busy };

  StatusTableReader(Region region, const StatusTableHeader& header);

  Entry read_entry(std::uint64_t index, const HashWords& hash, PageStatus& status) const;
  Entry read_match(const StatusWords& entry, const HashWords& hash, PageStatus& status) const;
  StatusAnswer walk_back(const HashWords& hash, std::uint64_t steps, PageStatus& status) const;

  Region region_;
  const StatusTableHeader* header_;
  const StatusWords* entries_;
  std::uint64_t mask_;
  std::uint64_t key_;
  SpaceId space_;
};

}  // namespace hc
