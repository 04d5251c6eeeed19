// SPDX-License-Identifier: Apache-2.0
// doorbell_model_test: every interleaving of the sleep and wake protocols of shm/doorbell.h.
//
// A small model checker. Two threads run short programs over shared words; each thread has a
// store buffer, whose oldest store may reach memory at any later moment, or only at a fence (that
// is how x86 reorders a store with a later load). All reachable states are visited. A state in
// which no thread can go on is an end; it is good only if the consumer has taken everything.
// System calls do not empty the store buffer here, which is weaker than the kernel.
#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.h"

namespace {

enum class Op : std::uint8_t {
  store,       // buffer: word = value
  load,        // reg = word
  load_seen,   // seen = word (the futex word)
  fence,       // waits until the own buffer is empty
  skip_zero,   // reg == 0: go to `value`
  skip_new,    // reg != taken: go to `value`
  take,        // taken = reg, and every entry up to it must be readable
  halt_if,     // taken == value: the program ends well
  jump,        // go to `value`
  ring,        // eventfd: bell = 1
  sleep_bell,  // waits for bell, then bell = 0
  wake,        // futex wake: ends a sleep of the other side
  sleep_word,  // futex wait: sleeps only if the word still equals `seen`
};

struct Step {
  Op op;
  std::uint8_t word = 0;
  std::uint8_t value = 0;
};
using Program = std::vector<Step>;

enum Word : std::uint8_t { kTail, kFlag, kWake, kEntry1, kEntry2, kWords };

constexpr std::uint8_t kEntries = 2;
constexpr std::size_t kBufferMax = 12;

struct Store {
  std::uint8_t word = 0;
  std::uint8_t value = 0;
  friend auto operator<=>(const Store&, const Store&) = default;
};

struct Thread {
  std::uint8_t at = 0;
  std::uint8_t reg = 0;
  std::uint8_t taken = 0;
  std::uint8_t seen = 0;
  bool asleep = false;
  std::vector<Store> buffer;
  friend auto operator<=>(const Thread&, const Thread&) = default;
};

struct State {
  std::array<std::uint8_t, kWords> memory{};
  std::array<Thread, 2> threads{};
  bool bell = false;
  bool torn = false;  // an entry was taken before it could be read
  friend auto operator<=>(const State&, const State&) = default;
};

struct Verdict {
  std::size_t states = 0;
  std::size_t lost_wakes = 0;
  std::size_t torn = 0;
  std::size_t good_ends = 0;
};

class Explorer {
 public:
  Explorer(Program producer, Program consumer, bool store_buffers)
      : programs_{std::move(producer), std::move(consumer)}, store_buffers_(store_buffers) {}

  Verdict run() {
    std::vector<State> open{State{}};
    std::set<State> known{open.front()};
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      next_.clear();
      for (std::size_t who = 0; who < 2; ++who) {
        drain(state, who);
        advance(state, who);
      }
      if (next_.empty()) {
        judge(state);
      }
      for (State& state_after : next_) {
        if (known.insert(state_after).second) {
          open.push_back(std::move(state_after));
        }
      }
    }
    verdict_.states = known.size();
    return verdict_;
  }

 private:
  bool ended(const State& state, std::size_t who) const {
    return state.threads[who].at >= programs_[who].size();
  }

  void judge(const State& state) {
    if (state.torn) {
      ++verdict_.torn;
    } else if (ended(state, 0) && ended(state, 1)) {
      ++verdict_.good_ends;
    } else {
      ++verdict_.lost_wakes;
    }
  }

  void drain(State state, std::size_t who) {
    auto& buffer = state.threads[who].buffer;
    if (!buffer.empty()) {
      state.memory[buffer.front().word] = buffer.front().value;
      buffer.erase(buffer.begin());
      next_.push_back(std::move(state));
    }
  }

  // What a thread reads: its own youngest buffered store, else memory.
  static std::uint8_t read(const State& state, std::size_t who, std::uint8_t word) {
    const auto& buffer = state.threads[who].buffer;
    for (auto it = buffer.rbegin(); it != buffer.rend(); ++it) {
      if (it->word == word) {
        return it->value;
      }
    }
    return state.memory[word];
  }

  void advance(State state, std::size_t who) {
    if (ended(state, who) || state.threads[who].asleep || state.torn) {
      return;
    }
    const Step step = programs_[who][state.threads[who].at];
    ++state.threads[who].at;
    if (execute(state, who, step)) {
      next_.push_back(std::move(state));
    }
  }

  // False: the step can't be taken in this state.
  bool execute(State& state, std::size_t who, const Step& step) const {
    Thread& self = state.threads[who];
    switch (step.op) {
      case Op::store:
        if (!store_buffers_) {
          state.memory[step.word] = step.value;
          return true;
        }
        self.buffer.push_back({step.word, step.value});
        return self.buffer.size() <= kBufferMax;
      case Op::load:
        self.reg = read(state, who, step.word);
        return true;
      case Op::load_seen:
        self.seen = read(state, who, step.word);
        return true;
      case Op::fence:
        return self.buffer.empty();
      case Op::skip_zero:
        self.at = self.reg == 0 ? step.value : self.at;
        return true;
      case Op::skip_new:
        self.at = self.reg != self.taken ? step.value : self.at;
        return true;
      case Op::take:
        self.taken = self.reg;
        for (std::uint8_t i = 0; i < self.taken; ++i) {
          state.torn = state.torn || state.memory[std::size_t{kEntry1} + i] == 0;
        }
        return true;
      case Op::halt_if:
        self.at = self.taken == step.value ? 255 : self.at;
        return true;
      case Op::jump:
        self.at = step.value;
        return true;
      case Op::ring:
        state.bell = true;
        return true;
      case Op::sleep_bell:
        return std::exchange(state.bell, false);
      case Op::wake:
        state.threads[1 - who].asleep = false;
        return true;
      case Op::sleep_word:
        self.asleep = state.memory[step.word] == self.seen;
        return true;
    }
    return false;
  }

