// SPDX-License-Identifier: Apache-2.0
// lmdb_tree_check: judge every page and every row of an index file, by reads alone.
//
// LMDB 0.9 has no checksums of its pages and believes what they say. Our rows carry their own; what
// is left is structure: whose page it is, where its nodes lie, the order of the keys, the counts
// that each tree records, and that no page is used twice or free while it is used. A page that
// was lost, zeroed or written to another place can't pass all of these.
#pragma once

#include <cstdint>
#include <string>

#include "proto/result.h"

namespace hc {

struct LmdbTreeFacts {
  std::uint64_t rows = 0;    // of pages
  std::uint64_t spaces = 0;
  std::uint64_t used_bytes = 0;
};

// The last committed state of a file that check_lmdb_file has passed. corrupt: damaged, with the
// place and what is wrong there. io_error: the file can't be read.
Result<LmdbTreeFacts> check_lmdb_trees(const std::string& path);

// How much of the file is in use, by its newer header; 0 where it has none.
std::uint64_t lmdb_used_bytes(const std::string& path);

}  // namespace hc
