// SPDX-License-Identifier: Apache-2.0
// disk_test: daemon/os/pool_disk.cpp and daemon/os/uring_disk.cpp keep one contract.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <random>

#include "daemon/os/epoll.h"
#include "disk_fixture.h"
#include "support/dies.h"

namespace hc::test {

namespace {

constexpr std::uint64_t kFileBytes = 4ULL << 20;

FileId open_file(Disk& disk, const std::string& name = "slab") {
  const auto file = disk.open({name, kFileBytes, true, false});
  REQUIRE(file);
  return *file;
}

DiskRequest transfer(DiskOp op, FileId file, std::uint64_t offset, const Blocks& blocks,
                     std::uint64_t ticket) {
  return {op, file, offset, {blocks.buffer()}, ticket};
}

}  // namespace

TEST_CASE("what was written is read back, by every back end") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());
  const FileId file = open_file(*disk);
  const Blocks source(64 << 10, 0x5A);
  const Blocks target(64 << 10, 0);

  const auto written = run_all(*disk, {transfer(DiskOp::write, file, 8192, source, 1)});
  const auto read = run_all(*disk, {transfer(DiskOp::read, file, 8192, target, 2)});

  CHECK(written.at(1).code == Code::ok);
  CHECK(read.at(2).code == Code::ok);
  CHECK(target.filled_with(0x5A));
  CHECK(disk->size_bytes(file) == kFileBytes);
}

TEST_CASE("two buffers are one contiguous range of the file, in order") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());
  const FileId file = open_file(*disk);
  const Blocks header(kBlockBytes, 0x11);
  const Blocks payload(16 << 10, 0x22);
  const Blocks all(20 << 10, 0);

  const DiskRequest write{DiskOp::write, file, 4096, {header.buffer(), payload.buffer()}, 1};
  const auto written = run_all(*disk, {write});
  const auto read = run_all(*disk, {transfer(DiskOp::read, file, 4096, all, 2)});

  CHECK(written.at(1).code == Code::ok);
  CHECK(read.at(2).code == Code::ok);
  CHECK(std::all_of(all.data(), all.data() + 4096, [](auto b) { return b == 0x11; }));
  CHECK(std::all_of(all.data() + 4096, all.data() + (20 << 10), [](auto b) { return b == 0x22; }));
}

TEST_CASE("a sync completes like any request") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());
  const FileId file = open_file(*disk);
  const Blocks source(kBlockBytes, 1);

  const auto done = run_all(*disk, {transfer(DiskOp::write, file, 0, source, 7),
                                    DiskRequest{DiskOp::sync, file, 0, {}, 8}});

  CHECK(done.at(7).code == Code::ok);
  CHECK(done.at(8).code == Code::ok);
}

TEST_CASE("a sparse file takes and gives back space range by range, by every back end") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());
  const auto file = disk->open({"slab", kFileBytes, true, false, 0, true});
  REQUIRE(file);
  const Blocks source(64 << 10, 0x5A);
  const Blocks target(64 << 10, 1);
  const auto space = [&] {
    struct stat info {};
    REQUIRE(::stat((dir.str() + "/slab").c_str(), &info) == 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  };
  CHECK(disk->size_bytes(*file) == kFileBytes);
  CHECK(space() == 0);

  const auto allocated =
      run_all(*disk, {DiskRequest{DiskOp::allocate, *file, 1 << 20, {}, 1, 1 << 20}});
  CHECK(allocated.at(1).code == Code::ok);
  CHECK(space() >= 1 << 20);
  const auto written = run_all(*disk, {transfer(DiskOp::write, *file, 1 << 20, source, 2)});
  CHECK(written.at(2).code == Code::ok);
  const auto punched =
      run_all(*disk, {DiskRequest{DiskOp::punch, *file, 1 << 20, {}, 3, 1 << 20}});
  CHECK(punched.at(3).code == Code::ok);
  CHECK(space() == 0);
  const auto read = run_all(*disk, {transfer(DiskOp::read, *file, 1 << 20, target, 4)});

  CHECK(read.at(4).code == Code::ok);
  CHECK(target.filled_with(0));
  CHECK(disk->size_bytes(*file) == kFileBytes);
}

TEST_CASE("as many requests as allowed are in flight, one more is busy, and all complete") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());
  const FileId file = open_file(*disk);
  const Blocks source(kBlockBytes, 3);
  std::vector<DiskRequest> requests;
  std::vector<std::uint64_t> order(kDiskRequestsMax);
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (const std::uint64_t i : order) {
    REQUIRE(disk->submit(transfer(DiskOp::write, file, i * kBlockBytes, source, i)) == Code::ok);
  }

  CHECK(disk->submit(transfer(DiskOp::write, file, 0, source, 9999)) == Code::busy);
  CHECK(disk->in_flight() == kDiskRequestsMax);

  std::vector<bool> seen(kDiskRequestsMax);
  std::vector<DiskCompletion> done;
  while (disk->in_flight() > 0) {
    disk->wait();
    disk->poll(done);
  }
  for (const DiskCompletion& one : done) {
    CHECK(one.code == Code::ok);
    seen.at(one.ticket) = true;
  }
  CHECK(done.size() == kDiskRequestsMax);
  CHECK(std::count(seen.begin(), seen.end(), true) == kDiskRequestsMax);
}

