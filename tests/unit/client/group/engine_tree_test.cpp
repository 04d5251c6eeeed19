// SPDX-License-Identifier: Apache-2.0
// engine_tree_test: an engine's own tree behind the seam: what it is asked, and what leases become.
#include "client/group/engine_tree.h"

#include <string>
#include <vector>

#include "support/catch.h"

namespace hc {
namespace {

// Notes what it is asked; answers as the test says.
struct OwnTree {
  std::vector<std::string> asked;
  std::vector<std::uint64_t> leases;  // that it has
  EngineTree* seam = nullptr;
  bool takes = true;
  bool evicts = true;

  static OwnTree& of(void* context) { return *static_cast<OwnTree*>(context); }
  hicache_tree calls() {
    hicache_tree out{};
    out.context = this;
    out.look = [](void*, hicache_anchor anchor, const std::uint8_t* first, std::uint8_t* live,
                  int* has_hash) {
      live[0] = static_cast<std::uint8_t>(first[0] + 1);
      *has_hash = anchor.node == 0 ? 0 : 1;
      return anchor.use == 3 ? 1 : 0;
    };
    out.make_room = [](void* context, const std::uint32_t* missing, std::size_t owners) {
      OwnTree& at = of(context);
      at.asked.push_back("room " + std::to_string(missing[owners - 1]));
      while (at.evicts && !at.leases.empty()) {
        CHECK(at.seam->end_lease(at.leases.back()));
        at.leases.pop_back();
      }
    };
    out.insert = [](void* context, hicache_anchor, const std::uint8_t* hashes,
                    const std::uint16_t*, std::size_t pages, std::uint64_t lease) {
      return of(context).take("insert", hashes[32 * (pages - 1)], lease);
    };
    out.adopt_stored = [](void* context, const std::uint8_t* hashes, const std::uint16_t*,
                          std::size_t, std::size_t first, std::uint64_t lease) {
      return of(context).take("adopt", hashes[32 * first], lease);
    };
    out.drop_l2 = [](void* context) { of(context).asked.emplace_back("drop"); };
    out.fingerprint = [](void*) { return std::uint64_t{77}; };
    out.restart_fingerprint = [](void* context, std::uint64_t epoch) {
      of(context).asked.push_back("epoch " + std::to_string(epoch));
    };
    out.l1_digest = [](void*) { return std::int64_t{-1}; };
    out.clear = [](void* context) { of(context).asked.emplace_back("clear"); };
    return out;
  }
  int take(const char* how, std::uint8_t page, std::uint64_t lease) {
    asked.push_back(how + (" " + std::to_string(page)));
    if (takes) {
      leases.push_back(lease);
    }
    return takes ? 1 : 0;
  }
};

struct TreeBench {
  PageQuota quota{1, 8};
  OwnTree own;
  EngineTree tree{own.calls(), quota};
  std::vector<PageHash> hashes;
  std::vector<std::uint16_t> owners;

  TreeBench() {
    own.seam = &tree;
    for (std::uint8_t page = 0; page < 4; ++page) {
      PageHash hash;
      hash.bytes[0] = page;
      hashes.push_back(hash);
    }
    owners.assign(4, 0);
  }
  PageRun run() const { return {hashes, owners}; }
  L2Grant grant(LeaseHandle lease, std::uint32_t pages) {
    quota.take({pages});
    return {lease, {pages}};
  }
  std::vector<LeaseHandle> released() {
    std::vector<LeaseHandle> out;
    tree.take_released(out);
    return out;
  }
};

TEST_CASE("own tree: it says where a suffix may be attached, and with which hash") {
  TreeBench at;
  CHECK(at.tree.look({5, 3}, at.hashes[2]).is_clean);
  CHECK(at.tree.look({5, 3}, at.hashes[2]).live_hash->bytes[0] == 3);
  CHECK_FALSE(at.tree.look({5, 2}, at.hashes[2]).is_clean);
  CHECK_FALSE(at.tree.look({0, 3}, at.hashes[2]).live_hash.has_value());
}

TEST_CASE("own tree: a lease that it takes is charged until it lets go") {
  TreeBench at;
  REQUIRE(at.tree.insert({5, 3}, at.run(), at.grant(11, 4)));
  CHECK(at.own.asked == std::vector<std::string>{"insert 3"});
  CHECK(at.tree.grant_count() == 1);

  CHECK(at.tree.end_lease(11));
  CHECK_FALSE(at.tree.end_lease(11));

  CHECK(at.quota.used()[0] == 0);
  CHECK(at.released() == std::vector<LeaseHandle>{11});
  CHECK(at.released().empty());
}

TEST_CASE("own tree: a lease that it does not take stays its giver's") {
  TreeBench at;
  at.own.takes = false;
  CHECK_FALSE(at.tree.insert({5, 3}, at.run(), at.grant(11, 4)));
  CHECK_FALSE(at.tree.adopt_stored(at.run(), 2, at.grant(12, 2)));
  CHECK(at.own.asked == std::vector<std::string>{"insert 3", "adopt 2"});
  CHECK(at.tree.grant_count() == 0);
  CHECK(at.released().empty());
}

TEST_CASE("own tree: it is asked for what is missing, and believed only by the quota") {
  TreeBench at;
  REQUIRE(at.tree.adopt_stored(at.run(), 0, at.grant(11, 6)));
  CHECK(at.tree.make_room({2}));
  CHECK(at.own.asked.size() == 1);  // there is room: nobody is asked
  at.own.evicts = false;
  CHECK_FALSE(at.tree.make_room({5}));
  at.own.evicts = true;
  CHECK(at.tree.make_room({5}));
  CHECK(at.own.asked.back() == "room 3");
  CHECK(at.released() == std::vector<LeaseHandle>{11});
}

TEST_CASE("own tree: when L2 is dropped every lease ends") {
  TreeBench at;
  REQUIRE(at.tree.insert({5, 3}, at.run(), at.grant(11, 4)));
  REQUIRE(at.tree.insert({5, 3}, at.run(), at.grant(12, 4)));

  at.tree.drop_l2();

  CHECK(at.own.asked.back() == "drop");
  CHECK(at.quota.used()[0] == 0);
  CHECK(at.released().size() == 2);
  CHECK(at.tree.fingerprint() == 77);
  CHECK(at.tree.l1_digest() > 0);  // 62 bits of what it says
  at.tree.restart_fingerprint(4);
  CHECK(at.own.asked.back() == "epoch 4");
}

}  // namespace
}  // namespace hc
