// SPDX-License-Identifier: Apache-2.0
// ring_test: both sides of a ring, across the wrap of the index, in threads, and against a hostile
// other side.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "proto/ring_layout.h"
#include "shm/ring_consumer.h"
#include "shm/ring_producer.h"
#include "support/catch.h"
#include "support/dies.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

constexpr std::uint32_t kSmall = 8;
constexpr std::uint32_t kNearWrap = 0xFFFFFFFDU;

using Producer = RingProducer<RequestEntry, kSmall>;
using Consumer = RingConsumer<RequestEntry, kSmall>;

// The words and entries of one ring, as two files would hold them.
struct SharedRing {
  alignas(64) std::array<std::uint8_t, std::size_t{kSmall} * 64> entries{};
  std::uint32_t tail = 0;
  std::uint32_t head = 0;
};

SharedRing ring_at(std::uint32_t index) {
  SharedRing ring;
  ring.tail = index;
  ring.head = index;
  return ring;
}

RequestEntry request(std::uint64_t number) {
  RequestEntry entry{};
  entry.verb = static_cast<std::uint8_t>(Verb::load);
  entry.op_sequence = static_cast<std::uint32_t>(number);
  entry.client_data = number;
  entry.lease = ~number;
  return entry;
}

bool is_request(const RequestEntry& entry, std::uint64_t number) {
  return entry.client_data == number && entry.lease == ~number &&
         entry.op_sequence == static_cast<std::uint32_t>(number) &&
         entry.verb == static_cast<std::uint8_t>(Verb::load);
}

}  // namespace

TEST_CASE("entries come out in the order they went in, across the wrap of the index") {
  SharedRing ring = ring_at(kNearWrap);
  Producer producer(ring.entries, ring.tail, ring.head);
  Consumer consumer(ring.entries, ring.head, ring.tail);
  std::array<RequestEntry, kSmall> out{};
  std::uint64_t sent = 0;
  std::uint64_t got = 0;
  for (std::uint32_t round = 0; round < 40; ++round) {
    for (std::uint32_t i = 0; i <= round % kSmall; ++i) {
      REQUIRE(producer.stage(request(sent++)) == Code::ok);
    }
    REQUIRE(producer.publish() == round % kSmall + 1);
    std::uint32_t taken = 0;
    REQUIRE(consumer.take(out, taken) == Code::ok);
    REQUIRE(taken == round % kSmall + 1);
    for (std::uint32_t i = 0; i < taken; ++i) {
      REQUIRE(is_request(out[i], got++));
    }
  }
  CHECK(ring.tail == kNearWrap + static_cast<std::uint32_t>(sent));
  CHECK(ring.head == ring.tail);
  CHECK(ring.tail < kNearWrap);
}

TEST_CASE("a full ring says busy until the consumer gave slots back") {
  SharedRing ring = ring_at(kNearWrap);
  Producer producer(ring.entries, ring.tail, ring.head);
  Consumer consumer(ring.entries, ring.head, ring.tail);
  for (std::uint64_t i = 0; i < kSmall; ++i) {
    REQUIRE(producer.stage(request(i)) == Code::ok);
  }
  CHECK(producer.stage(request(99)) == Code::busy);
  CHECK(producer.publish() == kSmall);
  CHECK(producer.stage(request(99)) == Code::busy);

  std::array<RequestEntry, 3> out{};
  std::uint32_t taken = 0;
  REQUIRE(consumer.take(out, taken) == Code::ok);
  CHECK(taken == 3);
  std::uint32_t room = 0;
  CHECK(producer.room_for_more(room) == Code::ok);
  CHECK(room == 3);
  CHECK(producer.stage(request(8)) == Code::ok);
}

TEST_CASE("staged entries are invisible until they are published") {
  SharedRing ring = ring_at(0);
  Producer producer(ring.entries, ring.tail, ring.head);
  Consumer consumer(ring.entries, ring.head, ring.tail);
  REQUIRE(producer.stage(request(1)) == Code::ok);
  REQUIRE(producer.stage(request(2)) == Code::ok);
  CHECK_FALSE(consumer.has_news());
  CHECK(ring.tail == 0);
  CHECK(producer.publish() == 2);
  CHECK(ring.tail == 2);
  CHECK(consumer.has_news());
  CHECK(producer.publish() == 0);
}

