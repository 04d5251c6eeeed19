// SPDX-License-Identifier: Apache-2.0
// client_ops_test: operations and completions against a fake daemon; also tests client/session.cpp
// and client/client_ops.cpp.
#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client/hicache.h"
#include "client/session.h"
#include "proto/page_hash.h"
#include "support/catch.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::FakeDaemon;
using test::Rig;
using test::SamplePages;

std::uint64_t store(Rig& rig, const hicache_op& op, const SamplePages& pages) {
  std::uint64_t op_id = 0;
  REQUIRE(hicache_store(rig.client, &op, pages.pages.data(), pages.pages.size(), &op_id) ==
          HICACHE_OK);
  REQUIRE(op_id != 0);
  return op_id;
}

std::uint64_t reload(Rig& rig, const hicache_op& op, const SamplePages& pages) {
  std::uint64_t op_id = 0;
  REQUIRE(hicache_reload(rig.client, &op, pages.pages.data(), pages.pages.size(), &op_id) ==
          HICACHE_OK);
  return op_id;
}

TEST_CASE("a store reaches the daemon with everything the caller said") {
  Rig rig;
  SamplePages pages(2);
  const std::array<std::uint8_t, 5> metadata{5, 6, 7, 8, 9};
  pages.pages[0].row = 5;
  pages.pages[0].metadata = metadata.data();
  pages.pages[0].metadata_bytes = 2;
  pages.pages[1].row = 6;
  pages.pages[1].owner = 0;
  pages.pages[1].metadata = metadata.data() + 2;
  pages.pages[1].metadata_bytes = 3;
  hicache_op op = test::sample_op(0xABCDEF);
  op.flags = HICACHE_STORE_EVERY_ACK;
  op.ack = HICACHE_ACK_DURABLE;
  op.hint = HICACHE_HINT_ONE_SHOT;
  op.priority = 200;
  op.kind_mask = 3;

  store(rig, op, pages);

  const RequestEntry request = rig.daemon->next_request();
  CHECK(request.verb == static_cast<std::uint8_t>(Verb::store));
  CHECK(request.flags == kFlagEveryAck);
  CHECK(request.ack == static_cast<std::uint8_t>(Ack::durable));
  CHECK(request.hint == kHintOneShot);
  CHECK(request.priority == 200);
  CHECK(request.kind_mask == 3);
  CHECK(request.deadline_ms == test::kCallMs);
  CHECK(request.page_count == 2);
  CHECK(request.region == 3);
  CHECK(request.client_data == 0xABCDEF);
  CHECK(request.owner_stride == 0);
  CHECK(request.op_sequence == 1);
  const PageEntry first = rig.daemon->page(request, 0);
  const PageEntry second = rig.daemon->page(request, 1);
  CHECK(first.hash == pages.hash(0));
  CHECK(first.row == 5);
  CHECK(first.owner == 1);
  CHECK(rig.daemon->metadata(request, first) == std::vector<std::uint8_t>{5, 6});
  CHECK(second.hash == pages.hash(1));
  CHECK(second.row == 6);
  CHECK(second.owner == 0);
  CHECK(rig.daemon->metadata(request, second) == std::vector<std::uint8_t>{7, 8, 9});
}

TEST_CASE("a submission rings a daemon that sleeps") {
  Rig rig;
  RequestEntry request{};
  std::thread server([&] { request = rig.daemon->next_request(); });
  rig.daemon->await_sleeping();

  reload(rig, test::sample_op(17), SamplePages(1));
  server.join();

  CHECK(request.client_data == 17);
}

TEST_CASE("a store without an ack asks for resident, and a key of other length is hashed") {
  Rig rig;
  SamplePages pages(1);
  pages.pages[0].key_bytes = 16;

  store(rig, test::sample_op(), pages);

  const RequestEntry request = rig.daemon->next_request();
  CHECK(request.ack == static_cast<std::uint8_t>(Ack::resident));
  CHECK(rig.daemon->page(request, 0).hash == PageHash{sha256({pages.keys[0].data(), 16})});
}

