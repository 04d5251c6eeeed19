// SPDX-License-Identifier: Apache-2.0
// cuda_lane_test: awaits, order at the end of a mapping, and drivers that fail.
#include "shm/gpu/cuda_lane.h"  // and what shm/gpu/cuda_lane_issue.cpp does for it

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "unit/daemon/gpu/copier_bench.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc::test {
namespace {

constexpr std::uint64_t kLaneBytes = 1 << 20;
const std::vector<CopyRun> kLaneRuns{{100, 50'000}, {300'001, 50'000}};

struct OpenedRegion {
  std::uint64_t memory = 0;
  MappingId region = kHostMapping;
};

// A region that is full of 0x5A, open.
OpenedRegion open_painted(CopierBench& bench) {
  OpenedRegion made;
  made.memory = bench.exporter.alloc(kLaneBytes);
  std::fill_n(bench.exporter.host(), kLaneBytes, std::uint8_t{0x5A});
  bench.exporter.push(made.memory, kLaneBytes);
  made.region = bench.open_region(made.memory, kLaneBytes);
  return made;
}

bool is_painted(const CopyJob& job) {
  return std::all_of(job.frame, job.frame + job.payload_bytes,
                     [](std::uint8_t byte) { return byte == 0x5A; });
}

// How many hold the mapping of each copy when its end is told.
class HolderCount final : public CopySink {
 public:
  void copied(const CopyCompletion& done, CudaMappingPtr mapping) override {
    const std::lock_guard lock(mutex_);
    holders_.emplace_back(done.code, mapping.use_count());
    changed_.notify_all();
  }
  void lost(const std::string& line) override { std::fprintf(stderr, "%s\n", line.c_str()); }
  std::vector<std::pair<Code, long>> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return holders_.size() == count; });
    return holders_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<Code, long>> holders_;
};

// Whoever hears of an end may close the mapping, and its close must not wait for the lane.
TEST_CASE("a lane that tells the end of a copy holds its mapping no more") {
  CHECK(holds_in_child([] {
    const auto bench = FakeBench::make("");
    CuUuid raw{};
    Uuid uuid{};
    HC_CHECK(bench->driver->device_uuid(&raw, 0) == kCuSuccess);
    std::memcpy(uuid.data(), &raw, sizeof raw);
    const auto device = CudaDevice::open(bench->driver, uuid);
    HC_EXPECT(device);
    const HostRegistry registry;
    HolderCount sink;
    CudaLane lane({*device, &registry, false}, sink);
    const CuAddress memory = bench->new_memory(kLaneBytes);
    const CuEvent reached = bench->new_event();
    const CuEvent held = bench->new_event();
    unsigned char* const frame = shared_memory(kLaneBytes);
    const auto make_mapping = [&] {
      return std::make_shared<const CudaMapping>(
          CudaMapping{memory, kLaneBytes, *device, {reached, held}});
    };
    const auto await = [](std::uint16_t event) {
      CopyJob job;
      job.kind = CopyKind::await;
      job.event = event;
      return job;
    };
    CopyJob copy;
    copy.kind = CopyKind::gather;
    copy.frame = frame;
    copy.payload_bytes = copy.padded_bytes = 100'000;
    copy.runs = kLaneRuns;

    lane.put(copy, make_mapping());
    HC_EXPECT((sink.wait(1).back() == std::pair{Code::ok, 1L}));
    lane.put(await(0), make_mapping());
    HC_EXPECT((sink.wait(2).back() == std::pair{Code::ok, 1L}));
    auto* const gate = reinterpret_cast<std::uint64_t*>(bench->pinned);
    *gate = 0;
    const CuStream stream = bench->new_stream();
    HC_EXPECT(bench->driver->stream_wait_value64(stream, reinterpret_cast<CuAddress>(gate), 1,
                                                 kCuWaitAtLeast) == kCuSuccess);
    HC_EXPECT(bench->driver->event_record(held, stream) == kCuSuccess);
    lane.put(await(1), make_mapping());
    lane.put(await(1), make_mapping());
    HC_EXPECT((sink.wait(3).back() == std::pair{Code::cancelled, 1L}));
    lane.end();
    HC_EXPECT((sink.wait(4).back() == std::pair{Code::cancelled, 1L}));
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
    return 0;
  }));
}

TEST_CASE("an await ends when its event is reached, and holds up no copy before") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    const OpenedRegion at = open_painted(bench);
    bench.exporter.hold(1);
    const CopyJob reached = bench.await(at.region, 0);
    const CopyJob held = bench.await(at.region, 1);
    const CopyJob held_in = bench.await(at.region, 1, true);
    for (const CopyJob& job : {held, reached, held_in}) {
      HC_EXPECT(bench.copier->submit(job) == Code::ok);
    }
    HC_EXPECT(bench.finish(reached.ticket).code == Code::ok);
    for (int i = 0; i < 20; ++i) {
      HC_EXPECT(bench.run(bench.job(CopyKind::gather, at.region, kLaneRuns)).code == Code::ok);
      HC_EXPECT(bench.run(bench.job(CopyKind::scatter, at.region, kLaneRuns)).code == Code::ok);
      HC_EXPECT(!bench.look(held.ticket) && !bench.look(held_in.ticket));
    }

