// SPDX-License-Identifier: Apache-2.0
// rank_copy_hostile_test: ranks whose word can't be believed, comes twice, or never.
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "e2e/rank_copy_raw.h"
#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr int kGoneMs = 1000 + int{kGpuGraceMs};

struct BadWord {
  std::string name;
  std::function<void(RawRank&)> act;
  std::uint32_t least_kept;  // batches, which nobody takes back before the process is dead
  std::uint32_t most_kept;
};

void push_word(RawRank& client, const RequestEntry& of,
               const std::function<void(RequestEntry&)>& spoil) {
  RequestEntry word = RawRank::copied(of);
  spoil(word);
  client.push(word);
}

const std::vector<BadWord>& bad_words() {
  static const std::vector<BadWord> table{
      {"without any operation",
       [](RawRank& c) { c.push(RawRank::copied(good_entry(Verb::store, 0))); }, 0, 0},
      {"of an operation that copies nothing",
       [](RawRank& c) {
         c.push(good_entry(Verb::flush, 3));
         c.push(RawRank::copied(good_entry(Verb::flush, 3)));
       },
       0, 0},
      {"twice", [](RawRank& c) {
         const RequestEntry word = RawRank::copied(c.begin(1));
         c.push(word);
         c.push(word);
       },
       0, 0},
      {"of another sequence",
       [](RawRank& c) { push_word(c, c.begin(1), [](auto& word) { ++word.op_sequence; }); }, 1, 1},
      {"of a foreign slot",
       [](RawRank& c) { push_word(c, c.begin(1), [](auto& word) { word.op_slot = 2; }); }, 1, 1},
      {"of a slot that does not exist",
       [](RawRank& c) { push_word(c, c.begin(1), [](auto& word) { word.op_slot = 0xFFFF; }); },
       1, 1},
      {"with pages",
       [](RawRank& c) { push_word(c, c.begin(1), [](auto& word) { word.page_count = 1; }); }, 1, 1},
      {"in a ring that is then broken",
       [](RawRank& c) {
         c.push(RawRank::copied(c.begin(1)));
         c.publish_tail(0x7FFF1234);
       },
       0, 1},  // the daemon may see both at once, and then reads neither
      {"after a ring that was broken", [](RawRank& c) {
         const RequestEntry entry = c.begin(1);
         c.publish_tail(0x7FFF1234);
         HC_CHECK(eventually([&] { return c.end_code() == Code::protocol; }));
         c.push(RawRank::copied(entry));
       },
       1, 1},
  };
  return table;
}

class HostileRanks {
 public:
  HostileRanks() : honest_(scene_.on_host("honest")), watch_(scene_.daemon()) {
    warm_rank_copies(scene_);
    REQUIRE(honest_.open() == HICACHE_OK);
    {
      RawRank first(options());
      REQUIRE(first.open());
    }
    REQUIRE(eventually([&] { return scene_.daemon_sessions() == 1; }));
    before_ = watch_.settled();
  }
  RankCopyScene& scene() { return scene_; }
  RankOptions options() const { return scene_.on_host("hostile"); }
  std::uint64_t operations() { return watch_.look().operations_open; }
  void expect_honest_served() {
    const Keys keys{next_, 6, 0};
    next_ += keys.count;
    CHECK(honest_.store(keys, HICACHE_ACK_DURABLE).code == HICACHE_OK);
    CHECK(honest_.load({keys.first, 6, 20}).code == HICACHE_OK);
    CHECK(honest_.wrong_bytes({keys.first, 6, 20}) == 0);
  }
  void expect_back() {
    Holdings last;
    const bool back = eventually([&] { return (last = watch_.look()) == before_; }, kGoneMs);
    INFO("baseline: " << text_of(before_) << "\nnow:      " << text_of(last) << "\n"
                      << scene_.daemon().log());
    CHECK(back);
  }

 private:
  RankCopyScene scene_;
  Rank honest_;
  Watch watch_;
  Holdings before_;
  std::uint64_t next_ = 5000;
};

