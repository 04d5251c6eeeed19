// SPDX-License-Identifier: Apache-2.0
// disk_volumes_test: sizes of sparse files, and files of several volumes, by every back end.
#include <sys/mman.h>

#include <set>

#include "daemon/os/uring_tables.h"
#include "disk_fixture.h"

namespace hc::test {

namespace {

constexpr std::uint64_t kVolumeFileBytes = 8ULL << 20;
FileId open_sparse(Disk& disk, std::uint16_t volume = 0) {
  const auto file = disk.open({"slab", kVolumeFileBytes, true, false, volume, true});
  REQUIRE(file);
  return *file;
}

DiskRequest transfer(DiskOp op, FileId file, std::uint64_t offset, const Blocks& blocks) {
  return {op, file, offset, {blocks.buffer()}, 1};
}

Code run_one(Disk& disk, const DiskRequest& request) {
  return run_all(disk, {request}).at(request.ticket).code;
}

}  // namespace

TEST_CASE("an existing file keeps its bytes when its size is set, and never shrinks") {
  const TempDir dir;
  const auto disk = make_backend("threads", dir.str());
  const FileId file = open_sparse(*disk);
  const Blocks source(kBlockBytes, 0x42);
  const Blocks target(kBlockBytes, 0);
  REQUIRE(run_one(*disk, transfer(DiskOp::write, file, 0, source)) == Code::ok);
  REQUIRE(disk->close(file));

  const auto larger = disk->open({"slab", 2 * kVolumeFileBytes, false, false, 0, true});
  REQUIRE(larger);
  CHECK(disk->size_bytes(*larger) == 2 * kVolumeFileBytes);
  CHECK(run_one(*disk, transfer(DiskOp::read, *larger, 0, target)) == Code::ok);
  CHECK(target.filled_with(0x42));
  REQUIRE(disk->close(*larger));

  const auto smaller = disk->open({"slab", kVolumeFileBytes, false, false, 0, true});
  REQUIRE(smaller);
  CHECK(disk->size_bytes(*smaller) == 2 * kVolumeFileBytes);
}

TEST_CASE("a sparse file has data where it was written, and none where that was punched") {
  const TempDir dir;
  const auto disk = make_backend("threads", dir.str());
  const FileId file = open_sparse(*disk);
  const auto empty = disk->next_data(file, 0);
  REQUIRE(empty);
  CHECK_FALSE(empty->has_value());

  REQUIRE(disk->allocate_now(file, 0, 1U << 20));
  REQUIRE(disk->write_now(file, 1U << 20, Blocks(kBlockBytes, 7).span()));
  REQUIRE(disk->write_now(file, 3U << 20, Blocks(kBlockBytes, 8).span()));
  const auto first = disk->next_data(file, 4096);
  REQUIRE(first);
  REQUIRE(first->has_value());
  CHECK(**first <= 1U << 20);  // space without data may be passed over, never data

  REQUIRE(disk->punch_now(file, 1U << 20, 1U << 20));
  const auto second = disk->next_data(file, 1U << 20);
  REQUIRE(second);
  CHECK(*second == std::optional<std::uint64_t>(3U << 20));
  const Blocks target(kBlockBytes, 9);
  REQUIRE(disk->read_now(file, 1U << 20, target.span()));
  CHECK(target.filled_with(0));

  REQUIRE(disk->punch_now(file, 3U << 20, 1U << 20));
  const auto none = disk->next_data(file, 1U << 20);
  REQUIRE(none);
  CHECK_FALSE(none->has_value());
  CHECK(disk->size_bytes(file) == kVolumeFileBytes);
}

TEST_CASE("space that was allocated takes writes, and more than there is says so") {
  const TempDir dir;
  const auto disk = make_backend("threads", dir.str());
  const FileId file = open_sparse(*disk);
  CHECK(disk->allocate_now(file, 0, kVolumeFileBytes));
  const auto refused = disk->allocate_now(file, 0, 1ULL << 50);
  REQUIRE_FALSE(refused);
  CHECK((refused.error().code == Code::no_space || refused.error().code == Code::io_error));
}

TEST_CASE("files of one name on several volumes are several files") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir first;
  const TempDir second;
  const auto disk = make_backend(backend, std::vector<std::string>{first.str(), second.str()});
  REQUIRE(disk->volume_count() == 2);
  const FileId one = open_sparse(*disk, 0);
  const FileId two = open_sparse(*disk, 1);
  CHECK(volume_of(one) == 0);
  CHECK(volume_of(two) == 1);
  const Blocks ones(kBlockBytes, 1);
  const Blocks twos(kBlockBytes, 2);
  const Blocks target(kBlockBytes, 0);

