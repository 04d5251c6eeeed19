// SPDX-License-Identifier: Apache-2.0
// shm_agreement_test: a group of real controllers, each in a thread of its own, over a board.
#include "client/agree/shm_agreement.h"

#include <atomic>
#include <thread>
#include <vector>

#include "client/agree/hook_agreement.h"
#include "unit/client/reload/reload_bench.h"

namespace hc {
namespace {

constexpr AgreementLimits kPatient{0, 60'000'000'000};

std::unique_ptr<ShmAgreement> join(const BoardWatcher& watcher, std::uint32_t rank,
                                   std::uint32_t world) {
  auto board = AgreementBoard::attach(UniqueFd(::dup(watcher.fd())), rank, world,
                                      AgreementVector::kWords);
  REQUIRE(board);
  return std::make_unique<ShmAgreement>(std::move(*board));
}

// One rank: offers the same paths as the others, finds them, lands them, and counts what it was
// told to admit.
std::uint32_t run_rank(Agreement& agreement, std::uint32_t rank) {
  ControllerOptions options;
  options.hash.page_tokens = 1;
  BenchRank at(options, 1, 64);
  std::uint32_t admitted = 0;
  LeaseHandle lease = rank * 1000 + 1;
  for (std::uint64_t request = 1; admitted < 30; ++request) {
    const BenchPath path = bench_path(request, 4);
    Suffix suffix;
    suffix.anchor = at.tree.match(path.hashes).anchor;
    suffix.hashes = path.hashes;
    suffix.owners = path.owners;
    suffix.first_tokens = {path.tokens[0]};
    static_cast<void>(at.controller.offer(RequestId{request}, std::move(suffix)));
    if (!at.controller.needs_tick()) {
      continue;
    }
    for (const Candidate& candidate : at.controller.candidates()) {
      at.controller.set_count(candidate.id, 4 - rank % 2);
    }
    AgreementVector vector = at.controller.encode(request);
    REQUIRE(agreement.reduce(vector, kPatient) == Code::ok);
    at.controller.apply(vector, at.decisions);
    REQUIRE_FALSE(at.decisions.diverged);
    for (const ReloadDecisions::Start& start : at.decisions.starts) {
      CHECK(start.suffix.hashes.size() == 3);
      static_cast<void>(at.controller.reload_ended(start.op, true, ++lease));
    }
    admitted += static_cast<std::uint32_t>(at.decisions.admits.size());
  }
  return admitted;
}

TEST_CASE("controllers in threads of their own agree over a board") {
  constexpr std::uint32_t kWorld = 3;
  auto watcher = BoardWatcher::create(kWorld, AgreementVector::kWords);
  REQUIRE(watcher);
  std::vector<std::unique_ptr<ShmAgreement>> agreements;
  for (std::uint32_t rank = 0; rank < kWorld; ++rank) {
    agreements.push_back(join(*watcher, rank, kWorld));
  }
  std::atomic<std::uint32_t> admitted{0};
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < kWorld; ++rank) {
    ranks.emplace_back([&, rank] { admitted += run_rank(*agreements[rank], rank); });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  CHECK(admitted.load() == 90);
}

TEST_CASE("a rank that gives up ends the others' waits, and one that goes away as well") {
  auto watcher = BoardWatcher::create(2, AgreementVector::kWords);
  REQUIRE(watcher);
  auto one = join(*watcher, 0, 2);
  auto other = join(*watcher, 1, 2);
  AgreementVector vector;
  SECTION("its time was up") {
    CHECK(one->reduce(vector, {0, 1'000'000}) == Code::timed_out);
    CHECK(other->reduce(vector, kPatient) == Code::disconnected);  // also what it had told
  }
  SECTION("it is gone") {
    one.reset();
    CHECK(other->reduce(vector, kPatient) == Code::disconnected);
  }
}

TEST_CASE("a hook gets the words, and its answer is the answer") {
  std::size_t words = 0;
  HookAgreement hook([&words](std::span<std::int64_t> given) {
    words = given.size();
    given[0] = 7;
    return Code::ok;
  });
  AgreementVector vector;
  CHECK(hook.reduce(vector, {}) == Code::ok);
  CHECK(words == AgreementVector::kWords);
  CHECK(vector.words[0] == 7);
  HookAgreement failing([](std::span<std::int64_t>) { return Code::timed_out; });
  CHECK(failing.reduce(vector, {}) == Code::timed_out);
}

}  // namespace
}  // namespace hc
