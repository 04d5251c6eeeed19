// SPDX-License-Identifier: Apache-2.0
// recovery_table: what cold start `load` decides about a slot, as a table that the compiler proves
// complete.
//
// A slot is live if and only if its header parses and the index still maps that page to exactly
// this slot and generation. Everything else is free; a row that named it is dropped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hc {

struct SlotFacts {
  bool row;              // the index maps some page to this slot
  bool header;           // the header parses under the store's and the space's epoch
  bool same_page;        // ... and names the row's page, kind, shard and this slot
  bool same_generation;  // ... and the row's generation
};

enum class SlotVerdict : std::uint8_t {
  live,      // keep the slot, keep the row
  free,      // nothing is there
  orphan,    // a blob that no row names: free (a committed row may have been erased)
  stale_row, // the row is dropped; the slot is free
};

enum class Fact : std::uint8_t { no, yes, any };

struct RecoveryCase {
  Fact row;
  Fact header;
  Fact same_page;
  Fact same_generation;
  SlotVerdict verdict;
};

inline constexpr std::array<RecoveryCase, 6> kRecoveryCases = {{
    // Never written, or wiped by free_object.
    {Fact::no, Fact::no, Fact::any, Fact::any, SlotVerdict::free},
    // Written, but the commit that would have named it never came; or erased since.
    {Fact::no, Fact::yes, Fact::any, Fact::any, SlotVerdict::orphan},
    // Torn, rotten, of an earlier epoch, or wiped before its row's erase was committed.
    {Fact::yes, Fact::no, Fact::any, Fact::any, SlotVerdict::stale_row},
    // The slot went to another page; of two rows for one slot, this one lost.
    {Fact::yes, Fact::yes, Fact::no, Fact::any, SlotVerdict::stale_row},
    // A lost write: the slot still holds an earlier blob of the same page.
    {Fact::yes, Fact::yes, Fact::yes, Fact::no, SlotVerdict::stale_row},
    {Fact::yes, Fact::yes, Fact::yes, Fact::yes, SlotVerdict::live},
}};

constexpr bool fact_matches(Fact pattern, bool value) {
  return pattern == Fact::any || (pattern == Fact::yes) == value;
}

constexpr bool case_matches(const RecoveryCase& entry, const SlotFacts& facts) {
  return fact_matches(entry.row, facts.row) && fact_matches(entry.header, facts.header) &&
         fact_matches(entry.same_page, facts.same_page) &&
         fact_matches(entry.same_generation, facts.same_generation);
}

// Every combination of facts has exactly one case.
constexpr bool recovery_is_complete() {
  for (unsigned bits = 0; bits < 16; ++bits) {
    const SlotFacts facts{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    int matches = 0;
    for (const RecoveryCase& entry : kRecoveryCases) {
      matches += case_matches(entry, facts) ? 1 : 0;
    }
    if (matches != 1) {
      return false;
    }
  }
  return true;
}
static_assert(recovery_is_complete(), "a combination of facts has no case, or two");

constexpr SlotVerdict judge_slot(const SlotFacts& facts) {
  for (const RecoveryCase& entry : kRecoveryCases) {
    if (case_matches(entry, facts)) {
      return entry.verdict;
    }
  }
  return SlotVerdict::stale_row;  // not reached: the table is complete
}

}  // namespace hc
