// SPDX-License-Identifier: Apache-2.0
// client_rank_test: operations whose bytes the client copies itself, and how their sessions end;
// tests client/client_gpu.cpp over a fake daemon and the stand-in driver.
#include "support/catch.h"
#include "unit/client/rank_rig.h"

namespace hc {
namespace {

using test::FakeDaemon;
using test::FakeOptions;
using test::RankRig;
using test::cuda_count;
using test::holds_in_child;
using test::kCallMs;

// The lanes' streams come behind that of the bench.
constexpr const char* kSlowLanes = "version=12010,stream_delay_us@2=20000,stream_delay_us@3=20000";

FakeOptions silent_on_detach() {
  FakeOptions options;
  options.answer_detach = false;
  return options;
}

TEST_CASE("a region that the client copies is registered as such, and needs writable arenas") {
  CHECK(holds_in_child([] {
    RankRig rig("");
    HC_EXPECT(rig.daemon.attach_request().flags == kAttachWritable);
    HC_EXPECT(rig.daemon.region_request(3).region_kind ==
              static_cast<std::uint16_t>(RegionKind::rank));
    return 0;
  }));
}

TEST_CASE("frames that the daemon names are filled or read, and the daemon hears of it") {
  CHECK(holds_in_child([] {
    RankRig rig("");
    HC_EXPECT(rig.fill_device(0x61));
    const RequestEntry store = rig.submit(HICACHE_VERB_STORE, 3);
    rig.prepare(store, 2);
    HC_EXPECT(rig.hears_of(store, Code::ok));  // nobody waits or polls
    for (std::uint32_t frame = 2; frame < 5; ++frame) {
      HC_EXPECT(rig.frame_holds(frame, 0x61));
    }
    HC_EXPECT(rig.frame_holds(1, 0) && rig.frame_holds(5, 0));
    rig.end(store);
    HC_EXPECT(rig.next().code == HICACHE_OK);
    HC_EXPECT(rig.fill_device(0x11));
    const RequestEntry load = rig.submit(HICACHE_VERB_LOAD, 2);
    rig.prepare(load, 3);
    HC_EXPECT(rig.hears_of(load, Code::ok));
    HC_EXPECT(rig.device_row_holds(0, 0x61) && rig.device_row_holds(1, 0x61));
    HC_EXPECT(rig.device_row_holds(2, 0x11));
    rig.end(load);
    HC_EXPECT(rig.next().terminal == 1);
    return 0;
  }));
}

TEST_CASE("an operation comes in as many batches as the daemon likes") {
  CHECK(holds_in_child([] {
    RankRig rig("");
    const RequestEntry load = rig.submit(HICACHE_VERB_LOAD, 4);
    for (std::uint32_t page = 0; page < 4; ++page) {
      for (std::uint32_t other = 0; other < 4; ++other) {
        const std::uint32_t frame = other == page ? 5 : kNone32;
        rig.daemon.write_frame_ref(load.op_slot, other, 0, FrameRef{frame, 0, 0, 2});
        rig.daemon.write_frame_ref(load.op_slot, other, 1, FrameRef{kNone32, 0, 0, 0});
      }
      for (std::uint8_t& byte : rig.daemon.frame_payload(0, 5)) {
        byte = static_cast<std::uint8_t>(0x50 + page);
      }
      rig.tell(load);
      HC_EXPECT(rig.hears_of(load, Code::ok));
    }
    for (std::uint32_t page = 0; page < 4; ++page) {
      HC_EXPECT(rig.device_row_holds(page, static_cast<int>(0x50 + page)));
    }
    rig.end(load);
    HC_EXPECT(rig.next().code == HICACHE_OK);
    return 0;
  }));
}

TEST_CASE("copies that fail are said to have failed") {
  CHECK(holds_in_child([] {
    RankRig rig("version=12010,cuMemcpyDtoHAsync@2=1");
    const RequestEntry store = rig.submit(HICACHE_VERB_STORE, 2);
    rig.prepare(store, 0);
    HC_EXPECT(rig.hears_of(store, Code::io_error));
    return 0;
  }));
}

struct BadNews {
  const char* name;
  void (*tell)(RankRig&, const RequestEntry&);
};

constexpr BadNews kBadNews[] = {
    {"a frame that is not there",
     [](RankRig& rig, const RequestEntry& of) { rig.prepare(of, test::kFakeFrames - 1); }},
    {"a frame that no arena could have",
     [](RankRig& rig, const RequestEntry& of) { rig.prepare(of, 0x7FFFFFFF); }},
    {"no frame at all",
     [](RankRig& rig, const RequestEntry& of) {
       for (std::uint32_t at = 0; at < 2 * kKindsMax; ++at) {
         rig.daemon.write_frame_ref(of.op_slot, at / kKindsMax, at % kKindsMax,
                                    FrameRef{kNone32, 0, 0, 0});
       }
       rig.tell(of);
     }},
    {"frames, as the last word",
     [](RankRig& rig, const RequestEntry& of) {
       rig.prepare(of, 0);
       rig.daemon.complete(FakeDaemon::answer(of, Code::ok, Ack::prepared));
     }},
};

TEST_CASE("a daemon that names what can't be loses the session, and nothing is copied there") {
  for (const BadNews& bad : kBadNews) {
    INFO(bad.name);
    CHECK(holds_in_child([&] {
      RankRig rig("");
      const RequestEntry store = rig.submit(HICACHE_VERB_STORE, 2);
      bad.tell(rig, store);
      rig.daemon.await_attach(2);
      const hicache_completion done = rig.next();
      HC_EXPECT(done.terminal == 1 && done.code == HICACHE_DISCONNECTED);
      return 0;
    }));
  }
}

TEST_CASE("a daemon that names what can't be hears of other copies before it hears of the end") {
  CHECK(holds_in_child([] {
    RankRig rig(kSlowLanes, silent_on_detach());
    const RequestEntry good = rig.submit(HICACHE_VERB_STORE, 4);
    const RequestEntry bad = rig.submit(HICACHE_VERB_STORE, 1);
    rig.prepare(good, 0);
    while (cuda_count("copies") < 1) {
      ::sched_yield();
    }
    rig.prepare(bad, 99);
    HC_EXPECT(rig.hears_of(good, Code::ok));
    while (rig.daemon.detaches() == 0) {
      ::sched_yield();
    }
    HC_EXPECT(cuda_count("copies") == 8 && !rig.daemon.has_request());
    rig.daemon.crash();
    rig.daemon.die_fully();
    return 0;
  }));
}

TEST_CASE("a session that ends during copies gives memory back when they have ended") {
  for (const char* way : {"crash", "end", "superseded"}) {
    INFO(way);
    CHECK(holds_in_child([&] {
      RankRig rig(kSlowLanes);
      const RequestEntry store = rig.submit(HICACHE_VERB_STORE, 4);
      rig.prepare(store, 0);
      while (cuda_count("copies") < 1) {
        ::sched_yield();
      }
      const std::string how = way;
      if (how == "crash") {
        rig.daemon.crash();
        rig.daemon.die_fully();
        rig.daemon.stop_listening();
      } else {
        rig.daemon.end_session(how == "end" ? Code::disconnected : Code::superseded, "by a test");
      }
      hicache_completion done = rig.next();
      while (done.terminal == 0) {
        done = rig.next();
      }
      HC_EXPECT(done.code == HICACHE_DISCONNECTED);
      HC_EXPECT(cuda_count("copies") == 8);
      return 0;
    }));
  }
}

TEST_CASE("frames that come after the end of the session are given back untouched") {
  CHECK(holds_in_child([] {
    RankRig rig(kSlowLanes, silent_on_detach());
    HC_EXPECT(rig.fill_device(0x61));
    const RequestEntry good = rig.submit(HICACHE_VERB_STORE, 2);
    const RequestEntry late = rig.submit(HICACHE_VERB_STORE, 1);
    const RequestEntry bad = rig.submit(HICACHE_VERB_STORE, 1);
    const long before = cuda_count("copies");
    rig.prepare(good, 0);
    while (cuda_count("copies") == before) {
      ::sched_yield();
    }
    rig.prepare(bad, 99);
    while (hicache_state(rig.client) == HICACHE_OK) {
      ::sched_yield();
    }
    rig.prepare(late, 5);
    for (int words = 0; words < 2; ++words) {
      const RequestEntry word = rig.daemon.next_request();
      const bool is_good = word.op_slot == good.op_slot;
      HC_EXPECT(is_good || word.op_slot == late.op_slot);
      HC_EXPECT(word.target_sequence == static_cast<std::uint32_t>(is_good ? Code::ok
                                                                           : Code::cancelled));
    }
    HC_EXPECT(rig.frame_holds(0, 0x61) && rig.frame_holds(5, 0));
    rig.daemon.crash();
    rig.daemon.die_fully();
    return 0;
  }));
}

TEST_CASE("a close waits for copies, and the daemon hears of them before it hears of the end") {
  CHECK(holds_in_child([] {
    RankRig rig(kSlowLanes);
    const RequestEntry store = rig.submit(HICACHE_VERB_STORE, 4);
    rig.prepare(store, 0);
    while (cuda_count("copies") < 1) {
      ::sched_yield();
    }
    rig.close(kCallMs, HICACHE_OK);
    HC_EXPECT(cuda_count("copies") == 8 && cuda_count("registered") == 0);
    HC_EXPECT(rig.daemon.detaches() == 1);
    HC_EXPECT(rig.hears_of(store, Code::ok));
    return 0;
  }));
}

TEST_CASE("a close without time ends with the copies all the same, and says that it had none") {
  CHECK(holds_in_child([] {
    RankRig rig(kSlowLanes, silent_on_detach());
    const RequestEntry store = rig.submit(HICACHE_VERB_STORE, 4);
    rig.prepare(store, 0);
    while (cuda_count("copies") < 1) {
      ::sched_yield();
    }
    rig.close(0, HICACHE_TIMED_OUT);
    HC_EXPECT(cuda_count("copies") == 8 && cuda_count("registered") == 0);
    HC_EXPECT(rig.hears_of(store, Code::ok));
    while (rig.daemon.detaches() == 0) {
      ::sched_yield();
    }
    return 0;
  }));
}

TEST_CASE("another daemon's frames are registered anew, and the region is its own again") {
  CHECK(holds_in_child([] {
    RankRig rig("");
    for (std::uint32_t attachment = 1; attachment < 4; ++attachment) {
      rig.daemon.await_attach(attachment);
      while (rig.daemon.regions().empty() || hicache_state(rig.client) != HICACHE_OK) {
        ::sched_yield();
      }
      HC_EXPECT(rig.fill_device(static_cast<unsigned char>(attachment)));
      const RequestEntry store = rig.submit(HICACHE_VERB_STORE, 1);
      rig.prepare(store, 6);
      HC_EXPECT(rig.hears_of(store, Code::ok));
      HC_EXPECT(rig.frame_holds(6, static_cast<std::uint8_t>(attachment)));
      rig.end(store);
      HC_EXPECT(rig.next().code == HICACHE_OK);
      rig.daemon.become_new_instance();
      rig.daemon.crash();
    }
    return 0;
  }));
}

}  // namespace
}  // namespace hc
