// SPDX-License-Identifier: Apache-2.0
// c_api_test: every call of hicache.h with one bad argument: the code, and what the line names.
// hicache_open is in open_arguments_test.cpp. Also tests client/op_arguments.cpp and
// client/region_arguments.cpp, whose refusals these are.
#include <fcntl.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "client/hicache.h"
#include "client/op_arguments.h"
#include "client/region_arguments.h"
#include "proto/ring_layout.h"
#include "proto/versions.h"
#include "support/catch.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::Rig;
using test::SamplePages;
using test::SampleRegion;

struct Case {
  const char* name;
  std::function<hicache_code(hicache_client*)> call;
  std::vector<std::string> words;
};

void check_cases(hicache_client* client, const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    CAPTURE(one.name);
    CHECK(one.call(client) == HICACHE_BAD_ARGUMENT);
    const std::string line = hicache_last_error();
    CAPTURE(line);
    for (const std::string& word : one.words) {
      CAPTURE(word);
      CHECK(line.find(word) != std::string::npos);
    }
  }
}

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

TEST_CASE("every call refuses a client that is NULL") {
  const hicache_op op = test::sample_op();
  const SamplePages pages(1);
  hicache_prefix prefix{};
  hicache_completion completion{};
  hicache_view view{};
  hicache_stats stats{};
  hicache_region region{};
  std::size_t count = 0;
  std::uint64_t number = 0;
  int fd = 0;
  const hicache_page* p = pages.pages.data();
  check_cases(nullptr, {
      {"state", [](hicache_client* c) { return hicache_state(c); }, {"client", "NULL"}},
      {"instances", [&](hicache_client* c) { return hicache_instances(c, &number); }, {"client"}},
      {"register", [&](hicache_client* c) { return hicache_register_region(c, &region, 1); },
       {"client"}},
      {"unregister", [](hicache_client* c) { return hicache_unregister_region(c, 0, 1); },
       {"client"}},
      {"exists", [&](hicache_client* c) { return hicache_exists_prefix(c, p, 1, &prefix); },
       {"client"}},
      {"exists all", [&](hicache_client* c) { return hicache_exists_prefix_all(c, p, 1, &prefix); },
       {"client"}},
      {"store", [&](hicache_client* c) { return hicache_store(c, &op, p, 1, &number); },
       {"client"}},
      {"reload", [&](hicache_client* c) { return hicache_reload(c, &op, p, 1, &number); },
       {"client"}},
      {"load", [&](hicache_client* c) { return hicache_load(c, &op, p, 1, &number); }, {"client"}},
      {"pin", [&](hicache_client* c) { return hicache_pin(c, &op, p, 1, &number); }, {"client"}},
      {"release", [&](hicache_client* c) { return hicache_release(c, &op, 1, &number); },
       {"client"}},
      {"free", [&](hicache_client* c) { return hicache_free_object(c, &op, p, 1, &number); },
       {"client"}},
      {"flush", [&](hicache_client* c) { return hicache_flush(c, &op, &number); }, {"client"}},
      {"cancel", [&](hicache_client* c) { return hicache_cancel(c, &op, 1, &number); },
       {"client"}},
      {"poll", [&](hicache_client* c) { return hicache_poll(c, &completion, 1, &count); },
       {"client"}},
      {"wait", [&](hicache_client* c) { return hicache_wait(c, &completion, 1, 0, &count); },
       {"client"}},
      {"event fd", [&](hicache_client* c) { return hicache_event_fd(c, &fd); }, {"client"}},
      {"view", [&](hicache_client* c) { return hicache_lease_view(c, 1, 0, 0, &view); },
       {"client"}},
      {"switch", [](hicache_client* c) { return hicache_space_switch(c, "v", 1); }, {"client"}},
      {"stats", [&](hicache_client* c) { return hicache_get_stats(c, &stats, 1); }, {"client"}},
  });
  CHECK(hicache_view_intact(nullptr, &view) == 0);
  CHECK(hicache_close(nullptr, 0) == HICACHE_OK);
}

