// SPDX-License-Identifier: Apache-2.0
// rank_edge_test: a rank killed exactly at each state edge of an operation on device memory that
// its process passes (copy_edges.h), while it stores and while it loads, whoever copies.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "e2e/edge_scene.h"
#include "e2e/rank_copy_reuse.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::size_t kVictimsAtOnce = 11;  // who die beside each other

std::vector<Victim> all_victims(bool by_rank) {
  std::vector<Victim> victims;
  if (const auto seed = drawn_seed()) {
    std::mt19937 random(*seed);
    for (std::size_t i = 0; i < kVictimsAtOnce; ++i) {
      const std::uint8_t verb = random() % 2 == 0 ? HICACHE_VERB_STORE : HICACHE_VERB_LOAD;
      victims.push_back({draw_edge(kRankEdges, by_rank, random), verb, true});
    }
    return victims;
  }
  for (const Edge& edge : kRankEdges) {
    for (const std::uint8_t verb : {HICACHE_VERB_STORE, HICACHE_VERB_LOAD}) {
      if (edge.passed_by(by_rank)) {
        victims.push_back({edge, verb});
      }
    }
  }
  return victims;
}

std::string names_of(const std::vector<Victim>& victims) {
  std::string names;
  for (const Victim& victim : victims) {
    names += victim.edge.text() + (victim.verb == HICACHE_VERB_STORE ? " store, " : " load, ");
  }
  return names;
}

TEST_CASE("The edges of a rank's process are those that have a failpoint there") {
  const char* const words[] = {"client_failpoint", "lane_failpoint"};
  std::vector<std::string> listed = listed_failpoints(words);
  std::vector<std::string> named;
  for (const Edge& edge : kRankEdges) {
    named.push_back(edge.name);
  }
  std::sort(listed.begin(), listed.end());
  std::sort(named.begin(), named.end());

  CHECK(named == listed);
}

TEST_CASE("A rank killed at any edge of its operations leaves nothing, and costs nobody a byte") {
  for (const bool by_rank : {false, true}) {
    EdgeScene scene(by_rank);
    const std::vector<Victim> all = all_victims(by_rank);
    long outlived = 0;
    for (std::size_t first = 0; first < all.size(); first += kVictimsAtOnce) {
      const std::vector<Victim> group(
          all.begin() + static_cast<std::ptrdiff_t>(first),
          all.begin() + static_cast<std::ptrdiff_t>(std::min(first + kVictimsAtOnce, all.size())));
      INFO("copied by the rank: " << by_rank << "; " << names_of(group));

      const EdgeSeen seen = scene.kill(group);

      INFO(scene.daemon().log());
      CHECK(seen.unreached == "");
      CHECK(seen.not_back == "");
      CHECK(seen.back_ms <= kRankGoneMs);
      CHECK(seen.failures == "");
      CHECK(seen.wrong_bytes == 0);
      outlived += seen.outlived;
    }
    CHECK((outlived > 0 || !by_rank || drawn_seed()));
    scene.end();
  }
}

TEST_CASE("Without the grace somebody's bytes are wrong after such deaths, and this test sees it") {
  EdgeScene scene(true, "quarantine_skipped");
  const Victim victim{{"gpu_batch_issued", Ways::rank}, HICACHE_VERB_STORE};

  const EdgeSeen seen = scene.kill({victim, victim, victim, victim});

  CHECK(seen.unreached == "");
  CHECK(seen.outlived > 0);
  CHECK(seen.wrong_bytes > 0);
}

}  // namespace
}  // namespace hc::test
