// SPDX-License-Identifier: Apache-2.0
// group_api_test: what hicache_group.h refuses, in one line, and what a group answers without a
// daemon: misses, and nothing that waits. About client/group/group_api.cpp,
// client/group/group_tree_api.cpp, client/group/group_plan.cpp, client/group/reload_group.cpp,
// client/group/reload_group_join.cpp and client/group/reload_group_ops.cpp; e2e.group has what
// needs a daemon.
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "client/hicache_group.h"
#include "client/hicache_group.hpp"
#include "proto/ids.h"
#include "proto/page_hash.h"
#include "support/catch.h"

namespace hc {
namespace {

constexpr std::uint32_t kPayload = 8192;
constexpr std::uint64_t kPageBytes = kPayload + 4096;
constexpr std::uint32_t kTokens = 4;

hicache_code alone(void* /*context*/, std::int64_t* /*words*/, std::size_t /*count*/) {
  return HICACHE_OK;
}

// One rank, whose daemon never comes.
struct LonelyGroup {
  explicit LonelyGroup(std::uint64_t quota_bytes = 8 * kPageBytes, std::uint16_t shards_here = 0) {
    kind.name = "kv";
    kind.payload_bytes = kPayload;
    space.model = "m";
    space.page_tokens = kTokens;
    space.tensor_size = shards_here == 0 ? 1 : 2;
    space.pipeline_size = 1;
    space.context_size = 1;
    space.kinds = &kind;
    space.kind_count = 1;
    options.struct_bytes = sizeof options;
    options.abi_version = HICACHE_ABI_VERSION;
    options.socket_path = "/nowhere/hicached.sock";
    options.group = "g";
    options.world = space.tensor_size;
    options.shards_on_node = shards_here;
    options.attach_timeout_ms = 100;
    options.quota_bytes = quota_bytes;
    options.flags = HICACHE_OPEN_BACKGROUND;
    REQUIRE(hicache_open(&options, &space, &client) == HICACHE_OK);
    group_options.struct_bytes = sizeof group_options;
    group_options.reduce = alone;
  }
  ~LonelyGroup() {
    hicache_group_close(group);
    hicache_close(client, 1000);
  }
  LonelyGroup(const LonelyGroup&) = delete;
  LonelyGroup& operator=(const LonelyGroup&) = delete;

  void meet() {
    REQUIRE(hicache_group_open(client, &group_options, &group) == HICACHE_OK);
    int kept = 0;
    REQUIRE(hicache_group_join(group, 1000, &kept) == HICACHE_OK);
    CHECK(kept == 1);
  }
  std::string refusal(const std::function<void(hicache_group_options&)>& change) {
    hicache_group_options changed = group_options;
    change(changed);
    hicache_group* out = nullptr;
    const hicache_code code = hicache_group_open(client, &changed, &out);
    CHECK(out == nullptr);
    return code == HICACHE_BAD_ARGUMENT ? hicache_last_error() : "not refused";
  }
  hicache_decisions tick() {
    hicache_decisions out{};
    CHECK(hicache_group_tick(group, &out) == HICACHE_OK);
    return out;
  }