    bench.exporter.let_go(1);

    HC_EXPECT(bench.finish(held.ticket).code == Code::ok);
    HC_EXPECT(bench.finish(held_in.ticket).code == Code::ok);
    bench.copier->close(at.region, 0);
    return bench.leave();
  }));
}

TEST_CASE("closing a mapping cancels its awaits and no other's") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    const OpenedRegion one = open_painted(bench);
    const MappingId two = bench.open_region(one.memory + 512, 512);
    bench.exporter.hold(0);
    bench.exporter.hold(1);
    const CopyJob gone = bench.await(one.region, 0);
    const CopyJob gone_in = bench.await(one.region, 0, true);
    const CopyJob stays = bench.await(two, 1);
    for (const CopyJob& job : {gone, gone_in, stays}) {
      HC_EXPECT(bench.copier->submit(job) == Code::ok);
    }

    bench.copier->close(one.region, 0);

    HC_EXPECT(bench.finish(gone.ticket).code == Code::cancelled);
    HC_EXPECT(bench.finish(gone_in.ticket).code == Code::cancelled);
    HC_EXPECT(!bench.look(stays.ticket));
    bench.exporter.let_go(1);
    HC_EXPECT(bench.finish(stays.ticket).code == Code::ok);
    bench.copier->close(two, 0);
    HC_EXPECT(bench.until([] { return cuda_count("mappings") == 0; }));
    return bench.leave();
  }));
}

TEST_CASE("of an event that is never reached one await is kept, the latest") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    const OpenedRegion at = open_painted(bench);
    bench.exporter.hold(0);
    bench.exporter.hold(1);
    const CopyJob other = bench.await(at.region, 1);
    HC_EXPECT(bench.copier->submit(other) == Code::ok);
    CopyJob last = bench.await(at.region, 0);
    HC_EXPECT(bench.copier->submit(last) == Code::ok);
    for (int i = 0; i < 200; ++i) {
      const CopyJob next = bench.await(at.region, 0);
      HC_EXPECT(bench.copier->submit(next) == Code::ok);
      HC_EXPECT(bench.finish(last.ticket).code == Code::cancelled);
      last = next;
    }
    HC_EXPECT(bench.copier->in_flight() == 2);
    HC_EXPECT(!bench.look(last.ticket) && !bench.look(other.ticket));
    bench.exporter.let_go(0);
    HC_EXPECT(bench.finish(last.ticket).code == Code::ok);
    bench.copier->close(at.region, 0);
    HC_EXPECT(bench.finish(other.ticket).code == Code::cancelled);
    return bench.leave();
  }));
}

TEST_CASE("an await of an event that there is not fails, and is alone in that") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    const OpenedRegion at = open_painted(bench);
    HC_EXPECT(bench.run(bench.await(at.region, 7)).code == Code::io_error);
    const CopyJob job = bench.job(CopyKind::gather, at.region, kLaneRuns);
    HC_EXPECT(bench.run(job).code == Code::ok && is_painted(job));
    HC_EXPECT(!bench.copier->devices()[0].lost);
    bench.copier->close(at.region, 0);
    return bench.leave();
  }));
}

TEST_CASE("a mapping that goes while copies of it run is closed after them") {
  CHECK(holds_in_child([] {
    CopierBench bench({"version=13000,stream_delay_us=30000", ""});
    bench.register_frames();
    const OpenedRegion at = open_painted(bench);
    std::vector<CopyJob> jobs;
    for (std::uint32_t i = 0; i < 4; ++i) {
      jobs.push_back(bench.job(CopyKind::gather, at.region, kLaneRuns, i));
      HC_EXPECT(bench.copier->submit(jobs.back()) == Code::ok);
    }

    bench.copier->close(at.region, 0);

    HC_EXPECT(bench.until([&] { return bench.copier->open_allocations() == 0; }));
    // Nothing is awaited here: what is closed has no copy any more.
    for (const CopyJob& job : jobs) {
      const auto done = bench.look(job.ticket);
      HC_EXPECT(done && done->code == Code::ok && is_painted(job));
    }
    return bench.leave();
  }));
}

