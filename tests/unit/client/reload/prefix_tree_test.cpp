// SPDX-License-Identifier: Apache-2.0
// prefix_tree_test: splits, what is in L1 and L2, locks, and leases that end as a whole. About
// client/reload/prefix_tree.cpp and client/reload/prefix_tree_l2.cpp.
#include "client/reload/prefix_tree.h"

#include "unit/client/reload/reload_bench.h"

namespace hc {
namespace {

struct Trees {
  explicit Trees(std::uint32_t pages_max = 16, std::uint32_t nodes_max = 64)
      : quota(1, pages_max), tree({nodes_max, {}}, quota) {}
  ~Trees() { tree.check(); }
  Trees(const Trees&) = delete;
  Trees& operator=(const Trees&) = delete;

  L2Grant grant(LeaseHandle lease, std::uint32_t pages) {
    quota.take({pages});
    return {lease, {pages}};
  }
  std::vector<LeaseHandle> released() {
    std::vector<LeaseHandle> out;
    tree.take_released(out);
    return out;
  }
  PageQuota quota;
  PrefixTree tree;
};

PageRun part(const BenchPath& path, std::size_t from, std::size_t count) {
  return {std::span(path.hashes).subspan(from, count), std::span(path.owners).subspan(from, count)};
}

// The first `shared` pages of `one`, then pages of its own.
BenchPath branch_of(const BenchPath& one, std::size_t shared, std::uint64_t branch,
                    std::size_t more) {
  BenchPath out;
  out.tokens.assign(one.tokens.begin(), one.tokens.begin() + static_cast<std::ptrdiff_t>(shared));
  for (std::size_t i = 0; i < more; ++i) {
    out.tokens.push_back(branch * 1000 + i);
  }
  REQUIRE(hash_pages(std::nullopt, std::span<const std::uint64_t>(out.tokens), {1, false, false},
                     out.hashes));
  out.owners.assign(out.hashes.size(), 0);
  return out;
}

TEST_CASE("a match that ends within a node splits it, and anchors at its end stay") {
  Trees at;
  const BenchPath path = bench_path(1, 6);
  REQUIRE(at.tree.fill_l1(path.run()));
  const AnchorId end = at.tree.match(path.hashes).anchor;
  const BenchPath other = branch_of(path, 4, 9, 3);

  const PrefixMatch match = at.tree.match(other.hashes);

  CHECK(match.l1_pages == 4);
  CHECK(at.tree.node_count() == 2);
  CHECK(at.tree.match(path.hashes).anchor == end);
  CHECK(at.tree.look(end, other.hashes[4]).live_hash == path.hashes.back());
}

TEST_CASE("L1 is evicted from the leaves, oldest first, and never under a lock") {
  Trees at;
  const BenchPath one = bench_path(1, 3);
  const BenchPath two = bench_path(2, 3);
  REQUIRE(at.tree.fill_l1(one.run()));
  REQUIRE(at.tree.fill_l1(two.run()));
  const AnchorId held = at.tree.match(one.hashes).anchor;
  at.tree.lock(held);
  CHECK(at.tree.evict_l1(6) == 3);
  CHECK(at.tree.match(two.hashes).pages() == 0);
  at.tree.unlock(held);
  CHECK(at.tree.evict_l1(6) == 3);
  CHECK(at.tree.node_count() == 0);
}

TEST_CASE("a node that is in L2 too stays when it leaves L1") {
  Trees at;
  const BenchPath path = bench_path(1, 4);
  REQUIRE(at.tree.fill_l1(path.run()));
  REQUIRE(at.tree.adopt_stored(path.run(), 0, at.grant(5, 4)));
  CHECK(at.tree.evict_l1(4) == 4);
  const PrefixMatch match = at.tree.match(path.hashes);
  CHECK(match.l1_pages == 0);
  CHECK(match.l2_pages == 4);
}

TEST_CASE("a node that leaves L1 without L2 takes along what hangs below it") {
  Trees at;
  const BenchPath path = bench_path(1, 4);
  REQUIRE(at.tree.fill_l1(part(path, 0, 2)));
  const AnchorId anchor = at.tree.match(path.hashes).anchor;
  REQUIRE(at.tree.insert(anchor, part(path, 2, 2), at.grant(5, 2)));
  at.tree.end_tick();
  CHECK(at.tree.evict_l1(2) == 2);
  CHECK(at.tree.node_count() == 0);
  CHECK(at.released() == std::vector<LeaseHandle>{5});
  CHECK(at.quota.used()[0] == 0);
}

TEST_CASE("a lease that a split has cut ends with its last fragment only, as a whole") {
  Trees at(6);
  const BenchPath path = bench_path(1, 4);
  REQUIRE(at.tree.insert(at.tree.root(), path.run(), at.grant(5, 4)));
  const BenchPath other = branch_of(path, 2, 9, 2);
  const PrefixMatch match = at.tree.match(other.hashes);
  REQUIRE(match.l2_pages == 2);
  std::vector<PrefixTree::Place> places;
  at.tree.places_in_l2(at.tree.match(path.hashes).anchor, places);
  REQUIRE(places.size() == 4);
  CHECK(places[2].lease == 5);
  CHECK(places[2].page == 2);

  REQUIRE(at.tree.insert(match.anchor, part(other, 2, 2), at.grant(6, 2)));
  at.tree.end_tick();
  CHECK(at.tree.make_room({6}));

  CHECK(at.tree.node_count() == 0);
  CHECK(at.released().size() == 2);
}

TEST_CASE("what is inserted stays, with what it hangs on, until the tick ends") {
  Trees at(6);
  const BenchPath path = bench_path(1, 4);
  REQUIRE(at.tree.insert(at.tree.root(), part(path, 0, 2), at.grant(5, 2)));
  at.tree.end_tick();
  const AnchorId anchor = at.tree.match(path.hashes).anchor;
  REQUIRE(at.tree.insert(anchor, part(path, 2, 2), at.grant(6, 2)));

  CHECK_FALSE(at.tree.make_room({6}));
  CHECK(at.tree.match(path.hashes).l2_pages == 4);
  at.tree.end_tick();

  CHECK(at.tree.make_room({6}));
  CHECK(at.tree.node_count() == 0);
  at.tree.check();
}

TEST_CASE("what leaves L2 in the tick in which it was inserted leaves no lock") {
  Trees at(6);
  const BenchPath path = bench_path(1, 4);
  REQUIRE(at.tree.fill_l1(part(path, 0, 2)));
  const AnchorId anchor = at.tree.match(path.hashes).anchor;
  REQUIRE(at.tree.insert(anchor, part(path, 2, 2), at.grant(5, 2)));

  at.tree.drop_l2();
  at.tree.end_tick();

  CHECK_FALSE(at.tree.is_locked(anchor));
  CHECK(at.tree.evict_l1(2) == 2);
}

TEST_CASE("room is made from the oldest leases, and not at all when it would not do") {
  Trees at(6);
  const BenchPath one = bench_path(1, 3);
  const BenchPath two = bench_path(2, 3);
  REQUIRE(at.tree.insert(at.tree.root(), one.run(), at.grant(1, 3)));
  REQUIRE(at.tree.insert(at.tree.root(), two.run(), at.grant(2, 3)));
  at.tree.end_tick();
  const AnchorId held = at.tree.match(two.hashes).anchor;
  at.tree.match(one.hashes);
  at.tree.lock(held);
  CHECK_FALSE(at.tree.make_room({4}));
  CHECK(at.tree.grant_count() == 2);
  at.tree.unlock(held);
  CHECK(at.tree.make_room({3}));
  CHECK(at.released() == std::vector<LeaseHandle>{2});
}

TEST_CASE("a stored path is adopted from its first page without a lease to the next one with") {
  Trees at;
  const BenchPath path = bench_path(1, 6);
  REQUIRE(at.tree.fill_l1(path.run()));
  REQUIRE(at.tree.adopt_stored(part(path, 0, 2), 0, at.grant(1, 2)));
  REQUIRE(at.tree.adopt_stored(path.run(), 0, at.grant(2, 6)));
  at.tree.evict_l1(6);
  std::vector<PrefixTree::Place> places;
  at.tree.places_in_l2(at.tree.match(path.hashes).anchor, places);
  REQUIRE(places.size() == 6);
  CHECK(places[1].lease == 1);
  CHECK(places[2].lease == 2);
  CHECK(places[2].page == 2);
  CHECK_FALSE(at.tree.adopt_stored(path.run(), 0, {3, {6}}));  // every page has one
}

TEST_CASE("pages that left L1 before their store had settled come back as L2 nodes") {
  Trees at;
  const BenchPath path = bench_path(1, 4);
  REQUIRE(at.tree.adopt_stored(path.run(), 0, at.grant(1, 4)));
  CHECK(at.tree.match(path.hashes).l2_pages == 4);
  CHECK_FALSE(at.tree.adopt_stored(bench_path(2, 4).run(), 2, {2, {2}}));  // nothing to hang it on
}

TEST_CASE("when L2 is dropped locked nodes go too, and take their locks along") {
  Trees at;
  const BenchPath path = bench_path(1, 4);
  REQUIRE(at.tree.fill_l1(part(path, 0, 2)));
  const AnchorId anchor = at.tree.match(path.hashes).anchor;
  REQUIRE(at.tree.insert(anchor, part(path, 2, 2), at.grant(5, 2)));
  const AnchorId end = at.tree.match(path.hashes).anchor;
  at.tree.lock(end);
  at.tree.drop_l2();
  CHECK(at.tree.match(path.hashes).pages() == 2);
  at.tree.unlock(end);  // of a node that has gone: nothing
  CHECK(at.tree.evict_l1(2) == 2);
}

TEST_CASE("without a free record nothing is changed") {
  Trees at(16, 1);
  const BenchPath path = bench_path(1, 4);
  REQUIRE(at.tree.fill_l1(path.run()));
  const BenchPath other = branch_of(path, 2, 9, 2);
  CHECK_FALSE(at.tree.fill_l1(other.run()));
  CHECK(at.tree.match(other.hashes).pages() == 0);
  const BenchPath third = bench_path(3, 2);
  CHECK_FALSE(at.tree.insert(at.tree.root(), third.run(), {7, {2}}));
  CHECK(at.tree.node_count() == 1);
}

TEST_CASE("cleared, a tree has nothing left, and gives every lease back") {
  Trees at;
  const BenchPath path = bench_path(1, 6);
  REQUIRE(at.tree.fill_l1(part(path, 0, 4)));
  REQUIRE(at.tree.insert(at.tree.match({path.hashes.data(), 4}).anchor, part(path, 4, 2),
                         at.grant(7, 2)));
  at.tree.lock(at.tree.match(path.hashes).anchor);
  const AnchorId before = at.tree.match(path.hashes).anchor;

  at.tree.clear();

  CHECK(at.tree.node_count() == 0);
  CHECK(at.tree.l1_pages() == 0);
  CHECK(at.released() == std::vector<LeaseHandle>{7});
  CHECK(at.quota.used()[0] == 0);
  CHECK_FALSE(at.tree.is_live(before));
  REQUIRE(at.tree.fill_l1(path.run()));
  CHECK(at.tree.match(path.hashes).l1_pages == 6);
}

TEST_CASE("what is in L1, in its order, makes the digest of L1; what is in L2 does not") {
  Trees one;
  Trees other;
  const BenchPath first = bench_path(1, 3);
  const BenchPath second = bench_path(2, 3);
  REQUIRE(one.tree.fill_l1(first.run()));
  REQUIRE(one.tree.fill_l1(second.run()));
  REQUIRE(other.tree.fill_l1(second.run()));
  REQUIRE(other.tree.fill_l1(first.run()));
  CHECK(one.tree.l1_digest() != other.tree.l1_digest());

  one.tree.match(first.hashes);
  CHECK(one.tree.l1_digest() == other.tree.l1_digest());

  REQUIRE(one.tree.insert(one.tree.root(), bench_path(3, 2).run(), one.grant(1, 2)));
  CHECK(one.tree.l1_digest() == other.tree.l1_digest());
}

TEST_CASE("keys that are no chain stay out, and harm nothing that is in") {
  Trees at;
  const BenchPath path = bench_path(1, 4);
  REQUIRE(at.tree.fill_l1(path.run()));
  BenchPath elsewhere = bench_path(2, 3);
  elsewhere.hashes[1] = path.hashes[0];  // the head of the other one, behind another page
  BenchPath within = bench_path(3, 2);
  within.hashes[1] = path.hashes[2];

  REQUIRE(at.tree.fill_l1(part(elsewhere, 0, 1)));
  CHECK_FALSE(at.tree.fill_l1(elsewhere.run()));
  const AnchorId anchor = at.tree.match({elsewhere.hashes.data(), 1}).anchor;
  CHECK_FALSE(at.tree.look(anchor, path.hashes[0]).is_clean);
  // A page that is in the middle of a node here becomes the head of another: the node stays whole.
  REQUIRE(at.tree.fill_l1(part(within, 0, 1)));
  REQUIRE(at.tree.insert(at.tree.match({within.hashes.data(), 1}).anchor, part(within, 1, 1),
                         at.grant(1, 1)));
  CHECK(at.tree.match({path.hashes.data(), 2}).pages() == 0);
  CHECK(at.tree.match(path.hashes).l1_pages == 4);
}

TEST_CASE("equal changes give equal fingerprints, other ones do not") {
  Trees one;
  Trees two;
  const BenchPath path = bench_path(1, 4);
  REQUIRE(one.tree.fill_l1(path.run()));
  REQUIRE(two.tree.fill_l1(path.run()));
  CHECK(one.tree.fingerprint() == two.tree.fingerprint());
  one.tree.evict_l1(1);
  CHECK(one.tree.fingerprint() != two.tree.fingerprint());
}

}  // namespace
}  // namespace hc
