// SPDX-License-Identifier: Apache-2.0
// pool_test: frames with their generations, leases, and the order of eviction.
#include <set>

#include "daemon/pool/arena_set.h"
#include "daemon/pool/frame_pool.h"
#include "daemon/pool/lease_table.h"
#include "daemon/pool/lru_list.h"
#include "proto/blob_header.h"
#include "support/catch.h"
#include "support/dies.h"

namespace {

using namespace hc;
using hc::test::dies_by_check;

ArenaSet small_arenas() {
  ArenaOptions options;
  options.arena_bytes = 40'960;  // frames of 8,192 and 12,288 bytes: 5 and 3 an arena
  auto set = ArenaSet::create({{0, 4096, 7}, {1, 5000, 4}}, options);
  REQUIRE(set);
  return std::move(*set);
}

TEST_CASE("arena_set: every frame has its own bytes, a header block before its payload") {
  ArenaSet arenas = small_arenas();

  std::set<std::uint8_t*> starts;
  for (std::uint32_t frame = 0; frame < 7; ++frame) {
    starts.insert(arenas.frame(0, FrameId{frame}));
  }
  for (std::uint32_t frame = 0; frame < 4; ++frame) {
    starts.insert(arenas.frame(1, FrameId{frame}));
  }

  CHECK(starts.size() == 11);
  CHECK(arenas.frame_bytes(0) == blob_bytes(4096));
  CHECK(arenas.frame_bytes(1) == blob_bytes(5000));
  CHECK(arenas.arenas().size() == 4);
  CHECK(arenas.generation_index(1, FrameId{0}) == 7);
}

TEST_CASE("arena_set: a kind without a frame is refused by name") {
  const auto set = ArenaSet::create({{0, 4096, 0}}, {});

  REQUIRE_FALSE(set);
  CHECK(set.error().text.find("l2.l2_bytes") != std::string::npos);
}

TEST_CASE("arena_set: memory is judged for all arenas together before the first is made") {
  ArenaOptions options;
  options.arena_bytes = 40'960;
  constexpr std::uint64_t kWanted = 7 * 8'192 + 4 * 12'288;
  std::uint32_t pieces = 0;
  options.on_progress = [&pieces] { ++pieces; };

  SECTION("each arena fits, their sum does not") {
    options.free_memory = [] { return FreeMemory{kWanted, 1ULL << 40}; };
    const auto set = ArenaSet::create({{0, 4096, 7}, {1, 5000, 4}}, options);
    REQUIRE_FALSE(set);
    CHECK(set.error().code == Code::no_space);
    CHECK(set.error().text ==
          "l2.l2_bytes: the frames want 106496 bytes of memory and 1/64 more for page tables, "
          "available are 106496");
    CHECK(pieces == 0);
  }
  SECTION("the kernel's share fits as well") {
    options.free_memory = [] { return FreeMemory{kWanted + kWanted / 64, 0}; };
    CHECK(ArenaSet::create({{0, 4096, 7}, {1, 5000, 4}}, options));
  }
  SECTION("free huge pages count where they are asked for") {
    options.free_memory = [] { return FreeMemory{0, 1ULL << 40}; };
    options.try_huge_pages = true;
    CHECK(ArenaSet::create({{0, 4096, 7}, {1, 5000, 4}}, options));
  }
  SECTION("memory that is not committed is not judged") {
    options.free_memory = [] { return FreeMemory{0, 0}; };
    options.commit_memory = false;
    CHECK(ArenaSet::create({{0, 4096, 7}, {1, 5000, 4}}, options));
  }
}

TEST_CASE("frame_pool: a generation is even exactly while the frame is published") {
  ArenaSet arenas = small_arenas();
  FramePool pool(arenas, 0);

  const auto frame = pool.take();
  REQUIRE(frame);
  CHECK_FALSE(generation_is_whole(pool.generation(*frame)));
  pool.publish(*frame);
  const std::uint64_t published = pool.generation(*frame);
  CHECK(generation_is_whole(published));
  pool.give_back(*frame);

  CHECK_FALSE(generation_is_whole(pool.generation(*frame)));
  CHECK(pool.generation(*frame) > published);
}

TEST_CASE("frame_pool: a frame that comes back has no header and can be taken again") {
  ArenaSet arenas = small_arenas();
  FramePool pool(arenas, 0);
  std::vector<FrameId> frames;
  while (const auto frame = pool.take()) {
    frames.push_back(*frame);
  }
  REQUIRE(frames.size() == 7);
  pool.header(frames[3])[0] = 0xAA;

  pool.give_back(frames[3]);

  CHECK(pool.header(frames[3])[0] == 0);
  CHECK(pool.take() == frames[3]);
  CHECK_FALSE(pool.take());
}

TEST_CASE("frame_pool: misuse is loud") {
  ArenaSet arenas = small_arenas();
  FramePool pool(arenas, 0);
  const auto frame = pool.take();
  REQUIRE(frame);

  CHECK(dies_by_check([&] { pool.give_back(FrameId{6}); }));
  CHECK(dies_by_check([&] { pool.publish(FrameId{6}); }));
  CHECK(dies_by_check([&] { pool.give_back(FrameId{7}); }));

  pool.give_back(*frame);

  CHECK(dies_by_check([&] { pool.give_back(*frame); }));
}

TEST_CASE("lease_table: a lease gives its pages back in order, once") {
  LeaseTable table(2, 3);
  const auto lease = table.open(SessionId{7});
  REQUIRE(lease);
  CHECK(table.add(*lease, PageId{5}));
  CHECK(table.add(*lease, PageId{6}, 3));

  CHECK(table.session_of(*lease) == SessionId{7});
  CHECK(table.close(*lease) == std::vector<LeasedPage>{{PageId{5}, 0}, {PageId{6}, 3}});

  CHECK_FALSE(table.is_open(*lease));
  CHECK(table.nodes_free() == 3);
  CHECK(dies_by_check([&] { table.close(*lease); }));
}

TEST_CASE("lease_table: both tables are bounded, and a full one changes nothing") {
  LeaseTable table(2, 3);
  const auto first = table.open(SessionId{1});
  const auto second = table.open(SessionId{2});
  REQUIRE(first);
  REQUIRE(second);

  CHECK_FALSE(table.open(SessionId{3}));
  CHECK(table.add(*first, PageId{1}));
  CHECK(table.add(*first, PageId{2}));
  CHECK(table.add(*second, PageId{3}));
  CHECK_FALSE(table.add(*second, PageId{4}));

  CHECK(table.page_count(*second) == 1);
}

TEST_CASE("lease_table: room beside that of the start comes once, and is never given back") {
  LeaseTable table(1, 1);
  table.reserve_beside(2);
  table.reserve_beside(1);

  CHECK(table.leases_free() == 3);
  CHECK(table.nodes_free() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto lease = table.open(SessionId{i});
    REQUIRE(lease);
    CHECK(table.add(*lease, PageId{i}));
  }
  CHECK(table.all().size() == 3);
  CHECK_FALSE(table.open(SessionId{9}));
}

TEST_CASE("lease_table: an id of an earlier life names nothing") {
  LeaseTable table(1, 1);
  const auto old = table.open(SessionId{1});
  table.close(*old);
  const auto now = table.open(SessionId{2});
  REQUIRE(now);

  CHECK(*old != *now);
  CHECK_FALSE(table.session_of(*old));
  CHECK(table.leases_of(SessionId{2}) == std::vector<LeaseId>{*now});
  CHECK(table.leases_of(SessionId{1}).empty());
}

TEST_CASE("lease_table: a lease that is given to another session keeps its name and its pages") {
  LeaseTable table(2, 2);
  const auto lease = table.open(SessionId{1});
  REQUIRE(lease);
  REQUIRE(table.add(*lease, PageId{7}, 3));

  table.give(*lease, SessionId{2});

  CHECK(table.session_of(*lease) == SessionId{2});
  CHECK(table.leases_of(SessionId{1}).empty());
  CHECK(table.owned_pages(*lease) == std::vector<LeasedPage>{{PageId{7}, 3}});
  CHECK(table.leases_open() == 1);
}

TEST_CASE("lru_list: order follows pushes, moves and removals") {
  LruList list(5);
  for (const std::uint32_t number : {0U, 1U, 2U, 3U}) {
    list.push_newest(number);
  }
  list.move_to_newest(1);
  list.remove(2);
  list.insert_older_than(4, 3);

  std::vector<std::uint32_t> oldest_first;
  for (std::uint32_t at = list.oldest(); at != kNone32; at = list.newer_than(at)) {
    oldest_first.push_back(at);
  }

  CHECK(oldest_first == std::vector<std::uint32_t>{0, 4, 3, 1});
  CHECK(list.size() == 4);
  CHECK_FALSE(list.contains(2));
  CHECK(dies_by_check([&] { list.remove(2); }));
  CHECK(dies_by_check([&] { list.push_newest(1); }));
}

}  // namespace
