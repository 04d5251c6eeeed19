// SPDX-License-Identifier: Apache-2.0
// fake_outlive: the helper. Compiled without sanitizers and stack protector: what runs in the
// helper runs outside of any thread that the libraries know, so it calls nothing but the kernel;
// not even memset, which a sanitizer replaces.
#include "fake_outlive.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace hc::fake {

namespace {

constexpr std::size_t kQueues = 256;  // of streams beyond, nothing outlives
constexpr std::size_t kStackBytes = 256 << 10;
// The kernel's answers may set errno, which lies somewhere below the thread pointer.
constexpr std::size_t kTlsBytes = 8 << 20;
constexpr std::size_t kThreadBytes = 4096;
constexpr long kPauseNs = 200'000;

// What the helper knows; plain memory that it shares with the process.
FakeQueue* queues[kQueues];
long lifetime_ns;
std::int64_t* done_pieces;
long parent;

long now_ns() {
  struct timespec time;  // not zeroed: that would be a call of memset
  ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000L + time.tv_nsec;
}

void pause_shortly() {
  const struct timespec pause = {0, kPauseNs};
  ::syscall(SYS_nanosleep, &pause, nullptr);
}

void copy_piece(const FakePiece& piece) {
  auto* const to = static_cast<volatile unsigned char*>(piece.to);
  auto* const from = static_cast<const volatile unsigned char*>(piece.from);
  using Word = std::uint64_t __attribute__((aligned(1), may_alias));
  std::size_t at = 0;
  for (; at + sizeof(Word) <= piece.bytes; at += sizeof(Word)) {
    *reinterpret_cast<volatile Word*>(to + at) = *reinterpret_cast<const volatile Word*>(from + at);
  }
  for (; at < piece.bytes; ++at) {
    to[at] = from[at];
  }
}

void reach_record(FakeCell* cell, std::uint32_t number) {
  __atomic_store_n(&cell->reached[number % FakeCell::kPlaces], number, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&cell->changes, 1, __ATOMIC_SEQ_CST);
  ::syscall(SYS_futex, &cell->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool holds(const FakeWork& work) {
  const std::uint64_t now =
      __atomic_load_n(static_cast<const std::uint64_t*>(work.address), __ATOMIC_ACQUIRE);
  switch (work.flags & 3U) {
    case 0:
      return static_cast<std::int64_t>(now - work.value) >= 0;
    case 1:
      return now == work.value;
    case 2:
      return (now & work.value) != 0;
    default:
      return ~(now | work.value) != 0;
  }
}

// False if it has to wait. A call (of the stand-in NCCL) needs the process: it is left out.
bool perform(const FakeWork& work) {
  switch (work.kind) {
    case FakeWork::kCall:
      return true;
    case FakeWork::kCopy:
      for (std::size_t index = work.piece_count; index-- > 0;) {
        copy_piece(work.pieces[index]);
        __atomic_add_fetch(done_pieces, 1, __ATOMIC_SEQ_CST);
      }
      return true;
    case FakeWork::kFill:
      for (std::size_t at = 0; at < work.bytes; ++at) {
        static_cast<volatile unsigned char*>(work.address)[at] =
            static_cast<unsigned char>(work.value);
      }
      return true;
    case FakeWork::kRecord:
      reach_record(work.cell, static_cast<std::uint32_t>(work.value));
      return true;
    case FakeWork::kWaitEvent:
      return __atomic_load_n(&work.cell->reached[work.value % FakeCell::kPlaces],
                             __ATOMIC_SEQ_CST) >= work.value;
    case FakeWork::kWriteValue:
      __atomic_store_n(static_cast<std::uint64_t*>(work.address), work.value, __ATOMIC_RELEASE);
      return true;
    case FakeWork::kWaitValue:
      return holds(work);
  }
  return true;
}

// Does what is due; false if nothing is left.
bool step(long* due, long now) {
  bool is_left = false;
  for (std::size_t index = 0; index < kQueues; ++index) {
    FakeQueue* const queue = queues[index];
    if (queue == nullptr || queue->is_stalled || queue->head == queue->tail) {
      continue;
    }
    is_left = true;
    if (due[index] == 0) {
      due[index] = now + queue->delay_us * 1000;
    }
    if (now >= due[index] && perform(queue->slots[queue->tail % FakeQueue::kSlots])) {
      ++queue->tail;
      due[index] = 0;
    }
  }
  return is_left;
}

// Once the process is dead: all of its threads are, and nobody else touches its memory.
void run_off() {
  static long due[kQueues];
  const long end = now_ns() + lifetime_ns;
  for (long now = now_ns(); now < end && step(due, now); now = now_ns()) {
    pause_shortly();
  }
}

bool parent_lives() {
  return ::syscall(SYS_getppid) == parent;
}

void wait_for_death() {
  const long fd = ::syscall(SYS_pidfd_open, parent, 0U);
  while (parent_lives()) {
    if (fd < 0) {
      pause_shortly();
      continue;
    }
    struct pollfd death = {static_cast<int>(fd), POLLIN, 0};
    ::syscall(SYS_ppoll, &death, 1UL, nullptr, nullptr, 0UL);
    if (death.revents != 0) {
      return;
    }
  }
}

int run_helper(void* /*unused*/) {
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  ::syscall(SYS_setsid);
  ::syscall(SYS_prctl, PR_SET_NAME, "hc-fake-dma", 0, 0, 0);
  wait_for_death();
  run_off();
  ::syscall(SYS_exit_group, 0);
  return 0;
}

char* area(std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

// That of the C library itself: a sanitizer puts one of its own before it, which would run on in
// the helper.
using Clone = int (*)(int (*)(void*), void*, int, void*, ...);
Clone library_clone() {
  void* const library = ::dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Clone>(::dlsym(library, "clone"));
}

}  // namespace

// Its signal of death is 0: a process that waits for any child of its own does not see it.
void outlive_start(long lifetime_us, std::int64_t* done) {
  lifetime_ns = lifetime_us * 1000;
  done_pieces = done;
  parent = ::getpid();
  const Clone clone_process = library_clone();
  char* const stack = area(kStackBytes);
  char* const tls = area(kTlsBytes + kThreadBytes);
  if (clone_process == nullptr || stack == nullptr || tls == nullptr) {
    std::perror("fake_outlive");
    std::abort();
  }
  // A thread pointer of its own: that of the calling thread goes when the thread does.
  char* const thread = tls + kTlsBytes;
  *reinterpret_cast<char**>(thread) = thread;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int pid = clone_process(run_helper, stack + kStackBytes, CLONE_VM | CLONE_SETTLS, nullptr,
                                nullptr, thread, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    std::perror("fake_outlive: clone");
    std::abort();
  }
}

void outlive_add(FakeQueue* queue) {
  for (FakeQueue*& place : queues) {
    FakeQueue* none = nullptr;
    if (__atomic_compare_exchange_n(&place, &none, queue, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
      return;
    }
  }
}

void outlive_remove(FakeQueue* queue) {
  for (FakeQueue*& place : queues) {
    FakeQueue* expected = queue;
    if (__atomic_compare_exchange_n(&place, &expected, nullptr, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
      return;
    }
  }
}

}  // namespace hc::fake
