// SPDX-License-Identifier: Apache-2.0
// c_api_test: every call of hicache.h with one bad argument: the code, and what the line names.
// hicache_open is in open_arguments_test.cpp, operations and regions in op_arguments_test.cpp and
// region_arguments_test.cpp.
#include <cstring>
#include <string>

#include "client/hicache.h"
#include "proto/versions.h"
#include "support/catch.h"
#include "unit/client/refusals.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::Rig;
using test::SamplePages;

TEST_CASE("every call that takes pages refuses a client that is NULL") {
  const hicache_op op = test::sample_op();
  const SamplePages pages(1);
  hicache_prefix prefix{};
  std::uint64_t number = 0;
  const hicache_page* p = pages.pages.data();
  test::check_refusals(
      nullptr, {
                   {"exists",
                    [&](hicache_client* c) { return hicache_exists_prefix(c, p, 1, &prefix); },
                    {"client"}},
                   {"exists all",
                    [&](hicache_client* c) { return hicache_exists_prefix_all(c, p, 1, &prefix); },
                    {"client"}},
                   {"store",
                    [&](hicache_client* c) { return hicache_store(c, &op, p, 1, &number); },
                    {"client"}},
                   {"reload",
                    [&](hicache_client* c) { return hicache_reload(c, &op, p, 1, &number); },
                    {"client"}},
                   {"load",
                    [&](hicache_client* c) { return hicache_load(c, &op, p, 1, &number); },
                    {"client"}},
                   {"pin",
                    [&](hicache_client* c) { return hicache_pin(c, &op, p, 1, &number); },
                    {"client"}},
                   {"free",
                    [&](hicache_client* c) { return hicache_free_object(c, &op, p, 1, &number); },
                    {"client"}},
               });
}

TEST_CASE("every other call refuses a client that is NULL") {
  const hicache_op op = test::sample_op();
  hicache_completion completion{};
  hicache_view view{};
  hicache_stats stats{};
  hicache_region region{};
  std::size_t count = 0;
  std::uint64_t number = 0;
  int fd = 0;
  test::check_refusals(
      nullptr,
      {
          {"state", [](hicache_client* c) { return hicache_state(c); }, {"client", "NULL"}},
          {"instances",
           [&](hicache_client* c) { return hicache_instances(c, &number); },
           {"client"}},
          {"register",
           [&](hicache_client* c) { return hicache_register_region(c, &region, 1); },
           {"client"}},
          {"unregister",
           [](hicache_client* c) { return hicache_unregister_region(c, 0, 1); },
           {"client"}},
          {"release",
           [&](hicache_client* c) { return hicache_release(c, &op, 1, &number); },
           {"client"}},
          {"flush", [&](hicache_client* c) { return hicache_flush(c, &op, &number); }, {"client"}},
          {"cancel",
           [&](hicache_client* c) { return hicache_cancel(c, &op, 1, &number); },
           {"client"}},
          {"poll",
           [&](hicache_client* c) { return hicache_poll(c, &completion, 1, &count); },
           {"client"}},
          {"wait",
           [&](hicache_client* c) { return hicache_wait(c, &completion, 1, 0, &count); },
           {"client"}},
          {"event fd", [&](hicache_client* c) { return hicache_event_fd(c, &fd); }, {"client"}},
          {"view",
           [&](hicache_client* c) { return hicache_lease_view(c, 1, 0, 0, &view); },
           {"client"}},
          {"switch", [](hicache_client* c) { return hicache_space_switch(c, "v", 1); }, {"client"}},
          {"stats", [&](hicache_client* c) { return hicache_get_stats(c, &stats, 1); }, {"client"}},
      });
  CHECK(hicache_view_intact(nullptr, &view) == 0);
  CHECK(hicache_close(nullptr, 0) == HICACHE_OK);
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
  CHECK(hicache_exists_prefix(rig.client, pages.pages.data(), 1, nullptr) == HICACHE_BAD_ARGUMENT);
  CHECK(hicache_exists_prefix(rig.client, nullptr, 0, &prefix) == HICACHE_OK);
}

