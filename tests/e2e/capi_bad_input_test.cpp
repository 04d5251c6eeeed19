// SPDX-License-Identifier: Apache-2.0
// capi_bad_input_test: what each call of the C interface answers to bad input, against a daemon.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "e2e/raw_client.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kInputPayloadBytes = 8192;
constexpr std::uint32_t kRows = 16;
constexpr std::uint32_t kTimeoutMs = 20'000;

RankOptions rank_options(const DaemonProcess& daemon) {
  RankOptions options;
  options.socket = daemon.client_socket();
  options.payload_bytes = kInputPayloadBytes;
  options.rows = kRows;
  return options;
}

// One good call of everything, to be spoiled one field at a time.
struct Input {
  std::array<std::uint8_t, 32> key = page_key(1);
  hicache_page page{};
  hicache_op op{};
  std::uint64_t op_id = 0;
  Input() {
    page.key = key.data();
    page.key_bytes = 32;
    op.deadline_ms = kTimeoutMs;
  }
};

struct BadCall {
  std::string name;
  std::function<hicache_code(hicache_client*, Input&)> call;
  hicache_code code;
  std::vector<std::string> parts;  // of hicache_last_error
};

void expect_refused(hicache_client* client, const std::vector<BadCall>& calls) {
  for (const BadCall& bad : calls) {
    Input input;

    const hicache_code code = bad.call(client, input);

    const std::string line = hicache_last_error();
    INFO(bad.name << ": " << hicache_code_name(code) << ": " << line);
    CHECK(code == bad.code);
    CHECK(missing(line, bad.parts) == "");
    CHECK(line.find('\n') == std::string::npos);
    CHECK(hicache_state(client) == HICACHE_OK);
  }
}

hicache_code store(hicache_client* client, Input& in, std::size_t count = 1) {
  return hicache_store(client, &in.op, &in.page, count, &in.op_id);
}

