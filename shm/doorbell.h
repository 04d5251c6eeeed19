// SPDX-License-Identifier: Apache-2.0
// doorbell: how a side that sleeps learns that a ring has something for it.
//
// Owner thread: the caller's; no state of its own.
// Invariants: the daemon never waits on, reads or blocks on anything that a client can write.
//
// To the daemon: an eventfd per session, edge-triggered in epoll and never read, written only
// when ServerHeader::daemon_sleeping says so. To the client: a futex on ServerHeader::wake_word,
// which the client maps read-only, called only when ClientHeader::client_waiting says so.
//
// Why no wake is lost, for requests (completions: swap the roles). Each side first stores its own
// word and then loads the other's; the full fence between the two is the whole correctness.
//   client                              daemon
//   K1 write the entry                  D1 daemon_sleeping = 1   (for every session)
//   K2 store-release the tail           D2 full fence
//   K3 full fence                       D3 look at every tail again; one moved: D5
//   K4 load daemon_sleeping; 0: done    D4 epoll_wait
//   K5 write the eventfd                D5 daemon_sleeping = 0, then take the entries
// The fences have one order. K3 before D2: D3 sees the tail of K2 and the daemon does not sleep.
// D2 before K3: K4 sees the 1 of D1 and the client rings; an eventfd written between D3 and D4
// still ends D4. Without either fence K4 may pass K2, or D3 pass D1, in the store buffer of the
// processor: both sides then read the old word, and the daemon sleeps over a request.
// Requests between D5 and the next D1 ring nobody: the daemon looks at every tail in between.
//
// The completion side has one more step, since a futex compares a word instead of holding an
// event: the client loads wake_word BEFORE its last look at the tail. A wake between that load
// and the sleep has changed the word, and the kernel refuses to sleep.
#pragma once

#include <cstdint>

#include "proto/result.h"
#include "shm/shared_word.h"
#include "shm/unique_fd.h"

namespace hc {

// A fresh eventfd: close-on-exec and non-blocking. The daemon makes it and hands a copy out.
Result<UniqueFd> make_doorbell();

// Writes the eventfd. A full counter counts as rung. Code: ok or io_error.
[[nodiscard]] Code ring_doorbell(int doorbell_fd);

// K3 to K5, after the tail was published.
[[nodiscard]] Code ring_if_sleeping(int doorbell_fd, const std::uint32_t& daemon_sleeping);

// D1 and D5. The caller runs D1 for all its sessions, full_fence() once, then looks again.
inline void mark_sleeping(std::uint32_t& daemon_sleeping) {
  store_relaxed(daemon_sleeping, 1);
}
inline void mark_awake(std::uint32_t& daemon_sleeping) {
  store_relaxed(daemon_sleeping, 0);
}

// Daemon, after it published completions: raises the word, and wakes if the client waits.
// `wake_word` has one writer, the caller. Never blocks.
void wake_client(std::uint32_t& wake_word, const std::uint32_t& client_waiting);

// Wakes everybody who waits on this word, whoever made them wait. Never blocks.
void wake_all(std::uint32_t& word);

// Client: says how it wants to be woken (kWaitFutex, kWaitPacket), and returns the word to wait
// on. Then it looks at the completion ring once more, and only if that is empty calls wait_on.
// The flags are one word for all threads of a client: one at a time writes it, with the wishes of
// all of them. end_wait leaves the wishes that remain.
[[nodiscard]] std::uint32_t begin_wait(std::uint32_t& client_waiting, std::uint32_t wait_flags,
                                       const std::uint32_t& wake_word);
inline void end_wait(std::uint32_t& client_waiting, std::uint32_t remaining_flags) {
  store_relaxed(client_waiting, remaining_flags);
}

// Sleeps while `word` equals `seen`, at most `timeout_ns` (0 or less: not at all). The word may
// be mapped read-only. ok: woken, or the word differs, or for no reason: look again.
// timed_out; io_error if the word can't be waited on. Signals do not end the wait.
[[nodiscard]] Code wait_on(const std::uint32_t& word, std::uint32_t seen, std::int64_t timeout_ns);

}  // namespace hc