TEST_CASE("a copier that goes with all at work waits for its copies and closes what is open") {
  CHECK(holds_in_child([] {
    CopierBench bench({"version=13000,stream_delay_us=20000", ""});
    bench.register_frames();
    const OpenedRegion at = open_painted(bench);
    bench.exporter.hold(0);
    const CopyJob job = bench.job(CopyKind::gather, at.region, kLaneRuns);
    HC_EXPECT(bench.copier->submit(job) == Code::ok);
    HC_EXPECT(bench.copier->submit(bench.await(at.region, 0)) == Code::ok);
    bench.copier->open(9'000, bench.exporter.region(at.memory + 4096, 4096));  // nobody asks
    HC_EXPECT(bench.leave() == 0);
    HC_EXPECT(is_painted(job));
    return 0;
  }));
}

TEST_CASE("a context that is lost fails its jobs with one line, and later exports by name") {
  const auto* const plan =
      GENERATE("version=12010,cuMemcpyDtoHAsync@5=700", "version=12010,cuEventQuery@3=719",
               "version=12010,cuEventRecord@2=700", "version=12010,cuStreamCreateWithPriority@1=2");
  INFO(plan);
  CHECK(holds_in_child([&] {
    CopierBench bench({plan, ""});
    const OpenedRegion at = open_painted(bench);
    const std::vector<CopyRun> others{{500'000, 50'000}};  // the two directions meet nowhere
    std::vector<CopyJob> jobs;
    for (std::uint32_t i = 0; i < 20; ++i) {
      jobs.push_back(bench.job(CopyKind::gather, at.region, kLaneRuns, i % 2));
      jobs.push_back(bench.await(at.region, 0));
      jobs.push_back(bench.job(CopyKind::scatter, at.region, others, 2 + i % 2));
    }
    for (const CopyJob& job : jobs) {
      HC_EXPECT(bench.copier->submit(job) == Code::ok);
    }

    HC_EXPECT(bench.until([&] { return bench.copier->devices()[0].lost; }));

    for (const CopyJob& job : jobs) {
      static_cast<void>(bench.finish(job.ticket));
    }
    HC_EXPECT(bench.run(bench.job(CopyKind::gather, at.region, kLaneRuns)).code == Code::io_error);
    HC_EXPECT(bench.run(bench.await(at.region, 0)).code == Code::io_error);
    HC_EXPECT(bench.copier->in_flight() == 0);
    const DeviceOpened late = bench.open(bench.exporter.region(at.memory, 4096));
    HC_EXPECT(late.code == Code::io_error);
    HC_EXPECT(late.text.find("was lost: the daemon must be started again to use it") !=
              std::string::npos);
    bench.copier->close(at.region, 0);
    bench.copier.reset();
    return 0;
  }));
}

TEST_CASE("a lane that gets no event of its own takes no copies, and the process lives") {
  const auto* const plan = GENERATE("cuEventCreate@1=2", "cuEventCreate@2=2", "cuEventCreate@6=2");
  INFO(plan);
  CHECK(holds_in_child([&] {
    CopierBench bench({plan, ""});
    const OpenedRegion at = open_painted(bench);
    HC_EXPECT(bench.until([&] { return bench.copier->devices()[0].lost; }));
    HC_EXPECT(bench.run(bench.job(CopyKind::gather, at.region, kLaneRuns)).code == Code::io_error);
    HC_EXPECT(bench.run(bench.job(CopyKind::scatter, at.region, kLaneRuns)).code == Code::io_error);
    bench.copier->close(at.region, 0);
    return bench.leave();
  }));
}

TEST_CASE("a call that fails by itself costs one job, which ends when none of its copies runs") {
  CHECK(holds_in_child([] {
    CopierBench bench({"version=12010,cuMemcpyDtoHAsync@2=1,stream_delay_us=20000", ""});
    bench.register_frames();
    const OpenedRegion at = open_painted(bench);
    const CopyJob half = bench.job(CopyKind::gather, at.region, kLaneRuns, 0);
    HC_EXPECT(bench.run(half).code == Code::io_error);
    // The copy that was queued before the refused one has run.
    HC_EXPECT(half.frame[0] == 0x5A && half.frame[kLaneRuns[0].size_bytes - 1] == 0x5A);
    const CopyJob whole = bench.job(CopyKind::gather, at.region, kLaneRuns, 1);
    HC_EXPECT(bench.run(whole).code == Code::ok && is_painted(whole));
    HC_EXPECT(!bench.copier->devices()[0].lost);
    HC_EXPECT(bench.copier->devices()[0].out.failures == 1);
    bench.copier->close(at.region, 0);
    return bench.leave();
  }));
}

TEST_CASE("an event that does not answer, or was not recorded, ends no job before its copies") {
  const auto* const plan =
      GENERATE("version=13000,cuEventQuery@1=999,stream_delay_us=50000",
               "version=13000,cuEventRecord@1=2,stream_delay_us=50000");
  INFO(plan);
  CHECK(holds_in_child([&] {
    CopierBench bench({plan, ""});
    bench.register_frames();
    const OpenedRegion at = open_painted(bench);
    const CopyJob job = bench.job(CopyKind::gather, at.region, kLaneRuns);
    static_cast<void>(bench.run(job));
    HC_EXPECT(is_painted(job));
    HC_EXPECT(!bench.copier->devices()[0].lost);
    HC_EXPECT(bench.run(bench.job(CopyKind::gather, at.region, kLaneRuns, 1)).code == Code::ok);
    bench.copier->close(at.region, 0);
    return bench.leave();
  }));
}

}  // namespace
}  // namespace hc::test
