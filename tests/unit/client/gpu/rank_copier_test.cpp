// SPDX-License-Identifier: Apache-2.0
// rank_copier_test: a rank's own copies between device memory and frames; tests
// client/gpu/rank_copier.cpp over the stand-in driver.
#include <sched.h>

#include <atomic>
#include <thread>

#include "shm/shared_word.h"
#include "support/catch.h"
#include "unit/client/gpu/copier_stage.h"

namespace hc::test {
namespace {

const char* const kPlans[] = {"version=13000", "version=12010", "version=13000,host_pointer=0",
                              "version=13000,cuMemcpyBatchAsync=1",
                              "version=12999,cuMemHostRegister=2"};

TEST_CASE("Copies bring the right bytes both ways, on every driver") {
  for (const char* plan : kPlans) {
    INFO(plan);
    CHECK(holds_in_child([&] {
      CopierStage stage(plan);
      stage.copier->add_arenas({{{stage.frames, CopierStage::kRows * CopierStage::kFrame},
                                 CopierStage::kFrame}},
                               nullptr);
      stage.fill_device(0x5C);
      stage.copier->put(stage.batch(1, false, 1, 3));
      stage.await(1);
      HC_EXPECT(stage.outcome(1) == Code::ok);
      for (std::uint32_t row = 1; row < 4; ++row) {
        HC_EXPECT(stage.frame_holds(row, 0x5C));
      }
      HC_EXPECT(stage.frame(0)[0] == 0x33 && stage.frame(4)[0] == 0x33);
      stage.fill_device(0x11);
      stage.copier->put(stage.batch(2, true, 1, 2));
      stage.await(2);
      HC_EXPECT(stage.outcome(2) == Code::ok);
      HC_EXPECT(stage.device_holds(1, 0x5C) && stage.device_holds(2, 0x5C));
      HC_EXPECT(stage.device_holds(0, 0x11) && stage.device_holds(3, 0x11));
      return 0;
    }));
  }
}

TEST_CASE("A batch that waits for an event sees what was queued before it, and holds up no other") {
  CHECK(holds_in_child([] {
    CopierStage stage("stream_delay_us@1=200000");
    CopierStage& at = stage;
    for (const CuAddress part : {at.memory, at.memory + CopierStage::kRows * CuAddress{2000}}) {
      HC_EXPECT(at.bench->driver->memset_async(part, 0x44, 6000, at.bench->stream) == kCuSuccess);
    }
    HC_EXPECT(at.bench->driver->event_record(at.mapping->events[2], at.bench->stream) ==
              kCuSuccess);
    RankBatch waiting = at.batch(1, false, 0, 2);
    waiting.awaits_event = true;
    waiting.slot = 2;
    at.copier->put(std::move(waiting));
    at.copier->put(at.batch(2, false, 5, 1));
    at.await(1);
    HC_EXPECT(at.outcome(2) == Code::ok && at.outcome(1) == Code::not_ready);
    at.await(2);
    HC_EXPECT(at.outcome(1) == Code::ok);
    HC_EXPECT(at.frame_holds(0, 0x44) && at.frame_holds(1, 0x44));
    return 0;
  }));
}

TEST_CASE("A copy that fails fails its batch once, and the next one works") {
  CHECK(holds_in_child([] {
    CopierStage stage("version=12010,cuMemcpyDtoHAsync@3=1");
    stage.fill_device(0x5C);
    stage.copier->put(stage.batch(1, false, 0, 4));
    stage.await(1);
    HC_EXPECT(stage.outcome(1) == Code::io_error);
    stage.copier->put(stage.batch(2, false, 4, 4));
    stage.await(2);
    HC_EXPECT(stage.outcome(2) == Code::ok);
    HC_EXPECT(stage.frame_holds(7, 0x5C));
    HC_EXPECT(stage.count() == 2);
    return 0;
  }));
}

TEST_CASE("A context that is lost fails what runs and what comes, and both directions") {
  CHECK(holds_in_child([] {
    CopierStage stage("version=12010,cuMemcpyDtoHAsync@2=700");
    const StopFd stop;
    stage.copier->put(stage.batch(1, false, 0, 4));
    stage.await(1);
    stage.copier->put(stage.batch(2, true, 0, 1));
    stage.copier->put(stage.batch(3, false, 4, 1));
    stage.await(3);
    for (const std::uint64_t name : {1U, 2U, 3U}) {
      HC_EXPECT(stage.outcome(name) == Code::io_error);
    }
    HC_EXPECT(stage.device->is_lost());
    HC_EXPECT(stage.copier->wait_idle(stop.fd()));
    return 0;
  }));
}

TEST_CASE("An event that does not exist fails its batch alone") {
  CHECK(holds_in_child([] {
    CopierStage stage("");
    RankBatch waiting = stage.batch(1, false, 0, 2);
    waiting.awaits_event = true;
    waiting.slot = 9;
    stage.copier->put(std::move(waiting));
    stage.await(1);
    HC_EXPECT(stage.outcome(1) == Code::io_error);
    HC_EXPECT(stage.frame(0)[0] == 0x33);
    return 0;
  }));
}

TEST_CASE("Idle is only what has said all that it has to say") {
  CHECK(holds_in_child([] {
    CopierStage stage("");
    const StopFd stop;
    for (std::uint64_t name = 1; name <= 4000; ++name) {
      RankBatch waiting = stage.batch(name, false, 0, 1);
      waiting.awaits_event = true;  // never recorded: reached
      stage.copier->put(std::move(waiting));
      // So that the look falls into every moment between the event and the copies.
      for (std::uint64_t spin = 0; spin < name % 100 * 20; ++spin) {
        spin_pause();
      }
      HC_EXPECT(stage.copier->wait_idle(stop.fd()));
      HC_EXPECT(stage.count() == name);
    }
    return 0;
  }));
}

TEST_CASE("Waiting for the end of copies that are stuck ends with the stop") {
  CHECK(holds_in_child([] {
    CopierStage stage("stream_stall@1=1");
    const StopFd stop;
    HC_EXPECT(stage.bench->driver->memset_async(stage.memory, 1, 1, stage.bench->stream) ==
              kCuSuccess);
    HC_EXPECT(stage.bench->driver->event_record(stage.mapping->events[0], stage.bench->stream) ==
              kCuSuccess);
    RankBatch waiting = stage.batch(1, false, 0, 1);
    waiting.awaits_event = true;
    stage.copier->put(std::move(waiting));
    stop.stop();
    HC_EXPECT(!stage.copier->wait_idle(stop.fd()));
    stage.copier.reset();  // what waits for an event is not begun any more
    HC_EXPECT(stage.outcome(1) == Code::cancelled);
    HC_EXPECT(stage.frame(0)[0] == 0x33);
    return 0;
  }));
}

TEST_CASE("The end waits for the copies that the device has") {
  CHECK(holds_in_child([] {
    CopierStage stage("version=13000,stream_delay_us=20000");
    stage.copier->put(stage.batch(1, false, 0, 4));
    stage.copier->put(stage.batch(2, true, 4, 4));
    stage.copier.reset();
    HC_EXPECT(stage.outcome(1) == Code::ok && stage.outcome(2) == Code::ok);
    HC_EXPECT(stage.bench->settled() == kCuSuccess);
    HC_EXPECT(cuda_count("streams") == 1);  // the bench's own
    return 0;
  }));
}

TEST_CASE("The end may meet the moment in which an event is reached") {
  CHECK(holds_in_child([] {
    for (std::uint32_t round = 0; round < 200; ++round) {
      CopierStage stage("");
      std::atomic<bool> go{false};
      std::thread recorder([&] {
        while (!go) {
          ::sched_yield();
        }
        stage.bench->driver->event_record(stage.mapping->events[0], stage.bench->stream);
      });
      RankBatch waiting = stage.batch(1, round % 2 == 0, 0, 2);
      waiting.awaits_event = true;
      stage.copier->put(std::move(waiting));
      go = true;
      stage.copier.reset();
      recorder.join();
      HC_EXPECT(stage.outcome(1) == Code::ok || stage.outcome(1) == Code::cancelled);
      HC_EXPECT(stage.count() == 1);
    }
    return 0;
  }));
}

TEST_CASE("Arenas are registered in the background, and are let go of before their memory is") {
  CHECK(holds_in_child([] {
    CopierStage stage("");
    const long before = cuda_count("registered");
    auto keeps = std::make_shared<int>(1);
    const std::weak_ptr<int> kept = keeps;
    stage.copier->add_arenas({{{stage.frames, 4 * CopierStage::kFrame}, CopierStage::kFrame},
                              {{stage.frame(4), 4 * CopierStage::kFrame}, CopierStage::kFrame}},
                             std::move(keeps));
    while (stage.copier->registered_bytes() < CopierStage::kRows * CopierStage::kFrame) {
      ::sched_yield();
    }
    HC_EXPECT(cuda_count("registered") ==
              before + long{CopierStage::kRows * CopierStage::kFrame});
    stage.copier->drop_arenas();
    HC_EXPECT(stage.copier->registered_bytes() == 0);
    HC_EXPECT(cuda_count("registered") == before);
    HC_EXPECT(kept.expired());
    // Another session brings its own.
    stage.copier->add_arenas({{{stage.frames, CopierStage::kFrame}, CopierStage::kFrame}},
                             nullptr);
    stage.copier.reset();
    HC_EXPECT(cuda_count("registered") == before);
    return 0;
  }));
}

TEST_CASE("An arena that the driver refuses is copied to and from all the same") {
  CHECK(holds_in_child([] {
    CopierStage stage("version=13000,cuMemHostRegister=1");
    stage.copier->add_arenas({{{stage.frames, CopierStage::kRows * CopierStage::kFrame},
                               CopierStage::kFrame}},
                             nullptr);
    stage.fill_device(0x5C);
    stage.copier->put(stage.batch(1, false, 0, 8));
    stage.await(1);
    HC_EXPECT(stage.outcome(1) == Code::ok && stage.frame_holds(7, 0x5C));
    HC_EXPECT(stage.copier->registered_bytes() == 0);
    return 0;
  }));
}

TEST_CASE("Arenas may come and go while their registration runs") {
  CHECK(holds_in_child([] {
    CopierStage stage("");
    const long before = cuda_count("registered");
    for (int round = 0; round < 300; ++round) {
      stage.copier->add_arenas({{{stage.frames, 4 * CopierStage::kFrame}, CopierStage::kFrame},
                                {{stage.frame(4), 4 * CopierStage::kFrame}, CopierStage::kFrame}},
                               nullptr);
      stage.copier->drop_arenas();
      HC_EXPECT(cuda_count("registered") == before);
    }
    return 0;
  }));
}

}  // namespace
}  // namespace hc::test
