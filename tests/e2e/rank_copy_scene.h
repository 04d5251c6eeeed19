// SPDX-License-Identifier: Apache-2.0
// rank_copy_scene: a daemon without any GPU, and ranks that copy between memory of the stand-in's
// device and the daemon's frames themselves.
//
// Owner thread: the test's main thread; such ranks run in forked processes, because what a process
// has loaded of the driver stays.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/holdings.h"
#include "e2e/process.h"
#include "e2e/rank.h"
#include "proto/check.h"
#include "support/child.h"
#include "support/doubles.h"
#include "support/temp_dir.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc::test {

struct RankCopyPlan {
  std::string mutant{};           // "": the daemon that is installed
  std::string failpoint{};
  std::uint64_t l2_bytes = 8U << 20;
  std::string gpu_transfer{};     // "": the daemon's own choice
  bool daemon_has_gpu = false;
  std::string daemon_driver{};    // the stand-in's plan then
  std::uint32_t payload_bytes = 24'000;
  bool is_one_of_many = false;    // its daemon is awaited by who made it
};

class RankCopyScene {
 public:
  explicit RankCopyScene(const RankCopyPlan& plan = {}) : plan_(plan), daemon_(options_of()) {
    daemon_.begin_start();
    if (!plan.is_one_of_many) {
      daemon_.await_start();
    }
  }
  ~RankCopyScene() = default;
  RankCopyScene(const RankCopyScene&) = delete;
  RankCopyScene& operator=(const RankCopyScene&) = delete;

  DaemonProcess& daemon() { return daemon_; }
  pid_t daemon_pid() const { return daemon_.pid(); }
  // The next daemon, which has no small bug and dies nowhere, and is to be awaited.
  void begin_sound() {
    plan_.mutant.clear();
    plan_.failpoint.clear();
    daemon_.options() = options_of();
    daemon_.begin_start();
  }
  RankOptions on_host(const std::string& group) const {
    RankOptions options;
    options.socket = daemon_.client_socket();
    options.group = group;
    options.payload_bytes = plan_.payload_bytes;
    return options;
  }
  RankOptions on_device(const std::string& group = "engine") const {
    RankOptions options = on_host(group);
    options.device = BenchDevice::cuda;
    options.transfer = HICACHE_TRANSFER_RANK;
    options.open_flags = HICACHE_OPEN_RANK_COPIES;
    return options;
  }
  // In a forked process: what it finds as libcuda.so.1 from now on, and tells `count` of.
  void give_driver(const std::string& plan) const {
    plan_double("HC_FAKE_CUDA", plan);
    plan_double("HC_FAKE_CUDA_REPORT", reports_.str());
    HC_CHECK(::dlopen(double_library("libcuda.so.1").c_str(), RTLD_NOW) != nullptr);
  }
  // The same for a program of its own.
  std::vector<std::string> driver_environment(const std::string& plan) const {
    return {"LD_LIBRARY_PATH=" + double_library("").parent_path().string(),
            "HC_FAKE_CUDA=" + plan, "HC_FAKE_CUDA_REPORT=" + reports_.str()};
  }
  // What the driver of a process counts, or has counted until its death.
  long count(pid_t pid, const std::string& what) const {
    return cuda_report(reports_.str(), pid, what);
  }
  std::size_t daemon_sessions() const { return daemon_.ask("status").at("sessions").size(); }
  std::uint64_t stat(const char* name) const {
    return daemon_.ask("stats").at(name).get<std::uint64_t>();
  }

 private:
  DaemonOptions options_of() const {
    DaemonOptions options;
    options.l2_bytes = plan_.l2_bytes;
    options.l3_bytes = 4 * plan_.l2_bytes;
    options.gpu_transfer = plan_.gpu_transfer;
    if (plan_.daemon_has_gpu) {
      options.environment = driver_environment(plan_.daemon_driver);
    }
    for (const auto& [name, value] : {std::pair{"HICACHE_MUTANT=", plan_.mutant},
                                      std::pair{"HICACHE_FAILPOINT=", plan_.failpoint}}) {
      if (!value.empty()) {
        options.program = "hicached_hooks";
        options.environment.push_back(name + value);
      }
    }
    return options;
  }

  RankCopyPlan plan_;
  TempDir reports_;
  DaemonProcess daemon_;
};

// The first session makes what stays: arenas, slabs.
inline void warm_rank_copies(const RankCopyScene& scene) {
  Rank warm(scene.on_host("warm"));
  HC_CHECK(warm.open() == HICACHE_OK);
  HC_CHECK(warm.store({1, 2, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  HC_CHECK(warm.load({1, 2, 0}).code == HICACHE_OK);
  HC_CHECK(warm.free_pages({1, 2, 0}).code == HICACHE_OK);
}

}  // namespace hc::test
