// SPDX-License-Identifier: Apache-2.0
// rank_copy_refusal_test: which memory is copied by whom: expandable segments, the flag of the
// client, the word of the configuration.
#include <string>

#include "e2e/rank_copy_scene.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kSegmentPayload = 24'000;  // as RankOptions says
constexpr std::size_t kSegmentChunk = std::size_t{2} << 20;

// Two chunks behind each other, as PyTorch's expandable segments have it.
CuAddress expandable_memory(const FakeBench& bench) {
  CuMemProperties properties = {};
  properties.type = kCuAllocationPinned;
  properties.location = {kCuLocationDevice, 0};
  const CuMemAccess access = {{kCuLocationDevice, 0}, kCuAccessReadWrite};
  CuAddress area = 0;
  HC_CHECK(bench.driver->vmm_reserve(&area, 2 * kSegmentChunk, 0, 0, 0) == kCuSuccess);
  for (const CuAddress at : {area, area + kSegmentChunk}) {
    CuMemHandle handle = 0;
    HC_CHECK(bench.driver->vmm_create(&handle, kSegmentChunk, &properties, 0) == kCuSuccess);
    HC_CHECK(bench.driver->vmm_map(at, kSegmentChunk, 0, handle, 0) == kCuSuccess);
  }
  HC_CHECK(bench.driver->vmm_set_access(area, 2 * kSegmentChunk, &access, 1) == kCuSuccess);
  return area;
}

// 100 pages, which reach from one chunk into the next.
hicache_code register_segment(hicache_client* client, CuAddress address, std::uint32_t transfer) {
  const hicache_run run{0, kSegmentPayload, kSegmentPayload};
  const hicache_layout layout{0, 1, &run};
  hicache_cuda_region region{};
  region.region = 1;
  region.rows = 100;
  region.address = address;
  region.size_bytes = std::uint64_t{100} * kSegmentPayload;
  region.transfer = transfer;
  region.layout_count = 1;
  region.layouts = &layout;
  return hicache_register_cuda_region(client, &region, Rank::kDeadlineMs);
}

// Stores a page from the end of one chunk, and loads it elsewhere.
int store_over_a_border(Rank& rank, const FakeBench& bench, CuAddress memory) {
  const std::uint32_t row = kSegmentChunk / kSegmentPayload;  // lies in both chunks
  HC_EXPECT(bench.fill(memory, 0x77, 100 * std::size_t{kSegmentPayload}));
  hicache_op op{};
  op.deadline_ms = Rank::kDeadlineMs;
  op.region = 1;
  op.flags = HICACHE_AFTER_STREAM;
  op.stream = bench.stream;
  std::uint64_t op_id = 0;
  const std::vector<hicache_page> from = rank.pages_of({30, 1, row});
  op.ack = HICACHE_ACK_RESIDENT;
  HC_EXPECT(hicache_store(rank.client(), &op, from.data(), 1, &op_id) == HICACHE_OK);
  HC_EXPECT(rank.finish(op_id).code == HICACHE_OK);
  HC_EXPECT(bench.fill(memory, 0x11, 100 * std::size_t{kSegmentPayload}));
  const std::vector<hicache_page> to = rank.pages_of({30, 1, 3});
  op.ack = 0;
  HC_EXPECT(hicache_load(rank.client(), &op, to.data(), 1, &op_id) == HICACHE_OK);
  HC_EXPECT(rank.finish(op_id).code == HICACHE_OK);
  const CuAddress there = memory + 3 * CuAddress{kSegmentPayload};
  HC_EXPECT(bench.byte_at(there) == 0x77 && bench.byte_at(there + kSegmentPayload - 1) == 0x77);
  HC_EXPECT(bench.byte_at(there - 1) == 0x11 && bench.byte_at(there + kSegmentPayload) == 0x11);
  return 0;
}

struct SegmentCase {
  std::string name;
  std::uint32_t open_flags;
  std::uint32_t transfer;
  std::string configured;
  bool daemon_has_gpu;
  hicache_code code;
  std::string says;
};

std::vector<SegmentCase> segment_cases() {
  constexpr std::uint32_t kMay = HICACHE_OPEN_RANK_COPIES;
  return {
      {"AUTO falls back", kMay, HICACHE_TRANSFER_AUTO, "", true, HICACHE_OK, ""},
      {"AUTO falls back without a GPU in the daemon", kMay, HICACHE_TRANSFER_AUTO, "", false,
       HICACHE_OK, ""},
      {"RANK works", kMay, HICACHE_TRANSFER_RANK, "", false, HICACHE_OK, ""},
      {"RANK alone is configured", kMay, HICACHE_TRANSFER_AUTO, "rank", true, HICACHE_OK, ""},
      {"AUTO without the flag", 0, HICACHE_TRANSFER_AUTO, "", true, HICACHE_UNSUPPORTED,
       "can't be exported"},
      {"IPC of such memory", kMay, HICACHE_TRANSFER_IPC, "", true, HICACHE_UNSUPPORTED,
       "can't be exported"},
      {"RANK without the flag", 0, HICACHE_TRANSFER_RANK, "", true, HICACHE_BAD_ARGUMENT,
       "HICACHE_OPEN_RANK_COPIES"},
      {"RANK where IPC alone is configured", kMay, HICACHE_TRANSFER_RANK, "ipc", true,
       HICACHE_UNSUPPORTED, "gpu.transfer = ipc"},
      {"RANK where nothing is configured", kMay, HICACHE_TRANSFER_RANK, "off", true,
       HICACHE_UNSUPPORTED, "gpu.transfer = off"},
  };
}

int register_and_use(const RankCopyScene& scene, const SegmentCase& of) {
  scene.give_driver("");
  const auto bench = FakeBench::make("");
  const CuAddress memory = expandable_memory(*bench);
  RankOptions options = scene.on_host("segments");
  options.open_flags = of.open_flags;
  Rank rank(options);
  HC_EXPECT(rank.open() == HICACHE_OK);
  for (int again = 0; again < 2; ++again) {
    const hicache_code code = register_segment(rank.client(), memory, of.transfer);
    const std::string text = code == HICACHE_OK ? "" : hicache_last_error();
    HC_EXPECT(code == of.code);
    HC_EXPECT(text.find(of.says) != std::string::npos && text.find('\n') == std::string::npos);
    if (code == HICACHE_OK) {
      HC_EXPECT(store_over_a_border(rank, *bench, memory) == 0);
      HC_EXPECT(hicache_unregister_region(rank.client(), 1, Rank::kDeadlineMs) == HICACHE_OK);
    }
    HC_EXPECT(rank.store({10, 4, 0}).code == HICACHE_OK);
    HC_EXPECT(rank.load({10, 4, 20}).code == HICACHE_OK && rank.wrong_bytes({10, 4, 20}) == 0);
  }
  return 0;
}

TEST_CASE("Memory that can't be exported is copied by its rank where both sides allow it") {
  for (const SegmentCase& at : segment_cases()) {
    INFO(at.name);
    RankCopyPlan plan;
    plan.gpu_transfer = at.configured;
    plan.daemon_has_gpu = at.daemon_has_gpu;
    RankCopyScene scene(plan);

    const int result = Child([&] { return register_and_use(scene, at); }).wait();

    INFO(scene.daemon().log());
    CHECK(result == 0);
    CHECK(scene.daemon().stop() == 0);
  }
}

}  // namespace
}  // namespace hc::test
