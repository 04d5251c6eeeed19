// SPDX-License-Identifier: Apache-2.0
// client_reads_test: exists_prefix, lease views and generations; tests client/client_reads.cpp.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client/hicache.h"
#include "proto/page_hash.h"
#include "support/catch.h"
#include "unit/client/caller.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::FakeDaemon;
using test::Rig;
using test::SamplePages;

// Parts of the sample space: kv of shards 0 and 1, draft of shards 0 and 1.
constexpr std::uint64_t kMyKv = 1ULL << 1;
constexpr std::uint64_t kOtherDraft = 1ULL << 2;
constexpr std::uint64_t kMyDraft = 1ULL << 3;

hicache_prefix prefix_of(Rig& rig, const SamplePages& pages, bool all = false) {
  hicache_prefix out{};
  const auto call = all ? hicache_exists_prefix_all : hicache_exists_prefix;
  REQUIRE(call(rig.client, pages.pages.data(), pages.pages.size(), &out) == HICACHE_OK);
  return out;
}

TEST_CASE("exists_prefix answers from the status table for this rank's shard") {
  Rig rig;
  const SamplePages pages(100);
  for (std::size_t i = 0; i < 90; ++i) {
    PageStatus status;
    status.stored = kMyKv | kMyDraft;
    status.resident = i < 80 ? kMyKv | kMyDraft : 0;
    status.durable = i < 70 ? kMyKv | kMyDraft : 0;
    rig.daemon->put_status(pages.hash(i), status);
  }

  const hicache_prefix prefix = prefix_of(rig, pages);

  CHECK(prefix.usable_pages == 90);
  CHECK(prefix.resident_pages == 80);
  CHECK(prefix.durable_pages == 70);
  CHECK(prefix.kind_pages[0] == 90);
  CHECK(prefix.kind_pages[1] == 90);
}

TEST_CASE("pages that another shard owns count as there, unless their owners are asked") {
  Rig rig;
  const SamplePages pages(1, 0);
  rig.daemon->put_status(pages.hash(0), {0, kMyKv, 0, 0});

  CHECK(prefix_of(rig, pages).usable_pages == 1);
  CHECK(prefix_of(rig, pages, true).usable_pages == 0);

  rig.daemon->put_status(pages.hash(0), {0, kMyKv | kOtherDraft, 0, 0});
  CHECK(prefix_of(rig, pages, true).usable_pages == 1);
}

TEST_CASE("a key of other length is looked up under its hash") {
  Rig rig;
  SamplePages pages(1, 0);
  pages.pages[0].key_bytes = 20;
  rig.daemon->put_status(PageHash{sha256({pages.keys[0].data(), 20})}, {0, kMyKv, 0, 0});

  CHECK(prefix_of(rig, pages).usable_pages == 1);
}

