// SPDX-License-Identifier: Apache-2.0
// quota_attach_test: what a quota reserves, when an attach with one is refused, and when its
// reservation ends. daemon/engine/quota.h
#include "unit/daemon/engine/quota_bench.h"

namespace hc::test {
namespace {

const std::uint64_t kPageBytes = quota_page_bytes(bench_space());

TEST_CASE("quota: whole pages are granted, once for all ranks of a group") {
  QuotaBench bench;
  const auto first = bench.try_attach("a", 5 * kPageBytes + 7);
  const auto second = bench.try_attach("a", 5 * kPageBytes + 7);
  REQUIRE(first);
  REQUIRE(second);

  CHECK(first->quota_bytes == 5 * kPageBytes);
  CHECK(second->quota_bytes == 5 * kPageBytes);
  CHECK(bench.engine->core().family_of(first->space).pages_reserved == 5);
  CHECK(bench.group().sessions == 2);
  const auto none = bench.try_attach("b", 0);
  REQUIRE(none);
  CHECK(none->quota_bytes == 0);
}

TEST_CASE("quota: less than one page is refused in one line") {
  QuotaBench bench;
  const auto refused = bench.try_attach("a", kPageBytes - 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::bad_argument);
  CHECK(refused.error().text == "quota_bytes = " + std::to_string(kPageBytes - 1) +
                                    ": must be 0 or at least " + std::to_string(kPageBytes) +
                                    ", one page");
  CHECK(bench.engine->core().sessions.open_count() == 1);
}

TEST_CASE("quota: the ranks of a group ask for one quota, or all for none") {
  QuotaBench bench;
  REQUIRE(bench.try_attach("a", 5 * kPageBytes));
  REQUIRE(bench.try_attach("b", 0));
  for (const std::uint64_t bytes : {std::uint64_t{0}, 6 * kPageBytes, 5 * kPageBytes + 1}) {
    const auto refused = bench.try_attach("a", bytes);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::bad_argument);
    CHECK(refused.error().text == "quota_bytes = " + std::to_string(bytes) +
                                      ": other ranks of group 'a' have " +
                                      std::to_string(5 * kPageBytes));
  }
  CHECK_FALSE(bench.try_attach("b", kPageBytes));
  CHECK(bench.try_attach("a", 5 * kPageBytes));
}

TEST_CASE("quota: what is reserved stays within L2, and leaves room for operations in flight") {
  QuotaBench bench;
  const auto refused = bench.try_attach("a", 15 * kPageBytes);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::no_space);
  CHECK(refused.error().text == "quota_bytes = " + std::to_string(15 * kPageBytes) +
                                    ": takes 15 of 16 pages in L2, other quotas, leases and "
                                    "operations in flight leave 14");
  REQUIRE(bench.try_attach("a", 10 * kPageBytes));
  CHECK_FALSE(bench.try_attach("b", 5 * kPageBytes));
  CHECK(bench.try_attach("b", 4 * kPageBytes));
  CHECK(bench.engine->core().sessions.open_count() == 3);
}

TEST_CASE("quota: pages that others have leased are not promised again") {
  QuotaBench bench;
  bench.store(bench.other, pages_from(1, 6));
  REQUIRE(bench.run(bench.other, bench.reload(1, 6)).entry.code == 0);
  REQUIRE(bench.run(bench.other, bench.reload(1, 6)).entry.code == 0);

  const auto refused = bench.try_attach("a", 9 * kPageBytes);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::no_space);
  CHECK(bench.try_attach("a", 8 * kPageBytes));
}

TEST_CASE("quota: too few records of operations refuse it, and the line says how many there are") {
  QuotaBench bench([](EngineOptions& options) { options.ops_max = 2 * kOpSlotsPerSession; });
  REQUIRE(bench.try_attach("a", kPageBytes));
  const auto refused = bench.try_attach("a", kPageBytes);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::no_space);
  CHECK(refused.error().text.find("128 operations in flight are the most") != std::string::npos);
}

