// SPDX-License-Identifier: Apache-2.0
// agreement_board_model_test: every interleaving of how a round of shm/agreement_board ends.
//
// A small model checker, as in doorbell_model_test: a few ranks tell, look, doubt and decide, one
// access to a shared word at a time, through store buffers. Each of them may lose patience at any
// look, and one may die at any step. Where all have stopped, each round must have ended alike on
// all that ended it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "support/catch.h"

namespace {

constexpr std::uint8_t kModelRanks = 3;
constexpr std::uint8_t kModelRounds = 2;

struct BoardRules {
  std::uint8_t ranks = 3;
  std::uint8_t rounds = kModelRounds;
  bool may_die = false;         // the last rank
  bool looks_again = true;      // (2): after the doubt
  bool has_fence = true;        // between (1) and (2)
  bool asks_doubt_last = true;  // (A) comes after the look
};

enum class BoardStep : std::uint8_t {
  tell,
  told,       // full fence, before the bell
  look,       // at member `whom`: its round
  look_gone,
  look_failed,  // whether the verdict is a failure
  look_again,
  ask,    // (A)
  doubt,  // (1)
  doubted,
  decide_good,
  decide_failed,
  stopped,
  dead,
};

enum class RoundEnd : std::uint8_t { none, taken, failed };

enum class BoardWord : std::uint8_t { round, doubt, gone };
struct BoardStore {
  BoardWord word = BoardWord::round;
  std::uint8_t value = 0;
  friend auto operator<=>(const BoardStore&, const BoardStore&) = default;
};

struct BoardRank {
  BoardStep at = BoardStep::tell;
  std::uint8_t round = 1;
  std::uint8_t whom = 0;
  bool has_doubted = false;
  bool saw_doubt = false;
  std::array<RoundEnd, kModelRounds> ends{};
  std::vector<BoardStore> buffer;
  friend auto operator<=>(const BoardRank&, const BoardRank&) = default;
};

struct BoardState {
  std::array<std::uint8_t, kModelRanks> rounds{};
  std::array<bool, kModelRanks> gone{};
  std::uint8_t doubt = 0;
  std::uint8_t verdict = 0;
  std::array<BoardRank, kModelRanks> ranks{};
  friend auto operator<=>(const BoardState&, const BoardState&) = default;
};

struct BoardFound {
  std::size_t states = 0;
  std::size_t good_ends = 0;    // every round was taken by all
  std::size_t failed_ends = 0;  // a round was given up by all
  std::size_t split = 0;        // a round ended well on one rank and not on another
};

class BoardExplorer {
 public:
  explicit BoardExplorer(const BoardRules& rules) : rules_(rules) {}

  BoardFound run() {
    std::vector<BoardState> open{BoardState{}};
    std::set<BoardState> known{open.front()};
    while (!open.empty()) {
      const BoardState state = open.back();
      open.pop_back();
      next_.clear();
      for (std::uint8_t who = 0; who < rules_.ranks; ++who) {
        drain(state, who);
        advance(state, who);
      }
      if (next_.empty()) {
        judge(state);
      }
      for (BoardState& after : next_) {
        if (known.insert(after).second) {
          open.push_back(std::move(after));
        }
      }
    }
    found_.states = known.size();
    return found_;
  }

 private:
  void drain(BoardState state, std::uint8_t who) {
    BoardRank& rank = state.ranks[who];
    if (rank.buffer.empty()) {
      return;
    }
    const BoardStore store = rank.buffer.front();
    rank.buffer.erase(rank.buffer.begin());
    switch (store.word) {
      case BoardWord::round:
        state.rounds[who] = store.value;
        break;
      case BoardWord::doubt:
        state.doubt = std::max(state.doubt, store.value);
        break;
      case BoardWord::gone:
        state.gone[who] = true;
        break;
    }
    next_.push_back(std::move(state));
  }

  void go(BoardState state, std::uint8_t who, BoardStep at) {
    state.ranks[who].at = at;
    next_.push_back(std::move(state));
  }

  void begin_look(BoardState state, std::uint8_t who) {
    state.ranks[who].whom = 0;
    go(std::move(state), who, BoardStep::look);
  }

  void end(BoardState state, std::uint8_t who, bool is_taken) {
    BoardRank& rank = state.ranks[who];
    rank.ends[rank.round - 1U] = is_taken ? RoundEnd::taken : RoundEnd::failed;
    if (!is_taken) {
      rank.buffer.push_back({BoardWord::gone, 1});
    }
    const bool goes_on = is_taken && rank.round < rules_.rounds;
    if (goes_on) {
      ++rank.round;
    }
    rank.has_doubted = false;
    go(std::move(state), who, goes_on ? BoardStep::tell : BoardStep::stopped);
  }

  void look_result(const BoardState& state, std::uint8_t who, bool is_complete, bool is_gone) {
    const BoardRank& rank = state.ranks[who];
    if (rank.has_doubted) {
      go(state, who, is_complete ? BoardStep::decide_good : BoardStep::decide_failed);
    } else if (is_complete) {
      rules_.asks_doubt_last ? go(state, who, BoardStep::ask) : ask(state, who, rank.saw_doubt);
    } else {
      go(state, who, BoardStep::doubt);  // a member has gone, or patience has
      if (!is_gone) {
        begin_look(state, who);
      }
    }
  }

  void look_on(BoardState state, std::uint8_t who) {
    BoardRank& rank = state.ranks[who];
    if (++rank.whom == rules_.ranks) {
      look_result(state, who, true, false);
    } else {
      go(std::move(state), who, BoardStep::look);
    }
  }

