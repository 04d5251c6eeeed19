// SPDX-License-Identifier: Apache-2.0
// generations_test: numbers of frames, and that a copy they call whole is whole.
#include "shm/generations.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <thread>

#include "shm/shared_word.h"
#include "support/catch.h"
#include "support/dies.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

GenerationsWriter make_writer(std::uint64_t count) {
  auto writer = GenerationsWriter::create(count);
  REQUIRE(writer);
  return std::move(*writer);
}

GenerationsReader attach_to(const GenerationsWriter& writer) {
  auto fd = writer.readonly_fd();
  REQUIRE(fd);
  auto reader = GenerationsReader::attach(std::move(*fd), writer.count());
  REQUIRE(reader);
  return std::move(*reader);
}

UniqueFd copy_of(int fd) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

}  // namespace

TEST_CASE("a frame is odd exactly while it is being changed") {
  auto writer = make_writer(1000);
  const auto reader = attach_to(writer);
  CHECK(reader.count() == 1000);
  CHECK(reader.read(999) == 0);
  writer.begin_change(999);
  CHECK(reader.read(999) == 1);
  CHECK_FALSE(generation_is_whole(reader.read(999)));
  CHECK_FALSE(reader.unchanged(999, 0));
  writer.end_change(999);
  CHECK(reader.read(999) == 2);
  CHECK(writer.current(999) == 2);
  CHECK(reader.unchanged(999, 2));
  CHECK(reader.read(998) == 0);
}

TEST_CASE("an odd number is never called unchanged") {
  auto writer = make_writer(1);
  const auto reader = attach_to(writer);
  writer.begin_change(0);
  CHECK(reader.read(0) == 1);
  CHECK_FALSE(reader.unchanged(0, 1));
}

TEST_CASE("a frame outside the file is never whole") {
  auto writer = make_writer(4);
  const auto reader = attach_to(writer);
  for (const std::uint64_t index : {4ULL, 1ULL << 40, ~0ULL}) {
    CHECK_FALSE(generation_is_whole(reader.read(index)));
    CHECK_FALSE(reader.unchanged(index, 0));
  }
}

TEST_CASE("changing a frame out of turn or outside is a failed check") {
  auto writer = make_writer(2);
  CHECK(dies_by_check([&] { writer.end_change(0); }));
  CHECK(dies_by_check([&] { writer.begin_change(2); }));
  CHECK(dies_by_check([&] { static_cast<void>(writer.current(2)); }));
  writer.begin_change(0);
  CHECK(dies_by_check([&] { writer.begin_change(0); }));
}

TEST_CASE("a successor goes on from the numbers it finds and closes what was left open") {
  UniqueFd fd;
  {
    auto writer = make_writer(3);
    writer.begin_change(0);
    writer.end_change(0);
    writer.begin_change(1);
    fd = copy_of(writer.fd());
  }
  auto successor = GenerationsWriter::adopt(std::move(fd), 3);
  REQUIRE(successor);
  CHECK(successor->current(0) == 2);
  CHECK(successor->current(1) == 2);
  CHECK(successor->current(2) == 0);
  const auto reader = attach_to(*successor);
  CHECK(reader.read(1) == 2);
  successor->begin_change(1);
  CHECK(reader.read(1) == 3);
}

TEST_CASE("a peer that writes the numbers deceives only itself") {
  auto writer = make_writer(1);
  const auto reader = attach_to(writer);
  RegionOptions options;
  options.size_bytes = 8;
  options.read_only = false;
  auto hostile = Region::map(writer.fd(), options);
  REQUIRE(hostile);
  *hostile->writable_at<std::uint64_t>(0) = 77;
  CHECK(writer.current(0) == 0);
  writer.begin_change(0);
  writer.end_change(0);
  CHECK(reader.read(0) == 2);
}

TEST_CASE("a file of numbers that is short, unsealed or empty is refused") {
  const auto writer = make_writer(4);
  CHECK_FALSE(GenerationsReader::attach(copy_of(writer.fd()), 513));
  CHECK_FALSE(GenerationsReader::attach(copy_of(writer.fd()), 0));
  CHECK_FALSE(GenerationsReader::attach(copy_of(writer.fd()), 1ULL << 61));
  CHECK_FALSE(GenerationsWriter::adopt(copy_of(writer.fd()), ~0ULL));
  CHECK_FALSE(GenerationsWriter::create(0));
  UniqueFd unsealed(::memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.get(), 4096) == 0);
  CHECK_FALSE(GenerationsReader::attach(std::move(unsealed), 4));
}

TEST_CASE("a copy that the numbers call whole is whole") {
  constexpr std::uint64_t kWantedCopies = 2'000;
  auto writer = make_writer(1);
  const auto reader = attach_to(writer);
  // Words of the frame; relaxed atomics here, so that the sanitizers judge the protocol alone.
  std::array<std::uint64_t, 64> frame{};
  std::atomic<bool> stop = false;
  std::thread changer([&] {
    for (std::uint64_t value = 1; !stop; ++value) {
      writer.begin_change(0);
      for (std::uint64_t& word : frame) {
        store_relaxed(word, value);
      }
      writer.end_change(0);
      if (value % 8 == 0) {
        std::this_thread::yield();
      }
    }
  });
  std::uint64_t whole = 0;
  std::uint64_t torn = 0;
  while (whole < kWantedCopies) {
    const std::uint64_t generation = reader.read(0);
    std::array<std::uint64_t, 64> copy{};
    for (std::size_t i = 0; i < copy.size(); ++i) {
      copy[i] = load_relaxed(frame[i]);
    }
    if (!reader.unchanged(0, generation)) {
      continue;
    }
    ++whole;
    for (const std::uint64_t word : copy) {
      torn += word == generation / 2 ? 0U : 1U;
    }
  }
  stop = true;
  changer.join();
  CHECK(torn == 0);
}
