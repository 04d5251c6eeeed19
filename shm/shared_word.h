// SPDX-License-Identifier: Apache-2.0
// shared_word: atomic access to words in memory that another process maps too.
//
// Owner thread: any. Every access to a shared word goes through here, so that the compiler reads
// or writes it exactly once. The compiler's builtins are used because std::atomic_ref does not
// take a const word in C++20, and one side of each word is mapped read-only.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/wire_struct.h"

namespace hc {

template <typename Word>
concept SharedWord = std::integral<Word> &&(sizeof(Word) == 4 || sizeof(Word) == 8);

static_assert(__atomic_always_lock_free(4, nullptr) && __atomic_always_lock_free(8, nullptr),
              "a lock inside an atomic would be private to one process");

template <SharedWord Word>
Word load_acquire(const Word& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

template <SharedWord Word>
Word load_relaxed(const Word& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

template <SharedWord Word>
void store_release(Word& word, std::type_identity_t<Word> value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

template <SharedWord Word>
void store_relaxed(Word& word, std::type_identity_t<Word> value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}

// For words with several writers.
template <SharedWord Word>
void add_release(Word& word, std::type_identity_t<Word> value) {
  static_cast<void>(__atomic_fetch_add(&word, value, __ATOMIC_RELEASE));
}

// False: `seen` is what stands there instead.
template <SharedWord Word>
bool compare_exchange(Word& word, std::type_identity_t<Word>& seen,
                      std::type_identity_t<Word> wanted) {
  return __atomic_compare_exchange_n(&word, &seen, wanted, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

// Orders an earlier store before a later load, which acquire and release do not.
inline void full_fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// A short wait inside a bounded spin.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// What a ring carries: exactly one cache line.
template <typename Entry>
concept RingEntry = WireStruct<Entry> && sizeof(Entry) == 64 && alignof(Entry) == 8;

using EntryWords = std::array<std::uint64_t, 8>;

// The one read of a shared entry. Only the copy is judged and used, so that a peer that changes
// the entry afterwards changes nothing.
template <RingEntry Entry>
Entry copy_entry_in(const std::uint64_t* shared) {
  EntryWords words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = load_relaxed(shared[i]);
  }
  return std::bit_cast<Entry>(words);
}

template <RingEntry Entry>
void copy_entry_out(std::uint64_t* shared, const Entry& entry) {
  const auto words = std::bit_cast<EntryWords>(entry);
  for (std::size_t i = 0; i < words.size(); ++i) {
    store_relaxed(shared[i], words[i]);
  }
}

}  // namespace hc
