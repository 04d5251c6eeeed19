// SPDX-License-Identifier: Apache-2.0
// hand_over_test: a session that ends while its client and its daemon live hands its leases to the
// next one. daemon/session/hand_over.cpp, client/client_reattach.cpp
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "e2e/broken_socket.h"
#include "e2e/daemon_process.h"
#include "e2e/process.h"
#include "e2e/rank.h"
#include "e2e/raw_client.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

RankOptions rank_in(const DaemonProcess& daemon, const std::string& group) {
  RankOptions options;
  options.socket = daemon.client_socket();
  options.group = group;
  return options;
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

std::uint64_t frames_leased(const DaemonProcess& daemon) {
  return daemon.ask("stats").at("frames_leased").get<std::uint64_t>();
}

bool comes_to(const DaemonProcess& daemon, std::uint64_t frames) {
  return eventually([&] { return frames_leased(daemon) == frames; });
}

hicache_completion keep(Rank& rank, const Keys& keys) {
  std::uint64_t op_id = 0;
  REQUIRE(rank.submit(HICACHE_VERB_STORE, keys, op_id, HICACHE_ACK_RESIDENT,
                      HICACHE_STORE_KEEP_LEASE) == HICACHE_OK);
  return rank.finish(op_id);
}

hicache_op short_op() {
  hicache_op op{};
  op.deadline_ms = 1000;
  return op;
}

// Until the rank has its next session.
void break_and_wait(const DaemonProcess& daemon, const Rank& rank, int how = SHUT_RDWR) {
  const std::size_t before = count_of(daemon.log(), "session.attached");
  REQUIRE(break_socket(daemon.client_socket(), how));
  REQUIRE(eventually([&] { return count_of(daemon.log(), "session.attached") > before; }));
  REQUIRE(rank.wait_serving());
}

TEST_CASE("hand-over: a broken socket costs no lease, no view and no frame") {
  DaemonProcess daemon;
  daemon.start("clear");
  for (const std::uint32_t quota : {0U, 40U}) {
    RankOptions options = rank_in(daemon, "engine");
    options.quota_pages = quota;
    Rank rank(options);
    REQUIRE(rank.open() == HICACHE_OK);
    const Keys keys{1, 8, 0};
    const hicache_completion stored = keep(rank, keys);
    REQUIRE(stored.code == HICACHE_OK);
    hicache_view view{};
    REQUIRE(hicache_lease_view(rank.client(), stored.lease, 3, 0, &view) == HICACHE_OK);

    for (const int how : {SHUT_RDWR, SHUT_WR, SHUT_RDWR}) {
      break_and_wait(daemon, rank, how);
      CHECK(hicache_view_intact(rank.client(), &view) == 1);
      CHECK(rank.wrong_bytes_in_lease(stored.lease, keys) == 0);
      CHECK(comes_to(daemon, 8));
    }

    std::uint64_t instances = 0;
    CHECK(hicache_instances(rank.client(), &instances) == HICACHE_OK);
    CHECK(instances == 1);
    // Nothing evicts the pages, and the rank goes on with them.
    for (std::uint64_t page = 1000; page < 1600; page += 50) {
      REQUIRE(rank.store({page, 50, 10}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    }
    CHECK(hicache_view_intact(rank.client(), &view) == 1);
    CHECK(rank.load(keys).code == HICACHE_OK);
    CHECK(rank.wrong_bytes(keys) == 0);
    CHECK(rank.release(stored.lease).code == HICACHE_OK);
    CHECK(comes_to(daemon, 0));
  }
  CHECK(count_of(daemon.log(), "kept=1") == 6);
}

TEST_CASE("hand-over: what is released while the session breaks is released, whenever it was") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank rank(rank_in(daemon, "engine"));
  REQUIRE(rank.open() == HICACHE_OK);
  REQUIRE(rank.store({1, 4, 0}).code == HICACHE_OK);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::uint64_t> leases;
    for (int i = 0; i < 30; ++i) {
      const hicache_completion pinned = rank.pin({1, 4, 0});
      REQUIRE(pinned.code == HICACHE_OK);
      leases.push_back(pinned.lease);
    }
    REQUIRE(break_socket(daemon.client_socket()));
    for (const std::uint64_t lease : leases) {
      const hicache_op op = short_op();
      std::uint64_t op_id = 0;
      const hicache_code code = hicache_release(rank.client(), &op, lease, &op_id);
      CHECK((code == HICACHE_OK || code == HICACHE_DISCONNECTED));
    }
    CHECK(comes_to(daemon, 0));
    while (rank.flush().code != HICACHE_OK) {
      REQUIRE(rank.wait_serving());
    }
  }
}

TEST_CASE("hand-over: a reload that has landed unheard goes on, one in flight may have failed") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank rank(rank_in(daemon, "engine"));
  REQUIRE(rank.open() == HICACHE_OK);
  const Keys keys{1, 8, 0};
  REQUIRE(rank.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  for (int round = 0; round < 6; ++round) {
    std::uint64_t op_id = 0;
    REQUIRE(rank.submit(HICACHE_VERB_RELOAD, keys, op_id) == HICACHE_OK);
    if (round % 2 == 0) {
      REQUIRE(comes_to(daemon, 8));
    }
    break_and_wait(daemon, rank);
    const hicache_completion reloaded = rank.finish(op_id);
    if (reloaded.code == HICACHE_OK) {
      CHECK(rank.wrong_bytes_in_lease(reloaded.lease, keys) == 0);
      CHECK(rank.release(reloaded.lease).code == HICACHE_OK);
    } else {
      CHECK(round % 2 == 1);
      CHECK((reloaded.code == HICACHE_DISCONNECTED || reloaded.code == HICACHE_CANCELLED));
    }
    CHECK(comes_to(daemon, 0));
  }
}

TEST_CASE("hand-over: after a switch of weights only the leases of the new ones go on") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank rank(rank_in(daemon, "engine"));
  REQUIRE(rank.open() == HICACHE_OK);
  const hicache_completion stored = keep(rank, {1, 8, 0});
  REQUIRE(stored.code == HICACHE_OK);
  REQUIRE(rank.switch_to("2") == HICACHE_OK);
  CHECK(comes_to(daemon, 0));
  const hicache_completion anew = keep(rank, {1, 8, 0});
  break_and_wait(daemon, rank);
  CHECK(rank.wrong_bytes_in_lease(anew.lease, {1, 8, 0}) == 0);
  const hicache_op op = short_op();
  std::uint64_t op_id = 0;
  CHECK(hicache_release(rank.client(), &op, stored.lease, &op_id) == HICACHE_NOT_FOUND);
  CHECK(comes_to(daemon, 8));
}

