// SPDX-License-Identifier: Apache-2.0
// micro_options_test: what is asked for, and how much is done.
#include "client/ctl/micro_options.h"

#include <set>

#include "client/ctl/micro_client.h"
#include "support/catch.h"

namespace hc {

TEST_CASE("a full run has at least twenty pairs and the sizes of the goals", "[ctl]") {
  const auto plan = make_micro_plan({});

  REQUIRE(plan);
  CHECK(plan->pairs >= 20);
  CHECK(plan->payloads.size() == 4);
  CHECK(plan->pages == 1'000'000);
  for (const MicroGroup& group : micro_groups()) {
    CHECK(plan->wants_group(group));
  }
}

TEST_CASE("a quick run does less of everything", "[ctl]") {
  MicroOptions options;
  options.quick = true;
  const auto quick = make_micro_plan(options);
  const auto full = make_micro_plan({});

  REQUIRE(quick);
  CHECK(quick->pairs < full->pairs);
  CHECK(quick->payloads.size() < full->payloads.size());
  CHECK(quick->disk_sample_bytes < full->disk_sample_bytes);
  CHECK(quick->pages < full->pages);
  CHECK(quick->scan_pages < full->scan_pages);
}

TEST_CASE("the number of pairs may be given", "[ctl]") {
  MicroOptions options;
  options.quick = true;
  options.pairs = 7;
  CHECK(make_micro_plan(options)->pairs == 7);
  options.pairs = 1001;
  const auto refused = make_micro_plan(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text.rfind("--pairs: \"1001\"", 0) == 0);
}

TEST_CASE("a figure or a group is chosen by its name, anything else is refused", "[ctl]") {
  MicroOptions options;
  options.only = {"spill", "ring"};
  const auto plan = make_micro_plan(options);

  REQUIRE(plan);
  CHECK(plan->wants("spill"));
  CHECK_FALSE(plan->wants("reload"));
  CHECK(plan->wants("ring_sleep"));
  CHECK(plan->wants("ring_spin"));
  CHECK_FALSE(plan->wants("lazy_start"));

  options.only = {"splil"};
  const auto refused = make_micro_plan(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::bad_argument);
  CHECK(refused.error().text.rfind("--only: \"splil\"", 0) == 0);
  CHECK(refused.error().text.find("lazy_start") != std::string::npos);
}

TEST_CASE("no two figures have one name", "[ctl]") {
  std::set<std::string> names;
  std::size_t count = 0;
  for (const MicroGroup& group : micro_groups()) {
    names.insert(group.name);
    ++count;
    for (const char* figure : group.figures) {
      names.insert(figure);
      ++count;
    }
  }
  CHECK(names.size() == count);
}

TEST_CASE("pages of different numbers have different keys", "[ctl]") {
  std::set<MicroKey> keys;
  for (std::uint64_t number = 0; number < 10'000; ++number) {
    keys.insert(micro_key(number));
    keys.insert(micro_key((1ULL << 40) + number));
  }
  CHECK(keys.size() == 20'000);
  CHECK(micro_key(7) == micro_key(7));
}

}  // namespace hc