  CHECK(run_one(*disk, transfer(DiskOp::write, one, 0, ones)) == Code::ok);
  CHECK(run_one(*disk, transfer(DiskOp::write, two, 0, twos)) == Code::ok);

  CHECK(run_one(*disk, transfer(DiskOp::read, one, 0, target)) == Code::ok);
  CHECK(target.filled_with(1));
  CHECK(run_one(*disk, transfer(DiskOp::read, two, 0, target)) == Code::ok);
  CHECK(target.filled_with(2));
  REQUIRE(disk->close(one));
  REQUIRE(disk->remove("slab", 0));
  CHECK(disk->list(0)->empty());
  CHECK(disk->list(1)->size() == 1);
}

TEST_CASE("memory that was offered serves transfers, whole and in parts, until it is dropped") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir first;
  const TempDir second;
  const auto disk = make_backend(backend, std::vector<std::string>{first.str(), second.str()});
  const FileId file = open_sparse(*disk, 1);
  constexpr std::uint32_t kHalf = 512 << 10;
  const Blocks memory(2 * kHalf, 0x33);
  disk->add_memory(memory.span());
  const DiskBuffer low{memory.data(), kHalf};
  const DiskBuffer high{memory.data() + kHalf, kHalf};

  CHECK(run_one(*disk, {DiskOp::write, file, 0, {low}, 1}) == Code::ok);
  std::fill_n(memory.data(), 2 * kHalf, std::uint8_t{0});
  CHECK(run_one(*disk, {DiskOp::read, file, 0, {high}, 1}) == Code::ok);
  CHECK(std::all_of(memory.data(), memory.data() + kHalf, [](auto b) { return b == 0; }));
  CHECK(std::all_of(memory.data() + kHalf, memory.data() + 2 * kHalf,
                    [](auto b) { return b == 0x33; }));

  // Header and payload apart, and a buffer that goes over the end of what was offered.
  const Blocks header(kBlockBytes, 0x44);
  CHECK(run_one(*disk, {DiskOp::write, file, 0, {header.buffer(), high}, 1}) == Code::ok);
  disk->drop_memory(memory.span());
  CHECK(run_one(*disk, {DiskOp::read, file, kBlockBytes, {low}, 1}) == Code::ok);
  CHECK(memory.filled_with(0x33));
  disk->add_memory(memory.span().first(kHalf));
  CHECK(run_one(*disk, {DiskOp::read, file, 0, {memory.buffer()}, 1}) == Code::ok);
  CHECK(memory.data()[0] == 0x44);
  disk->drop_memory(memory.span().first(kHalf));
}

