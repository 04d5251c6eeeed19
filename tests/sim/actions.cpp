// SPDX-License-Identifier: Apache-2.0
// actions: what clients and the operator do next.
#include <algorithm>

#include "tests/sim/driver.h"

namespace hc::sim {

std::uint16_t Driver::draw_shard() {
  return static_cast<std::uint16_t>(world_.scenario.first_shard +
                                    world_.prng.below(world_.scenario.shard_count));
}

// Of one version of a family most of the time.
std::uint32_t Driver::draw_version() {
  const auto family = world_.prng.below32(static_cast<std::uint32_t>(
      world_.scenario.spaces.size()));
  const std::uint32_t version = world_.prng.one_in(4) ? world_.prng.below32(kVersions) : 0;
  return family * kVersions + version;
}

std::optional<std::uint32_t> Driver::draw_open_session() {
  std::vector<std::uint32_t> open;
  for (std::uint32_t number = 0; number < kSimSessions; ++number) {
    if (clients_.session(number).state == SimSession::State::open) {
      open.push_back(number);
    }
  }
  if (open.empty()) {
    return std::nullopt;
  }
  return open[world_.prng.below(open.size())];
}

void Driver::attach_some() {
  const std::uint32_t count = world_.prng.between32(1, 4);
  for (std::uint32_t number = 0; number < count; ++number) {
    if (clients_.session(number).state == SimSession::State::closed) {
      const std::uint32_t version = draw_version();
      const std::uint16_t shard = draw_shard();
      clients_.attach(number, version, shard);
      check_budget();
    }
  }
  watch_.observe();
}

void Driver::act() {
  const std::uint64_t pick = world_.prng.below(100);
  if (pick < 6) {
    act_rivals();
  } else if (pick < 80) {
    if (const auto number = draw_open_session()) {
      const std::uint64_t burst = world_.prng.one_in(8) ? world_.prng.between(2, 12) : 1;
      for (std::uint64_t i = 0; i < burst; ++i) {
        submit_random(*number);
        watch_.observe();  // it knows how many new pages one operation can bring
      }
    } else {
      attach_some();
    }
  } else if (pick < 86) {
    act_session();
  } else if (pick < 88) {
    act_operator();
  } else if (const auto number = draw_open_session()) {
    for (const SimLease& lease : clients_.session(*number).leases) {
      clients_.check_lease(lease);
    }
    clients_.scribble_late(*number);
  }
  watch_.observe();
  const std::uint64_t pace = world_.prng.below(100);
  if (pace < 30) {
    return;  // the next one comes before the engine has had a turn
  }
  const std::uint64_t us = pace < 70   ? world_.prng.below(200)
                           : pace < 95 ? world_.prng.below(5'000)
                                       : world_.prng.below(400'000);
  advance(static_cast<std::int64_t>(us) * kUs);
}

// Ranks store the same pages at one time, and some of them fall: cancelled, too slow, or dead. All
// but a few before a copy can have ended.
void Driver::act_rivals() {
  const std::uint32_t version = world_.prng.below32(kVersions);
  Clients::Draft common;
  common.verb = Verb::store;
  common.pages = draw_pages();
  std::vector<std::uint32_t> rivals;
  for (std::uint32_t number = 0; number + 1 < kSimSessions; ++number) {
    SimSession& session = clients_.session(number);
    if (session.state == SimSession::State::closed && world_.prng.one_in(2)) {
      const std::uint16_t shard = draw_shard();
      clients_.attach(number, version, shard);
      check_budget();
    }
    if (session.state == SimSession::State::open) {
      Clients::Draft draft = common;
      draft_store(draft);
      draft.deadline_ms = world_.prng.one_in(4) ? world_.prng.between32(1, 5) : draw_deadline_ms();
      if (clients_.submit(number, draft)) {
        rivals.push_back(number);
      }
      watch_.observe();
    }
  }
  watch_.observe();
  for (const std::uint32_t number : rivals) {
    if (world_.prng.one_in(2)) {
      advance(static_cast<std::int64_t>(world_.prng.below(200)) * kUs);
    }
    if (clients_.session(number).state != SimSession::State::open || world_.prng.one_in(3)) {
      continue;
    }
    if (world_.prng.one_in(6)) {
      clients_.begin_close(number);
    } else if (world_.prng.one_in(2)) {
      Clients::Draft cancel;
      cancel.verb = Verb::cancel;
      draft_cancel(number, cancel);
      clients_.submit(number, cancel);
    }
    clients_.scribble_late(number);
    watch_.observe();
  }
}

void Driver::act_session() {
  const auto number = world_.prng.below32(kSimSessions);
  SimSession& session = clients_.session(number);
  if (session.state == SimSession::State::closed) {
    const std::uint32_t version = draw_version();
    const std::uint16_t shard = draw_shard();
    clients_.attach(number, version, shard);
    check_budget();
  } else if (session.state == SimSession::State::open) {
    const bool switches = world_.prng.one_in(4);
    const std::uint32_t first = session.version / kVersions * kVersions;
    const std::uint32_t version = first + world_.prng.below32(kVersions);
    if (switches) {
      clients_.begin_switch(number, version);
    } else if (world_.prng.one_in(2)) {
      clients_.begin_close(number);
    }
  }
}

// One that holds leases, while another number is free.
void Driver::act_reattach() {
  std::vector<std::uint32_t> broken;
  std::vector<std::uint32_t> free;
  for (std::uint32_t number = 0; number < kSimSessions; ++number) {
    const SimSession& session = clients_.session(number);
    if (session.state == SimSession::State::closed) {
      free.push_back(number);
    } else if (session.state == SimSession::State::open && !session.leases.empty()) {
      broken.push_back(number);
    }
  }
  if (!broken.empty() && !free.empty()) {
    const std::uint32_t from = broken[reattach_prng_->below(broken.size())];
    clients_.reattach(from, free[reattach_prng_->below(free.size())], *reattach_prng_);
    check_budget();
    watch_.observe();
  }
}

void Driver::act_operator() {
  const std::uint64_t pick = world_.prng.below(10);
  const bool takes_over = pick == 9 && order_ && !order_->store;
  const bool busy = order_ || world_.engine->clearing_store();
  if (pick < 6 || (busy && !takes_over)) {
    world_.engine->barrier_now();
    return;
  }
  if (pick < 9) {
    const std::uint32_t version = world_.prng.below32(world_.scenario.versions());
    const auto space = world_.core().superblock->find_space(
        make_space_id(world_.scenario.with_version(version)));
    if (!space || world_.core().spaces->find(*space) == nullptr) {
      return;
    }
    world_.trace.add("clear space", version);
    order_ = Order{false, version, world_.model.next()};
    world_.model.forget_version(version, order_->sequence, false);
    world_.laws.expect(world_.engine->start_clear_space(*space).has_value(), 4,
                       "a clear of a space was refused");
    return;
  }
  if (world_.prng.one_in(2)) {
    close_sessions();
  }
  world_.trace.add("clear store");
  order_ = Order{true, 0, world_.model.next()};
  world_.model.forget_all(order_->sequence, false);
  watch_.set_clearing(true);
  world_.laws.expect(world_.engine->start_clear().has_value(), 4, "a clear was refused");
}

std::uint32_t Driver::draw_deadline_ms() {
  const std::uint64_t pick = world_.prng.below(100);
  return pick < 75   ? world_.prng.between32(1'000, 5'000)
         : pick < 90 ? world_.prng.between32(5, 100)
                     : world_.prng.between32(1, 5);
}

std::vector<std::uint32_t> Driver::draw_pages() {
  const Universe& universe = world_.scenario.universe;
  const std::uint32_t conversation = world_.prng.below32(universe.conversations);
  const std::uint32_t most = std::min(world_.scenario.pages_per_op_max, universe.pages_each);
  const std::uint32_t count = world_.prng.between32(1, most);
  const std::uint32_t first =
      world_.prng.one_in(2) ? 0 : world_.prng.below32(universe.pages_each - count + 1);
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < count; ++i) {
    out.push_back(conversation * universe.pages_each + first + i);
  }
  if (world_.prng.one_in(25)) {  // a client that names a page twice
    const std::uint32_t again = out[world_.prng.below(out.size())];
    out.push_back(again);
  }
  return out;
}

void Driver::draft_store(Clients::Draft& draft) {
  draft.ack = static_cast<Ack>(world_.prng.between(1, 3));
  draft.metadata = world_.prng.one_in(4);
  const bool every_ack = world_.prng.one_in(3);
  const bool keep_lease = world_.prng.one_in(5);
  draft.hint = static_cast<std::uint8_t>(world_.prng.one_in(4) ? world_.prng.below(4) : 0);
  draft.flags = static_cast<std::uint8_t>((every_ack ? kFlagEveryAck : 0) |
                                          (keep_lease ? kFlagKeepLease : 0));
}

void Driver::draft_load(Clients::Draft& draft) {
  draft.flags = world_.prng.one_in(2) ? kFlagMaxPrefix : std::uint8_t{0};
}

void Driver::draft_release(std::uint32_t number, Clients::Draft& draft) {
  const auto& leases = clients_.session(number).leases;
  draft.pages.clear();
  draft.lease = world_.prng.next();
  if (!leases.empty() && !world_.prng.one_in(10)) {
    const SimLease& lease = leases[world_.prng.below(leases.size())];
    clients_.check_lease(lease);
    draft.lease = lease.id;
  }
}

void Driver::draft_cancel(std::uint32_t number, Clients::Draft& draft) {
  draft.pages.clear();
  std::vector<std::uint32_t> mine;
  for (const auto& [serial, op] : clients_.ops()) {
    if (op.session == number) {
      mine.push_back(serial);
    }
  }
  if (!mine.empty() && !world_.prng.one_in(10)) {
    draft.target = mine[world_.prng.below(mine.size())];
  }
}

void Driver::submit_random(std::uint32_t number) {
  Clients::Draft draft;
  draft.pages = draw_pages();
  draft.deadline_ms = draw_deadline_ms();
  const std::uint64_t pick = world_.prng.below(100);
  const std::uint32_t version = clients_.session(number).version;
  const std::size_t kinds = world_.scenario.space_of(version).kinds.size();
  if (kinds > 1 && world_.prng.one_in(8)) {
    draft.kind_mask = static_cast<std::uint8_t>(world_.prng.between(1, (1U << kinds) - 1));
  }
  if (pick < 40) {
    draft.verb = Verb::store;
    draft_store(draft);
  } else if (pick < 65) {
    draft.verb = Verb::load;
    draft_load(draft);
  } else if (pick < 74) {
    draft.verb = Verb::reload;
  } else if (pick < 79) {
    draft.verb = Verb::pin;
  } else if (pick < 89) {
    draft.verb = Verb::release;
    draft_release(number, draft);
  } else if (pick < 93) {
    draft.verb = Verb::free_object;
    draft.kind_mask = 0;
    draft.pages.resize(std::min<std::size_t>(draft.pages.size(), 3));
  } else if (pick < 96) {
    draft.verb = Verb::flush;
    draft.pages.clear();
  } else {
    draft.verb = Verb::cancel;
    draft_cancel(number, draft);
  }
  clients_.submit(number, draft);
}

}  // namespace hc::sim