TEST_CASE("A word of copies that nobody waits for ends its session, and keeps its own frames") {
  HostileRanks ranks;
  for (const BadWord& bad : bad_words()) {
    INFO(bad.name);
    FakeLine line;
    Child child([&] {
      line.be_child();
      RawRank client(ranks.options());
      HC_EXPECT(client.open());
      bad.act(client);
      HC_EXPECT(eventually([&] { return client.end_code() == Code::protocol; }));
      line.go();
      return line.wait() ? 0 : 1;
    });
    line.be_parent();
    REQUIRE(line.wait());
    CHECK(eventually([&] { return ranks.operations() <= bad.most_kept; }));
    ranks.expect_honest_served();
    CHECK(ranks.operations() >= bad.least_kept);

    child.kill_now();

    ranks.expect_back();
  }
  ranks.expect_honest_served();
}

TEST_CASE("A rank that detaches while it has frames gives them back at once") {
  HostileRanks ranks;
  RawRank client(ranks.options());
  REQUIRE(client.open());
  const RequestEntry first = client.begin(1);
  client.begin(2);

  REQUIRE(client.send(MessageType::detach, {}, {}));

  CHECK(client.await_end() == "detached");
  ranks.expect_back();
  client.push(RawRank::copied(first));  // nobody reads it
  ranks.expect_honest_served();
}

TEST_CASE("A rank that hangs up and still copies says so in its ring, and its memory is free") {
  HostileRanks ranks;
  RawRank client(ranks.options());
  REQUIRE(client.open());
  const RequestEntry entry = client.begin(1);
  client.hang_up();
  REQUIRE(eventually([&] { return client.end_code() == Code::disconnected; }));
  ranks.expect_honest_served();
  CHECK(ranks.operations() == 1);  // it lives, so it may copy

  client.push(RawRank::copied(entry));

  ranks.expect_back();
}

TEST_CASE("A rank that is stopped keeps its own frames, delays nobody, and goes on") {
  HostileRanks ranks;
  FakeLine line;
  Child child([&] {
    line.be_child();
    ranks.scene().give_driver("version=12010,stream_delay_us@2=20000,stream_delay_us@3=20000");
    Rank rank(ranks.scene().on_device("stopped"));
    HC_EXPECT(rank.open() == HICACHE_OK);
    std::uint64_t op = 0;
    HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {700, 8, 0}, op, HICACHE_ACK_RESIDENT) ==
              HICACHE_OK);
    line.go();
    HC_EXPECT(rank.finish(op).code == HICACHE_OK);
    HC_EXPECT(rank.load({700, 8, 20}).code == HICACHE_OK);
    HC_EXPECT(rank.wrong_bytes({700, 8, 20}) == 0);
    return 0;
  });
  line.be_parent();
  REQUIRE(line.wait());
  REQUIRE(eventually([&] { return ranks.operations() == 1; }));
  ::kill(child.pid(), SIGSTOP);
  for (int round = 0; round < 4; ++round) {
    ranks.expect_honest_served();
  }
  CHECK(ranks.operations() == 1);

  ::kill(child.pid(), SIGCONT);

  CHECK(child.wait() == 0);
  ranks.expect_back();
}

TEST_CASE("A stop of the daemon does not wait for a rank that never says a word") {
  HostileRanks ranks;
  RawRank client(ranks.options());
  REQUIRE(client.open());
  client.begin(1);
  const std::uint64_t since = monotonic_ms();

  CHECK(ranks.scene().daemon().stop() == 0);

  CHECK(monotonic_ms() - since < 10'000);
}

TEST_CASE("What a client may not have is refused with a line") {
  HostileRanks ranks;
  RawClient silent(ranks.options());
  AttachTry attempt = silent.make_attach();
  attempt.request.flags = 2;
  const auto refused = silent.attach(std::move(attempt));
  REQUIRE_FALSE(refused);
  CHECK(missing(refused.error().message(), {"flags = 2"}) == "");

  RawRank reader(ranks.options());
  REQUIRE(reader.attach());
  CHECK_FALSE(reader.register_rank_region(RegionKind::rank));
  ranks.expect_honest_served();
}

}  // namespace
}  // namespace hc::test