// A page of memory whose first touch stops the thread that touches it until released.
class TrapPage {
 public:
  TrapPage() {
    struct sigaction action {};
    action.sa_sigaction = &TrapPage::on_fault;
    action.sa_flags = SA_SIGINFO;
    bytes_ = static_cast<std::uint8_t*>(
        ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    HC_CHECK(bytes_ != MAP_FAILED);
    touched_ = false;
    released_ = false;
    HC_CHECK(::sigaction(SIGSEGV, &action, &before_) == 0);
  }
  ~TrapPage() {
    HC_CHECK(::sigaction(SIGSEGV, &before_, nullptr) == 0);
    ::munmap(bytes_, kBytes);
  }
  TrapPage(const TrapPage&) = delete;
  TrapPage& operator=(const TrapPage&) = delete;

  const std::uint8_t* bytes() const { return bytes_; }
  static void await_touched() {
    while (!touched_) {
      std::this_thread::yield();
    }
  }
  static void release() { released_ = true; }

 private:
  static constexpr std::size_t kBytes = 4096;

  static void on_fault(int, siginfo_t* info, void*) {
    if (info->si_addr < bytes_ || info->si_addr >= bytes_ + kBytes) {
      ::signal(SIGSEGV, SIG_DFL);  // Not ours: the same access again ends the program.
      return;
    }
    touched_ = true;
    // Ends a test that would hang; nothing waits this long when all is well.
    for (int ms = 0; ms < 30000 && !released_; ++ms) {
      ::usleep(1000);  // waits: a signal handler may do nothing else
    }
    ::mprotect(bytes_, kBytes, PROT_READ);
  }

  static inline std::uint8_t* bytes_ = nullptr;
  static inline std::atomic<bool> touched_ = false;
  static inline std::atomic<bool> released_ = false;
  struct sigaction before_ {};
};

TEST_CASE("looking up a long prefix holds up no other call, and notices a switch of the space") {
  Rig rig;
  SamplePages pages(100, 0);
  for (std::size_t i = 0; i < pages.pages.size(); ++i) {
    rig.daemon->put_status(pages.hash(i), {0, kMyKv, 0, 0});
  }
  const TrapPage trap;
  pages.pages[99].key = trap.bytes();
  hicache_prefix prefix{};
  hicache_code code = HICACHE_PROTOCOL;
  test::Caller reader([&] {
    code = hicache_exists_prefix(rig.client, pages.pages.data(), pages.pages.size(), &prefix);
  });
  TrapPage::await_touched();

  const hicache_code switched = hicache_space_switch(rig.client, "v2", test::kCallMs);
  TrapPage::release();
  reader.join();

  CHECK(switched == HICACHE_OK);
  CHECK(code == HICACHE_BUSY);
  CHECK(prefix.usable_pages == 0);
}

TEST_CASE("two threads may look up prefixes at once") {
  Rig rig;
  SamplePages pages(100, 0);
  for (std::size_t i = 0; i < 99; ++i) {
    rig.daemon->put_status(pages.hash(i), {0, kMyKv, 0, 0});
  }
  SamplePages trapped(100, 0);
  const TrapPage trap;
  trapped.pages[99].key = trap.bytes();
  hicache_prefix prefix{};
  hicache_code code = HICACHE_PROTOCOL;
  test::Caller reader([&] {
    code = hicache_exists_prefix(rig.client, trapped.pages.data(), trapped.pages.size(), &prefix);
  });
  TrapPage::await_touched();

  CHECK(prefix_of(rig, pages).usable_pages == 99);
  TrapPage::release();
  reader.join();

  CHECK(code == HICACHE_OK);
  CHECK(prefix.usable_pages == 99);
}

// A reload of two pages: kv of page 0 in frame 2, of page 1 in frame 5, draft nowhere.
struct Leased {
  Rig rig;
  RequestEntry request{};
  std::uint64_t lease = 0;

  Leased() {
    const SamplePages pages(2);
    const hicache_op op = test::sample_op();
    std::uint64_t op_id = 0;
    REQUIRE(hicache_reload(rig.client, &op, pages.pages.data(), 2, &op_id) == HICACHE_OK);
    request = rig.daemon->next_request();
    for (std::uint32_t page = 0; page < 2; ++page) {
      const std::uint32_t frame = page == 0 ? 2 : 5;
      std::memset(rig.daemon->frame_payload(0, frame).data(), static_cast<int>(0x50 + page),
                  test::kKvBytes);
      rig.daemon->write_frame_ref(request.op_slot, page, 0, {frame, 0, 0, 0});
      rig.daemon->write_frame_ref(request.op_slot, page, 1, {kNone32, 1, 0, 0});
    }
    CompletionEntry entry = FakeDaemon::answer(request, Code::ok, Ack::done);
    entry.lease = 0x700000003;
    rig.daemon->complete(entry);
    lease = rig.next().lease;
    REQUIRE(lease != 0);
  }

