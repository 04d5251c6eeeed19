// SPDX-License-Identifier: Apache-2.0
// arena_view_test: where a frame lies, and which arenas are refused.
#include "client/arena_view.h"

#include <sys/mman.h>
#include <unistd.h>

#include "shm/memory_file.h"
#include "support/catch.h"

namespace hc {
namespace {

constexpr std::uint32_t kPayload = 5000;  // 4096 + 5000 rounds up to 3 blocks
constexpr std::uint32_t kFrame = 3 * 4096;
constexpr std::uint64_t kGenerations = 100;

SpaceDescriptor one_kind() {
  SpaceDescriptor space;
  space.model = "m";
  space.page_tokens = 1;
  space.kinds.push_back({"kv", kPayload, Placement::sharded, HitPolicy::all_pages, 0});
  return space;
}

MemoryFile memory_of(std::uint32_t frames) {
  auto file = MemoryFile::create("arena-test", std::uint64_t{frames} * kFrame);
  REQUIRE(file.has_value());
  return std::move(*file);
}

UniqueFd reading_end(const MemoryFile& file) {
  auto fd = file.readonly_fd();
  REQUIRE(fd.has_value());
  return std::move(*fd);
}

TEST_CASE("a frame lies behind the header block of its place in its arena") {
  ArenaView view(one_kind(), kGenerations);
  const MemoryFile first = memory_of(4);
  const MemoryFile second = memory_of(2);
  const std::uint8_t mark = 0xA7;
  REQUIRE(::pwrite(second.fd(), &mark, 1, kFrame + 4096) == 1);

  // Added out of order, with a hole between them.
  REQUIRE(view.add({0, 0, 10, 2, kFrame, 50}, reading_end(second)).has_value());
  REQUIRE(view.add({0, 0, 0, 4, kFrame, 20}, reading_end(first)).has_value());

  CHECK(view.count() == 2);
  REQUIRE(view.find(0, 11).has_value());
  CHECK(*view.find(0, 11)->payload == mark);
  CHECK(view.find(0, 11)->generation_index == 51);
  CHECK(view.find(0, 3)->generation_index == 23);
  CHECK_FALSE(view.find(0, 4).has_value());
  CHECK_FALSE(view.find(0, 9).has_value());
  CHECK_FALSE(view.find(0, 12).has_value());
  CHECK_FALSE(view.find(1, 0).has_value());
}

TEST_CASE("an arena record that does not fit is a protocol error and maps nothing") {
  ArenaView view(one_kind(), kGenerations);
  const MemoryFile file = memory_of(4);
  const auto code_of = [&](const ArenaInfo& info) {
    const auto added = view.add(info, reading_end(file));
    REQUIRE_FALSE(added.has_value());
    return added.error().code;
  };

  CHECK(code_of({1, 0, 0, 4, kFrame, 0}) == Code::protocol);            // kind
  CHECK(code_of({0, 0, 0, 0, kFrame, 0}) == Code::protocol);            // no frames
  CHECK(code_of({0, 0, kNone32 - 1, 4, kFrame, 0}) == Code::protocol);  // frame ids run over
  CHECK(code_of({0, 0, 0, 4, 2 * 4096, 0}) == Code::protocol);          // frames too small
  CHECK(code_of({0, 0, 0, 4, kFrame + 1, 0}) == Code::protocol);        // not in blocks
  CHECK(code_of({0, 0, 0, 4, kFrame, 97}) == Code::protocol);           // generations end
  CHECK(code_of({0, 0, 0, 4, kFrame, ~0ULL}) == Code::protocol);
  CHECK(code_of({0, 0, 0, 5, kFrame, 0}) == Code::refused);  // file too short
  CHECK(view.count() == 0);

  REQUIRE(view.add({0, 0, 4, 4, kFrame, 0}, reading_end(file)).has_value());
  CHECK(code_of({0, 0, 7, 1, kFrame, 8}) == Code::protocol);  // meets its tail
  CHECK(code_of({0, 0, 2, 3, kFrame, 8}) == Code::protocol);  // meets its head
  CHECK(view.count() == 1);
}

TEST_CASE("a file that could shrink under the mapping is refused") {
  ArenaView view(one_kind(), kGenerations);
  UniqueFd unsealed(::memfd_create("arena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.get(), 4 * kFrame) == 0);

  const auto added = view.add({0, 0, 0, 4, kFrame, 0}, std::move(unsealed));

  REQUIRE_FALSE(added.has_value());
  CHECK(added.error().code == Code::refused);
}

}  // namespace
}  // namespace hc
