// SPDX-License-Identifier: Apache-2.0
// io_queue_test: pieces, bounds, order and ends of blob I/O.
#include "daemon/store/io_queue.h"

#include <algorithm>
#include <cstring>

#include "daemon/store/aligned_buffer.h"
#include "proto/limits.h"
#include "unit/daemon/store/store_bench.h"

namespace {

using namespace hc;

constexpr std::uint64_t kSlotBytes = 4096 + (3U << 20);

struct IoBench : test::StoreBench {
  explicit IoBench(std::uint64_t inflight_bytes_max = 96U << 20)
      : io(disk, {inflight_bytes_max, 30'000}), payload(3U << 20) {
    auto opened = disk.open(FileSpec{"slab", 8 * kSlotBytes, true, true});
    REQUIRE(opened);
    file = *opened;
  }

  BlobPlace place(std::uint32_t slot) {
    return {file, slot * kSlotBytes, payload.data(), payload.bytes().size()};
  }
  // Runs until `count` events have come.
  std::vector<IoEvent> events(std::size_t count) {
    std::vector<IoEvent> out;
    while (out.size() < count) {
      step();
      io.poll(clock.now(), out);
      most_in_flight = std::max(most_in_flight, io.bytes_in_flight());
    }
    return out;
  }

  FileId file{};
  IoQueue io;
  AlignedBuffer payload;
  std::uint64_t most_in_flight = 0;
};

TEST_CASE("io_queue: a blob of several pieces is written and read back byte for byte") {
  IoBench bench;
  for (std::size_t i = 0; i < bench.payload.bytes().size(); ++i) {
    bench.payload.data()[i] = static_cast<std::uint8_t>(i * 31 + (i >> 12));
  }
  const std::vector<std::uint8_t> wanted(bench.payload.bytes().begin(),
                                         bench.payload.bytes().end());
  bench.io.start_write(bench.place(2), 77, [](std::span<std::uint8_t> header) {
    std::memset(header.data(), 0xAB, header.size());
  });
  CHECK(bench.events(1)[0].cookie == 77);
  std::memset(bench.payload.data(), 0, bench.payload.bytes().size());

  bench.io.start_read(bench.place(2), 78);
  const auto read = bench.events(1);

  CHECK(read[0].code == Code::ok);
  CHECK(read[0].header_block.size() == kBlockBytes);
  CHECK(read[0].header_block[100] == 0xAB);
  CHECK(std::equal(wanted.begin(), wanted.end(), bench.payload.data()));
}

TEST_CASE("io_queue: a header-only read touches one block of 4 KiB") {
  IoBench bench;
  const std::uint64_t before = bench.disk.bytes_read();

  bench.io.start_read_header(bench.file, 3 * kSlotBytes, 5);
  const auto read = bench.events(1);

  CHECK(read[0].header_block.size() == kBlockBytes);
  CHECK(bench.disk.bytes_read() - before == kBlockBytes);
}

TEST_CASE("io_queue: pieces in flight never name more than the bound") {
  IoBench bench(2U << 20);

  for (std::uint32_t slot = 0; slot < 6; ++slot) {
    bench.io.start_write(bench.place(slot), slot, [](std::span<std::uint8_t>) {});
  }
  CHECK(bench.io.bytes_in_flight() <= (2U << 20));
  bench.events(6);

  CHECK(bench.most_in_flight > 0);
  CHECK(bench.most_in_flight <= (2U << 20));
  CHECK(bench.io.bytes_in_flight() == 0);
}

TEST_CASE("io_queue: a bound smaller than a piece lets one piece through at a time") {
  IoBench bench(4096);

  bench.io.start_write(bench.place(0), 1, [](std::span<std::uint8_t>) {});
  bench.io.start_write(bench.place(1), 2, [](std::span<std::uint8_t>) {});

  CHECK(bench.events(2).size() == 2);
}

TEST_CASE("io_queue: a read that comes after many writes is not behind them") {
  IoBench bench(1U << 20);
  for (std::uint32_t slot = 0; slot < 5; ++slot) {
    bench.io.start_write(bench.place(slot), slot, [](std::span<std::uint8_t>) {});
  }

  bench.io.start_read_header(bench.file, 7 * kSlotBytes, 99);
  const auto events = bench.events(6);

  const auto at = std::find_if(events.begin(), events.end(),
                               [](const IoEvent& event) { return event.cookie == 99; });
  CHECK(at - events.begin() <= 1);
}

TEST_CASE("io_queue: writes leave room for reads, reads leave room for syncs") {
  IoBench bench;
  std::uint32_t writes = 0;
  while (bench.io.can_start(IoKind::zero_header, 0)) {
    bench.io.start_zero_header(bench.file, std::uint64_t{writes} * kBlockBytes, writes);
    ++writes;
  }
  std::uint32_t reads = 0;
  while (bench.io.can_start(IoKind::read_header, 0)) {
    bench.io.start_read_header(bench.file, kSlotBytes + reads * std::uint64_t{kBlockBytes}, reads);
    ++reads;
  }

  CHECK(writes > 0);
  CHECK(reads > 0);
  CHECK(bench.io.can_start(IoKind::sync, 0));
  bench.events(writes + reads);
  CHECK(bench.io.can_start(IoKind::zero_header, 0));
}

TEST_CASE("io_queue: one failed piece fails the blob once") {
  IoBench bench;
  sim::FaultPlan plan;
  plan.write_error = 10'000;
  bench.disk.set_plan(plan);

  bench.io.start_write(bench.place(0), 1, [](std::span<std::uint8_t>) {});
  const auto events = bench.events(1);

  CHECK(events[0].code == Code::io_error);
  CHECK(bench.io.bytes_in_flight() == 0);
}

TEST_CASE("io_queue: a volume at its bound holds nobody else back") {
  test::StoreBench bench;
  bench.disk.set_volumes(2);
  const auto slow = bench.disk.open(FileSpec{"slab", 8U << 20, true, true, 0});
  const auto fast = bench.disk.open(FileSpec{"slab", 8U << 20, true, true, 1});
  IoQueue io(bench.disk, {.inflight_bytes = {1 << 20, 4 << 20}});
  AlignedBuffer payload(4 << 20);

  io.start_write_raw({*slow, 0, payload.data(), 4 << 20}, 1);
  io.start_write_raw({*fast, 0, payload.data(), 4 << 20}, 2);

  REQUIRE(slow);
  REQUIRE(fast);
  CHECK(bench.disk.in_flight() == 5);  // one piece there, four here
  CHECK(io.bytes_in_flight(0) == 1 << 20);
  CHECK(io.bytes_in_flight(1) == 4 << 20);
}

}  // namespace
