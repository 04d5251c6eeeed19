// SPDX-License-Identifier: Apache-2.0
// disk_volumes_test: sizes of sparse files, and files of several volumes, by every back end.
#include "daemon/os/uring_tables.h"
#include "disk_fixture.h"

namespace hc::test {

namespace {

constexpr std::uint64_t kFileBytes = 8ULL << 20;
FileId open_sparse(Disk& disk, std::uint16_t volume = 0) {
  const auto file = disk.open({"slab", kFileBytes, true, false, volume, true});
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

  const auto larger = disk->open({"slab", 2 * kFileBytes, false, false, 0, true});
  REQUIRE(larger);
  CHECK(disk->size_bytes(*larger) == 2 * kFileBytes);
  CHECK(run_one(*disk, transfer(DiskOp::read, *larger, 0, target)) == Code::ok);
  CHECK(target.filled_with(0x42));
  REQUIRE(disk->close(*larger));

  const auto smaller = disk->open({"slab", kFileBytes, false, false, 0, true});
  REQUIRE(smaller);
  CHECK(disk->size_bytes(*smaller) == 2 * kFileBytes);
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