TEST_CASE("quota: it ends with the last session of its group, leases included") {
  QuotaBench bench;
  BenchRank first = bench.attach_quota(0, 8);
  BenchRank second = bench.attach_quota(1, 8);
  REQUIRE(bench.run(first, QuotaBench::keep(1, 8)).entry.code == 0);
  bench.engine->end_service(first.session);
  CHECK(bench.group().leased_pages() == 8);  // its process may still read

  bench.engine->release_leases(first.session);
  CHECK(bench.group().leased_pages() == 0);
  bench.engine->close_session(first.session);
  CHECK_FALSE(bench.try_attach("b", 8 * kPageBytes));
  bench.detach(second);

  CHECK(bench.engine->core().quotas.groups().empty());
  CHECK(bench.try_attach("b", 14 * kPageBytes));
}

TEST_CASE("quota: a replaced session keeps nobody out, and its leases count until they end") {
  QuotaBench bench;
  BenchRank old = bench.attach_quota(0, 8);
  REQUIRE(bench.run(old, QuotaBench::keep(1, 8)).entry.code == 0);
  BenchRank rank = bench.attach_space(bench_space(), 0,
                                      bench.ask(bench_space(), 8, {old.session}));
  bench.engine->end_service(old.session);
  bench.fill(rank, 0, 20);
  const std::uint16_t keep = bench.submit(rank, QuotaBench::keep(20, 1));
  bench.run_for(50);
  CHECK_FALSE(bench.ended(keep));

  bench.engine->release_leases(old.session);
  bench.engine->close_session(old.session);

  CHECK(bench.finish(keep).entry.code == 0);
}

TEST_CASE("quota: a session that is replaced may have had another quota, or none") {
  QuotaBench bench;
  BenchRank old = bench.attach_quota(0, 8);
  REQUIRE(bench.run(old, QuotaBench::keep(1, 8)).entry.code == 0);
  CHECK_FALSE(bench.try_attach("engine", 13 * kPageBytes));
  REQUIRE(bench.try_attach("engine", 13 * kPageBytes, {old.session}));
  CHECK(bench.engine->core().family_of(old.space).pages_reserved == 13);

  BenchRank none = bench.attach_space(bench_space(), 0, {"late", 0, {}});
  REQUIRE(bench.run(none, {.verb = Verb::pin, .pages = {1}}).entry.code == 0);
  CHECK_FALSE(bench.try_attach("late", kPageBytes));
  CHECK_FALSE(bench.try_attach("late", kPageBytes, {old.session}));
  CHECK(bench.try_attach("late", kPageBytes, {none.session}));
}

TEST_CASE("quota: a switch to other weights ends the leases and keeps the reservation") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 8);
  REQUIRE(bench.run(rank, QuotaBench::keep(1, 8)).entry.code == 0);
  bench.engine->begin_switch(rank.session);
  REQUIRE(bench.engine->switch_space(rank.session, "w2"));

  CHECK(bench.group().leased_pages() == 0);
  CHECK(bench.engine->core().family_of(rank.space).pages_reserved == 8);
  CHECK(bench.run(rank, QuotaBench::keep(20, 8)).entry.code == 0);
}

TEST_CASE("quota: a release that is read after a switch has begun is served, nothing else is") {
  QuotaBench bench;
  BenchRank rank = bench.attach_quota(0, 8);
  const Answer stored = bench.run(rank, QuotaBench::keep(1, 8));
  REQUIRE(stored.entry.lease != 0);

  bench.engine->begin_switch(rank.session);
  const Answer pinned = bench.run(rank, {.verb = Verb::pin, .pages = {1}});
  const Answer released =
      bench.run(rank, {.verb = Verb::release, .lease = stored.entry.lease});
  bench.engine->stay(rank.session);

  CHECK(pinned.entry.code == code(Code::cancelled));
  CHECK(released.entry.code == 0);
  CHECK(bench.group().leased_pages() == 0);
  CHECK(bench.run(rank, QuotaBench::keep(20, 8)).entry.code == 0);
}

}  // namespace
}  // namespace hc::test
