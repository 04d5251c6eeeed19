// SPDX-License-Identifier: Apache-2.0
// hostile_memory_test: memory that goes away under a copy, and processes that share a session.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "e2e/process.h"
#include "e2e/raw_client.h"
#include "e2e/scene.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kMemoryPayloadBytes = 1U << 20;
constexpr std::uint32_t kMemoryPages = 12;
constexpr std::uint64_t kRegionBytes = std::uint64_t{kMemoryPages} * kMemoryPayloadBytes;

DaemonOptions large_pages() {
  DaemonOptions options;
  options.l2_bytes = 64U << 20;
  options.l3_bytes = 128U << 20;
  return options;
}

RankOptions memory_rank(const DaemonProcess& daemon, const std::string& group) {
  RankOptions options;
  options.socket = daemon.client_socket();
  options.group = group;
  options.payload_bytes = kMemoryPayloadBytes;
  options.rows = 16;
  return options;
}

// A second region, number 1, over a memory file that the test can cut.
class LooseRegion {
 public:
  explicit LooseRegion(Rank& rank) : rank_(rank), file_(plain_memory_file(kRegionBytes)) {
    const hicache_run run{0, kMemoryPayloadBytes, kMemoryPayloadBytes};
    const hicache_layout layout{0, 1, &run};
    hicache_region region{};
    region.region = 1;
    region.fd = file_.get();
    region.size_bytes = kRegionBytes;
    region.rows = kMemoryPages;
    region.layout_count = 1;
    region.layouts = &layout;
    REQUIRE(hicache_register_region(rank.client(), &region, Rank::kDeadlineMs) == HICACHE_OK);
  }
  ~LooseRegion() { hicache_unregister_region(rank_.client(), 1, Rank::kDeadlineMs); }
  LooseRegion(const LooseRegion&) = delete;
  LooseRegion& operator=(const LooseRegion&) = delete;

  void cut(std::uint64_t size_bytes) const {
    REQUIRE(::ftruncate(file_.get(), static_cast<off_t>(size_bytes)) == 0);
  }
  // A store from or a load to this region.
  std::uint64_t submit(bool store, std::uint64_t first) const {
    std::vector<std::array<std::uint8_t, 32>> keys(kMemoryPages);
    std::vector<hicache_page> pages(kMemoryPages);
    for (std::uint32_t i = 0; i < kMemoryPages; ++i) {
      keys[i] = page_key(first + i);
      pages[i].key = keys[i].data();
      pages[i].key_bytes = 32;
      pages[i].row = i;
    }
    hicache_op op{};
    op.deadline_ms = Rank::kDeadlineMs;
    op.region = 1;
    std::uint64_t op_id = 0;
    REQUIRE((store ? hicache_store : hicache_load)(rank_.client(), &op, pages.data(), kMemoryPages,
                                                   &op_id) == HICACHE_OK);
    return op_id;
  }

 private:
  Rank& rank_;
  UniqueFd file_;
};

