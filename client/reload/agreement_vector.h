// SPDX-License-Identifier: Apache-2.0
// agreement_vector: the words that all ranks of a group reduce to their minimum once per tick.
//
// Owner thread: any; plain values. Fixed length whatever the state, so that a rank with nothing to
// say takes part in the same collective (R2, R11).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace hc {

inline constexpr std::size_t kAgreedCandidatesMax = 64;
inline constexpr std::size_t kAgreedOpsMax = 64;

// Of an operation in the vector, in the order in which a minimum decides.
enum class ReloadState : std::int64_t { expired = -1, pending = 0, failed = 1, landed = 2 };

struct AgreementVector {
  static constexpr std::int64_t kUnused = std::numeric_limits<std::int64_t>::max();
  // A pair [x, -x]: its minimum cancels out exactly when x is equal on all ranks. An agreement
  // board moves whole cache lines: what each vector says fills the first one.
  enum Word : std::size_t {
    kSequence,
    kSequenceNegated,
    kEpoch,
    kEpochNegated,
    kDigest,
    kDigestNegated,
    kInstancesNegated,
    kSettled,
    kFirstFailed,
    kCounts = 16,
    kStates = kCounts + kAgreedCandidatesMax,
    kWords = kStates + kAgreedOpsMax,
  };

  std::array<std::int64_t, kWords> words = all_unused();

  void set_pair(Word word, std::int64_t value) {
    words[word] = value;
    words[word + 1] = -value;
  }
  bool is_equal(Word word) const { return words[word] == -words[word + 1]; }
  std::int64_t highest(Word word) const { return -words[word + 1]; }
  void set_instances(std::uint64_t count) {
    words[kInstancesNegated] = -static_cast<std::int64_t>(count);
  }
  std::uint64_t highest_instances() const {
    return static_cast<std::uint64_t>(-words[kInstancesNegated]);
  }
  std::span<std::int64_t> counts() {
    return std::span(words).subspan<kCounts, kAgreedCandidatesMax>();
  }
  std::span<const std::int64_t> counts() const {
    return std::span(words).subspan<kCounts, kAgreedCandidatesMax>();
  }
  std::span<std::int64_t> states() { return std::span(words).subspan<kStates, kAgreedOpsMax>(); }
  std::span<const std::int64_t> states() const {
    return std::span(words).subspan<kStates, kAgreedOpsMax>();
  }

  // What the collective does; for back ends that reduce by themselves, and for tests.
  void reduce(const AgreementVector& other) {
    for (std::size_t i = 0; i < kWords; ++i) {
      words[i] = other.words[i] < words[i] ? other.words[i] : words[i];
    }
  }
  friend bool operator==(const AgreementVector&, const AgreementVector&) = default;

 private:
  static constexpr std::array<std::int64_t, kWords> all_unused() {
    std::array<std::int64_t, kWords> out{};
    out.fill(kUnused);
    return out;
  }
};

}  // namespace hc
