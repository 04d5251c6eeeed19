// SPDX-License-Identifier: Apache-2.0
// reload_model_test: what a perfect cache would have brought back, event by event.
#include "client/ctl/reload_model.h"

#include "support/catch.h"

namespace hc {

namespace {

using Kind = ReloadEvent::Kind;

// Two requests with a common beginning of two blocks, and one of other blocks.
Trace small_trace() {
  Trace trace;
  trace.add({}, std::vector<std::uint64_t>{1, 2, 3, 4});
  trace.add({}, std::vector<std::uint64_t>{1, 2, 5});
  trace.add({}, std::vector<std::uint64_t>{6, 7});
  return trace;
}

ModelCounts replay_as_given(std::uint64_t l3_pages, const std::vector<ReloadEvent>& events,
                            std::uint32_t pages_min = 1) {
  const Trace trace = small_trace();
  ReloadModel model(trace, l3_pages, pages_min);
  return model.replay(events);
}

// Every store is settled at once.
ModelCounts replay(std::uint64_t l3_pages, const std::vector<ReloadEvent>& events,
                   std::uint32_t pages_min = 1) {
  std::vector<ReloadEvent> settled;
  for (ReloadEvent event : events) {
    settled.push_back(event);
    if (event.kind == Kind::store) {
      event.kind = Kind::settled;
      settled.push_back(event);
    }
  }
  return replay_as_given(l3_pages, settled, pages_min);
}

}  // namespace

TEST_CASE("what was stored is brought back, as far as the offer reaches", "[ctl]") {
  const ModelCounts counts = replay(100, {{Kind::store, 0, 0, 4, 0},
                                          {Kind::served, 0, 0, 0, 0},
                                          {Kind::offer, 0, 1, 2, 0},
                                          {Kind::served, 0, 1, 3, 0}});

  CHECK(counts.referenced_pages == 8);
  CHECK(counts.hit_pages == 3);
  CHECK(counts.model_hit_pages == 3);  // one that was there, and two of the three that it asked for
  CHECK(counts.offered_hits == 2);
}

TEST_CASE("pages whose store is under way may be there or not; settled ones are", "[ctl]") {
  const auto hits = [](std::uint32_t found, bool is_settled) {
    std::vector<ReloadEvent> events{{Kind::store, 0, 0, 2, 0}, {Kind::settled, 0, 0, 2, 0},
                                    {Kind::store, 0, 2, 2, 0}};
    if (is_settled) {
      events.push_back({Kind::settled, 0, 2, 2, 0});
    }
    events.push_back({Kind::offer, 0, 0, 4, 0});
    events.push_back({Kind::served, 0, 0, found, 0});
    return replay_as_given(100, events).model_hit_pages;
  };

  CHECK(hits(2, false) == 2);
  CHECK(hits(3, false) == 3);
  CHECK(hits(4, false) == 4);
  CHECK(hits(1, false) == 2);
  CHECK(hits(2, true) == 4);
}

TEST_CASE("a page that was not stored ends what is brought back", "[ctl]") {
  const ModelCounts counts = replay(100, {{Kind::store, 0, 0, 2, 0},
                                          {Kind::offer, 1, 0, 3, 0},
                                          {Kind::served, 1, 0, 2, 0}});

  CHECK(counts.model_hit_pages == 2);
}

TEST_CASE("of a full cache the oldest go, tails first; a reload makes its pages new", "[ctl]") {
  // Four pages: the store of the third request costs the tail of the first.
  CHECK(replay(4, {{Kind::store, 0, 0, 4, 0},
                   {Kind::store, 2, 0, 2, 0},
                   {Kind::offer, 0, 0, 4, 0},
                   {Kind::served, 0, 0, 2, 0}})
            .model_hit_pages == 2);
  // Reloaded pages are newer than what was stored before them.
  CHECK(replay(4, {{Kind::store, 0, 0, 2, 0},
                   {Kind::store, 2, 0, 2, 0},
                   {Kind::offer, 0, 0, 2, 0},
                   {Kind::store, 1, 2, 1, 0},
                   {Kind::offer, 2, 0, 2, 0},
                   {Kind::served, 2, 0, 1, 0}})
            .model_hit_pages == 1);
  // Who waits for another one's reload makes nothing new.
  CHECK(replay(4, {{Kind::store, 0, 0, 2, 0},
                   {Kind::store, 2, 0, 2, 0},
                   {Kind::offer, 0, 0, 2, 1},
                   {Kind::store, 1, 2, 1, 0},
                   {Kind::offer, 2, 0, 2, 0},
                   {Kind::served, 2, 0, 1, 0}})
            .model_hit_pages == 2);
  // A load of pages that are in L2 does.
  CHECK(replay(4, {{Kind::store, 0, 0, 2, 0},
                   {Kind::store, 2, 0, 2, 0},
                   {Kind::load, 0, 0, 2, 0},
                   {Kind::store, 1, 2, 1, 0},
                   {Kind::offer, 2, 0, 2, 0},
                   {Kind::served, 2, 0, 1, 0}})
            .model_hit_pages == 1);
}

TEST_CASE("a reload shorter than the minimum, or refused, brings nothing", "[ctl]") {
  CHECK(replay(100, {{Kind::store, 0, 0, 2, 0},
                     {Kind::offer, 0, 0, 4, 0},
                     {Kind::served, 0, 0, 0, 0}},
               3)
            .model_hit_pages == 0);
  CHECK(replay(100, {{Kind::store, 0, 0, 2, 0},
                     {Kind::offer, 0, 0, 4, 0},
                     {Kind::refused, 0, 0, 0, 0},
                     {Kind::served, 0, 0, 0, 0}})
            .model_hit_pages == 0);
}

TEST_CASE("pages that the engine had anyway are hits of both", "[ctl]") {
  const ModelCounts counts = replay(1, {{Kind::served, 0, 4, 4, 0}, {Kind::served, 2, 1, 1, 0}});

  CHECK(counts.hit_pages == 5);
  CHECK(counts.model_hit_pages == 5);
  CHECK(counts.referenced_pages == 6);
}

}  // namespace hc