TEST_CASE("regions, polls and waits refuse their bad arguments") {
  Rig rig;
  hicache_completion completion{};
  std::size_t count = 0;
  test::check_refusals(
      rig.client,
      {
          {"unregister number",
           [](hicache_client* c) { return hicache_unregister_region(c, 16, 1); },
           {"region", "16", "0..15"}},
          {"unregister unknown",
           [](hicache_client* c) { return hicache_unregister_region(c, 7, 1); },
           {"region", "7", "registered region"}},
          {"unregister timeout",
           [](hicache_client* c) { return hicache_unregister_region(c, 3, 0); },
           {"timeout_ms", "0", "1..600000"}},
          {"instances",
           [](hicache_client* c) { return hicache_instances(c, nullptr); },
           {"out = NULL"}},
          {"poll out",
           [&](hicache_client* c) { return hicache_poll(c, nullptr, 1, &count); },
           {"out = NULL"}},
          {"poll max",
           [&](hicache_client* c) { return hicache_poll(c, &completion, 0, &count); },
           {"max", "0", "1..1048576"}},
          {"poll count",
           [&](hicache_client* c) { return hicache_poll(c, &completion, 1, nullptr); },
           {"count = NULL"}},
          {"wait max",
           [&](hicache_client* c) { return hicache_wait(c, &completion, 0, 1, &count); },
           {"max", "0"}},
          {"wait time",
           [&](hicache_client* c) { return hicache_wait(c, &completion, 1, 600001, &count); },
           {"timeout_ms", "600001", "0..600000"}},
          {"event fd",
           [](hicache_client* c) { return hicache_event_fd(c, nullptr); },
           {"fd = NULL"}},
      });
}

TEST_CASE("views, the space switch and stats refuse their bad arguments") {
  Rig rig;
  hicache_view view{};
  hicache_stats stats{};
  test::check_refusals(
      rig.client, {
                      {"view out",
                       [](hicache_client* c) { return hicache_lease_view(c, 1, 0, 0, nullptr); },
                       {"out = NULL"}},
                      {"view lease",
                       [&](hicache_client* c) { return hicache_lease_view(c, 8, 0, 0, &view); },
                       {"lease", "8", "held"}},
                      {"switch NULL",
                       [](hicache_client* c) { return hicache_space_switch(c, nullptr, 1); },
                       {"weight_version", "NULL", "0..256"}},
                      {"switch long",
                       [](hicache_client* c) {
                         return hicache_space_switch(c, std::string(257, 'x').c_str(), 1);
                       },
                       {"weight_version", "257", "0..256"}},
                      {"switch control",
                       [](hicache_client* c) { return hicache_space_switch(c, "a\tb", 1); },
                       {"weight_version", "control character"}},
                      {"switch timeout",
                       [](hicache_client* c) { return hicache_space_switch(c, "v", 0); },
                       {"timeout_ms", "0", "1..600000"}},
                      {"stats NULL",
                       [](hicache_client* c) { return hicache_get_stats(c, nullptr, 1); },
                       {"out = NULL"}},
                      {"stats size",
                       [&](hicache_client* c) { return hicache_get_stats(c, &stats, 1); },
                       {"out.struct_bytes", "0", std::to_string(sizeof stats)}},
                  });
  CHECK(hicache_view_intact(rig.client, nullptr) == 0);
  CHECK(std::string(hicache_last_error()) == "view = NULL: must be given");
}

TEST_CASE("hashing refuses bad arguments and writes what the chain says") {
  const std::uint64_t tokens[5] = {1, 2, 3, 4, 5};
  std::uint8_t out[64] = {};
  std::size_t count = 9;
  test::check_refusals(
      nullptr,
      {
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