TEST_CASE("what the consumer has no room for stays in the ring") {
  SharedRing ring = ring_at(kNearWrap);
  Producer producer(ring.entries, ring.tail, ring.head);
  Consumer consumer(ring.entries, ring.head, ring.tail);
  for (std::uint64_t i = 0; i < 5; ++i) {
    REQUIRE(producer.stage(request(i)) == Code::ok);
  }
  producer.publish();
  std::uint32_t taken = 9;
  CHECK(consumer.take({}, taken) == Code::ok);
  CHECK(taken == 0);
  CHECK(ring.head == kNearWrap);
  std::array<RequestEntry, 2> out{};
  REQUIRE(consumer.take(out, taken) == Code::ok);
  CHECK(is_request(out[0], 0));
  CHECK(consumer.has_news());
  REQUIRE(consumer.take(out, taken) == Code::ok);
  CHECK(is_request(out[1], 3));
  CHECK(ring.head == kNearWrap + 4);
}

TEST_CASE("an entry changed after it was taken changes nothing") {
  SharedRing ring = ring_at(0);
  Producer producer(ring.entries, ring.tail, ring.head);
  Consumer consumer(ring.entries, ring.head, ring.tail);
  REQUIRE(producer.stage(request(5)) == Code::ok);
  producer.publish();
  std::array<RequestEntry, 1> out{};
  std::uint32_t taken = 0;
  REQUIRE(consumer.take(out, taken) == Code::ok);
  ring.entries.fill(0xEE);
  CHECK(is_request(out[0], 5));
}

TEST_CASE("a tail that is impossible ends the ring for good") {
  const std::uint32_t start = GENERATE(0U, kNearWrap, 0x7FFFFFFFU);
  const std::uint32_t tail = GENERATE_COPY(start + kSmall + 1, start - 1, start + 0x80000000U,
                                           start - kSmall, start + 0x7FFFFFFFU);
  SharedRing ring = ring_at(start);
  Consumer consumer(ring.entries, ring.head, ring.tail);
  ring.tail = tail;
  std::array<RequestEntry, kSmall> out{};
  std::uint32_t taken = 7;
  CHECK(consumer.has_news());
  CHECK(consumer.take(out, taken) == Code::protocol);
  CHECK(taken == 0);
  CHECK(ring.head == start);
  ring.tail = start + 1;
  CHECK(consumer.take(out, taken) == Code::protocol);
  CHECK(consumer.has_news());
}

TEST_CASE("a tail of exactly the capacity is a full ring and no error") {
  SharedRing ring = ring_at(kNearWrap);
  Consumer consumer(ring.entries, ring.head, ring.tail);
  ring.tail = kNearWrap + kSmall;
  std::array<RequestEntry, kSmall> out{};
  std::uint32_t taken = 0;
  CHECK(consumer.take(out, taken) == Code::ok);
  CHECK(taken == kSmall);
}

TEST_CASE("a head that is impossible ends the ring for good") {
  const std::uint32_t head = GENERATE(kNearWrap + 1, kNearWrap - kSmall - 1,
                                      kNearWrap + 0x80000000U, kNearWrap - 0x7FFFFFFFU);
  SharedRing ring = ring_at(kNearWrap);
  Producer producer(ring.entries, ring.tail, ring.head);
  ring.head = head;
  CHECK(producer.stage(request(1)) == Code::protocol);
  CHECK(ring.entries[0] == 0);
  ring.head = kNearWrap;
  CHECK(producer.stage(request(1)) == Code::protocol);
  CHECK(producer.publish() == 0);
}

TEST_CASE("a ring over memory that is too small or not aligned is a failed check") {
  SharedRing ring;
  const std::span<std::uint8_t> entries(ring.entries);
  CHECK(dies_by_check([&] { Producer(entries.first(511), ring.tail, ring.head); }));
  CHECK(dies_by_check([&] { Consumer(entries.first(511), ring.head, ring.tail); }));
}