TEST_CASE("hand-over: a client that is closed before it is back leaves nothing behind") {
  DaemonProcess daemon;
  daemon.start("clear");
  for (int round = 0; round < 5; ++round) {
    Rank rank(rank_in(daemon, "engine"));
    REQUIRE(rank.open() == HICACHE_OK);
    REQUIRE(keep(rank, {1, 8, 0}).code == HICACHE_OK);
    REQUIRE(break_socket(daemon.client_socket()));
    REQUIRE(eventually([&] { return hicache_state(rank.client()) != HICACHE_OK; }));
    REQUIRE(rank.close() == HICACHE_OK);
    CHECK(comes_to(daemon, 0));
  }
}

// A session of this process with a lease of four pages, and what another says to get it.
struct Claim {
  explicit Claim(const DaemonProcess& daemon) : options(rank_in(daemon, "claimed")) {}

  void hold() {
    older.emplace(options);
    REQUIRE(older->attach());
    for (std::uint32_t i = 0; i < 4; ++i) {
      PageEntry page{};
      const auto key = page_key(1 + i);
      std::memcpy(&page.hash, key.data(), key.size());
      older->page_at(0, i) = page;
    }
    older->push(good_entry(Verb::pin, 0, 4));
    const auto pinned = older->next_completion();
    REQUIRE(pinned.has_value());
    REQUIRE(pinned->code == 0);
    lease = pinned->lease;
  }
  AttachTry attempt(const RawClient& newer) const {
    AttachTry out = newer.make_attach();
    out.request.previous_daemon = older->reply().daemon_instance;
    out.request.previous_session = older->reply().session_serial;
    out.leases = {lease};
    return out;
  }

  RankOptions options;
  std::optional<RawClient> older;
  std::uint64_t lease = 0;
};

struct Forgery {
  std::string name;
  std::function<void(Claim&, AttachTry&)> spoil;
};

