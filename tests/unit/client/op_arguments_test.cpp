// SPDX-License-Identifier: Apache-2.0
// op_arguments_test: every field of an operation and of a page, wrong once, through the C calls.
#include "client/op_arguments.h"

#include <functional>
#include <string>
#include <vector>

#include "client/hicache.h"
#include "support/catch.h"
#include "unit/client/refusals.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::Rig;
using test::SamplePages;

std::uint64_t op_id_of_test = 0;

using PagesCall = hicache_code (*)(hicache_client*, const hicache_op*, const hicache_page*,
                                   std::size_t, std::uint64_t*);

// A store, load, ... with one thing spoilt.
std::function<hicache_code(hicache_client*)> spoilt(
    PagesCall call, std::function<void(hicache_op&, SamplePages&)> spoil, std::size_t count = 2) {
  return [call, spoil, count](hicache_client* client) {
    hicache_op op = test::sample_op();
    SamplePages pages(count);
    spoil(op, pages);
    return call(client, &op, pages.pages.data(), pages.pages.size(), &op_id_of_test);
  };
}

TEST_CASE("every operation refuses each field of hicache_op out of range") {
  Rig rig;
  const auto op = [](auto spoil) {
    return spoilt(hicache_store, [spoil](hicache_op& o, SamplePages&) { spoil(o); });
  };
  test::check_refusals(
      rig.client,
      {
          {"op NULL",
           [](hicache_client* c) {
             const SamplePages pages(1);
             return hicache_store(c, nullptr, pages.pages.data(), 1, &op_id_of_test);
           },
           {"op = NULL"}},
          {"op_id NULL",
           [](hicache_client* c) {
             const SamplePages pages(1);
             const hicache_op o = test::sample_op();
             return hicache_store(c, &o, pages.pages.data(), 1, nullptr);
           },
           {"op_id = NULL"}},
          {"no deadline",
           op([](hicache_op& o) { o.deadline_ms = 0; }),
           {"op.deadline_ms", "0", "1..600000"}},
          {"long deadline",
           op([](hicache_op& o) { o.deadline_ms = 600001; }),
           {"op.deadline_ms", "600001", "1..600000"}},
          {"store flags",
           op([](hicache_op& o) { o.flags = HICACHE_LOAD_MAX_PREFIX; }),
           {"op.flags", "8", "a store", "19"}},
          {"flags above a byte", op([](hicache_op& o) { o.flags = 0x100; }), {"op.flags", "256"}},
          {"ack", op([](hicache_op& o) { o.ack = HICACHE_ACK_LATE; }), {"op.ack", "4", "0..3"}},
          {"hint", op([](hicache_op& o) { o.hint = 4; }), {"op.hint", "4", "0..3"}},
          {"kind mask", op([](hicache_op& o) { o.kind_mask = 4; }), {"op.kind_mask", "4", "0..3"}},
          {"region number", op([](hicache_op& o) { o.region = 16; }), {"op.region", "16", "0..15"}},
          {"region unknown",
           op([](hicache_op& o) { o.region = 4; }),
           {"op.region", "4", "registered region"}},
      });
  CHECK(op_id_of_test == 0);
  CHECK_FALSE(rig.daemon->has_request());
}

TEST_CASE("every verb refuses the fields that it does not take") {
  Rig rig;
  test::check_refusals(
      rig.client,
      {
          {"load flags",
           spoilt(hicache_load,
                  [](hicache_op& o, SamplePages&) { o.flags = HICACHE_STORE_EVERY_ACK; }),
           {"op.flags", "2", "a load"}},
          {"load region",
           spoilt(hicache_load, [](hicache_op& o, SamplePages&) { o.region = 1; }),
           {"op.region", "1", "registered region"}},
          {"reload flags",
           spoilt(hicache_reload, [](hicache_op& o, SamplePages&) { o.flags = 1; }),
           {"op.flags", "1", "a reload"}},
          {"pin flags",
           spoilt(hicache_pin, [](hicache_op& o, SamplePages&) { o.flags = 1; }),
           {"op.flags", "1", "a pin"}},
          {"free flags",
           spoilt(hicache_free_object, [](hicache_op& o, SamplePages&) { o.flags = 1; }),
           {"op.flags", "1", "a free_object"}},
          {"flush deadline",
           [](hicache_client* c) {
             hicache_op o = test::sample_op();
             o.deadline_ms = 0;
             return hicache_flush(c, &o, &op_id_of_test);
           },
           {"op.deadline_ms", "0", "1..600000"}},
          {"release deadline",
           [](hicache_client* c) {
             hicache_op o = test::sample_op();
             o.deadline_ms = 0;
             return hicache_release(c, &o, 1, &op_id_of_test);
           },
           {"op.deadline_ms", "0", "1..600000"}},
          {"release of nothing",
           [](hicache_client* c) {
             const hicache_op o = test::sample_op();
             return hicache_release(c, &o, 99, &op_id_of_test);
           },
           {"lease", "99", "held"}},
          {"cancel of nothing",
           [](hicache_client* c) {
             const hicache_op o = test::sample_op();
             return hicache_cancel(c, &o, 0, &op_id_of_test);
           },
           {"target_op_id", "0", "id of an operation"}},
          {"cancel flags",
           [](hicache_client* c) {
             hicache_op o = test::sample_op();
             o.flags = 1;
             return hicache_cancel(c, &o, 1, &op_id_of_test);
           },
           {"op.flags", "1", "a cancel"}},
      });
  CHECK(op_id_of_test == 0);
  CHECK_FALSE(rig.daemon->has_request());
}

