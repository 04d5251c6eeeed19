// SPDX-License-Identifier: Apache-2.0
// rank_copier: the rank's own copies between its device memory and frames of L2: two lanes in the
// engine's context, and the registration of L2 with the driver.
//
// Owner thread: any, one at a time, puts batches; `on_done` is called on the threads of the lanes,
// and must not wait for one. Invariants: a batch keeps all that its copies name until it is done;
// it is done when none of them can touch memory any more.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "proto/result.h"
#include "shm/gpu/cuda_lane.h"

namespace hc {

// One payload: its frame, and the runs of the region that it is in.
struct RankCopy {
  std::uint8_t* frame = nullptr;
  std::uint64_t payload_bytes = 0;
  std::vector<CopyRun> runs;
};

// What the daemon has asked for at once, of one operation.
struct RankBatch {
  std::uint64_t name = 0;           // of the operation
  bool to_device = false;
  bool awaits_event = false;        // not before the event of this slot is reached
  std::uint16_t slot = 0;
  std::vector<RankCopy> copies;
  CudaMappingPtr mapping;
  std::shared_ptr<const void> keeps;  // the memory of the frames
};

class RankCopier final : public CopySink {
 public:
  using OnDone = std::function<void(std::uint64_t name, Code code)>;
  RankCopier(std::shared_ptr<CudaDevice> device, OnDone on_done);
  RankCopier(const RankCopier&) = delete;
  RankCopier& operator=(const RankCopier&) = delete;
  // Waits for what is in flight, and lets go of what was registered.
  ~RankCopier() override;

  // Registers it in the background, piece by piece: what is not registered yet is copied all the
  // same, more slowly. Its memory stays until `drop_arenas`, or the end.
  struct Arena {
    std::span<std::uint8_t> memory;
    std::uint64_t frame_bytes = 0;
  };
  void add_arenas(std::vector<Arena> arenas, std::shared_ptr<const void> keeps);
  void drop_arenas();

  void put(RankBatch batch);
  // False: `stop_fd` turned readable before all of it was done.
  bool wait_idle(int stop_fd);
  std::uint64_t registered_bytes() const { return registry_.bytes(); }
  const LaneCounters& counters(bool to_device) const { return lanes_[to_device]->counters(); }

  void copied(const CopyCompletion& done, CudaMappingPtr mapping) override;
  void lost(const std::string& line) override;

 private:
  struct Running {
    RankBatch batch;
    std::size_t left = 0;   // jobs
    Code code = Code::ok;
  };
  using RunningPtr = std::shared_ptr<Running>;

  void start_copies(const RunningPtr& running);
  void run_registration();

  std::shared_ptr<CudaDevice> device_;
  OnDone on_done_;
  HostRegistry registry_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, RunningPtr> running_;  // by ticket: one for each job
  std::uint64_t next_ticket_ = 1;
  std::vector<Arena> arenas_;                   // that wait for their registration
  std::vector<Arena> registered_;
  std::shared_ptr<const void> arenas_keep_;
  bool registering_ = false;                    // one of them, at this moment
  bool closing_ = false;
  std::unique_ptr<CudaLane> lanes_[2];          // out, in
  std::thread registration_;
};

}  // namespace hc
