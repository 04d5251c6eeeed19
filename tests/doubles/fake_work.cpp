// SPDX-License-Identifier: Apache-2.0
// fake_work: waiting for events; a futex, because the cell may lie in memory of two processes.
#include "fake_work.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace hc::fake {

void reach(FakeCell* cell, std::uint32_t number) {
  __atomic_store_n(&cell->reached[number % FakeCell::kPlaces], number, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&cell->changes, 1, __ATOMIC_SEQ_CST);
  ::syscall(SYS_futex, &cell->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool is_reached(const FakeCell* cell, std::uint32_t number) {
  return __atomic_load_n(&cell->reached[number % FakeCell::kPlaces], __ATOMIC_SEQ_CST) >= number;
}

void wait_reached(FakeCell* cell, std::uint32_t number) {
  while (true) {
    const std::uint32_t before = __atomic_load_n(&cell->changes, __ATOMIC_SEQ_CST);
    if (is_reached(cell, number)) {
      return;
    }
    ::syscall(SYS_futex, &cell->changes, FUTEX_WAIT, before, nullptr, nullptr, 0);
  }
}

bool value_holds(std::uint64_t now, std::uint64_t value, unsigned flags) {
  switch (flags & 3U) {
    case 0:
      return static_cast<std::int64_t>(now - value) >= 0;
    case 1:
      return now == value;
    case 2:
      return (now & value) != 0;
    default:
      return ~(now | value) != 0;
  }
}

}  // namespace hc::fake
