// SPDX-License-Identifier: Apache-2.0
// gpu_refusal_test: where there is no GPU, or none for us, a registration is refused with a line,
// and everything else goes on.
#include <string>
#include <vector>

#include "e2e/gpu_scene.h"
#include "e2e/process.h"
#include "e2e/scene.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kPayload = 24'000;  // as RankOptions says

hicache_code register_at(hicache_client* client, std::uint32_t number, CuAddress address) {
  const hicache_run run{0, kPayload, kPayload};
  const hicache_layout layout{0, 1, &run};
  hicache_cuda_region region{};
  region.region = number;
  region.rows = 1;
  region.address = address;
  region.size_bytes = kPayload;
  region.transfer = HICACHE_TRANSFER_IPC;
  region.layout_count = 1;
  region.layouts = &layout;
  return hicache_register_cuda_region(client, &region, Rank::kDeadlineMs);
}

struct Refusal {
  std::string name;
  std::vector<std::string> environment;  // of the daemon, besides the path to the stand-in
  bool has_library;
  std::string transfer;
  std::string rank_plan;
  hicache_code code;
  std::string says;
  std::string logged;  // by the daemon, once
};

std::vector<Refusal> refusals() {
  return {
      {"the daemon finds no driver", {}, false, "", "", HICACHE_UNSUPPORTED,
       "no GPU: libcuda.so.1", "gpu.none"},
      {"the daemon finds the toolkit's stub", {"HC_FAKE_CUDA=*=34"}, true, "", "",
       HICACHE_UNSUPPORTED, "no GPU: ", "gpu.none"},
      {"the daemon sees no device", {"HC_FAKE_CUDA=cuInit=100"}, true, "", "",
       HICACHE_UNSUPPORTED, "no GPU: ", "gpu.none"},
      {"the daemon sees another device", {"HC_FAKE_CUDA=first_device=5"}, true, "", "",
       HICACHE_REFUSED, "the daemon sees 1 devices, and not this one", "gpu.driver"},
      {"the configuration says no", {}, true, "off", "", HICACHE_UNSUPPORTED,
       "gpu.transfer = off", ""},
      {"the rank's memory has no handle", {}, true, "", "no_ipc=1", HICACHE_IO_ERROR,
       "cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED (801)", ""},
  };
}

// Host memory is served before and after what is refused, three times.
int be_refused(const Refusal& refusal, RankOptions options) {
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  use_stand_in(refusal.rank_plan);
  const auto bench = FakeBench::make(refusal.rank_plan);
  const CuAddress memory = bench->new_memory(2 * kPayload);
  for (int again = 0; again < 3; ++again) {
    HC_EXPECT(rank.store({10, 4, 0}).code == HICACHE_OK);
    const hicache_code code = register_at(rank.client(), 1, memory + 512);
    const std::string text = hicache_last_error();
    HC_EXPECT(code == refusal.code);
    HC_EXPECT(text.find(refusal.says) != std::string::npos);
    HC_EXPECT(text.find('\n') == std::string::npos);
    HC_EXPECT(rank.load({10, 4, 20}).code == HICACHE_OK);
    HC_EXPECT(rank.wrong_bytes({10, 4, 20}) == 0);
  }
  return 0;
}

TEST_CASE("Without a GPU that both see, device memory is refused and host memory served") {
  for (const Refusal& refusal : refusals()) {
    INFO(refusal.name);
    DaemonOptions options;
    options.environment = refusal.environment;
    if (refusal.has_library) {
      options.environment.push_back("LD_LIBRARY_PATH=" +
                                    double_library("").parent_path().string());
    }
    options.gpu_transfer = refusal.transfer;
    DaemonProcess daemon(options);
    daemon.start();

    const int result =
        Child([&] { return be_refused(refusal, {.socket = daemon.client_socket()}); }).wait();

    INFO(daemon.log());
    CHECK(result == 0);
    CHECK((refusal.logged.empty() || occurrences(daemon.log(), refusal.logged) == 1));
    CHECK(occurrences(daemon.log(), " gpu.") == (refusal.logged.empty() ? 0U : 1U));
    CHECK(daemon.stop() == 0);
  }
}

// Has one region in memory that is freed too early, and one in memory that stays.
int free_too_early(FakeLine& line, RankOptions options) {
  line.be_child();
  use_stand_in("");
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  const auto bench = FakeBench::make("");
  const CuAddress memory = bench->new_memory(2 * kPayload);
  const CuAddress freed = bench->new_memory(2 * kPayload);
  HC_EXPECT(register_at(rank.client(), 1, memory) == HICACHE_OK);
  HC_EXPECT(register_at(rank.client(), 2, freed) == HICACHE_OK);
  HC_EXPECT(rank.store({10, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  HC_EXPECT(bench->driver->mem_free(freed) == kCuSuccess);
  line.go();
  HC_EXPECT(line.wait());  // another daemon is there
  HC_EXPECT(rank.wait_serving());
  HC_EXPECT(rank.reload({10, 4, 0}).code == HICACHE_OK);
  HC_EXPECT(rank.load({10, 4, 8}).code == HICACHE_OK && rank.wrong_bytes({10, 4, 8}) == 0);
  const std::vector<hicache_page> pages = rank.pages_of({11, 1, 0});
  for (const std::uint32_t region : {1U, 2U}) {
    hicache_op op{};
    op.deadline_ms = Rank::kDeadlineMs;
    op.region = region;
    std::uint64_t op_id = 0;
    const hicache_code code = hicache_load(rank.client(), &op, pages.data(), 1, &op_id);
    HC_EXPECT(code == (region == 1 ? HICACHE_OK : HICACHE_BAD_ARGUMENT));
    HC_EXPECT(region == 2 || rank.finish(op_id).code == HICACHE_OK);
  }
  HC_EXPECT(hicache_unregister_region(rank.client(), 2, Rank::kDeadlineMs) == HICACHE_OK);
  HC_EXPECT(register_at(rank.client(), 2, memory + kPayload) == HICACHE_OK);
  return 0;
}

TEST_CASE("Device memory that is gone when a client attaches again costs its region alone") {
  GpuScene scene;
  RankOptions options = scene.rank_options();
  options.device = BenchDevice::host;
  FakeLine line;
  Child rank([&] { return free_too_early(line, options); });
  line.be_parent();
  REQUIRE(line.wait());
  CHECK(scene.daemon().stop() == 0);

  scene.daemon().start();

  line.go();
  CHECK(rank.wait() == 0);
  INFO(scene.daemon().log());
  CHECK(eventually([&] { return scene.is_clean(); }));
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A rank without a driver is told so by its own library") {
  Scene scene;
  CHECK(holds_in_child([&] {
    Rank rank(scene.hostile());
    HC_EXPECT(rank.open() == HICACHE_OK);
    use_stand_in("*=34");
    HC_EXPECT(register_at(rank.client(), 1, 0x7000) == HICACHE_UNSUPPORTED);
    HC_EXPECT(std::string(hicache_last_error()).find("no GPU: ") != std::string::npos);
    HC_EXPECT(rank.store({10, 4, 0}).code == HICACHE_OK);
    HC_EXPECT(rank.load({10, 4, 0}).code == HICACHE_OK && rank.wrong_bytes({10, 4, 0}) == 0);
    return 0;
  }));
  CHECK(occurrences(scene.daemon().log(), " gpu.") == 0);
  scene.expect_unaffected();
}

}  // namespace
}  // namespace hc::test
