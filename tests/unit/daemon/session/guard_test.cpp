// SPDX-License-Identifier: Apache-2.0
// guard_test: every field of a request that a client can get wrong, one at a time.
#include "daemon/session/guard.h"

#include <cstring>
#include <functional>
#include <optional>

#include "proto/ring_layout.h"
#include "shm/memory_file.h"
#include "support/catch.h"

namespace {

using namespace hc;

SpaceDescriptor two_kinds() {
  SpaceDescriptor space;
  space.model = "m";
  space.page_tokens = 64;
  space.world.tensor = 2;
  space.kinds = {{"kv", 8192, Placement::sharded, HitPolicy::all_pages, 0},
                 {"indexer", 100, Placement::owned, HitPolicy::all_pages, 0}};
  return space;
}

// A client file, a session with region 3 of ten rows, and a sound store of two pages in slot 5.
struct Bench {
  Bench() {
    auto file = MemoryFile::create("guard-test", kClientFileBytes);
    RegionOptions options;
    options.size_bytes = kClientFileBytes;
    options.read_only = false;
    map.emplace(std::move(*Region::map(file->fd(), options)));
    session.open = true;
    session.op_of_slot.fill(kNone32);
    session.regions[3].present = true;
    session.regions[3].rows = 10;
    session.regions[3].layouts[0].present = true;
    session.regions[3].layouts[1].present = true;
    entry.verb = static_cast<std::uint8_t>(Verb::store);
    entry.ack = static_cast<std::uint8_t>(Ack::resident);
    entry.op_slot = 5;
    entry.deadline_ms = 1000;
    entry.page_count = 2;
    entry.region = 3;
    page(0).row = 9;
    page(1).owner = 1;
  }

  PageEntry& page(std::uint32_t index) {
    return *map->writable_at<PageEntry>(op_pages_offset(5) + index * sizeof(PageEntry));
  }
  Judged judge() { return judge_request(entry, *map, session, space); }

  std::optional<Region> map;
  EngineSession session;
  SpaceDescriptor space = two_kinds();
  RequestEntry entry{};
};

TEST_CASE("guard: a sound store is accepted with its pages copied") {
  Bench bench;
  bench.page(0).hash.bytes[0] = 7;

  const Judged judged = bench.judge();

  REQUIRE(judged.code == Code::ok);
  REQUIRE(judged.request.pages.size() == 2);
  CHECK(judged.request.pages[0].hash.bytes[0] == 7);
  CHECK(judged.request.pages[1].owner == 1);
  CHECK(judged.request.metadata.empty());
}

TEST_CASE("guard: what was judged does not change when the client writes again") {
  Bench bench;

  const Judged judged = bench.judge();
  bench.page(0).row = 1'000'000;

  CHECK(judged.request.pages[0].row == 9);
}

TEST_CASE("guard: a broken protocol ends the session") {
  struct Case {
    const char* what;
    std::function<void(Bench&)> change;
  };
  const Case cases[] = {
      {"verb none", [](Bench& b) { b.entry.verb = 0; }},
      {"verb unknown", [](Bench& b) { b.entry.verb = kVerbs; }},
      {"op slot outside", [](Bench& b) { b.entry.op_slot = kOpSlotsPerSession; }},
      {"op slot in use", [](Bench& b) { b.session.op_of_slot[5] = 0; }},
      {"reserved set", [](Bench& b) { b.entry.reserved = 1; }},
      {"reserved2 set", [](Bench& b) { b.entry.reserved2 = 1; }},
  };
  for (const Case& entry : cases) {
    Bench bench;
    entry.change(bench);
    INFO(entry.what);
    CHECK(bench.judge().code == Code::protocol);
  }
}

TEST_CASE("guard: a field out of range is bad_argument for the operation alone") {
  struct Case {
    const char* what;
    std::function<void(Bench&)> change;
  };
  const Case cases[] = {
      {"deadline 0", [](Bench& b) { b.entry.deadline_ms = 0; }},
      {"deadline too long", [](Bench& b) { b.entry.deadline_ms = kDeadlineMsMax + 1; }},
      {"unknown flag", [](Bench& b) { b.entry.flags = 128; }},
      {"flag of another verb", [](Bench& b) { b.entry.flags = kFlagMaxPrefix; }},
      {"kind mask outside", [](Bench& b) { b.entry.kind_mask = 4; }},
      {"ack none", [](Bench& b) { b.entry.ack = 0; }},
      {"ack late", [](Bench& b) { b.entry.ack = static_cast<std::uint8_t>(Ack::late); }},
      {"no pages", [](Bench& b) { b.entry.page_count = 0; }},
      {"too many pages", [](Bench& b) { b.entry.page_count = kPagesPerOpMax + 1; }},
      {"too many bytes",
       [](Bench& b) {
         b.space.kinds[0].payload_bytes = kPayloadBytesMax;
         b.entry.page_count = 65;
       }},
      {"region outside", [](Bench& b) { b.entry.region = kRegionsPerSession; }},
      {"region not registered", [](Bench& b) { b.entry.region = 4; }},
      {"kind without layout",
       [](Bench& b) { b.session.regions[3].layouts[1].present = false; }},
      {"row outside", [](Bench& b) { b.page(1).row = 10; }},
      {"owner outside", [](Bench& b) { b.page(0).owner = 2; }},
      {"page spare bytes", [](Bench& b) { b.page(0).reserved = 1; }},
      {"metadata too long", [](Bench& b) { b.page(0).metadata_bytes = kMetadataBytesMax + 1; }},
      {"metadata outside",
       [](Bench& b) {
         b.page(0).metadata_bytes = 16;
         b.page(0).metadata_offset = kMetadataAreaBytes - 15;
       }},
      {"pages on flush",
       [](Bench& b) {
         b.entry.verb = static_cast<std::uint8_t>(Verb::flush);
         b.entry.ack = 0;
       }},
      {"metadata on a load",
       [](Bench& b) {
         b.entry.verb = static_cast<std::uint8_t>(Verb::load);
         b.page(0).metadata_bytes = 16;
       }},
  };
  for (const Case& entry : cases) {
    Bench bench;
    entry.change(bench);
    INFO(entry.what);
    CHECK(bench.judge().code == Code::bad_argument);
  }
}

TEST_CASE("guard: base and stride give each page its owner") {
  Bench bench;
  bench.entry.page_count = 4;
  bench.entry.owner_base = 1;
  bench.entry.owner_stride = 2;

  const Judged judged = bench.judge();

  REQUIRE(judged.code == Code::ok);
  CHECK(judged.request.pages[0].owner == 1);
  CHECK(judged.request.pages[1].owner == 1);
  CHECK(judged.request.pages[2].owner == 0);
  CHECK(judged.request.pages[3].owner == 0);
}

TEST_CASE("guard: metadata is copied with the request") {
  Bench bench;
  bench.page(1).metadata_bytes = 4;
  bench.page(1).metadata_offset = 100;
  std::memcpy(bench.map->writable_bytes().data() + op_metadata_offset(5) + 100, "abcd", 4);

  const Judged judged = bench.judge();

  REQUIRE(judged.code == Code::ok);
  REQUIRE(judged.request.metadata.size() == kMetadataAreaBytes);
  CHECK(std::memcmp(judged.request.metadata.data() + 100, "abcd", 4) == 0);
}

}  // namespace
