// SPDX-License-Identifier: Apache-2.0
// pool_disk: the Disk over pools of threads that block in preadv2, pwritev2 and fdatasync.
//
// Owner: the reactor thread; the threads see only copies of descriptors and the buffers of their
// request. Each volume has threads of its own: one that hangs holds up nobody but itself. The
// fallback where io_uring is not allowed, as in most containers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/os/transfer.h"
#include "daemon/os/volume_disk.h"
#include "daemon/os/work_queue.h"
#include "proto/thread_roles.h"

namespace hc {

class PoolDisk final : public VolumeDisk {
 public:
  // `threads` for each volume.
  PoolDisk(std::vector<Volume> volumes, EventFd event, std::uint32_t threads);
  PoolDisk(const PoolDisk&) = delete;
  PoolDisk& operator=(const PoolDisk&) = delete;
  // Waits for what is in flight.
  ~PoolDisk() override;

  Code submit(const DiskRequest& request) override HC_REACTOR;
  void poll(std::vector<DiskCompletion>& out) override HC_REACTOR;
  void wait() override HC_REACTOR;
  std::uint32_t in_flight() const override HC_REACTOR { return in_flight_; }
  int event_fd() const override { return done_.event_fd(); }
  std::string description() const override;

 private:
  struct Done {
    FileId file;
    DiskCompletion completion;
  };
  struct Lane {
    WorkQueue<Transfer> work;
    std::vector<std::thread> threads;
  };

  void run(WorkQueue<Transfer>& work) HC_IO_WORKER;

  ResultBox<Done> done_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // by volume
  std::uint32_t threads_;
  std::uint32_t in_flight_ HC_OWNED_BY_REACTOR = 0;
};

}  // namespace hc
