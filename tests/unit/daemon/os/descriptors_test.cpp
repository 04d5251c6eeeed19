// SPDX-License-Identifier: Apache-2.0
// descriptors_test: daemon/os/event_fd.cpp, daemon/os/file_lock.cpp, daemon/os/local_dir.cpp,
// daemon/os/blocking_io.cpp, and the small headers beside them.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "daemon/os/blocking_io.h"
#include "daemon/os/epoll.h"
#include "daemon/os/event_fd.h"
#include "daemon/os/file_lock.h"
#include "daemon/os/local_dir.h"
#include "daemon/os/pidfd.h"
#include "daemon/os/system_clock.h"
#include "disk_fixture.h"
#include "support/child.h"

namespace hc::test {

TEST_CASE("a raised event is seen until it is cleared") {
  auto event = EventFd::create();
  auto epoll = Epoll::create();
  REQUIRE(event);
  REQUIRE(epoll);
  REQUIRE(epoll->add(event->fd(), Trigger::level, 7));
  CHECK(epoll->wait(0).empty());

  event->raise();
  event->raise();

  REQUIRE(epoll->wait(0).size() == 1);
  CHECK(epoll->wait(0)[0].data.u64 == 7);
  event->clear();
  event->clear();
  CHECK(epoll->wait(0).empty());
}

TEST_CASE("an edge-triggered event comes once for each time it is raised, without being read") {
  auto event = EventFd::create();
  auto epoll = Epoll::create();
  REQUIRE(event);
  REQUIRE(epoll);
  REQUIRE(epoll->add(event->fd(), Trigger::edge, 7));

  event->raise();
  CHECK(epoll->wait(0).size() == 1);
  CHECK(epoll->wait(0).empty());
  event->raise();
  CHECK(epoll->wait(0).size() == 1);
}

TEST_CASE("a removed descriptor is watched no more, and a bad one is refused") {
  auto event = EventFd::create();
  auto epoll = Epoll::create();
  REQUIRE(event);
  REQUIRE(epoll);
  REQUIRE(epoll->add(event->fd(), Trigger::level, 7));
  event->raise();

  epoll->remove(event->fd());

  CHECK(epoll->wait(0).empty());
  CHECK_FALSE(epoll->add(-1, Trigger::level, 0).has_value());
}

TEST_CASE("a pidfd tells the death of its process, before and after it is reaped") {
  std::array<int, 2> hold{};
  REQUIRE(::pipe(hold.data()) == 0);
  Child child([&] {
    char byte = 0;
    ::close(hold[1]);
    return ::read(hold[0], &byte, 1) == 0 ? 0 : 1;
  });
  const auto pidfd = open_pidfd(child.pid());
  auto epoll = Epoll::create();
  REQUIRE(pidfd);
  REQUIRE(epoll);
  REQUIRE(epoll->add(pidfd->get(), Trigger::level, 1));
  CHECK_FALSE(pidfd_is_dead(pidfd->get()));

  ::close(hold[0]);
  ::close(hold[1]);

  CHECK(epoll->wait(-1).size() == 1);
  CHECK(pidfd_is_dead(pidfd->get()));
  CHECK(child.wait() == 0);
  CHECK(pidfd_is_dead(pidfd->get()));
}

TEST_CASE("two pidfds are told to be of one process, or of two") {
  Child child([] { return ::pause(); });
  const auto first = open_pidfd(child.pid());
  const auto again = open_pidfd(child.pid());
  const auto own = open_pidfd(::getpid());
  REQUIRE(first);
  REQUIRE(again);
  REQUIRE(own);
  struct statfs system {};
  REQUIRE(::fstatfs(first->get(), &system) == 0);
  const bool can_tell = system.f_type == 0x50494446;  // since Linux 6.9

  CHECK(pidfds_are_of_one(first->get(), again->get()) == can_tell);
  CHECK_FALSE(pidfds_are_of_one(first->get(), own->get()));
  CHECK_FALSE(pidfds_are_of_one(-1, own->get()));
}

TEST_CASE("a process that never was has no pidfd") {
  const auto pidfd = open_pidfd(0x3FFFFFFF);

  CHECK_FALSE(pidfd.has_value());
}

TEST_CASE("the clock never goes back") {
  SystemClock clock;
  const Instant first = clock.now();
  const Instant second = clock.now();

  CHECK(first.ns > 0);
  CHECK(second >= first);
}

TEST_CASE("a lock held by another open file is waited for and then refused") {
  const TempDir dir;
  const UniqueFd first(::open(dir.file("f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const UniqueFd second(::open(dir.file("f").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(lock_exclusive(first.get(), "f", 0));

  const auto refused = lock_exclusive(second.get(), "f", 50);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::refused);
  CHECK(refused.error().message() == "f is locked by another daemon");
  REQUIRE(::flock(first.get(), LOCK_UN) == 0);
  CHECK(lock_exclusive(second.get(), "f", 0).has_value());
}

TEST_CASE("a pending SIGTERM ends the wait for a lock and stays pending") {
  const TempDir dir;
  const UniqueFd first(::open(dir.file("f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const UniqueFd second(::open(dir.file("f").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(lock_exclusive(first.get(), "f", 0));
  const int number = GENERATE(SIGTERM, SIGINT);
  sigset_t stop;
  sigset_t before;
  sigemptyset(&stop);
  sigaddset(&stop, number);
  REQUIRE(::pthread_sigmask(SIG_BLOCK, &stop, &before) == 0);
  REQUIRE(::raise(number) == 0);

  const auto ended = lock_exclusive(second.get(), "f", 600'000);

  int taken = 0;
  CHECK(::sigwait(&stop, &taken) == 0);
  CHECK(::pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == Code::cancelled);
  CHECK(ended.error().message() == "f: told to stop while waiting for its lock");
}

TEST_CASE("a local folder is made with private rights, and its file system has a name") {
  const TempDir dir;
  const auto fd = open_local_dir(dir.file("made"), "test");

  REQUIRE(fd);
  CHECK_FALSE(file_system_name(fd->get()).empty());
  CHECK(sync_dir(fd->get(), "test").has_value());
  CHECK((std::filesystem::status(dir.file("made")).permissions() & std::filesystem::perms::mask) ==
        std::filesystem::perms::owner_all);
  CHECK(code_of_errno(ENOENT) == Code::not_found);
  CHECK(code_of_errno(ENOSPC) == Code::no_space);
  CHECK(code_of_errno(EACCES) == Code::refused);
  CHECK(code_of_errno(EIO) == Code::io_error);
}

TEST_CASE("a blocking transfer on a closed descriptor answers its errno") {
  const Blocks blocks(kBlockBytes);
  Transfer transfer({DiskOp::read, FileId{}, 0, {blocks.buffer()}, 3}, -1);

  const DiskCompletion done = run_blocking(transfer);

  CHECK(done.code == Code::io_error);
  CHECK(done.sys_errno == EBADF);
  CHECK(done.ticket == 3);
}

}  // namespace hc::test
