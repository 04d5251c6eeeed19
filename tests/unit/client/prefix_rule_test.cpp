// SPDX-License-Identifier: Apache-2.0
// prefix_rule_test: the usable prefix against a brute force, and which parts count for whom.
#include "client/prefix_rule.h"

#include <algorithm>
#include <random>
#include <vector>

#include "support/catch.h"

namespace hc {
namespace {

SpaceDescriptor space_of(std::vector<KindSpec> kinds, std::uint16_t shards = 1) {
  SpaceDescriptor space;
  space.model = "m";
  space.page_tokens = 1;
  space.world.tensor = shards;
  space.kinds = std::move(kinds);
  return space;
}

KindSpec all_kind(const char* name, Placement placement = Placement::sharded) {
  return {name, 1, placement, HitPolicy::all_pages, 0};
}

KindSpec trailing_kind(const char* name, std::uint32_t pages) {
  return {name, 1, Placement::sharded, HitPolicy::trailing, pages};
}

// The rule word by word: try every length from the longest down.
bool covers(const std::vector<PageBits>& pages, std::size_t kind, std::size_t from,
            std::size_t to) {
  return std::all_of(pages.begin() + static_cast<std::ptrdiff_t>(from),
                     pages.begin() + static_cast<std::ptrdiff_t>(to),
                     [kind](PageBits bits) { return ((bits.present >> kind) & 1U) != 0; });
}

std::size_t start_of(const KindSpec& kind, std::size_t n) {
  const bool trailing = kind.policy == HitPolicy::trailing;
  return trailing && n > kind.trailing_pages ? n - kind.trailing_pages : 0;
}

std::uint32_t brute_usable(const SpaceDescriptor& space, const std::vector<PageBits>& pages) {
  for (std::size_t n = pages.size(); n > 0; --n) {
    bool good = true;
    for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
      good = good && covers(pages, kind, start_of(space.kinds[kind], n), n);
    }
    if (good) {
      return static_cast<std::uint32_t>(n);
    }
  }
  return 0;
}

std::uint32_t brute_covered(const SpaceDescriptor& space, const std::vector<PageBits>& pages,
                            std::uint32_t usable, std::uint8_t PageBits::*bits) {
  for (std::uint32_t page = 0; page < usable; ++page) {
    for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
      if (page >= start_of(space.kinds[kind], usable) && ((pages[page].*bits >> kind) & 1U) == 0) {
        return page;
      }
    }
  }
  return usable;
}

PrefixAnswer scan(const SpaceDescriptor& space, const std::vector<PageBits>& pages) {
  PrefixScan scan(space);
  for (const PageBits bits : pages) {
    if (!scan.add(bits)) {
      break;
    }
  }
  return scan.answer();
}

TEST_CASE("the usable prefix equals a brute force over random spaces and bitmaps") {
  std::mt19937 random(20240607);
  for (int round = 0; round < 20000; ++round) {
    std::vector<KindSpec> kinds;
    const std::size_t kind_count = 1 + random() % 4;
    for (std::size_t kind = 0; kind < kind_count; ++kind) {
      const std::string name(1, static_cast<char>('a' + kind));
      const auto last = static_cast<std::uint32_t>(1 + random() % 5);
      kinds.push_back(random() % 2 == 0 ? all_kind(name.c_str())
                                        : trailing_kind(name.c_str(), last));
    }
    const SpaceDescriptor space = space_of(kinds);
    std::vector<PageBits> pages(random() % 14);
    const unsigned hardly_absent = 2 + random() % 8;
    for (PageBits& bits : pages) {
      for (std::size_t kind = 0; kind < kind_count; ++kind) {
        const auto bit = static_cast<std::uint8_t>(1U << kind);
        if (random() % hardly_absent != 0) {
          bits.present = static_cast<std::uint8_t>(bits.present | bit);
          bits.resident = static_cast<std::uint8_t>(bits.resident | (random() % 3 ? bit : 0));
          bits.durable = static_cast<std::uint8_t>(bits.durable | (random() % 3 ? bit : 0));
        }
      }
    }

    const PrefixAnswer answer = scan(space, pages);

    CAPTURE(round, kind_count, pages.size());
    REQUIRE(answer.usable == brute_usable(space, pages));
    REQUIRE(answer.resident == brute_covered(space, pages, answer.usable, &PageBits::resident));
    REQUIRE(answer.durable == brute_covered(space, pages, answer.usable, &PageBits::durable));
    for (std::size_t kind = 0; kind < kind_count; ++kind) {
      std::size_t lead = 0;
      while (lead < pages.size() && ((pages[lead].present >> kind) & 1U) != 0) {
        ++lead;
      }
      REQUIRE(answer.kinds[kind] == lead);
    }
  }
}

