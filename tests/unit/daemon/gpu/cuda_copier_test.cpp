// SPDX-License-Identifier: Apache-2.0
// cuda_copier_test: bytes out of and into memory of another process's device.
#include "daemon/gpu/cuda_copier.h"

#include <cstdint>
#include <random>
#include <vector>

#include "support/catch.h"
#include "unit/daemon/gpu/copier_bench.h"

namespace hc::test {
namespace {

// No multiple of anything.
constexpr std::uint64_t kOffset = 70'001;
constexpr std::uint64_t kRegionBytes = 3 << 20;

std::vector<CopyRun> scattered_runs(std::size_t count, std::uint64_t stride) {
  std::vector<CopyRun> runs;
  std::mt19937 random(7);
  for (std::size_t i = 0; i < count; ++i) {
    runs.push_back({(count - 1 - i) * stride, 1 + random() % (stride - 1)});  // never adjacent
  }
  return runs;
}

// Stores the runs into a frame and loads them into another region; both have the right bytes.
int copy_out_and_in(CopierBench& bench, const std::vector<CopyRun>& runs) {
  const std::uint64_t memory = bench.exporter.alloc(kOffset + kRegionBytes + 99);
  fill_bytes({bench.exporter.host(), kRegionBytes}, 1);
  bench.exporter.push(memory + kOffset, kRegionBytes);
  const std::vector<std::uint8_t> source(bench.exporter.host(),
                                         bench.exporter.host() + kRegionBytes);
  const MappingId region = bench.open_region(memory + kOffset, kRegionBytes);

  const CopyJob out = bench.job(CopyKind::gather, region, runs);
  std::fill_n(out.frame, out.padded_bytes + 16, std::uint8_t{0xEE});
  const CopyCompletion stored = bench.run(out);

  HC_EXPECT(stored.code == Code::ok);
  HC_EXPECT(!stored.summed);
  std::vector<std::uint8_t> wanted(kRegionBytes, 0x11);
  std::uint64_t at = 0;
  for (const CopyRun& run : runs) {
    HC_EXPECT(std::equal(out.frame + at, out.frame + at + run.size_bytes,
                         source.data() + run.address));
    std::copy_n(out.frame + at, run.size_bytes, wanted.data() + run.address);
    at += run.size_bytes;
  }
  HC_EXPECT(std::all_of(out.frame + at, out.frame + out.padded_bytes,
                        [](std::uint8_t byte) { return byte == 0; }));
  HC_EXPECT(out.frame[out.padded_bytes] == 0xEE);

  std::fill_n(bench.exporter.host(), kRegionBytes, std::uint8_t{0x11});
  bench.exporter.push(memory + kOffset, kRegionBytes);
  HC_EXPECT(bench.run(bench.job(CopyKind::scatter, region, runs)).code == Code::ok);
  bench.exporter.pull(memory + kOffset, kRegionBytes);
  HC_EXPECT(std::equal(wanted.begin(), wanted.end(), bench.exporter.host()));
  bench.copier->close(region);
  return 0;
}

TEST_CASE("an odd offset and many runs out and in, with each of the driver's batch copies") {
  struct Driver {
    const char* plan;
    bool has_batches;
  };
  const auto driver = GENERATE(Driver{"version=13000", true}, Driver{"version=12999", true},
                               Driver{"version=12010", false},
                               Driver{"version=13000,host_pointer=0", true});
  INFO(driver.plan);
  CHECK(holds_in_child([&] {
    CopierBench bench({driver.plan, ""});
    bench.register_frames();
    HC_EXPECT(copy_out_and_in(bench, scattered_runs(300, 9'001)) == 0);
    HC_EXPECT((cuda_count("cuMemcpyBatchAsync") == 2) == driver.has_batches);
    HC_EXPECT((cuda_count("cuMemcpyDtoHAsync") == 300) == !driver.has_batches);
    const auto lines = bench.copier->devices();
    HC_EXPECT(lines.size() == 1 && !lines[0].lost);
    HC_EXPECT(lines[0].out.copies == 1 && lines[0].out.batches == 1);
    HC_EXPECT(lines[0].in.copies == 1 && lines[0].in.failures == 0);
    HC_EXPECT(lines[0].out.bytes == lines[0].in.bytes && lines[0].in.bytes > 300);
    return bench.leave();
  }));
}

TEST_CASE("more pieces than one batch may have go in several") {
  CHECK(holds_in_child([] {
    CopierBench bench({"version=13000,batch_max=4096", ""});
    bench.register_frames();
    HC_EXPECT(copy_out_and_in(bench, scattered_runs(9'000, 300)) == 0);
    HC_EXPECT(cuda_count("cuMemcpyBatchAsync") == 6);
    HC_EXPECT(cuda_count("cuMemcpyDtoHAsync") == 0);
    return bench.leave();
  }));
}

TEST_CASE("more bytes than one batch may have go in several, also in the middle of a run") {
  CHECK(holds_in_child([] {
    CopierBench bench({"version=13000", ""});
    constexpr std::uint64_t kBytes = kBatchBytesMax / 4 * 3;  // two jobs to a batch and a half
    const std::uint64_t memory = bench.exporter.alloc(4 * kBytes);
    fill_bytes({bench.exporter.host(), kBytes}, 3);
    bench.exporter.push(memory, kBytes);
    const MappingId region = bench.open_region(memory, 4 * kBytes);
    auto large = shared_memory(2 * kBytes);
    const std::vector<CopyRun> runs{{0, kBytes}};
    CopyJob one = bench.job(CopyKind::gather, region, runs);
    CopyJob two = bench.job(CopyKind::gather, region, runs);
    one.frame = large;
    two.frame = large + kBytes;
    HC_EXPECT(bench.copier->submit(one) == Code::ok);
    HC_EXPECT(bench.copier->submit(two) == Code::ok);
    HC_EXPECT(bench.finish(one.ticket).code == Code::ok);
    HC_EXPECT(bench.finish(two.ticket).code == Code::ok);
    HC_EXPECT(std::equal(large, large + kBytes, bench.exporter.host()));
    HC_EXPECT(std::equal(large + kBytes, large + 2 * kBytes, bench.exporter.host()));
    HC_EXPECT(bench.copier->devices()[0].out.batches >= 2);
    bench.copier->close(region);
    return bench.leave();
  }));
}

TEST_CASE("a batch that the driver refuses is copied piece by piece") {
  const auto* const plan = GENERATE("version=13000,cuMemcpyBatchAsync=1",
                                    "version=12999,cuMemcpyBatchAsync=1",
                                    "version=13000,batch_max=100",
                                    "version=13000,host_pointer=0,cuMemHostGetDevicePointer=1");
  INFO(plan);
  CHECK(holds_in_child([&] {
    CopierBench bench({plan, ""});
    bench.register_frames();
    HC_EXPECT(copy_out_and_in(bench, scattered_runs(300, 9'001)) == 0);
    HC_EXPECT(cuda_count("cuMemcpyDtoHAsync") == 300);
    HC_EXPECT(cuda_count("cuMemcpyHtoDAsync") == 300);
    HC_EXPECT(bench.copier->devices()[0].out.single == 1);
    return bench.leave();
  }));
}

TEST_CASE("frames that are not registered, or refused, are copied all the same") {
  const bool refused = GENERATE(false, true);
  CHECK(holds_in_child([&] {
    CopierBench bench({refused ? "version=13000,cuMemHostRegister=304" : "version=13000", ""});
    if (refused) {
      bench.register_frames();
    }
    HC_EXPECT(copy_out_and_in(bench, scattered_runs(50, 9'001)) == 0);
    HC_EXPECT(cuda_count("cuMemcpyBatchAsync") == 0);
    HC_EXPECT(bench.copier->registered_bytes() == 0);
    return bench.leave();
  }));
}

TEST_CASE("memory that goes is let go of before it is unmapped, and may come again") {
  CHECK(holds_in_child([] {
    CopierBench bench({"version=13000", ""});
    bench.register_frames();
    HC_EXPECT(copy_out_and_in(bench, scattered_runs(5, 9'001)) == 0);
    HC_EXPECT(bench.until([&] { return bench.copier->registered_bytes() == bench.arena.size(); }));

    bench.copier->drop_memory(bench.arena);

    HC_EXPECT(cuda_count("registered") == 0);
    HC_EXPECT(bench.copier->registered_bytes() == 0);
    bench.register_frames();
    HC_EXPECT(copy_out_and_in(bench, scattered_runs(5, 9'001)) == 0);
    HC_EXPECT(cuda_count("registered") == static_cast<long>(bench.arena.size()));
    return bench.leave();
  }));
}

TEST_CASE("a lane that is full is busy for its own jobs, and for awaits never") {
  CHECK(holds_in_child([] {
    CopierBench bench({"version=13000", ""});
    const std::uint64_t memory = bench.exporter.alloc(kRegionBytes);
    const MappingId region = bench.open_region(memory, kRegionBytes);
    const std::vector<CopyRun> runs{{0, 64}};
    CopyJob last;
    for (std::uint32_t i = 0; i < kCudaJobsPerLane; ++i) {
      last = bench.job(CopyKind::gather, region, runs);
      HC_EXPECT(bench.copier->submit(last) == Code::ok);
    }

    HC_EXPECT(bench.copier->submit(bench.job(CopyKind::gather, region, runs)) == Code::busy);

    const CopyJob in = bench.job(CopyKind::scatter, region, runs, 1);
    HC_EXPECT(bench.copier->lane_of(in) != bench.copier->lane_of(last));
    HC_EXPECT(bench.copier->submit(in) == Code::ok);
    const CopyJob await = bench.await(region, 0);
    HC_EXPECT(bench.copier->lane_of(await) == bench.copier->lane_of(last));
    HC_EXPECT(bench.copier->submit(await) == Code::ok);
    HC_EXPECT(bench.copier->in_flight() == kCudaJobsPerLane + 2);
    HC_EXPECT(bench.finish(in.ticket).code == Code::ok);
    HC_EXPECT(bench.finish(await.ticket).code == Code::ok);
    HC_EXPECT(bench.finish(last.ticket).code == Code::ok);
    HC_EXPECT(bench.copier->in_flight() == 0);
    HC_EXPECT(bench.run(bench.job(CopyKind::gather, region, runs)).code == Code::ok);
    bench.copier->close(region);
    return bench.leave();
  }));
}

}  // namespace
}  // namespace hc::test