TEST_CASE("a sleeper on the event's edge is woken for every completion, and then sleeps") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());
  const FileId file = open_file(*disk);
  auto epoll = Epoll::create();
  REQUIRE(epoll);
  REQUIRE(epoll->add(disk->event_fd(), Trigger::edge, 42));
  std::vector<std::unique_ptr<Blocks>> targets;
  for (int i = 0; i < 100; ++i) {
    targets.push_back(std::make_unique<Blocks>(kBlockBytes));
  }

  // Bursts of many sizes: with deferred work the kernel signals only when its list was empty.
  std::vector<DiskCompletion> done;
  for (std::size_t burst = 1; burst <= targets.size(); ++burst) {
    done.clear();
    for (std::size_t i = 0; i < burst; ++i) {
      const DiskOp op = i % 3 == 2 ? DiskOp::sync : i % 3 == 1 ? DiskOp::write : DiskOp::read;
      DiskRequest request{op, file, i * kBlockBytes, {}, i};
      if (op != DiskOp::sync) {
        request.buffers[0] = targets[i]->buffer();
      }
      REQUIRE(disk->submit(request) == Code::ok);
    }
    disk->poll(done);
    while (done.size() < burst) {
      // A lost wake-up is a sleep that nothing ends. One without an event is fine: the kernel
      // interrupts sleepers for its own work.
      epoll->wait(-1);
      disk->poll(done);
    }
  }

  done.clear();
  disk->poll(done);
  CHECK(done.empty());
  // A helper thread may raise the event after its completion was taken: one edge each, no more.
  std::size_t late = 0;
  while (late < targets.size() && !epoll->wait(0).empty()) {
    ++late;
  }
  CHECK(late < targets.size());
}

TEST_CASE("completions that pile up while the owner is busy are all announced") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());
  const FileId file = open_file(*disk);
  auto epoll = Epoll::create();
  REQUIRE(epoll);
  REQUIRE(epoll->add(disk->event_fd(), Trigger::edge, 1));
  const Blocks source(kBlockBytes, 1);
  const Blocks busy(1 << 20, 2);
  constexpr std::uint64_t kBurst = 200;
  for (std::uint64_t i = 0; i < kBurst; ++i) {
    REQUIRE(disk->submit(transfer(DiskOp::write, file, i * kBlockBytes, source, i)) == Code::ok);
  }
  std::vector<DiskCompletion> done;
  disk->poll(done);

  // Blocking writes with flushes: meanwhile the kernel has finished the burst, but has only been
  // able to note it.
  for (int i = 0; i < 20; ++i) {
    REQUIRE(disk->write_now(file, 2 << 20, busy.span()));
  }
  while (done.size() < kBurst) {
    epoll->wait(-1);
    disk->poll(done);
  }

  CHECK(disk->in_flight() == 0);
}

TEST_CASE("a read past the end of the file is an error, not a short buffer") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());
  const FileId file = open_file(*disk);
  const Blocks target(16 << 10, 0);

  const auto done = run_all(*disk, {transfer(DiskOp::read, file, kFileBytes, target, 1),
                                    transfer(DiskOp::read, file, kFileBytes - 8192, target, 2)});

  CHECK(done.at(1).code == Code::io_error);
  CHECK(done.at(2).code == Code::io_error);
}

TEST_CASE("a request that breaks the alignment is our bug") {
  const TempDir dir;
  const auto disk = make_backend(backends().back(), dir.str());
  const FileId file = open_file(*disk);
  const Blocks blocks(2 * kBlockBytes, 0);

  SECTION("of the buffer") {
    const DiskRequest odd{DiskOp::read, file, 0, {DiskBuffer{blocks.data() + 512, 4096}}, 1};
    CHECK(dies_by_check([&] { static_cast<void>(disk->submit(odd)); }));
  }
  SECTION("of the size") {
    const DiskRequest odd{DiskOp::read, file, 0, {DiskBuffer{blocks.data(), 512}}, 1};
    CHECK(dies_by_check([&] { static_cast<void>(disk->submit(odd)); }));
  }
  SECTION("of the offset") {
    const DiskRequest odd{DiskOp::read, file, 512, {blocks.buffer()}, 1};
    CHECK(dies_by_check([&] { static_cast<void>(disk->submit(odd)); }));
  }
  SECTION("or names no file") {
    const DiskRequest odd{DiskOp::read, FileId{77}, 0, {blocks.buffer()}, 1};
    CHECK(dies_by_check([&] { static_cast<void>(disk->submit(odd)); }));
  }
}

TEST_CASE("waiting with nothing in flight returns at once") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());

  disk->wait();

  CHECK(disk->in_flight() == 0);
}

TEST_CASE("a blocking write is read back while other requests are in flight") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const auto disk = make_backend(backend, dir.str());
  const FileId file = open_file(*disk);
  const Blocks other(1 << 20, 9);
  const Blocks source(8192, 0x77);
  const Blocks target(8192, 0);

  REQUIRE(disk->submit(transfer(DiskOp::write, file, 1 << 20, other, 1)) == Code::ok);
  REQUIRE(disk->write_now(file, 0, source.span()));
  REQUIRE(disk->read_now(file, 0, target.span()));
  const auto done = run_all(*disk, {});

  CHECK(target.filled_with(0x77));
  CHECK(done.size() == 1);
  CHECK_FALSE(disk->read_now(file, kFileBytes, target.span()));
}

TEST_CASE("a disk that goes away waits for what is in flight") {
  const auto backend = GENERATE(from_range(backends()));
  CAPTURE(backend);
  const TempDir dir;
  const Blocks source(1 << 20, 0x3C);
  {
    const auto disk = make_backend(backend, dir.str());
    const FileId file = open_file(*disk);
    REQUIRE(disk->submit(transfer(DiskOp::write, file, 0, source, 1)) == Code::ok);
  }

  const auto disk = make_backend(backend, dir.str());
  const Blocks target(1 << 20, 0);
  REQUIRE(disk->read_now(open_file(*disk), 0, target.span()));
  CHECK(target.filled_with(0x3C));
}

}  // namespace hc::test
