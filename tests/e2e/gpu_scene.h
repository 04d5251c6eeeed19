// SPDX-License-Identifier: Apache-2.0
// gpu_scene: a daemon on the stand-in of the CUDA driver, and what a rank's process does to use it.
//
// Owner thread: the test's main thread; ranks with a GPU run in forked processes, because what a
// process has loaded of the driver stays. No GPU is needed, and none is used if there is one.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "e2e/daemon_process.h"
#include "e2e/rank.h"
#include "proto/check.h"
#include "support/doubles.h"
#include "support/temp_dir.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc::test {

// In a forked process: the stand-in is what this process finds as libcuda.so.1 from now on.
inline void use_stand_in(const std::string& plan) {
  plan_double("HC_FAKE_CUDA", plan);
  HC_CHECK(::dlopen(double_library("libcuda.so.1").c_str(), RTLD_NOW) != nullptr);
}

struct GpuPlan {
  std::string daemon{};           // of the stand-in (tests/doubles/README.md)
  std::string mutant{};           // as the next: "": the daemon that is installed
  std::string failpoint{};
  std::uint64_t l2_bytes = 8U << 20;
};

class GpuScene {
 public:
  explicit GpuScene(const GpuPlan& plan = {}) : daemon_(options_of(plan)) { daemon_.start(); }
  ~GpuScene() = default;
  GpuScene(const GpuScene&) = delete;
  GpuScene& operator=(const GpuScene&) = delete;

  DaemonProcess& daemon() { return daemon_; }
  const DaemonProcess& daemon() const { return daemon_; }
  RankOptions rank_options(const std::string& group = "engine") const {
    RankOptions options;
    options.socket = daemon_.client_socket();
    options.group = group;
    options.device = BenchDevice::cuda;
    return options;
  }
  // What the daemon's driver counts.
  long count(const std::string& what) const {
    return cuda_report(reports_.str(), daemon_.pid(), what);
  }
  // As `count`, of a process that may have ended.
  long count_of(pid_t pid, const std::string& what) const {
    return cuda_report(reports_.str(), pid, what);
  }
  // Nothing of any client is open in the driver.
  bool is_clean() const {
    return count("mappings") == 0 && count("opened_events") == 0 && count("maps") == 0 &&
           count("reservations") == 0 && count("handles") == 0;
  }

 private:
  DaemonOptions options_of(const GpuPlan& plan) const {
    DaemonOptions options;
    options.l2_bytes = plan.l2_bytes;
    options.l3_bytes = 4 * plan.l2_bytes;
    options.environment = {"LD_LIBRARY_PATH=" + double_library("").parent_path().string(),
                           "HC_FAKE_CUDA=" + plan.daemon,
                           "HC_FAKE_CUDA_REPORT=" + reports_.str()};
    const std::string hook = plan.mutant.empty() ? "HICACHE_FAILPOINT=" + plan.failpoint
                                                 : "HICACHE_MUTANT=" + plan.mutant;
    if (!plan.mutant.empty() || !plan.failpoint.empty()) {
      options.program = "hicached_hooks";
      options.environment.push_back(hook);
    }
    return options;
  }

  TempDir reports_;
  DaemonProcess daemon_;
};

// The first session makes what stays: arenas, slabs, the driver, contexts, streams.
void warm_up(GpuScene& scene);

// Of a forked process: begins eight stores, says so, and waits for the end.
int store_and_stay(FakeLine& line, RankOptions options, const std::string& plan);

}  // namespace hc::test