TEST_CASE("header and payload of offered memory lie apart, whatever else is in flight") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir first;
  const auto disk = make_backend(backend, std::vector<std::string>{first.str()});
  const FileId file = open_sparse(*disk, 0);
  constexpr std::uint64_t kSlotBytes = 2 * kBlockBytes;
  const Blocks headers(kDiskRequestsMax * kBlockBytes, 0);
  const Blocks payloads(kDiskRequestsMax * kBlockBytes, 0);
  disk->add_memory(payloads.span());
  const auto slot = [&](DiskOp op, std::uint32_t i) {
    return DiskRequest{op, file, i * kSlotBytes,
                       {DiskBuffer{headers.data() + i * kBlockBytes, kBlockBytes},
                        DiskBuffer{payloads.data() + i * kBlockBytes, kBlockBytes}},
                       i};
  };
  const auto run_every = [&](DiskOp op) {
    std::vector<DiskCompletion> done;
    for (std::uint32_t i = 0; i < kDiskRequestsMax; ++i) {
      REQUIRE(disk->submit(slot(op, i)) == Code::ok);
    }
    REQUIRE(disk->submit(slot(op, 0)) == Code::busy);
    while (done.size() < kDiskRequestsMax) {
      disk->wait();
      disk->poll(done);
    }
    std::set<std::uint64_t> tickets;
    for (const DiskCompletion& at : done) {
      CHECK(at.code == Code::ok);
      tickets.insert(at.ticket);
    }
    CHECK(tickets.size() == kDiskRequestsMax);
    CHECK(disk->in_flight() == 0);
  };
  for (std::uint32_t i = 0; i < kDiskRequestsMax; ++i) {
    std::fill_n(headers.data() + i * kBlockBytes, kBlockBytes, static_cast<std::uint8_t>(i));
    std::fill_n(payloads.data() + i * kBlockBytes, kBlockBytes, static_cast<std::uint8_t>(~i));
  }
  run_every(DiskOp::write);
  std::fill_n(headers.data(), headers.span().size(), std::uint8_t{0});
  std::fill_n(payloads.data(), payloads.span().size(), std::uint8_t{0});
  run_every(DiskOp::read);
  bool right = true;
  for (std::uint32_t i = 0; i < kDiskRequestsMax; ++i) {
    right = right && headers.data()[i * kBlockBytes] == static_cast<std::uint8_t>(i) &&
            payloads.data()[(i + 1) * kBlockBytes - 1] == static_cast<std::uint8_t>(~i);
  }
  CHECK(right);
  disk->drop_memory(payloads.span());
}

TEST_CASE("a request ends once, and fails when its header or its payload fails") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir first;
  const auto disk = make_backend(backend, std::vector<std::string>{first.str()});
  const FileId file = open_sparse(*disk, 0);
  const Blocks memory(2 * kBlockBytes, 7);
  const Blocks header(kBlockBytes, 7);
  disk->add_memory(memory.span());
  const std::uint64_t last = kVolumeFileBytes - kBlockBytes;  // the payload lies behind the end
  CHECK(run_one(*disk, {DiskOp::read, file, last, {header.buffer(), memory.buffer()}, 1}) ==
        Code::io_error);
  // Memory that can't be touched.
  void* const hole = ::mmap(nullptr, kBlockBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(hole != MAP_FAILED);
  const DiskBuffer nowhere{static_cast<std::uint8_t*>(hole), kBlockBytes};
  CHECK(run_one(*disk, {DiskOp::read, file, 0, {nowhere, memory.buffer()}, 1}) == Code::io_error);
  ::munmap(hole, kBlockBytes);
  std::vector<DiskCompletion> more;
  disk->poll(more);
  CHECK(more.empty());
  CHECK(disk->in_flight() == 0);
  disk->drop_memory(memory.span());
}

TEST_CASE("each volume has its own bound of requests in flight") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir first;
  const TempDir second;
  const auto disk = make_backend(backend, std::vector<std::string>{first.str(), second.str()});
  const FileId one = open_sparse(*disk, 0);
  const FileId two = open_sparse(*disk, 1);
  const Blocks source(kBlockBytes, 1);
  for (std::uint64_t i = 0; i < kDiskRequestsMax; ++i) {
    REQUIRE(disk->submit({DiskOp::write, one, i * kBlockBytes, {source.buffer()}, i}) == Code::ok);
  }

  CHECK(disk->submit({DiskOp::write, one, 0, {source.buffer()}, 1}) == Code::busy);
  CHECK(disk->submit({DiskOp::write, two, 0, {source.buffer()}, 1}) == Code::ok);

  std::vector<DiskCompletion> done;
  while (disk->in_flight() > 0) {
    disk->wait();
    disk->poll(done);
  }
  CHECK(done.size() == kDiskRequestsMax + 1);
}

}  // namespace hc::test
