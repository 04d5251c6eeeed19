// SPDX-License-Identifier: Apache-2.0
// status_table_writer: publishes what is known of each page of a space to every client.
//
// Owner thread: the reactor, the only writer.
// Invariants: at most half of the entries are in use; between the home of a page and its entry
// no entry is empty, at any moment that a reader can see; entries move only towards their home.
// Of the shared bytes the writer reads back only entries, which no client can write: the file is
// sealed against new writers as soon as it is mapped.
//
// Interleaving of one entry (W here, R in status_table_reader.h). No fences: every store is a
// release and every load an acquire, so whoever sees a store sees all stores before it.
//   W1 sequence becomes odd    W2 words    W3 sequence becomes even
//   R1 sequence is even        R2 words    R3 the same sequence, else again
// If R2 saw any store of W2, it sees W1 at R3.
#pragma once

#include <cstdint>

#include "proto/ids.h"
#include "proto/result.h"
#include "proto/status_table_layout.h"
#include "shm/memory_file.h"
#include "shm/region.h"
#include "shm/status_entry.h"

namespace hc {

struct StatusTableOptions {
  std::uint64_t capacity = 0;  // entries; a power of two, at least twice the pages
  SpaceId space;
  std::uint64_t key = 0;       // see status_home
  bool commit_memory = true;
  bool forbid_new_writers = true;
};

// The smallest capacity that takes `pages_max` pages.
std::uint64_t status_capacity_for(std::uint64_t pages_max);

class [[nodiscard]] StatusTableWriter {
 public:
  // Errors: bad_argument (capacity), no_space (memory), io_error.
  static Result<StatusTableWriter> create(const StatusTableOptions& options);

  // Inserts or updates. A status with nothing in it removes the page. Of `remote` the bits 8..31
  // count. no_space: half of the table is in use, or too many hashes share their home; the page
  // is then not listed, which readers take as absent.
  [[nodiscard]] Code put(const PageHash& hash, const PageStatus& status);

  // Fetches the place of a page that will be put soon: a large table is in no cache.
  void prefetch(const PageHash& hash) const;

  // Removes every page; one pass over the table.
  void clear();

  std::uint64_t size() const { return pages_; }
  std::uint64_t capacity() const { return mask_ + 1; }
  std::uint64_t size_bytes() const { return status_table_bytes(capacity()); }
  // A descriptor for a client.
  Result<UniqueFd> readonly_fd() const { return file_.readonly_fd(); }
  int fd() const { return file_.fd(); }

 private:
  struct Spot {
    std::uint64_t index;
    bool found;    // the page is there
    bool blocked;  // neither the page nor an empty entry within reach
  };

  StatusTableWriter(MemoryFile file, Region region, std::uint64_t capacity, std::uint64_t key);

  Spot find(const HashWords& hash) const;
  bool in_use(std::uint64_t index) const;
  void write_masks(StatusWords& entry, const PageStatus& status);
  void move_entry(std::uint64_t from, std::uint64_t to);
  void vacate(std::uint64_t index);
  void remove(std::uint64_t index);
  void toggle_moves();
  void set_pages(std::uint64_t pages);

  MemoryFile file_;
  Region region_;
  StatusTableHeader* header_;
  StatusWords* entries_;
  std::uint64_t mask_;
  std::uint64_t key_;
  std::uint64_t pages_ = 0;
  std::uint32_t moves_ = 0;
};

}  // namespace hc
