// SPDX-License-Identifier: Apache-2.0
// group_driver: what the engine does with requests, the same on every rank.
#include "tests/sim/group/group_driver.h"

#include <algorithm>
#include <optional>

namespace hc::sim {

GroupDriver::GroupDriver(std::uint64_t seed, std::uint32_t ticks, Laws::Handler handler)
    : prng_(seed), trace_(clock_), laws_(std::move(handler)), scenario_(draw_group(prng_)),
      ticks_(ticks) {
  for (std::uint32_t number = 0; number < scenario_.ranks; ++number) {
    ranks_.push_back(std::make_unique<SimRank>(scenario_, number, prng_.stream(10 + number)));
  }
  trace_.add("group", scenario_.ranks, scenario_.owners, scenario_.quota_pages,
             scenario_.trailing);
  for (const Prompt& prompt : scenario_.prompts) {
    for (const PageHash& hash : prompt.hashes) {
      const bool is_there = prng_.percent(80);
      const bool has_trailing = prng_.percent(70);
      for (const auto& rank : ranks_) {
        if (is_there) {
          rank->put_page(hash, has_trailing);
        }
      }
    }
  }
}

PrefixMatch GroupDriver::match(std::uint32_t number) {
  PrefixMatch out;
  on_all("ranks match a prompt differently", [&](SimRank& rank) {
    const PrefixMatch match = rank.tree.match(prompt(number).hashes);
    out = match;
    return std::tuple(match.anchor.node, match.anchor.use, match.l1_pages, match.l2_pages);
  });
  return out;
}

void GroupDriver::request(std::uint32_t number, bool is_between) {
  const Prompt& at = prompt(number);
  const PrefixMatch match = this->match(number);
  ++tally_.requests;
  if (match.pages() == at.hashes.size()) {
    if (!is_between) {
      load(number);
    }
    return;
  }
  Suffix suffix;
  suffix.anchor = match.anchor;
  const auto pages = static_cast<std::ptrdiff_t>(match.pages());
  suffix.hashes.assign(at.hashes.begin() + pages, at.hashes.end());
  suffix.owners.assign(at.owners.begin() + pages, at.owners.end());
  const auto& hash = scenario_.controller.hash;
  const auto token = at.tokens.begin() + pages * static_cast<std::ptrdiff_t>(hash.page_tokens);
  suffix.first_tokens.assign(token, token + hash.page_tokens + (hash.bigram ? 1 : 0));
  suffix.anchor_hash = pages == 0 ? scenario_.tree.seed
                                  : std::optional<PageHash>(at.hashes[match.pages() - 1]);
  const RequestId id{next_request_++};
  const Decline decline = on_all("ranks decline differently", [&](SimRank& rank) {
    return rank.controller.offer(id, suffix);
  });
  trace_.add("offer", id.value, number, static_cast<std::uint64_t>(pages),
             static_cast<std::uint64_t>(decline));
  if (decline == Decline::none) {
    ++tally_.held;
    waiting_[id.value] = {number, match.pages(), is_between ? tick_ + 1 : tick_};
  } else if (!is_between) {
    compute(number);
  }
}

void GroupDriver::make_l1_room(std::uint32_t pages) {
  on_all("ranks evict L1 differently", [&](SimRank& rank) {
    const std::uint32_t there = rank.tree.l1_pages();
    const std::uint32_t over =
        there + pages > scenario_.l1_pages ? there + pages - scenario_.l1_pages : 0;
    return over == 0 ? 0 : rank.tree.evict_l1(over);
  });
}

void GroupDriver::compute(std::uint32_t number) {
  const Prompt& at = prompt(number);
  make_l1_room(static_cast<std::uint32_t>(at.hashes.size()));
  const bool filled = on_all("ranks fill L1 differently", [&](SimRank& rank) {
    return rank.tree.fill_l1({at.hashes, at.owners});
  });
  trace_.add("compute", number, filled ? 1 : 0);
  if (filled && prng_.percent(60)) {
    store(number);
  }
}

void GroupDriver::store(std::uint32_t number) {
  const Prompt& at = prompt(number);
  const auto first = prng_.below32(at.hashes.size());
  const PageRun path{at.hashes, at.owners};
  const auto id = on_all("ranks begin a store differently", [&](SimRank& rank) {
    return rank.controller.begin_store(path, first);
  });
  if (id) {
    ++tally_.stored;
    for (const auto& rank : ranks_) {
      rank->begin_store(*id, path, first, tick_);
    }
  }
}

// Every page that is only in L2 must be readable on every rank; one whose daemon has gone reads
// from the mapping that its handle keeps.
void GroupDriver::load(std::uint32_t number) {
  const Prompt& at = prompt(number);
  const PrefixMatch match = this->match(number);
  std::vector<PrefixTree::Place> places;
  for (const auto& rank : ranks_) {
    rank->tree.places_in_l2(match.anchor, places);
    laws_.expect(places.size() == match.l2_pages, 4, "a page in L2 has no place");
    for (std::size_t i = 0; i < places.size(); ++i) {
      const PageHash* const there = rank->leased_page(places[i].lease, places[i].page);
      const bool good = there != nullptr ? *there == at.hashes[match.l1_pages + i]
                                         : rank->was_lost(places[i].lease);
      laws_.expect(good, 4, "an admitted page can't be loaded");
    }
  }
  if (match.anchor.node != 0 && prng_.one_in(2)) {
    for (const auto& rank : ranks_) {
      rank->tree.lock(match.anchor);
    }
    locks_.push_back({match.anchor, tick_ + prng_.between(0, 5)});
  }
  const std::size_t pages = match.pages();
  make_l1_room(match.l2_pages);
  // Room may have come from the path itself, where it is not locked.
  const PrefixMatch after = this->match(number);
  if (after.pages() == pages && pages > 0) {
    on_all("ranks fill L1 differently", [&](SimRank& rank) {
      return rank.tree.fill_l1(
          {std::span(at.hashes).first(pages), std::span(at.owners).first(pages)});
    });
  }
}

void GroupDriver::unlock_due() {
  for (const Lock& lock : locks_) {
    if (lock.until <= tick_) {
      for (const auto& rank : ranks_) {
        rank->tree.unlock(lock.anchor);
      }
    }
  }
  std::erase_if(locks_, [this](const Lock& lock) { return lock.until <= tick_; });
}

void GroupDriver::release_one() {
  if (waiting_.empty()) {
    return;
  }
  auto at = waiting_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(prng_.below(waiting_.size())));
  const RequestId id{at->first};
  waiting_.erase(at);
  for (const auto& rank : ranks_) {
    rank->controller.release(id);
  }
  trace_.add("release", id.value);
}

void GroupDriver::act_once(bool is_between) {
  const std::uint64_t what = prng_.below(10);
  if (what < 6) {
    request(prng_.below32(scenario_.prompts.size()), is_between);
  } else if (what < 8) {
    release_one();
  } else if (!is_between && what == 8) {
    const auto pages = prng_.between32(1, 6);
    on_all("ranks evict L1 differently",
           [&](SimRank& rank) { return rank.tree.evict_l1(pages); });
  } else if (!is_between && prng_.one_in(20)) {
    for (const auto& rank : ranks_) {
      rank->tree.drop_l2();
    }
  }
}

void GroupDriver::act(bool offers) {
  unlock_due();
  for (std::uint64_t left = offers ? prng_.below(4) : 0; left > 0; --left) {
    act_once(false);
  }
}

}  // namespace hc::sim
