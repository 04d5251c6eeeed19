// SPDX-License-Identifier: Apache-2.0
// prefix_rule: how many leading pages are usable, given what is there of each page.
//
// Owner thread: whoever holds the object. Pure: no shared memory, no clock, no system call.
// The rule: the usable prefix is the largest n such that every all_pages kind covers [0, n) and
// every trailing(k) kind covers [max(0, n - k), n). Usable lengths are not downward closed: with
// a trailing kind, 8 may be usable and 7 not.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/limits.h"
#include "proto/space.h"
#include "proto/status_table_layout.h"

namespace hc {

// Bit k speaks of kind k: every part of it that this caller needs is there.
struct PageBits {
  std::uint8_t present = 0;   // in L2 or in its slot
  std::uint8_t resident = 0;  // in L2
  std::uint8_t durable = 0;   // in the committed index
};
static_assert(kKindsMax == 8, "a kind is a bit of PageBits");

struct PrefixAnswer {
  std::uint32_t usable = 0;
  std::uint32_t resident = 0;  // leading pages of `usable` whose needed kinds are all resident
  std::uint32_t durable = 0;   // ... all durable
  std::array<std::uint32_t, kKindsMax> kinds{};  // leading pages per kind
};

// Which parts count: those of the caller's own shard, or those of each page's owner.
enum class OwnedParts { mine, owners };

// Turns the part masks of the status table into kinds, for the shard of one rank.
class PartSelector {
 public:
  PartSelector(const SpaceDescriptor& space, std::uint16_t shard);

  // `owner` must be a shard of the space.
  PageBits bits_of(const PageStatus& status, std::uint16_t owner, OwnedParts owned) const;

 private:
  struct Kind {
    Placement placement;
    std::uint32_t first_part;
  };
  std::vector<Kind> kinds_;
  std::uint16_t shard_;
};

// Collects the bits of page 0, 1, ... and answers. Reusable: clear() keeps the memory.
class PrefixScan {
 public:
  explicit PrefixScan(const SpaceDescriptor& space);

  void clear();
  // False when no later page can change the answer.
  bool add(PageBits bits);
  PrefixAnswer answer() const;

 private:
  std::uint32_t usable() const;
  // Leading pages of `usable` whose needed kinds are all set in `bits`.
  std::uint32_t covered(std::uint32_t usable, std::uint8_t PageBits::*bits) const;
  std::uint8_t needed(std::uint32_t page, std::uint32_t usable) const;

  std::vector<std::uint32_t> trailing_;  // per kind; 0: all_pages
  std::uint8_t all_pages_mask_ = 0;
  std::uint8_t leading_mask_ = 0;  // kinds present in every page so far
  std::vector<PageBits> pages_;
};

}  // namespace hc