  hicache_code view(std::uint32_t page, std::uint32_t kind, hicache_view& out) {
    return hicache_lease_view(rig.client, lease, page, kind, &out);
  }
};

TEST_CASE("a lease shows the payloads in the mapped pool") {
  Leased leased;
  hicache_view view{};

  REQUIRE(leased.view(1, 0, view) == HICACHE_OK);

  CHECK(view.size_bytes == test::kKvBytes);
  REQUIRE(view.data != nullptr);
  CHECK(std::vector<std::uint8_t>(view.data, view.data + view.size_bytes) ==
        std::vector<std::uint8_t>(test::kKvBytes, 0x51));
  CHECK(hicache_view_intact(leased.rig.client, &view) == 1);
}

TEST_CASE("a kind without a part here shows no data, and numbers out of range are refused") {
  Leased leased;
  hicache_view view{};

  REQUIRE(leased.view(0, 1, view) == HICACHE_OK);
  CHECK(view.data == nullptr);
  CHECK(view.size_bytes == test::kDraftBytes);
  CHECK(hicache_view_intact(leased.rig.client, &view) == 0);

  CHECK(leased.view(2, 0, view) == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "page = 2: must be 0..1");
  CHECK(leased.view(0, 2, view) == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "kind = 2: must be 0..1");
}

TEST_CASE("a frame reference outside every arena is a miss") {
  Leased leased;
  const SamplePages pages(1);
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;
  REQUIRE(hicache_pin(leased.rig.client, &op, pages.pages.data(), 1, &op_id) == HICACHE_OK);
  const RequestEntry request = leased.rig.daemon->next_request();
  leased.rig.daemon->write_frame_ref(request.op_slot, 0, 0, {test::kFakeFrames, 0, 0, 0});
  CompletionEntry entry = FakeDaemon::answer(request, Code::ok, Ack::done);
  entry.lease = 8;
  leased.rig.daemon->complete(entry);
  leased.lease = leased.rig.next().lease;
  hicache_view view{};

  CHECK(leased.view(0, 0, view) == HICACHE_NOT_FOUND);
}

TEST_CASE("a view is not intact once its frame has changed, or was being changed") {
  Leased leased;
  hicache_view view{};
  REQUIRE(leased.view(0, 0, view) == HICACHE_OK);
  hicache_view odd = view;
  odd.generation = 1;
  CHECK(hicache_view_intact(leased.rig.client, &odd) == 0);

  leased.rig.daemon->change_frame(2);

  CHECK(hicache_view_intact(leased.rig.client, &view) == 0);
}

TEST_CASE("the references of a lease survive the next use of its operation slot") {
  Leased leased;
  leased.rig.daemon->write_frame_ref(leased.request.op_slot, 0, 0, {7, 0, 0, 0});
  hicache_view view{};

  REQUIRE(leased.view(0, 0, view) == HICACHE_OK);

  CHECK(*view.data == 0x50);
}

TEST_CASE("releasing sends the daemon's own lease and ends the views") {
  Leased leased;
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;

  REQUIRE(hicache_release(leased.rig.client, &op, leased.lease, &op_id) == HICACHE_OK);

  const RequestEntry request = leased.rig.daemon->next_request();
  CHECK(request.verb == static_cast<std::uint8_t>(Verb::release));
  CHECK(request.lease == 0x700000003);
  hicache_view view{};
  CHECK(leased.view(0, 0, view) == HICACHE_BAD_ARGUMENT);
  CHECK(hicache_release(leased.rig.client, &op, leased.lease, &op_id) == HICACHE_BAD_ARGUMENT);
}

TEST_CASE("after the daemon has gone a lease is a miss, but its bytes stay readable") {
  Leased leased;
  hicache_view view{};
  REQUIRE(leased.view(0, 0, view) == HICACHE_OK);

  leased.rig.daemon->become_new_instance();
  leased.rig.daemon->crash();
  leased.rig.daemon->await_attach(2);
  leased.rig.await_state(HICACHE_OK);

  CHECK(*view.data == 0x50);
  CHECK(hicache_view_intact(leased.rig.client, &view) == 0);
  CHECK(leased.view(0, 0, view) == HICACHE_NOT_FOUND);
  const hicache_op op = test::sample_op();
  std::uint64_t op_id = 0;
  CHECK(hicache_release(leased.rig.client, &op, leased.lease, &op_id) == HICACHE_NOT_FOUND);
  CHECK(hicache_release(leased.rig.client, &op, leased.lease, &op_id) == HICACHE_BAD_ARGUMENT);
  CHECK_FALSE(leased.rig.daemon->has_request());
}

}  // namespace
}  // namespace hc
