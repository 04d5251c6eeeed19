// SPDX-License-Identifier: Apache-2.0
// hostile_test: what a client can write into its own memory file ends its session at worst.
#include <sys/eventfd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "e2e/process.h"
#include "e2e/raw_client.h"
#include "e2e/scene.h"
#include "shm/shared_word.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint64_t kHostilePayloadBytes = 24'000;  // as RankOptions says

void fill_pages(RawClient& client, std::uint16_t slot, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    PageEntry page{};
    const auto key = page_key(i);
    std::memcpy(&page.hash, key.data(), key.size());
    page.row = i;
    client.page_at(slot, i) = page;
  }
}

struct BrokenRing {
  std::string name;
  std::function<void(RawClient&)> act;
  std::string reason;  // part of what the daemon says
};

void push_spoiled(RawClient& client, const std::function<void(RequestEntry&)>& spoil) {
  RequestEntry entry = good_entry(Verb::flush, 0);
  spoil(entry);
  client.push(entry);
}

const std::vector<BrokenRing>& broken_rings() {
  static const std::string entry_reason = "operation slot";
  static const std::vector<BrokenRing> table{
      {"a request tail far ahead", [](RawClient& c) { c.publish_tail(0x7FFF1234); },
       "request tail is impossible"},
      {"a request tail one past the ring", [](RawClient& c) { c.publish_tail(kRingEntries + 1); },
       "request tail is impossible"},
      {"a request tail that went back", [](RawClient& c) { c.publish_tail(0xFFFFFFFF); },
       "request tail is impossible"},
      {"an unknown verb",
       [](RawClient& c) { push_spoiled(c, [](RequestEntry& e) { e.verb = kVerbs; }); },
       entry_reason},
      {"no verb",
       [](RawClient& c) { push_spoiled(c, [](RequestEntry& e) { e.verb = 0; }); }, entry_reason},
      {"an operation slot that does not exist",
       [](RawClient& c) { push_spoiled(c, [](RequestEntry& e) { e.op_slot = 64; }); },
       entry_reason},
      {"spare bytes that are set",
       [](RawClient& c) { push_spoiled(c, [](RequestEntry& e) { e.reserved = 1; }); },
       entry_reason},
      {"more spare bytes that are set",
       [](RawClient& c) { push_spoiled(c, [](RequestEntry& e) { e.reserved2 = 1ULL << 63; }); },
       entry_reason},
      {"an operation slot that is busy",
       [](RawClient& c) {
         // Both are published at once, so that the store can't have ended.
         const UniqueFd memory = plain_memory_file(2 * kHostilePayloadBytes);
         REQUIRE(c.register_region(0, memory.get(), 2 * kHostilePayloadBytes, 2));
         fill_pages(c, 5, 2);
         c.request_at(0) = good_entry(Verb::store, 5, 2);
         c.request_at(1) = good_entry(Verb::flush, 5);
         c.publish_tail(2);
       },
       entry_reason},
      {"a ring full of noise",
       [](RawClient& c) {
         for (std::uint32_t i = 0; i < kRingEntries; ++i) {
           std::memset(&c.request_at(i), static_cast<int>(0xA0 + i % 64), sizeof(RequestEntry));
         }
         c.publish_tail(kRingEntries);
       },
       entry_reason},
  };
  return table;
}

TEST_CASE("A client that breaks its ring loses its session, with a reason") {
  Scene scene;
  for (const BrokenRing& broken : broken_rings()) {
    INFO(broken.name);
    RawClient client(scene.hostile());
    REQUIRE(client.attach());

    broken.act(client);

    CHECK(missing(client.await_end(), {broken.reason}) == "");
    CHECK(client.end_code() == Code::protocol);
  }
  scene.expect_unaffected();
}

TEST_CASE("A completion head that was never possible ends the session at its first look") {
  Scene scene;
  RawClient client(scene.hostile());
  store_release(client.header().completion_head, 77U);
  REQUIRE(client.attach());

  CHECK(missing(client.await_end(), {"completion head is impossible"}) == "");
  CHECK(client.end_code() == Code::protocol);
  scene.expect_unaffected();
}

struct BadField {
  std::string name;
  Verb verb;
  std::uint32_t pages;
  std::function<void(RequestEntry&, PageEntry&)> spoil;
};

