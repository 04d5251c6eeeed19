// SPDX-License-Identifier: Apache-2.0
// copy_test: single copies, batches in the ABI that the driver has, and the lanes of the product.
#include <cstdint>
#include <cstring>
#include <vector>

#include "gpu/gpu_bench.h"
#include "gpu/lane_bench.h"
#include "support/catch.h"

namespace hc {
namespace {

using test::Frames;
using test::Gate;
using test::GpuBench;
using test::LaneBench;

// No two pieces of a test look alike.
std::uint8_t pattern(std::uint64_t at) {
  return static_cast<std::uint8_t>((at * 2654435761U) >> 13);
}

TEST_CASE("a copy to pinned memory happens at its turn, and the call does not wait for it") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    Frames frames(8192);
    std::uint8_t* const at = frames.begin();
    HC_EXPECT(driver->host_register(at, 8192, kCuHostPortable | kCuHostDeviceMap) == 0);
    const CuAddress memory = bench->new_memory(4096);
    HC_EXPECT(bench->fill(memory, 8, 4096));
    Gate gate(*bench);
    gate.hold(bench->stream);
    HC_EXPECT(driver->copy_to_host(at, memory, 4096, bench->stream) == 0);
    HC_EXPECT(driver->stream_query(bench->stream) == kCuNotReady && at[0] == 0);
    gate.open();
    HC_EXPECT(bench->settled() == kCuSuccess && at[0] == 8 && at[4095] == 8 && at[4096] == 0);
    gate.shut();
    gate.hold(bench->stream);
    at[0] = 1;
    HC_EXPECT(driver->copy_to_device(memory, at, 4096, bench->stream) == 0);
    at[0] = 2;
    gate.open();
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(bench->observe("pinned memory that changed before its turn is read as",
                             bench->byte_at(memory), 2));
    return 0;
  }));
}

TEST_CASE("memory of the host that is not pinned is copied as well") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    const CuAddress memory = bench->new_memory(kBytes);
    std::vector<std::uint8_t> there(kBytes);
    for (std::size_t at = 0; at < kBytes; ++at) {
      there[at] = pattern(at);
    }
    std::vector<std::uint8_t> back(kBytes, 0);
    HC_EXPECT(driver->copy_to_device(memory, there.data(), kBytes, bench->stream) == 0);
    HC_EXPECT(driver->copy_to_host(back.data(), memory, kBytes, bench->stream) == 0);
    HC_EXPECT(bench->observe("a copy to pageable memory is over at the return of its call",
                             back == there, 1));
    HC_EXPECT(bench->settled() == kCuSuccess && back == there);
    return 0;
  }));
}

TEST_CASE("a batch copies in both directions, and its event is reached after the last byte") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    constexpr std::size_t kPieces = 64;
    constexpr std::size_t kPiece = 3000;
    const CuAddress memory = bench->new_memory(kPieces * kPiece * 2);
    const auto host = reinterpret_cast<CuAddress>(bench->pinned);
    std::vector<CuAddress> in_memory;
    std::vector<CuAddress> in_host;
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      in_memory.push_back(memory + 2 * piece * kPiece);
      in_host.push_back(host + (kPieces - 1 - piece) * kPiece);
    }
    for (std::size_t at = 0; at < kPieces * kPiece; ++at) {
      bench->pinned[at] = pattern(at);
    }
    const std::vector<std::size_t> sizes(kPieces, kPiece);
    const CuEvent event = bench->new_event();
    const CuResult in = test::copy_batch(*bench, in_memory, in_host, sizes, bench->stream);
    HC_EXPECT(bench->observe("a batch answers", in, 0));
    if (in == kCuNotSupported) {
      return 0;
    }
    HC_EXPECT(in == 0 && bench->settled() == kCuSuccess);
    std::memset(bench->pinned, 0, kPieces * kPiece);
    HC_EXPECT(test::copy_batch(*bench, in_host, in_memory, sizes, bench->stream) == 0);
    HC_EXPECT(bench->driver->event_record(event, bench->stream) == 0);
    HC_EXPECT(bench->settled(event) == kCuSuccess);
    for (std::size_t at = 0; at < kPieces * kPiece; ++at) {
      HC_EXPECT(bench->pinned[at] == pattern(at));
    }
    return 0;
  }));
}

TEST_CASE("a batch in the default stream, or with nothing in it, is refused") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    const CuAddress memory = bench->new_memory(4096);
    const auto host = reinterpret_cast<CuAddress>(bench->pinned);
    const auto answer = [&](std::size_t bytes, CuStream stream) {
      return test::copy_batch(*bench, {memory}, {host}, {bytes}, stream);
    };
    HC_EXPECT(bench->observe("a batch in the default stream answers", answer(64, nullptr),
                             kCuInvalidValue));
    HC_EXPECT(bench->observe("a batch with a copy of nothing answers", answer(0, bench->stream),
                             kCuInvalidValue));
    HC_EXPECT(bench->observe("a batch of no copies answers",
                             test::copy_batch(*bench, {}, {}, {}, bench->stream),
                             kCuInvalidValue));
    HC_EXPECT(bench->settled() == kCuSuccess);
    return 0;
  }));
}

TEST_CASE("a lane splits more runs than a driver bears, and every byte arrives") {
  CHECK(test::on_gpu([] {
    constexpr std::size_t kRuns = 10'000;
    constexpr std::size_t kRun = 512;
    constexpr std::size_t kPayload = kRuns * kRun;
    const auto bench = GpuBench::make();
    Frames frames(2 * kPayload);
    const CuAddress memory = bench->new_memory(2 * kPayload);
    LaneBench lanes(*bench, frames, kPayload);
    const auto mapping = lanes.map(memory, 2 * kPayload);
    // Every second piece, from the last to the first: no two become one.
    std::vector<CopyRun> runs;
    for (std::size_t run = 0; run < kRuns; ++run) {
      runs.push_back({2 * (kRuns - 1 - run) * kRun, kRun});
    }
    for (std::size_t at = 0; at < kPayload; ++at) {
      frames.begin()[at] = pattern(at);
    }
    HC_EXPECT(bench->fill(memory, 0xEE, 2 * kPayload));
    lanes.put(true, frames.begin(), runs, mapping);
    HC_EXPECT(lanes.wait(1));
    lanes.put(false, frames.begin() + kPayload, runs, mapping);
    HC_EXPECT(lanes.wait(1));
    HC_EXPECT(std::memcmp(frames.begin(), frames.begin() + kPayload, kPayload) == 0);
    HC_EXPECT(bench->byte_at(memory + kRun) == 0xEE);
    HC_EXPECT(bench->byte_at(memory + 2 * (kRuns - 1) * kRun) == pattern(0));
    HC_EXPECT(lanes.lane(true).counters().batches == 3);
    HC_EXPECT(bench->observe("batches that went piece by piece",
                             static_cast<long long>(lanes.lane(true).counters().single +
                                                    lanes.lane(false).counters().single),
                             0));
    return 0;
  }));
}

}  // namespace
}  // namespace hc