TEST_CASE("with a trailing kind a longer prefix may be usable where a shorter one is not") {
  const SpaceDescriptor space = space_of({all_kind("kv"), trailing_kind("swa", 2)});
  const PageBits both{3, 3, 3};
  const PageBits kv_only{1, 1, 1};

  CHECK(scan(space, {both, kv_only, both, both}).usable == 4);
  CHECK(scan(space, {both, kv_only, both}).usable == 1);
}

TEST_CASE("nothing asked for is a prefix of no pages") {
  const SpaceDescriptor space = space_of({all_kind("kv")});

  const PrefixAnswer answer = scan(space, {});

  CHECK(answer.usable == 0);
  CHECK(answer.kinds[0] == 0);
}

TEST_CASE("a scan stops once no later page can change the answer") {
  const SpaceDescriptor space = space_of({all_kind("kv"), trailing_kind("swa", 1)});
  PrefixScan scan(space);

  CHECK(scan.add({3, 0, 0}));
  CHECK(scan.add({2, 0, 0}));  // swa still leads
  CHECK_FALSE(scan.add({1, 0, 0}));

  scan.clear();
  CHECK(scan.add({3, 0, 0}));
  CHECK(scan.answer().usable == 1);
}

TEST_CASE("a space of trailing kinds alone is scanned to the end") {
  const SpaceDescriptor space = space_of({trailing_kind("swa", 1)});
  PrefixScan scan(space);

  CHECK(scan.add({0, 0, 0}));
  CHECK(scan.add({1, 0, 0}));

  CHECK(scan.answer().usable == 2);
  CHECK(scan.answer().kinds[0] == 0);
}

// Parts of three shards: a on 0..2, b (replicated) is 3, c (owned) on 4..6.
SpaceDescriptor placed_space() {
  return space_of(
      {all_kind("a"), all_kind("b", Placement::replicated), all_kind("c", Placement::owned)}, 3);
}

PageStatus stored(std::uint64_t mask) {
  return {0, mask, 0, 0};
}

TEST_CASE("a sharded kind counts by my own part") {
  const PartSelector mine(placed_space(), 1);

  CHECK(mine.bits_of(stored(1ULL << 1), 1, OwnedParts::mine).present == 1);
  CHECK(mine.bits_of(stored(1ULL << 0 | 1ULL << 2), 1, OwnedParts::mine).present == 0);
}

TEST_CASE("a replicated kind counts by its one part on every shard") {
  const PartSelector mine(placed_space(), 2);

  CHECK(mine.bits_of(stored(1ULL << 3), 2, OwnedParts::mine).present == 2);
}

TEST_CASE("an owned page of another shard counts as there, unless owners are asked for") {
  const PartSelector mine(placed_space(), 1);

  const PageBits other = mine.bits_of(stored(0), 2, OwnedParts::mine);
  CHECK(other.present == 4);
  CHECK(other.resident == 4);
  CHECK(other.durable == 4);
  CHECK(mine.bits_of(stored(0), 1, OwnedParts::mine).present == 0);
  CHECK(mine.bits_of(stored(1ULL << 5), 1, OwnedParts::mine).present == 4);
  CHECK(mine.bits_of(stored(0), 2, OwnedParts::owners).present == 0);
  CHECK(mine.bits_of(stored(1ULL << 6), 2, OwnedParts::owners).present == 4);
}

TEST_CASE("a part is present when it is resident or stored, and says which") {
  const PartSelector mine(placed_space(), 0);

  const PageBits resident = mine.bits_of({1, 0, 0, 0}, 1, OwnedParts::owners);
  CHECK(resident.present == 1);
  CHECK(resident.resident == 1);
  CHECK(resident.durable == 0);
  const PageBits on_disk = mine.bits_of({0, 1, 1, 0}, 1, OwnedParts::owners);
  CHECK(on_disk.present == 1);
  CHECK(on_disk.resident == 0);
  CHECK(on_disk.durable == 1);
}

}  // namespace
}  // namespace hc
