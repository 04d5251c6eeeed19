// SPDX-License-Identifier: Apache-2.0
// hand_over_test: leases of a session that has ended become those of the next one of its client.
// daemon/engine/hand_over.cpp
#include "unit/daemon/engine/quota_bench.h"

namespace hc::test {
namespace {

LeaseId lease_of(const Answer& answer) {
  REQUIRE(answer.entry.code == 0);
  REQUIRE(answer.entry.lease != 0);
  return LeaseId{answer.entry.lease};
}

// Two sessions of one client: the older one, which has lost its service, and the one behind it.
struct HandOver : QuotaBench {
  explicit HandOver(std::uint32_t quota) : pages(quota) {
    older = quota == 0 ? attach(0) : attach_quota(0, quota);
  }
  void follow(std::uint32_t quota) {
    newer = attach_space(bench_space(), 0, ask(bench_space(), quota, {older.session}));
    engine->end_service(older.session);
  }
  void follow() { follow(pages); }
  bool hand_over(const std::vector<LeaseId>& leases) {
    return engine->hand_over(older.session, newer.session, leases);
  }
  void end_older() {
    engine->release_leases(older.session);
    engine->close_session(older.session);
  }
  const EngineSession& at(const BenchRank& rank) {
    return *engine->core().sessions.find(rank.session);
  }
  std::uint64_t leased_pages() {
    return pages == 0 ? engine->core().family_of(newer.session).leased_without_quota
                      : group().leased_pages();
  }

  std::uint32_t pages;
  BenchRank older;
  BenchRank newer;
};

TEST_CASE("hand-over: leases go on with their pages, and each is counted once") {
  for (const std::uint32_t quota : {0U, 8U}) {
    HandOver bench(quota);
    const LeaseId first = lease_of(bench.run(bench.older, QuotaBench::keep(1, 3)));
    const LeaseId again = lease_of(bench.run(bench.older, QuotaBench::reload(2, 2)));
    bench.follow();

    CHECK(bench.hand_over({first, again}));

    CHECK(bench.at(bench.older).leases == 0);
    CHECK(bench.at(bench.older).leased_pages == 0);
    CHECK(bench.at(bench.newer).leases == 2);
    CHECK(bench.at(bench.newer).leased_pages == 5);
    CHECK(bench.leased_pages() == 3);
    bench.end_older();
    bench.drop_l2();
    CHECK(bench.part(1, 0).l2 == L2State::resident);
    const EngineBench::Call release{.verb = Verb::release, .lease = first.value};
    CHECK(bench.run(bench.newer, release).entry.code == 0);
    CHECK(bench.leased_pages() == 2);
    bench.engine->end_service(bench.newer.session);
    CHECK(bench.engine->release_leases(bench.newer.session) == 1);
    CHECK(bench.leased_pages() == 0);
  }
}

TEST_CASE("hand-over: what is not listed ends with the older session") {
  HandOver bench(8);
  const LeaseId kept = lease_of(bench.run(bench.older, QuotaBench::keep(1, 2)));
  lease_of(bench.run(bench.older, QuotaBench::keep(3, 2)));
  bench.follow();

  CHECK(bench.hand_over({kept}));

  CHECK(bench.at(bench.older).leases == 1);
  bench.end_older();
  CHECK(bench.group().leased_pages() == 2);
}

TEST_CASE("hand-over: a list that names what the older session does not hold moves nothing") {
  HandOver bench(0);
  const LeaseId own = lease_of(bench.run(bench.older, QuotaBench::keep(1, 2)));
  const LeaseId foreign = lease_of(bench.run(bench.other, QuotaBench::keep(3, 2)));
  bench.follow();

  CHECK_FALSE(bench.hand_over({own, foreign}));
  CHECK_FALSE(bench.hand_over({own, LeaseId{own.value + (1ULL << 32)}}));
  CHECK_FALSE(bench.hand_over({own, kNoLease}));

  CHECK(bench.at(bench.older).leases == 1);
  CHECK(bench.at(bench.newer).leases == 0);
  CHECK(bench.at(bench.other).leases == 1);
}

TEST_CASE("hand-over: a lease that is listed twice moves once") {
  HandOver bench(8);
  const LeaseId lease = lease_of(bench.run(bench.older, QuotaBench::keep(1, 2)));
  bench.follow();

  CHECK(bench.hand_over({lease, lease}));

  CHECK(bench.at(bench.newer).leases == 1);
  CHECK(bench.at(bench.newer).quota.leased[0] == 2);
}

TEST_CASE("hand-over: the lease of an operation in flight stays the operation's, and ends there") {
  HandOver bench(8);
  const LeaseId told = lease_of(bench.run(bench.older, QuotaBench::keep(1, 2)));
  const std::uint16_t slot = bench.submit(bench.older, QuotaBench::keep(3, 2));
  const LeaseId untold = bench.engine->core().leases.leases_of(bench.older.session).back();
  REQUIRE(untold != told);
  bench.follow();
  REQUIRE_FALSE(bench.ended(slot));

  CHECK_FALSE(bench.hand_over({told, untold}));
  CHECK(bench.hand_over({told}));

  CHECK(bench.finish(slot).entry.lease == 0);
  CHECK(bench.at(bench.older).leases == 0);
  CHECK(bench.group().leased_pages() == 2);
}

TEST_CASE("hand-over: to another space, shard or quota there is none") {
  HandOver bench(8);
  const LeaseId lease = lease_of(bench.run(bench.older, QuotaBench::keep(1, 2)));
  bench.follow(6);
  CHECK_FALSE(bench.hand_over({lease}));
  for (BenchRank next : {bench.attach(0, "w2"), bench.attach(1), bench.attach(0)}) {
    CHECK_FALSE(bench.engine->hand_over(bench.older.session, next.session, {{lease}}));
  }
  CHECK(bench.at(bench.older).leases == 1);
}

TEST_CASE("hand-over: a full quota goes on full, and has room again after a release") {
  HandOver bench(4);
  std::vector<LeaseId> leases;
  for (std::uint32_t page = 1; page <= 4; ++page) {
    leases.push_back(lease_of(bench.run(bench.older, QuotaBench::keep(page, 1))));
  }
  bench.follow();
  REQUIRE(bench.hand_over(leases));
  bench.end_older();

  CHECK(bench.run(bench.newer, QuotaBench::reload(1, 1)).entry.code ==
        static_cast<std::int32_t>(Code::no_space));
  const EngineBench::Call release{.verb = Verb::release, .lease = leases[0].value};
  REQUIRE(bench.run(bench.newer, release).entry.code == 0);
  CHECK(bench.run(bench.newer, QuotaBench::reload(2, 1)).entry.code == 0);
}

TEST_CASE("a lease that its client has not been told of can't be released by guessing its name") {
  QuotaBench bench;
  BenchRank rank = bench.attach(0);
  const std::uint16_t slot = bench.submit(rank, QuotaBench::keep(3, 2));
  const LeaseId guessed = bench.engine->core().leases.leases_of(rank.session).front();

  const EngineBench::Call release{.verb = Verb::release, .lease = guessed.value};
  CHECK(bench.answer_now(rank, release) == Code::not_found);
  REQUIRE_FALSE(bench.ended(slot));

  bench.engine->end_service(rank.session);
  CHECK(bench.finish(slot).entry.code == static_cast<std::int32_t>(Code::cancelled));
}

}  // namespace
}  // namespace hc::test
