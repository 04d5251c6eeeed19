// SPDX-License-Identifier: Apache-2.0
// host_registry_test: memory of frames in pieces that the driver takes.
#include "shm/gpu/host_registry.h"

#include <cstdint>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;

constexpr std::uint64_t kFrame = 8192;

std::span<std::uint8_t> frames(std::size_t count) {
  return {test::shared_memory(kFrame * count), kFrame * count};
}

TEST_CASE("an arena is cut at frames, into pieces as large as allowed, without a gap") {
  std::vector<std::uint8_t> memory(7 * 100);

  const auto pieces = cut_at_frames(memory, 100, 399);

  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].data() == memory.data());
  CHECK(pieces[0].size() == 300);
  CHECK(pieces[1].data() == memory.data() + 300);
  CHECK(pieces[1].size() == 300);
  CHECK(pieces[2].data() == memory.data() + 600);
  CHECK(pieces[2].size() == 100);
  CHECK(cut_at_frames(memory, 100, 7 * 100).size() == 1);
  CHECK(cut_at_frames(memory, 100, 99).size() == 7);  // one frame at least
  CHECK(cut_at_frames({}, 100, 99).empty());
}

TEST_CASE("what is registered is covered, from frame to frame and no further") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    HostRegistry registry;
    const auto arena = frames(4);
    HC_EXPECT(!registry.covers(arena.data(), 1));
    HC_EXPECT(registry.add(bench->driver, arena, kFrame));
    HC_EXPECT(registry.bytes() == arena.size());
    HC_EXPECT(test::cuda_count("registered") == static_cast<long>(arena.size()));
    HC_EXPECT(registry.covers(arena.data(), arena.size()));
    HC_EXPECT(registry.covers(arena.data() + arena.size() - 1, 1));
    HC_EXPECT(!registry.covers(arena.data() + arena.size() - 1, 2));
    HC_EXPECT(!registry.covers(arena.data() + arena.size(), 1));
    HC_EXPECT(!registry.covers(arena.data() - 1, 1));
    registry.drop(bench->driver, arena);
    HC_EXPECT(!registry.covers(arena.data(), 1));
    HC_EXPECT(registry.bytes() == 0);
    HC_EXPECT(test::cuda_count("registered") == 0);
    return 0;
  }));
}

TEST_CASE("what is refused at once is registered in halves, and no frame lies in two") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("register_max=" + std::to_string(3 * kFrame));
    HostRegistry registry;
    const auto arena = frames(7);
    HC_EXPECT(registry.add(bench->driver, arena, kFrame));
    HC_EXPECT(registry.bytes() == arena.size());
    HC_EXPECT(test::cuda_count("registrations") > 2);
    for (std::size_t i = 0; i < 7; ++i) {
      HC_EXPECT(registry.covers(arena.data() + i * kFrame, kFrame));
    }
    HC_EXPECT(!registry.covers(arena.data(), arena.size()));
    registry.drop(bench->driver, arena);
    HC_EXPECT(test::cuda_count("registrations") == 0);
    return 0;
  }));
}

TEST_CASE("one refusal by chance costs nothing but more registrations") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("cuMemHostRegister@1=1");
    HostRegistry registry;
    const auto arena = frames(4);
    HC_EXPECT(registry.add(bench->driver, arena, kFrame));
    HC_EXPECT(registry.bytes() == arena.size());
    HC_EXPECT(test::cuda_count("registrations") == 2);
    return 0;
  }));
}

TEST_CASE("a frame that is refused for good ends it with one line, and the rest is not covered") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("cuMemHostRegister@2=1,cuMemHostRegister@3=304");
    HostRegistry registry;
    const auto first = frames(1);
    const auto arena = frames(2);
    HC_EXPECT(registry.add(bench->driver, first, kFrame));
    const auto added = registry.add(bench->driver, arena, kFrame);
    HC_EXPECT(!added);
    HC_EXPECT(added.error().message().find("cuMemHostRegister of 8192 bytes") !=
              std::string::npos);
    HC_EXPECT(registry.bytes() == kFrame);
    HC_EXPECT(!registry.covers(arena.data(), 1));
    HC_EXPECT(registry.covers(first.data(), kFrame));
    return 0;
  }));
}

TEST_CASE("dropping one arena leaves the others as they are") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    HostRegistry registry;
    const auto one = frames(2);
    const auto two = frames(3);
    HC_EXPECT(registry.add(bench->driver, one, kFrame));
    HC_EXPECT(registry.add(bench->driver, two, kFrame));
    registry.drop(bench->driver, one);
    registry.drop(bench->driver, one);
    HC_EXPECT(registry.bytes() == two.size());
    HC_EXPECT(registry.covers(two.data(), two.size()));
    HC_EXPECT(test::cuda_count("registered") == static_cast<long>(two.size()));
    return 0;
  }));
}

}  // namespace
}  // namespace hc
