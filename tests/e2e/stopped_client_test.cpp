// SPDX-License-Identifier: Apache-2.0
// stopped_client_test: after each fault of a client the daemon is back where it was, within a
// second; a client that is only stopped keeps what is its own, and no more.
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <string>

#include "e2e/daemon_process.h"
#include "e2e/holdings.h"
#include "e2e/rank.h"
#include "e2e/raw_client.h"
#include "proto/limits.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

constexpr int kPromisedMs = 1000;

// A client process that holds a lease and has operations in flight until it is killed.
Child busy_client(const DaemonProcess& daemon, int ready_fd) {
  return Child([socket = daemon.client_socket(), ready_fd] {
    RankOptions options;
    options.socket = socket;
    options.group = "stopped";
    Rank rank(options);
    if (rank.open() != HICACHE_OK || rank.store({100, 8, 0}).code != HICACHE_OK ||
        rank.pin({100, 8, 0}).lease == 0) {
      return 1;
    }
    ::eventfd_write(ready_fd, 1);
    while (true) {
      std::uint64_t op_id = 0;
      if (rank.submit(HICACHE_VERB_STORE, {200, 8, 8}, op_id) == HICACHE_OK) {
        rank.finish(op_id);
      }
    }
  });
}

struct Baseline {
  Baseline() {
    daemon.start();
    watch = std::make_unique<Watch>(daemon);
    Rank warm({daemon.client_socket()});  // the first session makes what stays
    REQUIRE(warm.open() == HICACHE_OK);
    REQUIRE(warm.store({1, 8, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    REQUIRE(warm.close() == HICACHE_OK);
    REQUIRE(eventually([&] { return watch->look().sessions == 0; }));
    before = watch->settled();
  }
  void expect_back_within_a_second() {
    Holdings last;
    const std::uint64_t since = monotonic_ms();
    const bool back = eventually([&] { return (last = watch->look()) == before; }, kPromisedMs);
    INFO("baseline: " << text_of(before) << "\nnow:      " << text_of(last) << " after "
                      << monotonic_ms() - since << " ms\n" << daemon.log());
    CHECK(back);
  }
  // The end of a session is told once, and counted.
  void expect_one_line(const std::string& group, const std::string& reason) {
    std::size_t ends = 0;
    for (const std::string& line : lines_of(daemon.log())) {
      const bool is_end = occurrences(line, "session.ended") == 1 &&
                          occurrences(line, "group=" + group + " ") == 1;
      ends += is_end ? 1U : 0U;
      CHECK((!is_end || occurrences(line, reason) == 1));
    }
    CHECK(ends == 1);
    const auto stats = daemon.ask("stats");
    CHECK(stats.at("sessions_opened") == stats.at("sessions_closed"));
  }
  void expect_gone(Child& client, const std::string& group) {
    client.kill_now();
    expect_back_within_a_second();
    expect_one_line(group, "code=disconnected");
  }
  void expect_serving() {
    Rank rank({daemon.client_socket(), "other"});
    REQUIRE(rank.open() == HICACHE_OK);
    CHECK(rank.store({5000, 8, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    CHECK(rank.load({5000, 8, 0}).code == HICACHE_OK);
    CHECK(rank.wrong_bytes({5000, 8, 0}) == 0);
    CHECK(rank.close() == HICACHE_OK);
  }

  DaemonProcess daemon;
  std::unique_ptr<Watch> watch;
  Holdings before;
};

TEST_CASE("A stopped client keeps its lease, holds up nobody, and leaves nothing when it ends") {
  Baseline at;
  const UniqueFd ready(::eventfd(0, EFD_CLOEXEC));
  Child client = busy_client(at.daemon, ready.get());
  REQUIRE(readable_within(ready.get(), kPatienceMs));
  ::kill(client.pid(), SIGSTOP);

  at.expect_serving();
  const auto stats = at.daemon.ask("stats");
  CHECK(stats.at("frames_leased") == 8);

  ::kill(client.pid(), SIGCONT);
  eventfd_t clear = 0;
  REQUIRE(::eventfd_read(ready.get(), &clear) == 0);
  at.expect_serving();
  at.expect_gone(client, "stopped");
}

TEST_CASE("A client that is killed while it is stopped leaves nothing behind") {
  Baseline at;
  const UniqueFd ready(::eventfd(0, EFD_CLOEXEC));
  Child client = busy_client(at.daemon, ready.get());
  REQUIRE(readable_within(ready.get(), kPatienceMs));
  ::kill(client.pid(), SIGSTOP);
  at.expect_serving();

  at.expect_gone(client, "stopped");
}

TEST_CASE("A client that cuts its own memory file leaves nothing behind") {
  Baseline at;
  {
    Rank rank({at.daemon.client_socket(), "cutter"});
    REQUIRE(rank.open() == HICACHE_OK);
    const UniqueFd file = plain_memory_file(64U << 10);
    const hicache_run run{0, 24'000, 24'000};
    const hicache_layout layout{0, 1, &run};
    hicache_region region{};
    region.region = 1;
    region.fd = file.get();
    region.size_bytes = 64U << 10;
    region.rows = 2;
    region.layout_count = 1;
    region.layouts = &layout;
    REQUIRE(hicache_register_region(rank.client(), &region, Rank::kDeadlineMs) == HICACHE_OK);
    REQUIRE(::ftruncate(file.get(), 0) == 0);
    const auto key = page_key(700);
    hicache_page page{};
    page.key = key.data();
    page.key_bytes = 32;
    hicache_op op{};
    op.deadline_ms = Rank::kDeadlineMs;
    op.region = 1;
    std::uint64_t op_id = 0;
    REQUIRE(hicache_store(rank.client(), &op, &page, 1, &op_id) == HICACHE_OK);
    CHECK(rank.finish(op_id).code == HICACHE_MEMORY_FAULT);
    at.expect_serving();
    CHECK(at.daemon.ask("stats").at("memory_faults") == 1);
  }
  at.expect_back_within_a_second();
  at.expect_one_line("cutter", "detached");
}

// As many requests as may be open, again and again, until it is killed.
Child flooding_client(const DaemonProcess& daemon, int ready_fd) {
  return Child([socket = daemon.client_socket(), ready_fd] {
    RawClient client({socket, "flood"});
    if (!client.attach()) {
      return 1;
    }
    ::eventfd_write(ready_fd, 1);
    std::uint32_t pushed = 0;
    std::uint32_t ended = 0;
    while (true) {
      while (pushed - ended < kOpSlotsPerSession) {
        const auto slot = static_cast<std::uint16_t>(pushed % kOpSlotsPerSession);
        client.push(good_entry(Verb::flush, slot, 0));
        ++pushed;
      }
      while (client.completions_reach(ended + 1)) {
        client.next_completion();
        ++ended;
      }
    }
  });
}

TEST_CASE("A client that floods its ring holds up nobody, and leaves nothing behind") {
  Baseline at;
  const UniqueFd ready(::eventfd(0, EFD_CLOEXEC));
  Child client = flooding_client(at.daemon, ready.get());
  REQUIRE(readable_within(ready.get(), kPatienceMs));
  const auto asked = [&at] {
    const auto stats = at.daemon.ask("stats");
    return stats.at("operations").get<std::uint64_t>() +
           stats.at("operations_refused").get<std::uint64_t>();
  };
  CHECK(eventually([&] { return asked() > 20 * kRingEntries; }));

  at.expect_serving();
  const std::uint64_t before = asked();
  CHECK(eventually([&] { return asked() > before + kRingEntries; }));  // it still does

  at.expect_gone(client, "flood");
}

TEST_CASE("A client that breaks its ring leaves nothing behind, though it lives on") {
  Baseline at;
  {
    RawClient client({at.daemon.client_socket(), "flood"});
    REQUIRE(client.attach());
    for (std::uint32_t i = 0; i < 200; ++i) {  // completions are never taken
      client.push(good_entry(Verb::flush, static_cast<std::uint16_t>(i % 64), 0));
    }
    client.publish_tail(1'000'000);  // and then a tail that can't be
    CHECK_FALSE(client.await_end().empty());
    at.expect_serving();
    at.expect_back_within_a_second();
    client.hang_up();
  }
  at.expect_one_line("flood", "the request tail is impossible");
}

TEST_CASE("A client that forks and dies leaves nothing behind, whatever its child keeps open") {
  Baseline at;
  const UniqueFd ready(::eventfd(0, EFD_CLOEXEC));
  std::array<int, 2> stay{};
  REQUIRE(::pipe2(stay.data(), O_CLOEXEC) == 0);
  UniqueFd stay_read(stay[0]);
  UniqueFd stay_write(stay[1]);
  Child client([&] {
    stay_write.reset();
    Rank rank({at.daemon.client_socket(), "forker"});
    if (rank.open() != HICACHE_OK || rank.store({300, 8, 0}).code != HICACHE_OK ||
        rank.pin({300, 8, 0}).lease == 0) {
      return 1;
    }
    if (::fork() == 0) {
      std::uint8_t byte = 0;
      static_cast<void>(::read(stay_read.get(), &byte, 1) == 0);
      ::_exit(0);
    }
    ::eventfd_write(ready.get(), 1);
    std::uint8_t byte = 0;
    return static_cast<int>(::read(stay_read.get(), &byte, 1));
  });
  REQUIRE(readable_within(ready.get(), kPatienceMs));
  at.expect_gone(client, "forker");
  stay_write.reset();
}

}  // namespace
}  // namespace hc::test