TEST_CASE("Operations with bad input change nothing, and name field, value and range") {
  DaemonProcess daemon;
  daemon.start();
  Rank rank(rank_options(daemon));
  REQUIRE(rank.open() == HICACHE_OK);
  using C = hicache_client*;
  constexpr hicache_code kBad = HICACHE_BAD_ARGUMENT;
  expect_refused(
      rank.client(),
      {{"deadline 0", [](C c, Input& in) { in.op.deadline_ms = 0; return store(c, in); }, kBad,
        {"op.deadline_ms = 0", "1..600000"}},
       {"deadline too long",
        [](C c, Input& in) { in.op.deadline_ms = 600'001; return store(c, in); }, kBad,
        {"op.deadline_ms = 600001", "1..600000"}},
       {"unknown ack", [](C c, Input& in) { in.op.ack = 4; return store(c, in); }, kBad,
        {"op.ack = 4", "0..3"}},
       {"unknown flags", [](C c, Input& in) { in.op.flags = 64; return store(c, in); }, kBad,
        {"op.flags = 64"}},
       {"unknown hint", [](C c, Input& in) { in.op.hint = 8; return store(c, in); }, kBad,
        {"op.hint = 8"}},
       {"unknown kind", [](C c, Input& in) { in.op.kind_mask = 2; return store(c, in); }, kBad,
        {"op.kind_mask = 2"}},
       {"unknown region", [](C c, Input& in) { in.op.region = 3; return store(c, in); }, kBad,
        {"op.region = 3", "registered"}},
       {"region out of range", [](C c, Input& in) { in.op.region = 16; return store(c, in); },
        kBad, {"op.region = 16", "0..15"}},
       {"no pages", [](C c, Input& in) { return store(c, in, 0); }, kBad,
        {"page_count = 0", "1..512"}},
       {"too many pages", [](C c, Input& in) { return store(c, in, 513); }, kBad,
        {"page_count = 513", "1..512"}},
       {"row outside", [](C c, Input& in) { in.page.row = kRows; return store(c, in); }, kBad,
        {"row = 16", "0..15"}},
       {"short key", [](C c, Input& in) { in.page.key_bytes = 15; return store(c, in); }, kBad,
        {"key_bytes = 15", "16..36"}},
       {"no key", [](C c, Input& in) { in.page.key = nullptr; return store(c, in); }, kBad,
        {"key = NULL"}},
       {"owner outside", [](C c, Input& in) { in.page.owner = 1; return store(c, in); }, kBad,
        {"owner = 1"}},
       {"metadata too long",
        [](C c, Input& in) { in.page.metadata_bytes = 4025; return store(c, in); }, kBad,
        {"metadata_bytes = 4025", "4024"}},
       {"no op", [](C c, Input& in) { return hicache_load(c, nullptr, &in.page, 1, &in.op_id); },
        kBad, {"op = NULL"}},
       {"no pages array",
        [](C c, Input& in) { return hicache_load(c, &in.op, nullptr, 1, &in.op_id); }, kBad,
        {"pages = NULL"}},
       {"no op id", [](C c, Input& in) { return hicache_pin(c, &in.op, &in.page, 1, nullptr); },
        kBad, {"op_id = NULL"}},
       {"a lease that nobody holds",
        [](C c, Input& in) { return hicache_release(c, &in.op, 77, &in.op_id); }, kBad,
        {"lease = 77"}},
       {"cancel of nothing",
        [](C c, Input& in) { return hicache_cancel(c, &in.op, 0, &in.op_id); }, kBad,
        {"target_op_id = 0"}},
       {"cancel of what is not in flight",
        [](C c, Input& in) { return hicache_cancel(c, &in.op, 999, &in.op_id); },
        HICACHE_NOT_FOUND, {"target_op_id = 999", "not in flight"}}});
  CHECK(rank.present({1, 1, 0}) == 0);
}

TEST_CASE("Calls that wait or read refuse bad input with field, value and range") {
  DaemonProcess daemon;
  daemon.start();
  Rank rank(rank_options(daemon));
  REQUIRE(rank.open() == HICACHE_OK);
  using C = hicache_client*;
  constexpr hicache_code kBad = HICACHE_BAD_ARGUMENT;
  static hicache_completion completion;
  static std::size_t count;
  static hicache_prefix prefix;
  expect_refused(
      rank.client(),
      {{"poll into nothing", [](C c, Input&) { return hicache_poll(c, nullptr, 1, &count); },
        kBad, {"out = NULL"}},
       {"poll of none", [](C c, Input&) { return hicache_poll(c, &completion, 0, &count); }, kBad,
        {"max = 0"}},
       {"wait without a count",
        [](C c, Input&) { return hicache_wait(c, &completion, 1, 0, nullptr); }, kBad,
        {"count = NULL"}},
       {"wait too long",
        [](C c, Input&) { return hicache_wait(c, &completion, 1, 600'001, &count); }, kBad,
        {"timeout_ms = 600001", "0..600000"}},
       {"wait for nothing", [](C c, Input&) { return hicache_wait(c, &completion, 1, 1, &count); },
        HICACHE_TIMED_OUT, {"1 ms"}},
       {"exists without pages",
        [](C c, Input&) { return hicache_exists_prefix(c, nullptr, 1, &prefix); }, kBad,
        {"pages = NULL"}}});
}

TEST_CASE("Calls on leases, stats, weights and regions refuse bad input the same way") {
  DaemonProcess daemon;
  daemon.start();
  Rank rank(rank_options(daemon));
  REQUIRE(rank.open() == HICACHE_OK);
  REQUIRE(rank.store({1, 1, 0}).code == HICACHE_OK);
  const std::uint64_t lease = rank.pin({1, 1, 0}).lease;
  REQUIRE(lease != 0);
  using C = hicache_client*;
  constexpr hicache_code kBad = HICACHE_BAD_ARGUMENT;
  static hicache_view view;
  const std::string long_text(257, 'w');
  expect_refused(
      rank.client(),
      {{"a view of no lease", [](C c, Input&) { return hicache_lease_view(c, 5, 0, 0, &view); },
        kBad, {"lease = 5"}},
       {"a view of another page",
        [lease](C c, Input&) { return hicache_lease_view(c, lease, 1, 0, &view); }, kBad,
        {"page = 1"}},
       {"a view of another kind",
        [lease](C c, Input&) { return hicache_lease_view(c, lease, 0, 1, &view); }, kBad,
        {"kind = 1"}},
       {"stats of another size",
        [](C c, Input&) {
          hicache_stats stats{};
          stats.struct_bytes = 8;
          return hicache_get_stats(c, &stats, kTimeoutMs);
        },
        kBad, {"struct_bytes = 8"}},
       {"stats without time",
        [](C c, Input&) {
          hicache_stats stats{};
          stats.struct_bytes = sizeof stats;
          return hicache_get_stats(c, &stats, 0);
        },
        kBad, {"timeout_ms = 0", "1..600000"}},
       {"a switch to nothing",
        [](C c, Input&) { return hicache_space_switch(c, nullptr, kTimeoutMs); }, kBad,
        {"weight_version = NULL"}},
       {"a switch to a long text",
        [&long_text](C c, Input&) {
          return hicache_space_switch(c, long_text.c_str(), kTimeoutMs);
        },
        kBad, {"weight_version", "257", "256"}},
       {"unregister of an unknown region",
        [](C c, Input&) { return hicache_unregister_region(c, 4, kTimeoutMs); }, kBad,
        {"region = 4"}}});
}

struct BadRegion {
  std::string name;
  std::function<void(hicache_region&, hicache_layout&, hicache_run&)> spoil;
  hicache_code code;
  std::vector<std::string> parts;
};

TEST_CASE("A region that is wrong in any way is refused with field, value and range") {
  DaemonProcess daemon;
  daemon.start();
  Rank rank(rank_options(daemon));
  REQUIRE(rank.open() == HICACHE_OK);
  constexpr std::uint64_t bytes = std::uint64_t{kRows} * kInputPayloadBytes;
  const UniqueFd memory = plain_memory_file(bytes);
  using R = hicache_region;
  using L = hicache_layout;
  using U = hicache_run;
  constexpr hicache_code kBad = HICACHE_BAD_ARGUMENT;
  const std::vector<BadRegion> table{
      {"a number in use", [](R& r, L&, U&) { r.region = 0; }, kBad, {"region.region = 0"}},
      {"a number out of range", [](R& r, L&, U&) { r.region = 16; }, kBad,
       {"region.region = 16", "0..15"}},
      {"no descriptor", [](R& r, L&, U&) { r.fd = -1; }, kBad, {"region.fd = -1"}},
      {"no rows", [](R& r, L&, U&) { r.rows = 0; }, kBad, {"region.rows = 0"}},
      {"rows beyond the memory", [](R& r, L&, U&) { r.rows = kRows + 1; }, kBad,
       {"17 rows", "131072"}},
      {"an odd offset", [](R& r, L&, U&) { r.offset_bytes = 100; }, kBad,
       {"region.offset_bytes = 100", "4096"}},
      {"a size beyond the file", [](R& r, L&, U&) { r.size_bytes = bytes + 4096; }, kBad,
       {"region.size_bytes"}},
      {"no layout", [](R& r, L&, U&) { r.layout_count = 0; }, kBad, {"layout_count = 0"}},
      {"an unknown kind", [](R&, L& l, U&) { l.kind = 1; }, kBad, {"kind = 1"}},
      {"no runs", [](R&, L& l, U&) { l.run_count = 0; }, kBad, {"run_count = 0", "1..512"}},
      {"runs that add up to less", [](R&, L&, U& u) { u.length_bytes = 100; }, kBad,
       {"100", "8192"}},
  };
  for (const BadRegion& bad : table) {
    hicache_run run{0, kInputPayloadBytes, kInputPayloadBytes};
    hicache_layout layout{0, 1, &run};
    hicache_region region{};
    region.region = 1;
    region.fd = memory.get();
    region.size_bytes = bytes;
    region.rows = kRows;
    region.layout_count = 1;
    region.layouts = &layout;
    bad.spoil(region, layout, run);

    const hicache_code code = hicache_register_region(rank.client(), &region, kTimeoutMs);

    INFO(bad.name << ": " << hicache_code_name(code) << ": " << hicache_last_error());
    CHECK(code == bad.code);
    CHECK(missing(hicache_last_error(), bad.parts) == "");
  }
  CHECK(rank.store({1, 1, 0}).code == HICACHE_OK);
}

TEST_CASE("A file that is no memory file is no region") {
  DaemonProcess daemon;
  daemon.start();
  Rank rank(rank_options(daemon));
  REQUIRE(rank.open() == HICACHE_OK);
  const UniqueFd file(::open(daemon.folder().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  REQUIRE(static_cast<bool>(file));
  REQUIRE(::ftruncate(file.get(), kInputPayloadBytes) == 0);
  const hicache_run run{0, kInputPayloadBytes, kInputPayloadBytes};
  const hicache_layout layout{0, 1, &run};
  hicache_region region{};
  region.region = 1;
  region.fd = file.get();
  region.size_bytes = kInputPayloadBytes;
  region.rows = 1;
  region.layout_count = 1;
  region.layouts = &layout;

  const hicache_code code = hicache_register_region(rank.client(), &region, kTimeoutMs);

  INFO(hicache_code_name(code) << ": " << hicache_last_error());
  CHECK((code == HICACHE_REFUSED || code == HICACHE_BAD_ARGUMENT));
  CHECK(missing(hicache_last_error(), {"memory file"}) == "");
  CHECK(rank.store({1, 1, 0}).code == HICACHE_OK);
}

TEST_CASE("An open that the daemon refuses says why, and leaves no client") {
  DaemonProcess daemon;
  daemon.start();
  Rank first(rank_options(daemon));
  REQUIRE(first.open() == HICACHE_OK);

  SECTION("another family, and no memory is left for it") {
    RankOptions options = rank_options(daemon);
    options.group = "other";
    options.payload_bytes = 2 * kInputPayloadBytes;
    Rank other(options);
    CHECK(other.open() == HICACHE_NO_SPACE);
    CHECK(missing(hicache_last_error(), {"l2.l2_bytes", "l2.family_bytes"}) == "");
    CHECK(other.client() == nullptr);
  }
  SECTION("no daemon") {
    RankOptions options = rank_options(daemon);
    options.socket = daemon.folder() + "/nobody.sock";
    options.attach_timeout_ms = 100;
    Rank other(options);
    CHECK(other.open() == HICACHE_DISCONNECTED);
    CHECK(missing(hicache_last_error(), {options.socket}) == "");
    CHECK(other.client() == nullptr);
  }
  CHECK(hicache_state(first.client()) == HICACHE_OK);
}

TEST_CASE("A newer client of the same rank takes over, and the older one is told") {
  DaemonProcess daemon;
  daemon.start();
  Rank older(rank_options(daemon));
  REQUIRE(older.open() == HICACHE_OK);

  Rank newer(rank_options(daemon));
  REQUIRE(newer.open() == HICACHE_OK);

  CHECK(eventually([&] { return hicache_state(older.client()) == HICACHE_SUPERSEDED; }));
  CHECK(older.store({1, 1, 0}).code == HICACHE_SUPERSEDED);
  CHECK(newer.store({1, 1, 0}).code == HICACHE_OK);
}

}  // namespace
}  // namespace hc::test