const std::vector<BadField>& bad_fields() {
  using E = RequestEntry;
  using P = PageEntry;
  static const std::vector<BadField> table{
      {"deadline 0", Verb::store, 2, [](E& e, P&) { e.deadline_ms = 0; }},
      {"deadline too long", Verb::store, 2, [](E& e, P&) { e.deadline_ms = 600'001; }},
      {"no page", Verb::store, 2, [](E& e, P&) { e.page_count = 0; }},
      {"too many pages", Verb::store, 2, [](E& e, P&) { e.page_count = 513; }},
      {"absurdly many pages", Verb::load, 2, [](E& e, P&) { e.page_count = 0xFFFFFFFF; }},
      {"a region that is not registered", Verb::store, 2, [](E& e, P&) { e.region = 3; }},
      {"a region out of range", Verb::load, 2, [](E& e, P&) { e.region = 0xFFFFFFFF; }},
      {"an unknown kind", Verb::store, 2, [](E& e, P&) { e.kind_mask = 2; }},
      {"an unknown flag", Verb::store, 2, [](E& e, P&) { e.flags = 0x80; }},
      {"a flag of another verb", Verb::pin, 2, [](E& e, P&) { e.flags = 1; }},
      {"an unknown acknowledgement", Verb::store, 2, [](E& e, P&) { e.ack = 5; }},
      {"pages of a flush", Verb::flush, 1, [](E&, P&) {}},
      {"a row beyond the region", Verb::store, 2, [](E&, P& p) { p.row = 8; }},
      {"a row far beyond", Verb::load, 2, [](E&, P& p) { p.row = 0xFFFFFFFF; }},
      {"an owner out of range", Verb::pin, 2, [](E&, P& p) { p.owner = 1; }},
      {"spare bytes of a page", Verb::pin, 2, [](E&, P& p) { p.reserved = 1; }},
      {"metadata too long", Verb::store, 2, [](E&, P& p) { p.metadata_bytes = 4096; }},
      {"metadata outside", Verb::store, 2,
       [](E&, P& p) {
         p.metadata_bytes = 8;
         p.metadata_offset = kMetadataAreaBytes - 4;
       }},
  };
  return table;
}

TEST_CASE("A field out of range ends the operation with bad_argument, not the session") {
  Scene scene;
  RawClient client(scene.hostile());
  REQUIRE(client.attach());
  const std::uint64_t bytes = 8 * kHostilePayloadBytes;
  const UniqueFd memory = plain_memory_file(bytes);
  REQUIRE(client.register_region(0, memory.get(), bytes, 8));
  std::uint32_t sequence = 0;
  for (const BadField& bad : bad_fields()) {
    INFO(bad.name);
    fill_pages(client, 1, 2);
    RequestEntry entry = good_entry(bad.verb, 1, bad.pages);
    entry.op_sequence = ++sequence;
    bad.spoil(entry, client.page_at(1, 1));

    client.push(entry);

    const auto completion = client.next_completion();
    REQUIRE(completion.has_value());
    CHECK(completion->code == static_cast<std::int32_t>(Code::bad_argument));
    CHECK(completion->terminal == 1);
    CHECK(completion->op_sequence == sequence);
  }
  fill_pages(client, 1, 2);
  client.push(good_entry(Verb::store, 1, 2));
  const auto completion = client.next_completion();
  REQUIRE(completion.has_value());
  CHECK(completion->code == 0);
  scene.expect_unaffected();
}

TEST_CASE("A client that never takes its completions stops only itself") {
  Scene scene;
  RawClient client(scene.hostile());
  REQUIRE(client.attach());
  std::uint32_t pushed = 0;
  const auto taken = [&client] { return load_acquire(client.server().request_head); };
  // Every request is answered at once and leaves one completion, until no place is left.
  while (pushed < 2 * kCompletionEntries) {
    if (pushed - taken() == kRingEntries) {
      const std::uint32_t before = taken();
      if (!eventually([&] { return taken() != before; }, 300)) {
        break;
      }
    }
    client.push(good_entry(Verb::flush, static_cast<std::uint16_t>(pushed % 64)));
    ++pushed;
    // An operation slot is free again when its completion is there.
    const std::uint32_t wanted = pushed < 64 ? 0 : pushed - 63;
    if (!eventually([&] { return client.completions_reach(wanted); }, 300)) {
      break;
    }
  }

  CHECK(taken() <= kCompletionEntries);
  CHECK(taken() > kCompletionEntries / 2);
  scene.expect_unaffected();

  for (std::uint32_t i = 0; i < pushed; ++i) {  // and it may go on whenever it likes
    REQUIRE(client.next_completion().has_value());
    if (i % 64 == 0) {
      client.ring();
    }
  }
  CHECK(client.end_code() == Code::ok);
}

TEST_CASE("A doorbell that is rung without end is no more than noise") {
  Scene scene;
  RawClient client(scene.hostile());
  REQUIRE(client.attach());

  CHECK(::eventfd_write(client.doorbell(), 0xFFFFFFFFFFFFFFFEULL) == 0);  // full
  for (int i = 0; i < 50'000; ++i) {
    client.ring();
  }

  scene.expect_unaffected();
  client.push(good_entry(Verb::flush, 0));
  CHECK(client.next_completion().has_value());
}

}  // namespace
}  // namespace hc::test