  hicache_kind kind{};
  hicache_space space{};
  hicache_options options{};
  hicache_client* client = nullptr;
  hicache_group_options group_options{};
  hicache_group* group = nullptr;
};

struct Prompt {
  explicit Prompt(std::uint64_t number, std::size_t pages = 4) {
    for (std::size_t i = 0; i < pages * kTokens; ++i) {
      tokens.push_back(number * 1000 + i);
    }
    REQUIRE(hash_pages(std::nullopt, std::span<const std::uint64_t>(tokens), {kTokens}, hashes));
    for (const PageHash& hash : hashes) {
      list.push_back({hash.bytes.data(), sizeof hash, 0, 0, 0, nullptr});
    }
  }
  hicache_miss miss(std::uint64_t request, hicache_anchor anchor, std::size_t first = 0) const {
    return {request, anchor, list.data(), list.size(), first, tokens.data() + first * kTokens,
            kTokens};
  }
  std::vector<std::uint64_t> tokens;
  std::vector<PageHash> hashes;
  std::vector<hicache_page> list;
};

TEST_CASE("group options: each field that is out of range is named, with what is allowed") {
  LonelyGroup at;
  using Options = hicache_group_options;
  const std::vector<std::pair<std::string, std::function<void(Options&)>>> cases{
      {"options.struct_bytes = 1: must be " + std::to_string(sizeof(Options)),
       [](Options& to) { to.struct_bytes = 1; }},
      {"options.agreement = 4: must be 0..3", [](Options& to) { to.agreement = 4; }},
      {"options.reduce = NULL: must be given",
       [](Options& to) { to.agreement = HICACHE_AGREE_HOOK, to.reduce = nullptr; }},
      {"options.cuda_device = 4294967295: must be 0..2147483647",
       [](Options& to) { to.cuda_device = -1; }},
      {"options.reduce_timeout_ms = 600001: must be 1..600000",
       [](Options& to) { to.reduce_timeout_ms = 600'001; }},
      {"options.spin_us = 1000001: must be 1..1000000",
       [](Options& to) { to.spin_us = 1'000'001; }},
      {"options.ttl_ms = 600001: must be 1..600000", [](Options& to) { to.ttl_ms = 600'001; }},
      {"options.ops_max = 65: must be 1..64", [](Options& to) { to.ops_max = 65; }},
      {"options.op_pages_max = 513: must be 1..512", [](Options& to) { to.op_pages_max = 513; }},
      {"options.inflight_pages_max = 1048577: must be 1..1048576",
       [](Options& to) { to.inflight_pages_max = 1'048'577; }},
      {"options.pages_min = 513: must be 1..512", [](Options& to) { to.pages_min = 513; }},
      {"options.pages_min = 9: must be 1..8",
       [](Options& to) { to.pages_min = 9, to.op_pages_max = 8; }},
      {"options.waiting_max = 65537: must be 1..65536",
       [](Options& to) { to.waiting_max = 65'537; }},
      {"options.stores_max = 65537: must be 1..65536",
       [](Options& to) { to.stores_max = 65'537; }},
      {"options.nodes_max = 1: must be 2..16777216", [](Options& to) { to.nodes_max = 1; }},
      {"options.reserved = 1: must be 0", [](Options& to) { to.reserved = 1; }},
  };
  for (const auto& [line, change] : cases) {
    CHECK(at.refusal(change) == line);
  }
  const hicache_tree half{};
  CHECK(at.refusal([&](Options& to) { to.tree = &half; }) ==
        "options.tree: every call of it must be given");
}

TEST_CASE("a group needs a quota, and shared memory all ranks on this node") {
  LonelyGroup without(0);
  CHECK(without.refusal([](auto&) {}) ==
        "options.quota_bytes of hicache_open = 0: a group needs at least 12288 bytes, which is one "
        "page of its space");
  LonelyGroup apart(8 * kPageBytes, 1);
  CHECK(apart.refusal([](auto& to) { to.agreement = HICACHE_AGREE_SHM; }) ==
        "options.agreement = SHM: must be NCCL or HOOK, because 1 of 2 shards are on this node");
}

TEST_CASE("before the ranks have met a tick says so, and nothing is held") {
  LonelyGroup at;
  REQUIRE(hicache_group_open(at.client, &at.group_options, &at.group) == HICACHE_OK);
  hicache_decisions out{};
  CHECK(hicache_group_tick(at.group, &out) == HICACHE_DISCONNECTED);
  const Prompt prompt(1);
  std::uint32_t decline = 0;
  const hicache_miss miss = prompt.miss(1, {0, 0});
  CHECK(hicache_group_offer(at.group, &miss, &decline) == HICACHE_OK);
  CHECK(decline == HICACHE_DECLINE_APART);
}

TEST_CASE("without a daemon a request is held for one tick, and computed") {
  LonelyGroup at;
  at.meet();
  const Prompt prompt(1);
  std::uint32_t decline = 9;
  hicache_miss miss = prompt.miss(7, {0, 0});
  REQUIRE(hicache_group_offer(at.group, &miss, &decline) == HICACHE_OK);
  CHECK(decline == HICACHE_DECLINE_NONE);
  REQUIRE(hicache_group_offer(at.group, &miss, &decline) == HICACHE_OK);
  CHECK(decline == HICACHE_DECLINE_DUPLICATE);

  const hicache_decisions out = at.tick();

  CHECK(out.reduced == 1);
  REQUIRE(out.recompute_count == 1);
  CHECK(out.recomputes[0].request == 7);
  CHECK(out.recomputes[0].reason == HICACHE_RECOMPUTE_TOO_SHORT);
  CHECK(at.tick().reduced == 0);
}

TEST_CASE("a request that is withdrawn is not spoken of, one that is open at a clear is computed") {
  LonelyGroup at;
  at.meet();
  const Prompt one(1);
  const Prompt other(2);
  std::uint32_t decline = 0;
  hicache_miss miss = one.miss(1, {0, 0});
  REQUIRE(hicache_group_offer(at.group, &miss, &decline) == HICACHE_OK);
  miss = other.miss(2, {0, 0});
  REQUIRE(hicache_group_offer(at.group, &miss, &decline) == HICACHE_OK);

  REQUIRE(hicache_group_withdraw(at.group, 1) == HICACHE_OK);
  REQUIRE(hicache_group_clear(at.group) == HICACHE_OK);

  const hicache_decisions out = at.tick();
  REQUIRE(out.recompute_count == 1);
  CHECK(out.recomputes[0].request == 2);
  CHECK(out.recomputes[0].reason == HICACHE_RECOMPUTE_DIVERGED);
}

TEST_CASE("cleared twice, a request is still told of; withdrawn after a clear, it is not") {
  LonelyGroup at;
  at.meet();
  const Prompt one(1);
  const Prompt other(2);
  std::uint32_t decline = 0;
  hicache_miss miss = one.miss(1, {0, 0});
  REQUIRE(hicache_group_offer(at.group, &miss, &decline) == HICACHE_OK);
  miss = other.miss(2, {0, 0});
  REQUIRE(hicache_group_offer(at.group, &miss, &decline) == HICACHE_OK);

  REQUIRE(hicache_group_clear(at.group) == HICACHE_OK);
  REQUIRE(hicache_group_clear(at.group) == HICACHE_OK);
  REQUIRE(hicache_group_withdraw(at.group, 2) == HICACHE_OK);

  const hicache_decisions out = at.tick();
  REQUIRE(out.recompute_count == 1);
  CHECK(out.recomputes[0].request == 1);
}

TEST_CASE("who meets the others anew while a request is held is told what becomes of it") {
  LonelyGroup at;
  at.meet();
  const Prompt prompt(1);
  std::uint32_t decline = 0;
  const hicache_miss miss = prompt.miss(3, {0, 0});
  REQUIRE(hicache_group_offer(at.group, &miss, &decline) == HICACHE_OK);
  int kept = 0;

  REQUIRE(hicache_group_join(at.group, 1000, &kept) == HICACHE_OK);

  const hicache_decisions out = at.tick();
  REQUIRE(out.recompute_count == 1);
  CHECK(out.recomputes[0].request == 3);
}

TEST_CASE("a store that no daemon takes is settled as not durable") {
  LonelyGroup at;
  at.meet();
  const Prompt prompt(1);
  hicache_op op{};
  op.deadline_ms = 1000;
  std::uint64_t store = 7;
  CHECK(hicache_group_store(at.group, &op, prompt.list.data(), prompt.list.size(), 0, &store) ==
        HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "op.region = 0: must be a registered region");
  CHECK(store == 0);
  CHECK(hicache_group_store(at.group, &op, prompt.list.data(), prompt.list.size(), 4, &store) ==
        HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "first_page = 4: must be 0..3");
}

TEST_CASE("the tree: matches, L1, locks, and anchors that have gone") {
  LonelyGroup at;
  at.meet();
  const Prompt prompt(1);
  const std::size_t pages = prompt.list.size();
  hicache_match match{};
  REQUIRE(hicache_group_fill_l1(at.group, prompt.list.data(), pages) == HICACHE_OK);
  REQUIRE(hicache_group_match(at.group, prompt.list.data(), pages, &match) == HICACHE_OK);
  CHECK(match.l1_pages == 4);
  REQUIRE(hicache_group_lock(at.group, match.anchor) == HICACHE_OK);
  std::uint32_t evicted = 0;
  REQUIRE(hicache_group_evict_l1(at.group, 4, &evicted) == HICACHE_OK);
  CHECK(evicted == 0);
  REQUIRE(hicache_group_unlock(at.group, match.anchor) == HICACHE_OK);
  CHECK(hicache_group_unlock(at.group, match.anchor) == HICACHE_BAD_ARGUMENT);
  std::size_t count = 9;
  REQUIRE(hicache_group_places(at.group, match.anchor, nullptr, 0, &count) == HICACHE_OK);
  CHECK(count == 0);
  REQUIRE(hicache_group_evict_l1(at.group, 4, &evicted) == HICACHE_OK);
  CHECK(evicted == 4);

  CHECK(hicache_group_lock(at.group, match.anchor) == HICACHE_NOT_FOUND);
  CHECK(hicache_group_unlock(at.group, match.anchor) == HICACHE_OK);  // its locks went along
  CHECK(hicache_group_places(at.group, match.anchor, nullptr, 0, &count) == HICACHE_NOT_FOUND);
}

TEST_CASE("what is not given, or of the wrong size, is refused by name") {
  LonelyGroup at;
  at.meet();
  const Prompt prompt(1);
  const auto line = [](hicache_code code) {
    return code == HICACHE_BAD_ARGUMENT ? std::string(hicache_last_error()) : "not refused";
  };
  hicache_miss miss = prompt.miss(1, {0, 0});
  std::uint32_t decline = 0;
  CHECK(line(hicache_group_tick(nullptr, nullptr)) == "group = NULL: must be given");
  CHECK(line(hicache_group_tick(at.group, nullptr)) == "out = NULL: must be given");
  CHECK(line(hicache_group_offer(at.group, nullptr, &decline)) == "miss = NULL: must be given");
  miss.first_page = 5;
  CHECK(line(hicache_group_offer(at.group, &miss, &decline)) ==
        "miss.first_page = 5: must be 0..4");
  miss.first_page = 0;
  miss.token_count = 3;
  CHECK(line(hicache_group_offer(at.group, &miss, &decline)) ==
        "miss.token_count = 3: must be 0 or 4, one page");
  miss.token_count = kTokens;
  miss.tokens = nullptr;
  CHECK(line(hicache_group_offer(at.group, &miss, &decline)) ==
        "miss.tokens = NULL: must be given");
  hicache_group_stats stats{};
  CHECK(line(hicache_group_get_stats(at.group, &stats)) ==
        "out.struct_bytes = 0: must be " + std::to_string(sizeof stats));
  int kept = 0;
  CHECK(line(hicache_group_join(at.group, 0, &kept)) == "timeout_ms = 0: must be 1..600000");
  CHECK(line(hicache_group_set_nccl_id(at.group, nullptr)) == "nccl_id = NULL: must be given");
  CHECK(line(hicache_group_match(at.group, nullptr, 1, nullptr)) == "out = NULL: must be given");
  CHECK(hicache_group_end_lease(at.group, 1) == HICACHE_NOT_FOUND);
  CHECK(hicache_group_take(at.group, nullptr) == 0);
  CHECK(hicache_group_close(nullptr) == HICACHE_OK);
}

TEST_CASE("the C++ wrapper: an empty group refuses, a moved one goes on") {
  LonelyGroup at;
  hicache::Group empty;
  CHECK(empty.tick().code == HICACHE_BAD_ARGUMENT);
  CHECK_FALSE(empty);
  hicache_group* handle = nullptr;
  REQUIRE(hicache_group_open(at.client, &at.group_options, &handle) == HICACHE_OK);
  hicache::Group first(handle);
  hicache::Group second(std::move(first));
  CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): what it has become is the point
  const auto joined = second.join(1000);
  CHECK(joined.code == HICACHE_OK);
  CHECK(joined.value);
  const Prompt prompt(1);
  CHECK(second.fill_l1(prompt.list) == HICACHE_OK);
  const auto match = second.match(prompt.list);
  CHECK(match.value.l1_pages == 4);
  CHECK(second.lock(match.value.anchor) == HICACHE_OK);
  CHECK(second.unlock(match.value.anchor) == HICACHE_OK);
  CHECK(second.offer(prompt.miss(1, {0, 0})).value == HICACHE_DECLINE_ANCHOR);
  CHECK(second.tick().code == HICACHE_OK);
  CHECK(second.stats().value.ticks == 1);
  CHECK(second.close() == HICACHE_OK);
}

}  // namespace
}  // namespace hc
