// SPDX-License-Identifier: Apache-2.0
// region_arguments_test: every field of a region, wrong once, through hicache_register_region.
#include "client/region_arguments.h"

#include <fcntl.h>

#include <functional>
#include <limits>
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
using test::SampleRegion;

// Registers region 5 with one thing spoilt.
std::function<hicache_code(hicache_client*)> with(std::function<void(SampleRegion&)> spoil) {
  return [spoil](hicache_client* client) {
    SampleRegion sample;
    sample.region.region = 5;
    spoil(sample);
    return hicache_register_region(client, &sample.region, 1000);
  };
}

TEST_CASE("register_region refuses each field out of range") {
  Rig rig;
  const std::string path = "/proc/self/fd/" + std::to_string(rig.region.memory.get());
  const UniqueFd read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  test::check_refusals(
      rig.client,
      {
          {"NULL",
           [](hicache_client* c) { return hicache_register_region(c, nullptr, 1); },
           {"region = NULL"}},
          {"timeout",
           [&](hicache_client* c) { return hicache_register_region(c, &rig.region.region, 0); },
           {"timeout_ms", "0", "1..600000"}},
          {"number",
           with([](SampleRegion& s) { s.region.region = 16; }),
           {"region.region", "16", "0..15"}},
          {"in use",
           with([](SampleRegion& s) { s.region.region = 3; }),
           {"region.region", "3", "not in use"}},
          {"no fd", with([](SampleRegion& s) { s.region.fd = -1; }), {"region.fd", "-1", "memfd"}},
          {"read-only fd",
           with([&](SampleRegion& s) { s.region.fd = read_only.get(); }),
           {"region.fd", "reading and writing"}},
          {"offset",
           with([](SampleRegion& s) { s.region.offset_bytes = 100; }),
           {"region.offset_bytes", "100", "multiple of 4096"}},
          {"offset behind",
           with([](SampleRegion& s) { s.region.offset_bytes = 1ULL << 40; }),
           {"region.offset_bytes", "1099511627776", "0..151552"}},
          {"no size",
           with([](SampleRegion& s) { s.region.size_bytes = 0; }),
           {"region.size_bytes", "0", "1..147456"}},
          {"size",
           with([](SampleRegion& s) { s.region.size_bytes += 1; }),
           {"region.size_bytes", "147457", "1..147456"}},
          {"no rows",
           with([](SampleRegion& s) { s.region.rows = 0; }),
           {"region.rows", "0", "1..4294967295"}},
          {"rows",
           with([](SampleRegion& s) { s.region.rows = 17; }),
           {"region.layouts[1].runs[0]", "17 rows", "0..147456"}},
      });
  CHECK(rig.daemon->regions() == std::vector<std::uint32_t>{3});
}

TEST_CASE("register_region refuses each field of a layout and of its runs out of range") {
  Rig rig;
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  test::check_refusals(rig.client,
                       {
                           {"layout count",
                            with([](SampleRegion& s) { s.region.layout_count = 3; }),
                            {"region.layout_count", "3", "1..2"}},
                           {"layouts",
                            with([](SampleRegion& s) { s.region.layouts = nullptr; }),
                            {"region.layouts", "NULL"}},
                           {"kind",
                            with([](SampleRegion& s) { s.layouts[1].kind = 2; }),
                            {"region.layouts[1].kind", "2", "0..1"}},
                           {"kind twice",
                            with([](SampleRegion& s) { s.layouts[1] = s.layouts[0]; }),
                            {"region.layouts[1].kind", "0", "twice"}},
                           {"no runs",
                            with([](SampleRegion& s) { s.layouts[0].run_count = 0; }),
                            {"region.layouts[0].run_count", "0", "1..512"}},
                           {"runs",
                            with([](SampleRegion& s) { s.layouts[0].run_count = 513; }),
                            {"region.layouts[0].run_count", "513", "1..512"}},
                           {"runs NULL",
                            with([](SampleRegion& s) { s.layouts[0].runs = nullptr; }),
                            {"region.layouts[0].runs", "NULL"}},
                           {"run length",
                            with([](SampleRegion& s) { s.kv[1].length_bytes = 0; }),
                            {"region.layouts[0].runs[1].length_bytes", "0", "1..8192"}},
                           {"sum",
                            with([](SampleRegion& s) { s.kv[1].length_bytes -= 1; }),
                            {"region.layouts[0]", "sum of length_bytes", "8191", "8192"}},
                           {"run offset",
                            with([](SampleRegion& s) { s.kv[0].offset_bytes = kHuge; }),
                            {"region.layouts[0].runs[0].offset_bytes", "0..147456"}},
                           {"stride overflow",
                            with([](SampleRegion& s) { s.kv[0].stride_bytes = kHuge / 2; }),
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

}  // namespace
}  // namespace hc