  void ask(const BoardState& state, std::uint8_t who, bool is_doubted) {
    is_doubted ? go(state, who, BoardStep::decide_good) : end(state, who, true);
  }

  void decide(BoardState state, std::uint8_t who, bool is_failed) {
    const std::uint8_t round = state.ranks[who].round;
    if (state.verdict < 2 * round && state.verdict % 2 == 0) {
      state.verdict = static_cast<std::uint8_t>(2 * round + (is_failed ? 1 : 0));
      end(std::move(state), who, !is_failed);
    } else {
      const bool is_taken = state.verdict % 2 == 0 || state.verdict / 2 > round;
      end(std::move(state), who, is_taken);
    }
  }

  void tell_something(BoardState state, std::uint8_t who, BoardStore store, BoardStep then) {
    state.ranks[who].buffer.push_back(store);
    state.ranks[who].has_doubted = store.word == BoardWord::doubt;
    go(std::move(state), who, then);
  }

  void die(BoardState state, std::uint8_t who) {
    // The daemon says so after all its stores.
    state.ranks[who].buffer.push_back({BoardWord::gone, 1});
    go(std::move(state), who, BoardStep::dead);
  }

  void ask_early(BoardState state, std::uint8_t who) {
    state.ranks[who].saw_doubt = state.doubt >= state.ranks[who].round;
    begin_look(std::move(state), who);
  }

  // Of `whom` alone.
  void advance_look(const BoardState& state, std::uint8_t who) {
    const BoardRank& rank = state.ranks[who];
    const bool has_told = state.rounds[rank.whom] >= rank.round;
    if (rank.at == BoardStep::look_gone) {
      go(state, who, state.gone[rank.whom] ? BoardStep::look_again : BoardStep::look_failed);
    } else if (rank.at == BoardStep::look_failed) {
      state.verdict % 2 != 0 ? go(state, who, BoardStep::look_again)
                             : look_result(state, who, false, false);
    } else if (has_told) {
      look_on(state, who);
    } else if (rank.at == BoardStep::look) {
      go(state, who, BoardStep::look_gone);
    } else {
      look_result(state, who, false, true);
    }
  }

  // Locked operations and fences wait until the own buffer is empty.
  void advance(const BoardState& state, std::uint8_t who) {
    const BoardRank& rank = state.ranks[who];
    const bool is_drained = rank.buffer.empty();
    if (rules_.may_die && who + 1 == rules_.ranks && rank.at < BoardStep::stopped) {
      die(state, who);
    }
    switch (rank.at) {
      case BoardStep::tell:
        tell_something(state, who, {BoardWord::round, rank.round}, BoardStep::told);
        break;
      case BoardStep::told:
        if (is_drained) {
          rules_.asks_doubt_last ? begin_look(state, who) : ask_early(state, who);
        }
        break;
      case BoardStep::look:
      case BoardStep::look_gone:
      case BoardStep::look_failed:
      case BoardStep::look_again:
        advance_look(state, who);
        break;
      case BoardStep::ask:
        ask(state, who, state.doubt >= rank.round);
        break;
      case BoardStep::doubt:
        tell_something(state, who, {BoardWord::doubt, rank.round}, BoardStep::doubted);
        break;
      case BoardStep::doubted:
        if (!rules_.looks_again) {
          go(state, who, BoardStep::decide_failed);
        } else if (is_drained || !rules_.has_fence) {
          begin_look(state, who);
        }
        break;
      case BoardStep::decide_good:
      case BoardStep::decide_failed:
        if (is_drained) {
          decide(state, who, rank.at == BoardStep::decide_failed);
        }
        break;
      case BoardStep::stopped:
      case BoardStep::dead:
        break;
    }
  }

  void judge(const BoardState& state) {
    bool all_taken = true;
    bool any_failed = false;
    bool is_split = false;
    for (std::uint8_t round = 0; round < rules_.rounds; ++round) {
      bool taken = false;
      bool failed = false;
      for (std::uint8_t who = 0; who < rules_.ranks; ++who) {
        taken = taken || state.ranks[who].ends[round] == RoundEnd::taken;
        failed = failed || state.ranks[who].ends[round] == RoundEnd::failed;
        all_taken = all_taken && state.ranks[who].ends[round] == RoundEnd::taken;
      }
      is_split = is_split || (taken && failed);
      any_failed = any_failed || failed;
    }
    found_.split += is_split ? 1U : 0U;
    found_.good_ends += all_taken ? 1U : 0U;
    found_.failed_ends += any_failed ? 1U : 0U;
  }

  const BoardRules rules_;
  std::vector<BoardState> next_;
  BoardFound found_;
};

BoardFound explore_board(const BoardRules& rules) {
  const BoardFound found = BoardExplorer(rules).run();
  CHECK(found.states > 100);
  CHECK(found.good_ends > 0);
  CHECK(found.failed_ends > 0);
  return found;
}

}  // namespace

TEST_CASE("no interleaving ends a round well on one rank and not on another") {
  CHECK(explore_board({.ranks = 2}).split == 0);
  CHECK(explore_board({.ranks = 2, .may_die = true}).split == 0);
  CHECK(explore_board({.ranks = 3}).split == 0);
}

TEST_CASE("rounds split as soon as a step of doubting is left out") {
  CHECK(explore_board({.ranks = 2, .looks_again = false}).split > 0);
  CHECK(explore_board({.ranks = 2, .has_fence = false}).split > 0);
  CHECK(explore_board({.ranks = 3, .rounds = 1, .asks_doubt_last = false}).split > 0);
}
