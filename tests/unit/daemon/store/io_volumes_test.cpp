// SPDX-License-Identifier: Apache-2.0
// io_volumes_test: volumes that hang or fail; daemon/store/io_queue_ends.cpp, volume_health.cpp.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/store/aligned_buffer.h"
#include "daemon/store/io_queue.h"
#include "daemon/store/volume_health.h"
#include "unit/daemon/store/store_bench.h"

namespace {

using namespace hc;

constexpr std::uint64_t kVolumeSlotBytes = 64 << 10;
constexpr std::uint32_t kTimeoutMs = 500;

struct TwoVolumes : test::StoreBench {
  explicit TwoVolumes(bool probes = true) : payload(kVolumeSlotBytes) {
    disk.set_volumes(2);
    io = std::make_unique<IoQueue>(disk, IoQueueOptions{96U << 20, kTimeoutMs});
    if (probes) {
      io->open_probes();
    }
    for (std::uint16_t volume = 0; volume < 2; ++volume) {
      auto opened = disk.open({"slab", 64 * kVolumeSlotBytes, true, true, volume});
      REQUIRE(opened);
      files.push_back(*opened);
    }
    poll_at_ms(1000);
  }

  BlobPlace place(std::uint16_t volume, std::uint32_t slot) {
    return {files[volume], slot * kVolumeSlotBytes, payload.data(), kVolumeSlotBytes - kBlockBytes};
  }
  void read(std::uint16_t volume, std::uint64_t cookie) {
    io->start_read(place(volume, static_cast<std::uint32_t>(cookie)), cookie);
  }
  void write(std::uint16_t volume, std::uint64_t cookie) {
    io->start_write(place(volume, static_cast<std::uint32_t>(cookie)), cookie,
                    [](std::span<std::uint8_t> header) { header[0] = 1; });
  }
  std::vector<IoEvent> poll_at_ms(std::int64_t ms) {
    const Instant at{ms * kNsPerMs};
    if (clock.time() < at) {
      clock.advance_to(at);
    }
    std::vector<IoEvent> out;
    io->poll(clock.time(), out);
    return out;
  }
  std::int64_t now_ms() { return clock.time().ns / kNsPerMs; }
  // Until nothing is in flight but what a held volume keeps.
  std::vector<IoEvent> settle() {
    std::vector<IoEvent> all;
    do {
      step();
      io->poll(clock.time(), all);
    } while (disk.next_due() != sim::SimClock::kNever || io->ready());
    return all;
  }

  std::unique_ptr<IoQueue> io;
  std::vector<FileId> files;
  AlignedBuffer payload;
};

TEST_CASE("io_queue: a volume that does not answer takes no place and no bytes of another") {
  TwoVolumes bench;
  bench.disk.hold_volume(0, true);
  std::uint64_t started = 0;
  while (bench.io->can_start(IoKind::read_header, 0)) {
    bench.io->start_read_header(bench.files[0], 0, started++);
  }
  CHECK(started > 100);

  REQUIRE(bench.io->can_start(IoKind::read_blob, 1));
  bench.read(1, 5);
  const auto events = bench.settle();

  REQUIRE(events.size() == 1);
  CHECK(events[0].cookie == 5);
  CHECK(events[0].code == Code::ok);
}

TEST_CASE("io_queue: what is not answered in time has one notice, and its place until its end") {
  TwoVolumes bench;
  bench.disk.hold_volume(0, true);
  bench.write(0, 3);
  const std::int64_t began = bench.now_ms();
  CHECK(bench.poll_at_ms(began + kTimeoutMs - 1).empty());
  CHECK(bench.io->overdue() == 0);

  const auto notice = bench.poll_at_ms(began + kTimeoutMs + 1);
  REQUIRE(notice.size() == 1);
  CHECK(notice[0].overdue);
  CHECK(notice[0].code == Code::timed_out);
  CHECK(notice[0].cookie == 3);
  CHECK_FALSE(notice[0].device_failed());
  CHECK(bench.io->overdue() == 1);
  CHECK(bench.io->jobs() == 1);
  CHECK(bench.io->bytes_in_flight(0) == kVolumeSlotBytes);
  CHECK(bench.io->health(0).timeouts() == 1);
  CHECK(bench.poll_at_ms(began + 10 * kTimeoutMs).empty());

  bench.disk.hold_volume(0, false);
  const auto ended = bench.settle();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].was_overdue);
  CHECK(ended[0].code == Code::ok);
  CHECK(bench.io->overdue() == 0);
  CHECK(bench.io->bytes_in_flight(0) == 0);
}