TEST_CASE("a completion carries the daemon's answer and the caller's number") {
  Rig rig;
  const SamplePages pages(2);
  const std::uint64_t op_id = store(rig, test::sample_op(42), pages);
  CompletionEntry entry = FakeDaemon::answer(rig.daemon->next_request(), Code::ok, Ack::resident);
  entry.pages_from_l2 = 3;
  entry.pages_from_l3 = 4;
  entry.pages_stored = 5;
  entry.bytes = 6;
  entry.store_sequence = 7;

  rig.daemon->complete(entry);

  const hicache_completion done = rig.next();
  CHECK(done.op_id == op_id);
  CHECK(done.user_data == 42);
  CHECK(done.code == HICACHE_OK);
  CHECK(done.verb == HICACHE_VERB_STORE);
  CHECK(done.ack == HICACHE_ACK_RESIDENT);
  CHECK(done.terminal == 1);
  CHECK(done.page_count == 2);
  CHECK(done.pages_from_l2 == 3);
  CHECK(done.pages_from_l3 == 4);
  CHECK(done.pages_stored == 5);
  CHECK(done.bytes == 6);
  CHECK(done.store_sequence == 7);
  CHECK(done.lease == 0);
}

TEST_CASE("damage that the daemon reports reads as a miss") {
  Rig rig;
  reload(rig, test::sample_op(), SamplePages(1));

  rig.daemon->complete(FakeDaemon::answer(rig.daemon->next_request(), Code::corrupt, Ack::done));

  CHECK(rig.next().code == HICACHE_NOT_FOUND);
}

TEST_CASE("a store with every ack names one lease in all of them and ends with the last") {
  Rig rig;
  hicache_op op = test::sample_op();
  op.flags = HICACHE_STORE_EVERY_ACK | HICACHE_STORE_KEEP_LEASE;
  op.ack = HICACHE_ACK_DURABLE;
  store(rig, op, SamplePages(1));
  const RequestEntry request = rig.daemon->next_request();
  const auto ack = [&](Ack kind, std::uint32_t terminal) {
    CompletionEntry entry = FakeDaemon::answer(request, Code::ok, kind);
    entry.terminal = terminal;
    entry.lease = 0x500000001;
    rig.daemon->complete(entry);
    return rig.next();
  };

  const hicache_completion resident = ack(Ack::resident, 0);
  const hicache_completion written = ack(Ack::written, 0);
  const hicache_completion durable = ack(Ack::durable, 1);

  CHECK(resident.ack == HICACHE_ACK_RESIDENT);
  CHECK(resident.terminal == 0);
  CHECK(resident.lease != 0);
  CHECK(written.lease == resident.lease);
  CHECK(durable.lease == resident.lease);
  CHECK(durable.terminal == 1);
}

