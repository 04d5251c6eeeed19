// SPDX-License-Identifier: Apache-2.0
// sigbus_guard_test: which faults are caught. daemon/gpu/sigbus_guard.cpp
#include "daemon/gpu/sigbus_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "shm/unique_fd.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {

namespace {

// A mapping of one page behind the end of its file: any touch is SIGBUS.
std::uint8_t* unbacked_page() {
  const UniqueFd fd(::memfd_create("empty", MFD_CLOEXEC));
  void* data = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  HC_CHECK(data != MAP_FAILED);
  return static_cast<std::uint8_t*>(data);
}

void touch(void* argument) { *static_cast<volatile std::uint8_t*>(argument) = 1; }

}  // namespace

TEST_CASE("a guarded touch of missing memory is reported, again and again") {
  install_sigbus_guard();
  std::uint8_t* page = unbacked_page();
  std::uint8_t there = 0;

  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(run_guarded({page, 4096}, touch, page + 100));
    CHECK(run_guarded({&there, 1}, touch, &there));
  }
  CHECK(there == 1);
}

TEST_CASE("a fault outside of the guarded range goes to the handler before ours") {
  const int result = Child([] {
    // The handler that was there first; the guard must hand the fault on to it.
    std::signal(SIGBUS, [](int) { ::_exit(42); });
    install_sigbus_guard();
    std::uint8_t* guarded = unbacked_page();
    std::uint8_t* other = unbacked_page();
    run_guarded({guarded, 4096}, touch, other);
    return 0;
  }).wait();

  CHECK(result == 42);
}

TEST_CASE("an unguarded fault with no handler before ours ends the process by the signal") {
  const int result = Child([] {
    std::signal(SIGBUS, SIG_DFL);
    install_sigbus_guard();
    touch(unbacked_page());
    return 0;
  }).wait();

  CHECK(result == -SIGBUS);
}

}  // namespace hc::test