TEST_CASE("io_queue: after errors in a row only probes ask a volume, until one is answered") {
  TwoVolumes bench;
  bench.disk.fail_volume(0, EIO, EIO);
  for (std::uint64_t i = 0; i < 8; ++i) {
    CHECK(bench.io->health(0).well());
    bench.read(0, i);
    const auto events = bench.settle();
    REQUIRE(events.size() == 1);
    CHECK(events[0].code == Code::io_error);
    CHECK(events[0].device_failed() == (i == 0));  // later ones speak of the volume
  }
  CHECK(bench.io->health(0).failed(IoDirection::read));
  CHECK(bench.io->health(0).failures() == 1);

  const std::uint64_t asked = bench.disk.submitted();
  bench.read(0, 9);
  bench.write(0, 10);
  CHECK(bench.io->ready());
  const auto refused = bench.settle();
  REQUIRE(refused.size() == 2);
  for (const IoEvent& event : refused) {
    CHECK(event.code == Code::io_error);
    CHECK(event.not_tried);
    CHECK_FALSE(event.device_failed());
  }
  CHECK(bench.disk.submitted() == asked);
  CHECK(bench.io->health(1).well());

  for (std::int64_t second = 1; second <= 3; ++second) {
    bench.poll_at_ms(bench.now_ms() + 1001);
    bench.settle();
    CHECK_FALSE(bench.io->health(0).well());
  }
  CHECK(bench.disk.submitted() > asked);
  bench.disk.fail_volume(0, 0, 0);
  bench.poll_at_ms(bench.now_ms() + 1001);
  bench.settle();
  CHECK(bench.io->health(0).well());
  bench.read(0, 11);
  CHECK(bench.settle().at(0).code == Code::ok);
  CHECK(bench.io->health(0).failures() == 1);
}

TEST_CASE("io_queue: one refusal of a read-only volume stops writes there, and reads go on") {
  TwoVolumes bench;
  bench.disk.fail_volume(0, 0, EROFS);
  bench.write(0, 1);
  REQUIRE(bench.settle().at(0).code == Code::io_error);

  CHECK(bench.io->health(0).failed(IoDirection::write));
  CHECK_FALSE(bench.io->health(0).failed(IoDirection::read));
  bench.write(0, 2);
  CHECK(bench.settle().at(0).not_tried);
  bench.read(0, 3);
  CHECK(bench.settle().at(0).code == Code::ok);
  bench.disk.fail_volume(0, 0, 0);
  bench.poll_at_ms(bench.now_ms() + 1001);
  bench.settle();
  CHECK(bench.io->health(0).well());
}

TEST_CASE("io_queue: without a file for probes a request tries a failed volume now and then") {
  TwoVolumes bench(false);
  bench.disk.fail_volume(0, 0, EROFS);
  bench.write(0, 1);
  bench.settle();
  REQUIRE_FALSE(bench.io->health(0).well());

  bench.poll_at_ms(bench.now_ms() + 1001);
  bench.write(0, 2);
  const auto tried = bench.settle();
  CHECK(tried.at(0).code == Code::io_error);
  CHECK_FALSE(tried.at(0).device_failed());
  bench.disk.fail_volume(0, 0, 0);
  bench.write(0, 3);
  CHECK(bench.settle().at(0).not_tried);
  bench.poll_at_ms(bench.now_ms() + 1001);
  bench.write(0, 4);
  CHECK(bench.settle().at(0).code == Code::ok);
  CHECK(bench.io->health(0).well());
}

TEST_CASE("volume_health: a kernel short of memory and a full disk are no failing device") {
  VolumeHealth health("disk");
  for (int i = 0; i < 100; ++i) {
    health.note(IoDirection::write, Code::io_error, ENOMEM, Instant{i});
    health.note(IoDirection::write, Code::no_space, ENOSPC, Instant{i});
  }
  CHECK(health.well());
  CHECK(health.errors() == 0);
}

TEST_CASE("volume_health: an answer in between ends the row, and a relapse is asked less often") {
  VolumeHealth health("disk");
  const auto fail = [&](int times, Instant now) {
    for (int i = 0; i < times; ++i) {
      health.note(IoDirection::read, Code::io_error, EIO, now);
    }
  };
  const Instant start{1'000 * kNsPerMs};
  fail(7, start);
  health.note(IoDirection::read, Code::ok, 0, start);
  fail(7, start);
  CHECK(health.well());
  fail(1, start);
  CHECK_FALSE(health.well());
  CHECK_FALSE(health.probe_due(start + 999 * kNsPerMs));
  const Instant first = start + 1000 * kNsPerMs;
  REQUIRE(health.probe_due(first));
  health.probe_started();
  CHECK_FALSE(health.probe_due(first));
  health.probe_ended(IoDirection::read, Code::ok, first);
  REQUIRE(health.well());

  fail(8, first + 5 * kNsPerMs);
  CHECK_FALSE(health.probe_due(first + 1900 * kNsPerMs));
  CHECK(health.probe_due(first + 2005 * kNsPerMs));
}

}  // namespace
