// SPDX-License-Identifier: Apache-2.0
// copy_edges: the state edges of an operation on device memory (proto/test_hooks.h): which of them
// a rank's process passes, which the daemon, and in which way of copying.
//
// `pass`: the one at which something else is on its way too. README.md says what must hold.
// $HC_E2E_FAILPOINTS = draw:SEED: edges and passes that follow from the seed, instead of all.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "e2e/failpoint_plan.h"
#include "e2e/process.h"

namespace hc::test {

// Of an operation of hc_rank_hooks, which has two at once, twice.
inline constexpr std::uint32_t kEdgePages = 2;
inline constexpr std::uint32_t kEdgeRows = 4 * kEdgePages;

enum class Ways : std::uint8_t { ipc, rank, both };  // of copying

struct Edge {
  const char* name;
  Ways ways;
  std::uint32_t pass = 1;
  std::uint32_t last_pass = 8;  // of those that may be drawn

  bool passed_by(bool by_rank) const {
    return ways == Ways::both || (ways == Ways::rank) == by_rank;
  }
  std::string text() const { return std::string(name) + ":" + std::to_string(pass); }
};

// Of regions the second, which comes while operations of the first run.
inline constexpr Edge kRankEdges[] = {
    {"client_region_exported", Ways::ipc, 2},
    {"client_region_mapped", Ways::rank, 2},
    {"client_region_announced", Ways::both, 2},
    {"client_region_registered", Ways::both, 2},
    {"client_frames_registered", Ways::rank},
    {"client_event_recorded", Ways::both, 2},
    {"client_request_published", Ways::both, 2},
    {"client_prepared_taken", Ways::rank, 2},
    {"client_batch_queued", Ways::rank, 2},
    {"gpu_await_over", Ways::rank, 2},
    {"gpu_copies_queued", Ways::rank},
    {"gpu_batch_issued", Ways::rank},
    {"gpu_batch_done", Ways::rank},
    {"client_batch_copied", Ways::rank},
    {"client_word_told", Ways::rank},
    {"client_completion_taken", Ways::both},
    {"client_unregister_asked", Ways::both},
    {"client_region_released", Ways::both},
    {"client_close_begun", Ways::both},
    {"client_detached", Ways::both},
    {"client_session_over", Ways::both},
};

// Of what one rank does beside another that dies in the middle of its copies. The second region is
// of either of them; the frames are registered once.
inline constexpr Edge kDaemonEdges[] = {
    {"gpu_export_taken", Ways::ipc, 2},
    {"gpu_memory_opened", Ways::ipc, 2},
    {"gpu_events_opened", Ways::ipc, 2, 2},
    {"gpu_mapping_told", Ways::ipc, 2},
    {"gpu_frames_registered", Ways::ipc, 1, 1},
    {"gpu_region_answered", Ways::ipc, 2},
    {"gpu_await_begun", Ways::ipc, 2},
    {"gpu_await_over", Ways::ipc, 2},
    {"gpu_await_heard", Ways::ipc, 2},
    {"gpu_copies_queued", Ways::ipc, 2},
    {"gpu_batch_issued", Ways::ipc},
    {"gpu_batch_issued", Ways::ipc, 8},
    {"gpu_batch_done", Ways::ipc, 2},
    {"copy_heard", Ways::both, 3},
    {"copy_sum_begun", Ways::both, 3},
    {"copy_settled", Ways::both, 3},
    {"gpu_mapping_let_go", Ways::ipc},
    {"gpu_memory_closed", Ways::ipc},
    {"gpu_unregister_answered", Ways::ipc},
    {"rank_region_taken", Ways::rank, 2},
    {"rank_prepared", Ways::rank},
    {"rank_prepared", Ways::rank, 7},
    {"rank_told", Ways::rank, 2},
    {"rank_committed", Ways::rank},
    {"rank_committed", Ways::rank, 6},
    {"rank_quarantine_begun", Ways::rank, 1, 1},
    {"rank_quarantine_over", Ways::rank, 1, 1},
    {"session_unmapped", Ways::both, 1, 1},
    {"session_hung_up", Ways::both, 1, 1},
};

// An edge of the daemon at which the rank of the operation dies, when no other rank copies device
// memory; hc_rank_hooks passes it.
struct StopEdge {
  Edge edge;
  enum class Loads : std::uint8_t { never, ipc, both };
  Loads loads = Loads::never;  // whether it is passed by a load as well
  bool by_hosts = false;       // and by each page of a rank on host memory
};

inline constexpr StopEdge kStopEdges[] = {
    {{"gpu_export_taken", Ways::ipc, 2}},
    {{"gpu_memory_opened", Ways::ipc, 2}},
    {{"gpu_events_opened", Ways::ipc}},
    {{"gpu_mapping_told", Ways::ipc, 2}},
    {{"gpu_frames_registered", Ways::ipc}},
    {{"gpu_region_answered", Ways::ipc, 2}},
    {{"gpu_await_begun", Ways::ipc, 2}, StopEdge::Loads::both},
    {{"gpu_await_over", Ways::ipc, 2}, StopEdge::Loads::both},
    {{"gpu_await_heard", Ways::ipc, 2}, StopEdge::Loads::both},
    {{"gpu_copies_queued", Ways::ipc}, StopEdge::Loads::both},
    {{"gpu_batch_issued", Ways::ipc}, StopEdge::Loads::both},
    {{"gpu_batch_done", Ways::ipc}, StopEdge::Loads::both},
    {{"copy_heard", Ways::both, 2}, StopEdge::Loads::ipc, true},
    {{"copy_sum_begun", Ways::both, 2}},
    {{"copy_settled", Ways::both, 2}, StopEdge::Loads::ipc, true},
    {{"gpu_mapping_let_go", Ways::ipc}},
    {{"gpu_memory_closed", Ways::ipc}},
    {{"gpu_unregister_answered", Ways::ipc}},
    {{"rank_region_taken", Ways::rank, 2}},
    {{"rank_prepared", Ways::rank, 2}, StopEdge::Loads::both},
    {{"rank_told", Ways::rank, 2}, StopEdge::Loads::both},
    {{"rank_committed", Ways::rank}, StopEdge::Loads::both},
};

// The seed that is asked for.
inline std::optional<std::uint32_t> drawn_seed() {
  const std::string wanted = wanted_failpoints();
  if (wanted.rfind("draw:", 0) != 0) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(std::stoul(wanted.substr(5)));
}

// Any of the edges of one way, at any pass of it.
inline Edge draw_edge(std::span<const Edge> edges, bool by_rank, std::mt19937& random) {
  while (true) {
    Edge edge = edges[random() % edges.size()];
    edge.pass = 1 + static_cast<std::uint32_t>(random()) % edge.last_pass;
    if (edge.passed_by(by_rank)) {
      return edge;
    }
  }
}

// The names in the lists that begin with one of `words`, of what a test build says of itself.
inline std::vector<std::string> listed_failpoints(std::span<const char* const> words) {
  std::vector<std::string> names;
  for (const std::string& line :
       lines_of(run_program("hicached_hooks", {}, {"HICACHE_HOOKS=list"}).out)) {
    for (const std::string word : words) {
      if (line.rfind(word + " ", 0) == 0) {
        names.push_back(line.substr(word.size() + 1));
      }
    }
  }
  return names;
}

}  // namespace hc::test
