// SPDX-License-Identifier: Apache-2.0
// prefix_rule: one pass over the pages, with the length of the current run of each trailing kind.
#include "client/prefix_rule.h"

#include <algorithm>

#include "proto/check.h"

namespace hc {

namespace {

constexpr std::uint8_t kind_bit(std::size_t kind) {
  return static_cast<std::uint8_t>(1U << kind);
}

constexpr bool has_part(std::uint64_t mask, std::uint32_t part) {
  return ((mask >> part) & 1U) != 0;
}

}  // namespace

PartSelector::PartSelector(const SpaceDescriptor& space, std::uint16_t shard) : shard_(shard) {
  HC_CHECK(shard < space.world.shards());
  for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
    kinds_.push_back(
        {space.kinds[kind].placement, part_index(space, static_cast<std::uint16_t>(kind), 0)});
  }
}

PageBits PartSelector::bits_of(const PageStatus& status, std::uint16_t owner,
                               OwnedParts owned) const {
  PageBits bits;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    const std::uint8_t bit = kind_bit(kind);
    std::uint32_t part = kinds_[kind].first_part;
    if (kinds_[kind].placement == Placement::sharded) {
      part += shard_;
    } else if (kinds_[kind].placement == Placement::owned) {
      if (owned == OwnedParts::mine && owner != shard_) {
        // Another rank answers for this page; the ranks' minimum closes the gap.
        bits.present |= bit;
        bits.resident |= bit;
        bits.durable |= bit;
        continue;
      }
      part += owner;
    }
    bits.present |= has_part(status.stored | status.resident, part) ? bit : std::uint8_t{0};
    bits.resident |= has_part(status.resident, part) ? bit : std::uint8_t{0};
    bits.durable |= has_part(status.durable, part) ? bit : std::uint8_t{0};
  }
  return bits;
}

PrefixScan::PrefixScan(const SpaceDescriptor& space) {
  for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
    const bool trailing = space.kinds[kind].policy == HitPolicy::trailing;
    HC_CHECK(!trailing || space.kinds[kind].trailing_pages > 0);
    trailing_.push_back(trailing ? space.kinds[kind].trailing_pages : 0);
    if (!trailing) {
      all_pages_mask_ |= kind_bit(kind);
    }
  }
  clear();
}

void PrefixScan::clear() {
  pages_.clear();
  leading_mask_ = static_cast<std::uint8_t>((1U << trailing_.size()) - 1U);
}

bool PrefixScan::add(PageBits bits) {
  pages_.push_back(bits);
  leading_mask_ &= bits.present;
  // With no leading run left and an all_pages kind broken, the rest only could grow a trailing
  // run behind the end. A space of trailing kinds alone has no such end.
  return leading_mask_ != 0 || all_pages_mask_ == 0;
}

PrefixAnswer PrefixScan::answer() const {
  PrefixAnswer out;
  out.usable = usable();
  out.resident = covered(out.usable, &PageBits::resident);
  out.durable = covered(out.usable, &PageBits::durable);
  for (std::size_t kind = 0; kind < trailing_.size(); ++kind) {
    while (out.kinds[kind] < pages_.size() &&
           (pages_[out.kinds[kind]].present & kind_bit(kind)) != 0) {
      ++out.kinds[kind];
    }
  }
  return out;
}

std::uint32_t PrefixScan::usable() const {
  std::array<std::uint32_t, kKindsMax> run{};  // present pages in a row that end here
  std::uint32_t best = 0;
  for (std::uint32_t page = 0; page < pages_.size(); ++page) {
    const std::uint8_t present = pages_[page].present;
    if ((present & all_pages_mask_) != all_pages_mask_) {
      break;
    }
    bool all_trailing = true;
    for (std::size_t kind = 0; kind < trailing_.size(); ++kind) {
      run[kind] = (present & kind_bit(kind)) != 0 ? run[kind] + 1 : 0;
      all_trailing = all_trailing && run[kind] >= std::min(trailing_[kind], page + 1);
    }
    if (all_trailing) {
      best = page + 1;
    }
  }
  return best;
}

std::uint8_t PrefixScan::needed(std::uint32_t page, std::uint32_t usable) const {
  std::uint8_t mask = all_pages_mask_;
  for (std::size_t kind = 0; kind < trailing_.size(); ++kind) {
    if (trailing_[kind] != 0 && usable - page <= trailing_[kind]) {
      mask |= kind_bit(kind);
    }
  }
  return mask;
}

std::uint32_t PrefixScan::covered(std::uint32_t usable, std::uint8_t PageBits::*bits) const {
  std::uint32_t page = 0;
  while (page < usable) {
    const std::uint8_t mask = needed(page, usable);
    if ((pages_[page].*bits & mask) != mask) {
      break;
    }
    ++page;
  }
  return page;
}

}  // namespace hc