TEST_CASE("the rings of a session work over two files, each written by one side") {
  const auto client_file = make_file(kClientFileBytes);
  const auto server_file = make_file(kServerFileBytes);
  Region client_mine = map_all(client_file, false);
  const Region client_theirs = map_all(client_file, true);
  Region server_mine = map_all(server_file, false);
  const Region server_theirs = map_all(server_file, true);
  auto* client = client_mine.writable_at<ClientHeader>(0);
  auto* server = server_mine.writable_at<ServerHeader>(0);
  const auto* client_seen = client_theirs.at<ClientHeader>(0);
  const auto* server_seen = server_theirs.at<ServerHeader>(0);

  RequestProducer ask(client_mine.writable_bytes().subspan(kRequestsOffset), client->request_tail,
                      server_seen->request_head);
  RequestConsumer serve(client_theirs.bytes().subspan(kRequestsOffset), server->request_head,
                        client_seen->request_tail);
  CompletionProducer answer(server_mine.writable_bytes().subspan(kCompletionsOffset),
                            server->completion_tail, client_seen->completion_head);
  CompletionConsumer reap(server_theirs.bytes().subspan(kCompletionsOffset),
                          client->completion_head, server_seen->completion_tail);

  REQUIRE(ask.stage(request(31)) == Code::ok);
  CHECK(ask.publish() == 1);
  std::array<RequestEntry, 4> requests{};
  std::uint32_t taken = 0;
  REQUIRE(serve.take(requests, taken) == Code::ok);
  REQUIRE(taken == 1);
  CompletionEntry done{};
  done.client_data = requests[0].client_data;
  REQUIRE(answer.stage(done) == Code::ok);
  CHECK(answer.publish() == 1);
  std::array<CompletionEntry, 4> completions{};
  REQUIRE(reap.take(completions, taken) == Code::ok);
  REQUIRE(taken == 1);
  CHECK(completions[0].client_data == 31);
}

TEST_CASE("a producer and a consumer thread pass every entry whole and in order") {
  constexpr std::uint64_t kPassedOn = 60'000;
  SharedRing ring = ring_at(kNearWrap);
  Producer producer(ring.entries, ring.tail, ring.head);
  Consumer consumer(ring.entries, ring.head, ring.tail);
  std::atomic<bool> producer_well = true;

  std::thread sender([&] {
    for (std::uint64_t sent = 0; sent < kPassedOn && producer_well;) {
      const Code code = producer.stage(request(sent));
      producer_well = code == Code::ok || code == Code::busy;
      sent += code == Code::ok ? 1U : 0U;
      if (code == Code::busy || sent % 3 == 0 || sent == kPassedOn) {
        producer.publish();
      }
      if (code == Code::busy) {
        std::this_thread::yield();
      }
    }
  });
  std::uint64_t got = 0;
  std::uint64_t wrong = 0;
  Code code = Code::ok;
  std::array<RequestEntry, 5> out{};
  while (got < kPassedOn && code == Code::ok && producer_well) {
    std::uint32_t taken = 0;
    code = consumer.take(out, taken);
    for (std::uint32_t i = 0; i < taken; ++i) {
      wrong += is_request(out[i], got++) ? 0U : 1U;
    }
    if (taken == 0) {
      std::this_thread::yield();
    }
  }
  sender.join();
  CHECK(producer_well);
  CHECK(code == Code::ok);
  CHECK(got == kPassedOn);
  CHECK(wrong == 0);
}

TEST_CASE("a caller that needs several places learns of those that were given back") {
  SharedRing ring = ring_at(0);
  Producer producer(ring.entries, ring.tail, ring.head);
  Consumer consumer(ring.entries, ring.head, ring.tail);
  std::uint32_t room = 0;
  for (std::uint32_t i = 0; i + 1 < kSmall; ++i) {
    REQUIRE(producer.stage(request(i)) == Code::ok);
  }
  producer.publish();
  std::array<RequestEntry, kSmall> out{};
  std::uint32_t taken = 0;
  REQUIRE(consumer.take(out, taken) == Code::ok);

  // One place is known to be free, so the head is not looked at again until more are needed.
  REQUIRE(producer.room_for_more(room, 1) == Code::ok);
  CHECK(room == 1);
  REQUIRE(producer.room_for_more(room, 4) == Code::ok);
  CHECK(room == kSmall);
}