  std::array<Program, 2> programs_;
  bool store_buffers_;
  std::vector<State> next_;
  Verdict verdict_;
};

constexpr bool kFence = true;
constexpr bool kNoFence = false;

std::uint8_t here(const Program& program) {
  return static_cast<std::uint8_t>(program.size());
}

// K1 to K5, once per entry.
Program doorbell_client(bool fence) {
  Program steps;
  for (std::uint8_t i = 1; i <= kEntries; ++i) {
    steps.push_back({Op::store, static_cast<std::uint8_t>(kEntry1 + i - 1), 1});
    steps.push_back({Op::store, kTail, i});
    if (fence) {
      steps.push_back({Op::fence});
    }
    steps.push_back({Op::load, kFlag});
    steps.push_back({Op::skip_zero, 0, static_cast<std::uint8_t>(here(steps) + 2)});
    steps.push_back({Op::ring});
  }
  return steps;
}

// D5, taking, D1 to D4, and again.
Program doorbell_daemon(bool fence, bool flag_before_look = true) {
  Program steps{{Op::store, kFlag, 0}, {Op::load, kTail}, {Op::take}, {Op::halt_if, 0, kEntries}};
  if (flag_before_look) {
    steps.push_back({Op::store, kFlag, 1});
  }
  if (fence) {
    steps.push_back({Op::fence});
  }
  steps.push_back({Op::load, kTail});
  steps.push_back({Op::skip_new, 0, 0});
  if (!flag_before_look) {
    steps.push_back({Op::store, kFlag, 1});
  }
  steps.push_back({Op::sleep_bell});
  steps.push_back({Op::jump, 0, 0});
  return steps;
}

Program futex_daemon(bool fence, bool raises_word = true) {
  Program steps;
  for (std::uint8_t i = 1; i <= kEntries; ++i) {
    steps.push_back({Op::store, static_cast<std::uint8_t>(kEntry1 + i - 1), 1});
    steps.push_back({Op::store, kTail, i});
    if (raises_word) {
      steps.push_back({Op::store, kWake, i});
    }
    if (fence) {
      steps.push_back({Op::fence});
    }
    steps.push_back({Op::load, kFlag});
    steps.push_back({Op::skip_zero, 0, static_cast<std::uint8_t>(here(steps) + 2)});
    steps.push_back({Op::wake});
  }
  return steps;
}

Program futex_client(bool fence, bool word_before_look = true) {
  Program steps{{Op::store, kFlag, 0}, {Op::load, kTail}, {Op::take}, {Op::halt_if, 0, kEntries}};
  steps.push_back({Op::store, kFlag, 1});
  if (fence) {
    steps.push_back({Op::fence});
  }
  const Step load_word{Op::load_seen, kWake};
  if (word_before_look) {
    steps.push_back(load_word);
  }
  steps.push_back({Op::load, kTail});
  steps.push_back({Op::skip_new, 0, 0});
  if (!word_before_look) {
    steps.push_back(load_word);
  }
  steps.push_back({Op::sleep_word, kWake});
  steps.push_back({Op::jump, 0, 0});
  return steps;
}

Verdict explore(Program producer, Program consumer, bool store_buffers = true) {
  const Verdict verdict = Explorer(std::move(producer), std::move(consumer), store_buffers).run();
  CHECK(verdict.torn == 0);
  CHECK(verdict.good_ends > 0);
  CHECK(verdict.states > 100);
  return verdict;
}

}  // namespace

TEST_CASE("no interleaving of the doorbell protocol loses a wake") {
  CHECK(explore(doorbell_client(kFence), doorbell_daemon(kFence)).lost_wakes == 0);
}

TEST_CASE("the doorbell protocol loses wakes as soon as either fence is removed") {
  CHECK(explore(doorbell_client(kNoFence), doorbell_daemon(kFence)).lost_wakes > 0);
  CHECK(explore(doorbell_client(kFence), doorbell_daemon(kNoFence)).lost_wakes > 0);
  CHECK(explore(doorbell_client(kNoFence), doorbell_daemon(kNoFence)).lost_wakes > 0);
}

TEST_CASE("without store buffers the doorbell protocol needs no fence but needs its order") {
  CHECK(explore(doorbell_client(kNoFence), doorbell_daemon(kNoFence), false).lost_wakes == 0);
  CHECK(explore(doorbell_client(kFence), doorbell_daemon(kFence, false), false).lost_wakes > 0);
}

TEST_CASE("no interleaving of the futex protocol loses a wake") {
  CHECK(explore(futex_daemon(kFence), futex_client(kFence)).lost_wakes == 0);
}

TEST_CASE("the futex protocol loses wakes as soon as either fence is removed") {
  CHECK(explore(futex_daemon(kNoFence), futex_client(kFence)).lost_wakes > 0);
  CHECK(explore(futex_daemon(kFence), futex_client(kNoFence)).lost_wakes > 0);
}

TEST_CASE("without store buffers the futex protocol needs its word and its order") {
  CHECK(explore(futex_daemon(kNoFence), futex_client(kNoFence), false).lost_wakes == 0);
  CHECK(explore(futex_daemon(kFence, false), futex_client(kFence), false).lost_wakes > 0);
  CHECK(explore(futex_daemon(kFence), futex_client(kFence, false), false).lost_wakes > 0);
}