TEST_CASE("every operation refuses each field of hicache_page out of range") {
  Rig rig;
  const auto page = [](auto spoil) {
    return spoilt(hicache_store, [spoil](hicache_op&, SamplePages& p) { spoil(p.pages[1]); });
  };
  static const std::uint8_t kMetadata[4025] = {};
  test::check_refusals(
      rig.client,
      {
          {"no pages",
           spoilt(hicache_store, [](hicache_op&, SamplePages& p) { p.pages.clear(); }),
           {"page_count", "0", "1..512"}},
          {"513 pages",
           spoilt(
               hicache_reload, [](hicache_op&, SamplePages&) {}, 513),
           {"page_count", "513", "1..512"}},
          {"pages NULL",
           [](hicache_client* c) {
             const hicache_op o = test::sample_op();
             return hicache_pin(c, &o, nullptr, 1, &op_id_of_test);
           },
           {"pages = NULL"}},
          {"key", page([](hicache_page& p) { p.key = nullptr; }), {"pages[1].key", "NULL"}},
          {"short key",
           page([](hicache_page& p) { p.key_bytes = 15; }),
           {"pages[1].key_bytes", "15", "16..36"}},
          {"long key",
           page([](hicache_page& p) { p.key_bytes = 37; }),
           {"pages[1].key_bytes", "37", "16..36"}},
          {"owner", page([](hicache_page& p) { p.owner = 2; }), {"pages[1].owner", "2", "0..1"}},
          {"row",
           page([](hicache_page& p) { p.row = test::kRows; }),
           {"pages[1].row", "16", "0..15"}},
          {"load row",
           spoilt(hicache_load, [](hicache_op&, SamplePages& p) { p.pages[0].row = 99; }),
           {"pages[0].row", "99", "0..15"}},
          {"metadata size",
           page([](hicache_page& p) {
             p.metadata = kMetadata;
             p.metadata_bytes = 4025;
           }),
           {"pages[1].metadata_bytes", "4025", "0..4024"}},
          {"metadata NULL",
           page([](hicache_page& p) { p.metadata_bytes = 1; }),
           {"pages[1].metadata", "NULL"}},
          {"metadata of all",
           spoilt(
               hicache_store,
               [](hicache_op&, SamplePages& p) {
                 for (hicache_page& one : p.pages) {
                   one.row = 0;
                   one.metadata = kMetadata;
                   one.metadata_bytes = 4024;
                 }
               },
               50),
           {"metadata_bytes of all pages", "201200", "0..196608"}},
      });
  CHECK_FALSE(rig.daemon->has_request());
}

TEST_CASE("more payload than one operation may name is refused by its size") {
  SpaceDescriptor space;
  space.model = "m";
  space.page_tokens = 1;
  space.kinds.push_back({"kv", 64U << 20, Placement::sharded, HitPolicy::all_pages, 0});
  const SamplePages pages(65, 0);

  const auto judged = check_pages({space, 0, Verb::reload, 0, nullptr}, pages.pages.data(), 65);

  REQUIRE_FALSE(judged.has_value());
  CHECK(judged.error().text == "payload bytes of all pages = 4362076160: must be 0..4294967296");
  CHECK(check_pages({space, 0, Verb::reload, 0, nullptr}, pages.pages.data(), 64).has_value());
}

}  // namespace
}  // namespace hc
