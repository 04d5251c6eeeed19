// SPDX-License-Identifier: Apache-2.0
// disk_volumes_test: sizes of sparse files, and files of several volumes, by every back end.
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

}  // namespace hc::test
