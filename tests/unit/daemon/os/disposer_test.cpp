// SPDX-License-Identifier: Apache-2.0
// disposer_test: things end on another thread, and one that blocks holds nobody up.
#include "daemon/os/disposer.h"

#include <unistd.h>

#include <array>
#include <future>
#include <thread>

#include "support/catch.h"

namespace hc::test {

namespace {

// Blocks in its destructor until it is allowed to end.
struct Stubborn {
  explicit Stubborn(std::shared_future<void> allowed) : allowed_(std::move(allowed)) {}
  ~Stubborn() { allowed_.wait(); }
  Stubborn(const Stubborn&) = delete;
  Stubborn& operator=(const Stubborn&) = delete;

 private:
  std::shared_future<void> allowed_;
};

struct NotesThread {
  explicit NotesThread(std::thread::id& into) : into_(into) {}
  ~NotesThread() { into_ = std::this_thread::get_id(); }
  NotesThread(const NotesThread&) = delete;
  NotesThread& operator=(const NotesThread&) = delete;

 private:
  std::thread::id& into_;
};

}  // namespace

TEST_CASE("What is disposed of ends on another thread") {
  std::thread::id where = std::this_thread::get_id();
  Disposer disposer;

  disposer.dispose(std::make_shared<NotesThread>(where));

  disposer.drain();
  CHECK(where != std::this_thread::get_id());
}

TEST_CASE("Descriptors are closed, and the list is empty at once") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const UniqueFd reader(ends[0]);
  std::vector<UniqueFd> fds;
  fds.emplace_back(ends[1]);
  fds.emplace_back();
  Disposer disposer;

  disposer.dispose(fds);

  CHECK(fds.empty());
  disposer.drain();
  std::array<char, 1> byte{};
  CHECK(::read(reader.get(), byte.data(), byte.size()) == 0);  // nobody writes any more
}

TEST_CASE("One that blocks holds up neither the caller nor the end of the disposer") {
  std::promise<void> allow;
  std::weak_ptr<Stubborn> watched;
  {
    Disposer disposer;
    auto stubborn = std::make_shared<Stubborn>(allow.get_future().share());
    watched = stubborn;
    disposer.dispose(std::move(stubborn));
    disposer.dispose(std::make_shared<int>(1));
  }
  CHECK(watched.expired());  // it is in its destructor still, or about to be
  allow.set_value();
}

}  // namespace hc::test