TEST_CASE("every operation refuses each field of hicache_op out of range") {
  Rig rig;
  const auto op = [](auto spoil) {
    return spoilt(hicache_store, [spoil](hicache_op& o, SamplePages&) { spoil(o); });
  };
  check_cases(rig.client, {
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
      {"no deadline", op([](hicache_op& o) { o.deadline_ms = 0; }),
       {"op.deadline_ms", "0", "1..600000"}},
      {"long deadline", op([](hicache_op& o) { o.deadline_ms = 600001; }),
       {"op.deadline_ms", "600001", "1..600000"}},
      {"store flags", op([](hicache_op& o) { o.flags = HICACHE_LOAD_MAX_PREFIX; }),
       {"op.flags", "8", "a store", "3"}},
      {"flags above a byte", op([](hicache_op& o) { o.flags = 0x100; }), {"op.flags", "256"}},
      {"ack", op([](hicache_op& o) { o.ack = HICACHE_ACK_LATE; }), {"op.ack", "4", "0..3"}},
      {"hint", op([](hicache_op& o) { o.hint = 4; }), {"op.hint", "4", "0..3"}},
      {"kind mask", op([](hicache_op& o) { o.kind_mask = 4; }), {"op.kind_mask", "4", "0..3"}},
      {"region number", op([](hicache_op& o) { o.region = 16; }), {"op.region", "16", "0..15"}},
      {"region unknown", op([](hicache_op& o) { o.region = 4; }),
       {"op.region", "4", "registered region"}},
      {"load flags",
       spoilt(hicache_load, [](hicache_op& o, SamplePages&) { o.flags = HICACHE_STORE_EVERY_ACK; }),
       {"op.flags", "2", "a load"}},
      {"load region", spoilt(hicache_load, [](hicache_op& o, SamplePages&) { o.region = 1; }),
       {"op.region", "1", "registered region"}},
      {"reload flags", spoilt(hicache_reload, [](hicache_op& o, SamplePages&) { o.flags = 1; }),
       {"op.flags", "1", "a reload"}},
      {"pin flags", spoilt(hicache_pin, [](hicache_op& o, SamplePages&) { o.flags = 1; }),
       {"op.flags", "1", "a pin"}},
      {"free flags", spoilt(hicache_free_object, [](hicache_op& o, SamplePages&) { o.flags = 1; }),
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
    return spoilt(hicache_store,
                  [spoil](hicache_op&, SamplePages& p) { spoil(p.pages[1]); });
  };
  static const std::uint8_t kMetadata[4025] = {};
  check_cases(rig.client, {
      {"no pages", spoilt(hicache_store, [](hicache_op&, SamplePages& p) { p.pages.clear(); }),
       {"page_count", "0", "1..512"}},
      {"513 pages", spoilt(hicache_reload, [](hicache_op&, SamplePages&) {}, 513),
       {"page_count", "513", "1..512"}},
      {"pages NULL",
       [](hicache_client* c) {
         const hicache_op o = test::sample_op();
         return hicache_pin(c, &o, nullptr, 1, &op_id_of_test);
       },
       {"pages = NULL"}},
      {"key", page([](hicache_page& p) { p.key = nullptr; }), {"pages[1].key", "NULL"}},
      {"short key", page([](hicache_page& p) { p.key_bytes = 15; }),
       {"pages[1].key_bytes", "15", "16..36"}},
      {"long key", page([](hicache_page& p) { p.key_bytes = 37; }),
       {"pages[1].key_bytes", "37", "16..36"}},
      {"owner", page([](hicache_page& p) { p.owner = 2; }), {"pages[1].owner", "2", "0..1"}},
      {"row", page([](hicache_page& p) { p.row = test::kRows; }), {"pages[1].row", "16", "0..15"}},
      {"load row",
       spoilt(hicache_load, [](hicache_op&, SamplePages& p) { p.pages[0].row = 99; }),
       {"pages[0].row", "99", "0..15"}},
      {"metadata size",
       page([](hicache_page& p) {
         p.metadata = kMetadata;
         p.metadata_bytes = 4025;
       }),
       {"pages[1].metadata_bytes", "4025", "0..4024"}},
      {"metadata NULL", page([](hicache_page& p) { p.metadata_bytes = 1; }),
       {"pages[1].metadata", "NULL"}},
      {"metadata of all",
       spoilt(hicache_store,
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

TEST_CASE("exists_prefix refuses bad pages and zeroes its answer") {
  Rig rig;
  SamplePages pages(2);
  hicache_prefix prefix{};
  pages.pages[1].key_bytes = 1;
  prefix.usable_pages = 9;

  CHECK(hicache_exists_prefix(rig.client, pages.pages.data(), 2, &prefix) == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "pages[1].key_bytes = 1: must be 16..36");
  CHECK(prefix.usable_pages == 0);
  CHECK(hicache_exists_prefix_all(rig.client, nullptr, 1, &prefix) == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "pages = NULL: must be given");
  CHECK(hicache_exists_prefix(rig.client, pages.pages.data(), 1U << 25, &prefix) ==
        HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "page_count = 33554432: must be 0..16777216");
  CHECK(hicache_exists_prefix(rig.client, pages.pages.data(), 1, nullptr) ==
        HICACHE_BAD_ARGUMENT);
  CHECK(hicache_exists_prefix(rig.client, nullptr, 0, &prefix) == HICACHE_OK);
}

TEST_CASE("register_region refuses each field out of range") {
  Rig rig;
  const UniqueFd read_only(::open(("/proc/self/fd/" + std::to_string(rig.region.memory.get())).c_str(),
                                  O_RDONLY | O_CLOEXEC));
  const auto with = [](std::function<void(SampleRegion&)> spoil) {
    return [spoil](hicache_client* c) {
      SampleRegion sample;
      sample.region.region = 5;
      spoil(sample);
      return hicache_register_region(c, &sample.region, 1000);
    };
  };
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  check_cases(rig.client, {
      {"NULL", [](hicache_client* c) { return hicache_register_region(c, nullptr, 1); },
       {"region = NULL"}},
      {"timeout",
       [&](hicache_client* c) { return hicache_register_region(c, &rig.region.region, 0); },
       {"timeout_ms", "0", "1..600000"}},
      {"number", with([](SampleRegion& s) { s.region.region = 16; }),
       {"region.region", "16", "0..15"}},
      {"in use", with([](SampleRegion& s) { s.region.region = 3; }),
       {"region.region", "3", "not in use"}},
      {"no fd", with([](SampleRegion& s) { s.region.fd = -1; }), {"region.fd", "-1", "memfd"}},
      {"read-only fd", with([&](SampleRegion& s) { s.region.fd = read_only.get(); }),
       {"region.fd", "reading and writing"}},
      {"offset", with([](SampleRegion& s) { s.region.offset_bytes = 100; }),
       {"region.offset_bytes", "100", "multiple of 4096"}},
      {"offset behind", with([](SampleRegion& s) { s.region.offset_bytes = 1ULL << 40; }),
       {"region.offset_bytes", "1099511627776", "0..151552"}},
      {"no size", with([](SampleRegion& s) { s.region.size_bytes = 0; }),
       {"region.size_bytes", "0", "1..147456"}},
      {"size", with([](SampleRegion& s) { s.region.size_bytes += 1; }),
       {"region.size_bytes", "147457", "1..147456"}},
      {"no rows", with([](SampleRegion& s) { s.region.rows = 0; }),
       {"region.rows", "0", "1..4294967295"}},
      {"rows", with([](SampleRegion& s) { s.region.rows = 17; }),
       {"region.layouts[1].runs[0]", "17 rows", "0..147456"}},
      {"layout count", with([](SampleRegion& s) { s.region.layout_count = 3; }),
       {"region.layout_count", "3", "1..2"}},
      {"layouts", with([](SampleRegion& s) { s.region.layouts = nullptr; }),
       {"region.layouts", "NULL"}},
      {"kind", with([](SampleRegion& s) { s.layouts[1].kind = 2; }),
       {"region.layouts[1].kind", "2", "0..1"}},
      {"kind twice",
       with([](SampleRegion& s) { s.layouts[1] = s.layouts[0]; }),
       {"region.layouts[1].kind", "0", "twice"}},
      {"no runs", with([](SampleRegion& s) { s.layouts[0].run_count = 0; }),
       {"region.layouts[0].run_count", "0", "1..512"}},
      {"runs", with([](SampleRegion& s) { s.layouts[0].run_count = 513; }),
       {"region.layouts[0].run_count", "513", "1..512"}},
      {"runs NULL", with([](SampleRegion& s) { s.layouts[0].runs = nullptr; }),
       {"region.layouts[0].runs", "NULL"}},
      {"run length", with([](SampleRegion& s) { s.kv[1].length_bytes = 0; }),
       {"region.layouts[0].runs[1].length_bytes", "0", "1..8192"}},
      {"sum", with([](SampleRegion& s) { s.kv[1].length_bytes -= 1; }),
       {"region.layouts[0]", "sum of length_bytes", "8191", "8192"}},
      {"run offset", with([](SampleRegion& s) { s.kv[0].offset_bytes = kHuge; }),
       {"region.layouts[0].runs[0].offset_bytes", "0..147456"}},
      {"stride overflow", with([](SampleRegion& s) { s.kv[0].stride_bytes = kHuge / 2; }),
       {"region.layouts[0].runs[0]", "stride_bytes", "0..147456"}},
  });
  CHECK(rig.daemon->regions() == std::vector<std::uint32_t>{3});
}

TEST_CASE("a store names only kinds with a layout in its region") {
  Rig rig;
  SampleRegion sample;
  sample.region.region = 5;
  sample.region.layout_count = 1;
  REQUIRE(hicache_register_region(rig.client, &sample.region, test::kCallMs) == HICACHE_OK);
  const SamplePages pages(1);
  hicache_op op = test::sample_op();
  op.region = 5;
  std::uint64_t op_id = 0;

  CHECK(hicache_store(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) ==
        "op.kind_mask = 0 names kind 1 ('draft'): region 5 has layouts for mask 1");
  op.kind_mask = 1;
  CHECK(hicache_store(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
}

TEST_CASE("the other calls refuse their bad arguments") {
  Rig rig;
  hicache_completion completion{};
  hicache_view view{};
  hicache_stats stats{};
  std::size_t count = 0;
  check_cases(rig.client, {
      {"unregister number", [](hicache_client* c) { return hicache_unregister_region(c, 16, 1); },
       {"region", "16", "0..15"}},
      {"unregister unknown", [](hicache_client* c) { return hicache_unregister_region(c, 7, 1); },
       {"region", "7", "registered region"}},
      {"unregister timeout", [](hicache_client* c) { return hicache_unregister_region(c, 3, 0); },
       {"timeout_ms", "0", "1..600000"}},
      {"instances", [](hicache_client* c) { return hicache_instances(c, nullptr); },
       {"out = NULL"}},
      {"poll out", [&](hicache_client* c) { return hicache_poll(c, nullptr, 1, &count); },
       {"out = NULL"}},
      {"poll max", [&](hicache_client* c) { return hicache_poll(c, &completion, 0, &count); },
       {"max", "0", "1..1048576"}},
      {"poll count", [&](hicache_client* c) { return hicache_poll(c, &completion, 1, nullptr); },
       {"count = NULL"}},
      {"wait max", [&](hicache_client* c) { return hicache_wait(c, &completion, 0, 1, &count); },
       {"max", "0"}},
      {"wait time",
       [&](hicache_client* c) { return hicache_wait(c, &completion, 1, 600001, &count); },
       {"timeout_ms", "600001", "0..600000"}},
      {"event fd", [](hicache_client* c) { return hicache_event_fd(c, nullptr); }, {"fd = NULL"}},
      {"view out", [](hicache_client* c) { return hicache_lease_view(c, 1, 0, 0, nullptr); },
       {"out = NULL"}},
      {"view lease", [&](hicache_client* c) { return hicache_lease_view(c, 8, 0, 0, &view); },
       {"lease", "8", "held"}},
      {"switch NULL", [](hicache_client* c) { return hicache_space_switch(c, nullptr, 1); },
       {"weight_version", "NULL", "0..256"}},
      {"switch long",
       [](hicache_client* c) {
         return hicache_space_switch(c, std::string(257, 'x').c_str(), 1);
       },
       {"weight_version", "257", "0..256"}},
      {"switch control", [](hicache_client* c) { return hicache_space_switch(c, "a\tb", 1); },
       {"weight_version", "control character"}},
      {"switch timeout", [](hicache_client* c) { return hicache_space_switch(c, "v", 0); },
       {"timeout_ms", "0", "1..600000"}},
      {"stats NULL", [](hicache_client* c) { return hicache_get_stats(c, nullptr, 1); },
       {"out = NULL"}},
      {"stats size", [&](hicache_client* c) { return hicache_get_stats(c, &stats, 1); },
       {"out.struct_bytes", "0", std::to_string(sizeof stats)}},
  });
  CHECK(hicache_view_intact(rig.client, nullptr) == 0);
  CHECK(std::string(hicache_last_error()) == "view = NULL: must be given");
}

TEST_CASE("hashing refuses bad arguments and writes what the chain says") {
  const std::uint64_t tokens[5] = {1, 2, 3, 4, 5};
  std::uint8_t out[64] = {};
  std::size_t count = 9;
  check_cases(nullptr, {
      {"page tokens",
       [&](hicache_client*) {
         return hicache_hash_pages(nullptr, tokens, 5, 0, 0, out, 2, &count);
       },
       {"page_tokens", "0", "1..65536"}},
      {"bigram",
       [&](hicache_client*) {
         return hicache_hash_pages(nullptr, tokens, 5, 2, 2, out, 2, &count);
       },
       {"bigram", "2", "0..1"}},
      {"room",
       [&](hicache_client*) {
         return hicache_hash_pages(nullptr, tokens, 5, 2, 0, out, 1, &count);
       },
       {"max_pages", "1", "2.."}},
      {"tokens",
       [&](hicache_client*) {
         return hicache_hash_pages(nullptr, nullptr, 5, 2, 0, out, 2, &count);
       },
       {"tokens = NULL"}},
      {"out",
       [&](hicache_client*) {
         return hicache_hash_pages(nullptr, tokens, 5, 2, 0, nullptr, 2, &count);
       },
       {"out = NULL"}},
      {"count",
       [&](hicache_client*) {
         return hicache_hash_pages(nullptr, tokens, 5, 2, 0, out, 2, nullptr);
       },
       {"count = NULL"}},
      {"seed",
       [&](hicache_client*) { return hicache_namespace_seed("a", nullptr, nullptr, nullptr); },
       {"seed = NULL"}},
      {"has_seed",
       [&](hicache_client*) { return hicache_namespace_seed("a", nullptr, out, nullptr); },
       {"has_seed = NULL"}},
  });
  CHECK(count == 0);

  REQUIRE(hicache_hash_pages(nullptr, tokens, 5, 2, 0, out, 2, &count) == HICACHE_OK);
  CHECK(count == 2);
  std::uint8_t second[32] = {};
  REQUIRE(hicache_hash_pages(out, tokens + 2, 2, 2, 0, second, 1, &count) == HICACHE_OK);
  CHECK(std::memcmp(second, out + 32, 32) == 0);
  int has_seed = 9;
  REQUIRE(hicache_namespace_seed(nullptr, nullptr, second, &has_seed) == HICACHE_OK);
  CHECK(has_seed == 0);
  REQUIRE(hicache_namespace_seed(nullptr, "", second, &has_seed) == HICACHE_OK);
  CHECK(has_seed == 1);
}

TEST_CASE("codes have names and the version is that of the product") {
  CHECK(std::string(hicache_code_name(HICACHE_NOT_FOUND)) == "not_found");
  CHECK(std::string(hicache_code_name(99)) == "unknown");
  CHECK(std::string(hicache_version()) == kProductVersion);
}

}  // namespace
}  // namespace hc