const std::vector<Forgery>& forgeries() {
  static const std::vector<Forgery> table{
      {"another serial", [](Claim&, AttachTry& a) { --a.request.previous_session; }},
      {"no serial", [](Claim&, AttachTry& a) { a.request.previous_session = 0; }},
      {"another daemon", [](Claim&, AttachTry& a) { a.request.previous_daemon[3] ^= 1U; }},
      {"another rank",
       [](Claim&, AttachTry& a) {
         a.request.rank = 1;
         a.request.world = 2;
       }},
      {"another group", [](Claim&, AttachTry& a) { a.request.group[0] = 'C'; }},
      {"another lease", [](Claim&, AttachTry& a) { a.leases[0] += 1ULL << 32; }},
      {"one lease too many", [](Claim& c, AttachTry& a) { a.leases.push_back(c.lease); }},
      {"a session that has said good-bye",
       [](Claim& c, AttachTry&) {
         REQUIRE(c.older->send(MessageType::detach, {}, {}));
         c.older->await_end();
       }},
      {"a session that broke its ring",
       [](Claim& c, AttachTry&) {
         c.older->publish_tail(0x7FFF1234);
         c.older->await_end();
       }},
  };
  return table;
}

TEST_CASE("hand-over: leases go to the process that has them, and to no claim that is not true") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank keeper(rank_in(daemon, "keeper"));
  REQUIRE(keeper.open() == HICACHE_OK);
  REQUIRE(keeper.store({1, 4, 0}).code == HICACHE_OK);
  for (const Forgery& forgery : forgeries()) {
    INFO(forgery.name);
    Claim claim(daemon);
    claim.hold();
    CHECK(comes_to(daemon, 4));
    {
      RawClient newer(claim.options);
      AttachTry attempt = claim.attempt(newer);
      forgery.spoil(claim, attempt);
      REQUIRE(newer.attach(std::move(attempt)));
      CHECK(newer.reply().leases_kept == 0);
      claim.older.reset();
      REQUIRE(newer.send(MessageType::detach, {}, {}));
    }
    RawClient last(claim.options);  // whoever still has any leases loses them to this one
    REQUIRE(last.attach());
    CHECK(comes_to(daemon, 0));
  }
}

TEST_CASE("hand-over: a client that is refused for good leaves nothing behind, though it lives") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank keeper(rank_in(daemon, "keeper"));
  REQUIRE(keeper.open() == HICACHE_OK);
  REQUIRE(keeper.store({1, 4, 0}).code == HICACHE_OK);
  const bool is_open = GENERATE(true, false);  // its session before, as far as the daemon knows
  Claim claim(daemon);
  claim.hold();
  RawClient newer(claim.options);
  AttachTry attempt = claim.attempt(newer);
  attempt.request.quota_bytes = 77;
  if (!is_open) {
    claim.older->hang_up();
    REQUIRE(eventually([&] { return daemon.log().find("group=claimed rank=0 code=") !=
                                    std::string::npos; }));
  }
  CHECK(frames_leased(daemon) == 4);

  const auto refused = newer.attach(std::move(attempt));

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::bad_argument);
  CHECK(comes_to(daemon, 0));
}

TEST_CASE("hand-over: another process gets nothing, whatever it knows") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank keeper(rank_in(daemon, "keeper"));
  REQUIRE(keeper.open() == HICACHE_OK);
  REQUIRE(keeper.store({1, 4, 0}).code == HICACHE_OK);
  Claim claim(daemon);
  claim.hold();

  Child thief([&] {
    RawClient newer(claim.options);
    const bool attached = newer.attach(claim.attempt(newer)).has_value();
    return attached ? static_cast<int>(newer.reply().leases_kept) : 2;
  });

  CHECK(thief.wait() == 0);
  CHECK(comes_to(daemon, 0));
}

TEST_CASE("hand-over: an answer that was lost costs nothing, the next attach names the same one") {
  DaemonProcess daemon;
  daemon.start("clear");
  Rank keeper(rank_in(daemon, "keeper"));
  REQUIRE(keeper.open() == HICACHE_OK);
  REQUIRE(keeper.store({1, 4, 0}).code == HICACHE_OK);
  Claim claim(daemon);
  claim.hold();
  RawClient second(claim.options);
  REQUIRE(second.attach(claim.attempt(second)));
  CHECK(second.reply().leases_kept == 1);

  RawClient third(claim.options);
  REQUIRE(third.attach(claim.attempt(third)));

  CHECK(third.reply().leases_kept == 1);
  CHECK(comes_to(daemon, 4));
  RequestEntry release = good_entry(Verb::release, 0);
  release.lease = claim.lease;
  third.push(release);
  const auto released = third.next_completion();
  REQUIRE(released.has_value());
  CHECK(released->code == 0);
  CHECK(comes_to(daemon, 0));
}

}  // namespace
}  // namespace hc::test
