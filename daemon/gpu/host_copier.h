// SPDX-License-Identifier: Apache-2.0
// host_copier: the Copier over threads and memcpy, for client memory in host memory files.
//
// Owner: the reactor thread; a job's memory is touched by exactly one helper thread until its
// completion is there.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/gpu/copier.h"
#include "daemon/os/waitable.h"
#include "daemon/os/work_queue.h"
#include "proto/thread_roles.h"

namespace hc {

class HostCopier final : public Copier, public Waitable {
 public:
  // threads 0: min(4, processors).
  static Result<std::unique_ptr<HostCopier>> create(std::uint32_t threads);
  HostCopier(EventFd event, std::uint32_t threads);
  HostCopier(const HostCopier&) = delete;
  HostCopier& operator=(const HostCopier&) = delete;
  // Waits for what is in flight.
  ~HostCopier() override;

  Code submit(const CopyJob& job) override HC_REACTOR;
  void poll(std::vector<CopyCompletion>& out) override HC_REACTOR;
  void wait() override HC_REACTOR;
  std::uint32_t in_flight() const override HC_REACTOR { return in_flight_; }
  int event_fd() const override { return done_.event_fd(); }

 private:
  void run() HC_COPIER;

  WorkQueue<CopyJob> work_;
  ResultBox<CopyCompletion> done_;
  std::vector<std::thread> threads_;
  std::uint32_t in_flight_ HC_OWNED_BY_REACTOR = 0;
};

}  // namespace hc