TEST_CASE("A region whose memory is gone ends operations with memory_fault, and nothing else") {
  DaemonProcess daemon(large_pages());
  daemon.start();
  Rank other(memory_rank(daemon, "other"));
  Rank rank(memory_rank(daemon, "cutter"));
  REQUIRE(other.open() == HICACHE_OK);
  REQUIRE(rank.open() == HICACHE_OK);
  REQUIRE(other.store({1, kMemoryPages, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  const LooseRegion region(rank);
  region.cut(0);

  CHECK(rank.finish(region.submit(true, 100)).code == HICACHE_MEMORY_FAULT);
  CHECK(rank.finish(region.submit(false, 1)).code == HICACHE_MEMORY_FAULT);

  CHECK(daemon.ask("stats").at("memory_faults").get<std::uint64_t>() >= 2);
  CHECK(rank.present({100, 1, 0}) == 0);
  CHECK(other.load({1, kMemoryPages, 0}).code == HICACHE_OK);
  CHECK(other.wrong_bytes({1, kMemoryPages, 0}) == 0);
  // The session of the one that cut its memory lives on, and its other region is fine.
  CHECK(rank.store({200, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  CHECK(rank.load({200, 4, 0}).code == HICACHE_OK);
  CHECK(rank.wrong_bytes({200, 4, 0}) == 0);
}

TEST_CASE("A region that is cut while a store reads it harms nobody else") {
  DaemonProcess daemon(large_pages());
  daemon.start();
  Rank other(memory_rank(daemon, "other"));
  Rank rank(memory_rank(daemon, "cutter"));
  REQUIRE(other.open() == HICACHE_OK);
  REQUIRE(rank.open() == HICACHE_OK);
  for (std::uint64_t round = 0; round < 8; ++round) {
    const LooseRegion region(rank);
    const std::uint64_t store = region.submit(true, 1000 + round * kMemoryPages);

    region.cut(round % 4 * kMemoryPayloadBytes);

    const hicache_code code = rank.finish(store).code;
    CHECK((code == HICACHE_OK || code == HICACHE_MEMORY_FAULT));
  }
  const Keys keys{1, kMemoryPages, 0};
  CHECK(other.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  CHECK(other.load(keys).code == HICACHE_OK);
  CHECK(other.wrong_bytes(keys) == 0);
  CHECK(daemon.running());
}

// The child of a forked client: says what its calls answered, then keeps everything open.
void stay_behind(Rank& rank, int said, int stay_fd) {
  const hicache_code state = hicache_state(rank.client());
  const hicache_code store = rank.store({1, 1, 0}).code;
  ::eventfd_write(said, state == HICACHE_REFUSED && store == HICACHE_REFUSED ? 1 : 2);
  std::uint8_t byte = 0;
  static_cast<void>(::read(stay_fd, &byte, 1) == 0);  // until the test lets go
  ::_exit(0);
}

TEST_CASE("A forked child can't use the client, nor keep its session alive") {
  DaemonProcess daemon;
  daemon.start();
  const UniqueFd leased(::eventfd(0, EFD_CLOEXEC));
  const UniqueFd said(::eventfd(0, EFD_CLOEXEC));
  std::array<int, 2> stay{};
  REQUIRE(::pipe2(stay.data(), O_CLOEXEC) == 0);
  UniqueFd stay_read(stay[0]);
  UniqueFd stay_write(stay[1]);
  Child client([&] {
    stay_write.reset();  // so that the end of the test ends the grandchild
    Rank rank({daemon.client_socket()});
    if (rank.open() != HICACHE_OK || rank.store({1, 8, 0}).code != HICACHE_OK ||
        rank.pin({1, 8, 0}).lease == 0) {
      return 1;
    }
    if (::fork() == 0) {
      stay_behind(rank, said.get(), stay_read.get());
    }
    ::eventfd_write(leased.get(), 1);
    eventfd_t never = 0;
    ::eventfd_read(leased.get(), &never);  // its own word back
    std::uint8_t byte = 0;
    return static_cast<int>(::read(stay_read.get(), &byte, 1));
  });
  eventfd_t answer = 0;
  REQUIRE(readable_within(said.get(), kPatienceMs));
  REQUIRE(::eventfd_read(said.get(), &answer) == 0);
  CHECK(answer == 1);
  CHECK(daemon.ask("stats").at("frames_leased") == 8);

  client.kill_now();

  // The grandchild still has the socket and the memory file; the process is what counts.
  CHECK(eventually([&] { return daemon.ask("stats").at("frames_leased") == 0; }));
  CHECK(eventually([&] { return daemon.ask("status").at("sessions").empty(); }));
  stay_write.reset();
}

TEST_CASE("A client that hangs up keeps its leases until its process ends or comes again") {
  DaemonProcess daemon;
  daemon.start();
  const RankOptions options{daemon.client_socket(), "quiet"};
  {
    Rank rank({daemon.client_socket(), "filler"});
    REQUIRE(rank.open() == HICACHE_OK);
    REQUIRE(rank.store({0, 2, 0}).code == HICACHE_OK);
  }
  RawClient client(options);
  REQUIRE(client.attach());
  for (std::uint32_t i = 0; i < 2; ++i) {
    PageEntry page{};
    const auto key = page_key(i);
    std::copy(key.begin(), key.end(), reinterpret_cast<std::uint8_t*>(&page.hash));
    client.page_at(0, i) = page;
  }
  client.push(good_entry(Verb::pin, 0, 2));
  const auto pinned = client.next_completion();
  REQUIRE(pinned.has_value());
  REQUIRE(pinned->code == 0);

  client.hang_up();

  REQUIRE(eventually([&] {
    const nlohmann::json sessions = daemon.ask("status").at("sessions");
    return sessions.size() == 1 && sessions[0].at("state") == "ended";
  }));
  CHECK(daemon.ask("stats").at("frames_leased") == 2);
  RawClient again(options);
  REQUIRE(again.attach());
  CHECK(eventually([&] { return daemon.ask("stats").at("frames_leased") == 0; }));
}

}  // namespace
}  // namespace hc::test