TEST_CASE("the operation after the sixty-fourth is busy until one ends") {
  Rig rig;
  const SamplePages pages(1);
  const hicache_op op = test::sample_op();
  for (std::uint32_t i = 0; i < kOpSlotsPerSession; ++i) {
    reload(rig, op, pages);
  }
  std::uint64_t op_id = 1;

  CHECK(hicache_reload(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_BUSY);
  CHECK(op_id == 0);
  CHECK(std::string(hicache_last_error()).find("64 operations") != std::string::npos);
  CHECK(hicache_flush(rig.client, &op, &op_id) == HICACHE_BUSY);

  rig.daemon->complete(FakeDaemon::answer(rig.daemon->next_request(), Code::ok, Ack::done));
  CHECK(rig.next().terminal == 1);
  CHECK(hicache_reload(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
}

TEST_CASE("a load that is late keeps its memory until it has timed out") {
  Rig rig;
  const SamplePages pages(1);
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;
  REQUIRE(hicache_load(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
  const RequestEntry request = rig.daemon->next_request();
  CompletionEntry late = FakeDaemon::answer(request, Code::timed_out, Ack::late);
  late.terminal = 0;

  rig.daemon->complete(late);

  const hicache_completion first = rig.next();
  CHECK(first.ack == HICACHE_ACK_LATE);
  CHECK(first.terminal == 0);
  CHECK(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_BUSY);

  rig.daemon->complete(FakeDaemon::answer(request, Code::timed_out, Ack::done));
  const hicache_completion last = rig.next();
  CHECK(last.op_id == op_id);
  CHECK(last.terminal == 1);
  CHECK(last.code == HICACHE_TIMED_OUT);
  CHECK(hicache_unregister_region(rig.client, 3, test::kCallMs) == HICACHE_OK);
}

TEST_CASE("when the daemon hangs the library itself reports an operation late, once") {
  Rig rig;
  hicache_op op = test::sample_op();
  op.deadline_ms = 1;
  const std::uint64_t op_id = store(rig, op, SamplePages(1));

  const hicache_completion late = rig.next();

  CHECK(late.op_id == op_id);
  CHECK(late.ack == HICACHE_ACK_LATE);
  CHECK(late.code == HICACHE_TIMED_OUT);
  CHECK(late.terminal == 0);

  // The daemon comes back to life: its own `late` is not reported a second time.
  const RequestEntry request = rig.daemon->next_request();
  CompletionEntry own = FakeDaemon::answer(request, Code::timed_out, Ack::late);
  own.terminal = 0;
  rig.daemon->complete(own);
  rig.daemon->complete(FakeDaemon::answer(request, Code::timed_out, Ack::none));
  CHECK(rig.next().terminal == 1);
}

TEST_CASE("a cancel names the slot and the use of its target") {
  Rig rig;
  const std::uint64_t target = reload(rig, test::sample_op(), SamplePages(1));
  const RequestEntry reloading = rig.daemon->next_request();
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;

  REQUIRE(hicache_cancel(rig.client, &op, target, &op_id) == HICACHE_OK);

  const RequestEntry request = rig.daemon->next_request();
  CHECK(request.verb == static_cast<std::uint8_t>(Verb::cancel));
  CHECK(request.target_slot == reloading.op_slot);
  CHECK(request.target_sequence == reloading.op_sequence);
  CHECK(request.op_slot != reloading.op_slot);

  rig.daemon->complete(FakeDaemon::answer(request, Code::ok, Ack::done));
  rig.daemon->complete(FakeDaemon::answer(reloading, Code::cancelled, Ack::done));
  CHECK(rig.next().verb == HICACHE_VERB_CANCEL);
  CHECK(rig.next().code == HICACHE_CANCELLED);
  CHECK(hicache_cancel(rig.client, &op, target, &op_id) == HICACHE_NOT_FOUND);
}

TEST_CASE("flush, pin and free_object are sent as what they are") {
  Rig rig;
  const SamplePages pages(1);
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;

  REQUIRE(hicache_flush(rig.client, &op, &op_id) == HICACHE_OK);
  CHECK(rig.daemon->next_request().verb == static_cast<std::uint8_t>(Verb::flush));
  REQUIRE(hicache_pin(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
  CHECK(rig.daemon->next_request().verb == static_cast<std::uint8_t>(Verb::pin));
  REQUIRE(hicache_free_object(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
  CHECK(rig.daemon->next_request().verb == static_cast<std::uint8_t>(Verb::free_object));
}

TEST_CASE("a held daemon is not ready for data, but flushes") {
  test::FakeOptions options;
  options.state = SessionState::holding;
  Rig rig(options);
  const SamplePages pages(1);
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;
  hicache_prefix prefix{};

  CHECK(hicache_state(rig.client) == HICACHE_NOT_READY);
  CHECK(hicache_reload(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_NOT_READY);
  CHECK(hicache_exists_prefix(rig.client, pages.pages.data(), 1, &prefix) == HICACHE_OK);
  CHECK(prefix.usable_pages == 0);
  CHECK(hicache_flush(rig.client, &op, &op_id) == HICACHE_OK);

  rig.daemon->set_state(SessionState::serving);
  CHECK(hicache_state(rig.client) == HICACHE_OK);
  CHECK(hicache_reload(rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
}

}  // namespace
}  // namespace hc
