// SPDX-License-Identifier: Apache-2.0
// gpu_chunks_test: memory of cuMemCreate, as expandable segments have it: copied by the daemon
// where its chunks may be exported, by the rank where not, and closed whatever becomes of its rank.
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "e2e/gpu_scene.h"
#include "e2e/holdings.h"
#include "e2e/process.h"
#include "support/catch.h"
#include "support/child.h"
#include "unit/shm/cuda/chunk_area.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kRows = 400;  // in five chunks; the first row lies inside the first one

RankOptions in_chunks(const GpuScene& scene, const std::string& group = "engine") {
  RankOptions options = scene.rank_options(group);
  options.device = BenchDevice::cuda_chunks;
  options.transfer = HICACHE_TRANSFER_IPC;
  options.rows = kRows;
  return options;
}

std::size_t own_descriptors() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// More pages than L2 has frames, so that the first ones come back from the disk.
int store_evict_and_load(const GpuScene& scene) {
  use_stand_in("");
  Rank rank(in_chunks(scene));
  HC_EXPECT(rank.open() == HICACHE_OK);
  HC_EXPECT(scene.count("mappings") == 0 && scene.count("maps") == 5);
  for (std::uint32_t row = 0; row < kRows; row += 50) {
    HC_EXPECT(rank.store({1000 + row, 50, row}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  }
  HC_EXPECT(scene.daemon().ask("stats").at("pages_evicted_l2") > 100);
  for (std::uint32_t row = 0; row < kRows; row += 50) {
    const Keys keys{1000 + row, 50, (row + 150) % kRows};
    const hicache_completion held = rank.reload(keys);
    HC_EXPECT(held.code == HICACHE_OK);
    HC_EXPECT(rank.load(keys).code == HICACHE_OK && rank.wrong_bytes(keys) == 0);
    HC_EXPECT(rank.release(held.lease).code == HICACHE_OK);
  }
  HC_EXPECT(scene.count("copies") >= 2L * kRows * 3);  // three runs of each page, twice
  const nlohmann::json sessions = scene.daemon().ask("status").at("sessions");
  HC_EXPECT(sessions.size() == 1 && sessions[0].at("transfer") == "ipc");
  HC_EXPECT(hicache_unregister_region(rank.client(), 0, Rank::kDeadlineMs) == HICACHE_OK);
  HC_EXPECT(scene.is_clean());  // before its owner may free it
  return 0;
}

TEST_CASE("Rows over several chunks are stored, evicted, reloaded and loaded byte for byte") {
  const auto* const plan = GENERATE("version=13000", "version=12010,stream_delay_us=200");
  INFO(plan);
  GpuScene scene({.daemon = plan});

  CHECK(holds_in_child([&] { return store_evict_and_load(scene); }));

  INFO(scene.daemon().log());
  CHECK(eventually([&] { return scene.is_clean(); }));
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A rank killed while chunks of it are copied leaves no mapping behind") {
  struct Death {
    const char* daemon;
    const char* rank;
  };
  const auto death = GENERATE(Death{"version=13000,stream_delay_us=200000", ""},
                              Death{"version=12010,stream_delay_us=5000", ""},
                              Death{"", "stream_stall@1=1"});
  INFO(death.daemon << " " << death.rank);
  GpuScene scene({.daemon = death.daemon});
  warm_up(scene);
  Watch watch(scene.daemon());
  const Holdings baseline = watch.settled();
  FakeLine line;
  Child rank([&] { return store_and_stay(line, in_chunks(scene), death.rank); });
  line.be_parent();
  REQUIRE(line.wait());
  REQUIRE(scene.count("maps") == 5);
  REQUIRE(scene.count("handles") == 0);

  rank.kill_now();

  Holdings last;
  const bool back = eventually(
      [&] { return (last = watch.look()) == baseline && scene.is_clean(); });
  INFO(text_of(baseline) << "\n" << text_of(last) << "\n" << scene.daemon().log());
  CHECK(back);
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A stop of the daemon closes the chunks that a rank has still exported") {
  GpuScene scene;
  FakeLine line;
  Child rank([&] { return store_and_stay(line, in_chunks(scene), "stream_stall@1=1"); });
  line.be_parent();
  REQUIRE(line.wait());
  REQUIRE(scene.count("maps") == 5);
  const pid_t pid = scene.daemon().pid();

  CHECK(scene.daemon().stop() == 0);

  INFO(scene.daemon().log());
  for (const char* what : {"maps", "reservations", "handles", "opened_events", "streams"}) {
    INFO(what);
    CHECK(scene.count_of(pid, what) == 0);
  }
}

// The descriptors are still the client's, so the next daemon gets the same chunks.
int outlive_a_daemon(FakeLine& line, RankOptions options) {
  line.be_child();
  use_stand_in("");
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  HC_EXPECT(rank.store({10, 200, 100}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  const std::size_t exported = own_descriptors();
  line.go();
  HC_EXPECT(line.wait());  // another daemon is there
  HC_EXPECT(rank.wait_serving());
  HC_EXPECT(rank.reload({10, 200, 0}).code == HICACHE_OK);
  HC_EXPECT(rank.load({10, 200, 200}).code == HICACHE_OK);
  HC_EXPECT(rank.wrong_bytes({10, 200, 200}) == 0);
  HC_EXPECT(hicache_unregister_region(rank.client(), 0, Rank::kDeadlineMs) == HICACHE_OK);
  HC_EXPECT(eventually([&] { return own_descriptors() <= exported - 5; }));
  return 0;
}

TEST_CASE("Chunks are registered again with the next daemon, without the engine") {
  GpuScene scene;
  FakeLine line;
  Child rank([&] { return outlive_a_daemon(line, in_chunks(scene)); });
  line.be_parent();
  REQUIRE(line.wait());
  scene.daemon().kill_now();

  scene.daemon().start();

  line.go();
  CHECK(rank.wait() == 0);
  INFO(scene.daemon().log());
  CHECK(eventually([&] { return scene.is_clean(); }));
  CHECK(scene.daemon().stop() == 0);
}

struct Choice {
  std::string name;
  BenchDevice device;
  std::uint32_t transfer;
  std::string daemon;        // its driver
  hicache_code code;
  std::string says;          // in `cachectl status`, or to the caller
};

std::vector<Choice> choices() {
  constexpr auto kChunks = BenchDevice::cuda_chunks;
  constexpr auto kSealed = BenchDevice::cuda_sealed;
  constexpr std::uint32_t kAuto = HICACHE_TRANSFER_AUTO;
  constexpr std::uint32_t kIpc = HICACHE_TRANSFER_IPC;
  return {
      {"chunks that may be exported", kChunks, kAuto, "", HICACHE_OK, "ipc"},
      {"chunks that may not", kSealed, kAuto, "", HICACHE_OK,
       "POSIX_FILE_DESCRIPTOR: requestedHandleTypes = 0"},
      {"chunks that may not, and nothing else would do", kSealed, kIpc, "", HICACHE_UNSUPPORTED,
       "POSIX_FILE_DESCRIPTOR: requestedHandleTypes = 0"},
      {"a daemon whose driver maps no chunks", kChunks, kAuto, "version=10010", HICACHE_OK,
       "the daemon's driver maps no chunks of cuMemCreate"},
      {"the same, and nothing else would do", kChunks, kIpc, "version=10010",
       HICACHE_UNSUPPORTED, "the daemon's driver maps no chunks of cuMemCreate"},
      {"an import that fails", kChunks, kAuto, "cuMemImportFromShareableHandle@3=999", HICACHE_OK,
       "chunks[2]: cuMemImportFromShareableHandle: CUDA_ERROR_UNKNOWN (999)"},
  };
}

int choose(const GpuScene& scene, const Choice& choice) {
  use_stand_in("");
  RankOptions options = in_chunks(scene);
  options.device = choice.device;
  options.transfer = choice.transfer;
  options.open_flags = HICACHE_OPEN_RANK_COPIES;
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == choice.code);
  if (choice.code != HICACHE_OK) {
    HC_EXPECT(std::string(hicache_last_error()).find(choice.says) != std::string::npos);
    return 0;
  }
  const std::string shown = scene.daemon().ask("status").at("sessions")[0].at("transfer");
  std::fprintf(stderr, "%s\n", shown.c_str());
  HC_EXPECT(shown.find(choice.says) != std::string::npos);
  HC_EXPECT((shown == "ipc") == (choice.says == "ipc"));
  HC_EXPECT((scene.count("maps") == 5) == (choice.says == "ipc"));
  HC_EXPECT(rank.store({10, 200, 100}).code == HICACHE_OK);
  HC_EXPECT(rank.load({10, 200, 0}).code == HICACHE_OK && rank.wrong_bytes({10, 200, 0}) == 0);
  return 0;
}

TEST_CASE("AUTO takes the daemon for chunks that may be exported, and says why where it may not") {
  for (const Choice& choice : choices()) {
    INFO(choice.name);
    GpuScene scene({.daemon = choice.daemon});

    CHECK(holds_in_child([&] { return choose(scene, choice); }));

    INFO(scene.daemon().log());
    CHECK(eventually([&] { return scene.count("maps") <= 0 && scene.count("reservations") <= 0; }));
    CHECK(scene.daemon().stop() == 0);
  }
}

// By hand: memory that no bench has.
hicache_code register_memory(hicache_client* client, CuAddress address, std::uint64_t bytes) {
  const hicache_run run{0, 24'000, 24'000};
  const hicache_layout layout{0, 1, &run};
  hicache_cuda_region region{};
  region.region = 1;
  region.rows = 1;
  region.address = address;
  region.size_bytes = bytes;
  region.transfer = HICACHE_TRANSFER_AUTO;
  region.layout_count = 1;
  region.layouts = &layout;
  return hicache_register_cuda_region(client, &region, Rank::kDeadlineMs);
}

int fall_back(const GpuScene& scene) {
  use_stand_in("");
  const auto bench = FakeBench::make("");
  RankOptions options = scene.rank_options();
  options.device = BenchDevice::host;
  options.open_flags = HICACHE_OPEN_RANK_COPIES;
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  const std::vector<std::size_t> many(kChunksPerRegionMax + 1, kChunkBytes);
  const CuAddress chunks = map_area(bench->driver, many, kCuHandlePosixFd);
  CuAddress pooled = 0;
  HC_EXPECT(bench->driver->mem_alloc_async(&pooled, 1 << 20, bench->stream) == kCuSuccess);
  struct Memory {
    CuAddress address;
    std::uint64_t bytes;
    const char* says;
  };
  for (const Memory& memory :
       {Memory{chunks, many.size() * kChunkBytes, "rank: region.address = 0x"},
        Memory{chunks, many.size() * kChunkBytes, "the region lies in 65 chunks of cuMemCreate"},
        Memory{pooled, 1 << 20, "MEMPOOL_HANDLE is set: memory of a pool, cuMemAllocAsync"},
        Memory{chunks, kChunksPerRegionMax * kChunkBytes, "ipc"}}) {
    HC_EXPECT(register_memory(rank.client(), memory.address, memory.bytes) == HICACHE_OK);
    const std::string shown = scene.daemon().ask("status").at("sessions")[0].at("transfer");
    std::fprintf(stderr, "%s\n", shown.c_str());
    HC_EXPECT(shown.find(memory.says) != std::string::npos);
    HC_EXPECT(hicache_unregister_region(rank.client(), 1, Rank::kDeadlineMs) == HICACHE_OK);
  }
  return 0;
}

TEST_CASE("Memory of a pool, and more chunks than one region may have, fall to the rank") {
  GpuScene scene;

  CHECK(holds_in_child([&] { return fall_back(scene); }));

  INFO(scene.daemon().log());
  CHECK(eventually([&] { return scene.is_clean(); }));
  CHECK(scene.daemon().stop() == 0);
}

}  // namespace
}  // namespace hc::test
