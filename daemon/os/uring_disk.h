// SPDX-License-Identifier: Apache-2.0
// uring_disk: the Disk over one io_uring for all volumes.
//
// Owner: the reactor thread, which must also be the creator. Every request in flight owns a slot
// of a fixed table; its vectors stay there until the kernel has answered.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/os/transfer.h"
#include "daemon/os/uring.h"
#include "daemon/os/volume_disk.h"

namespace hc {

class UringDisk final : public VolumeDisk {
 public:
  UringDisk(std::vector<Volume> volumes, Uring ring);
  UringDisk(const UringDisk&) = delete;
  UringDisk& operator=(const UringDisk&) = delete;
  // Waits for what is in flight: the kernel still owns those buffers.
  ~UringDisk() override;

  Code submit(const DiskRequest& request) override;
  void poll(std::vector<DiskCompletion>& out) override;
  void wait() override;
  std::uint32_t in_flight() const override { return in_flight_; }
  int event_fd() const override { return ring_.event_fd(); }
  std::string description() const override;

 private:
  void queue(std::uint32_t slot);
  void settle(const Uring::Done& done);
  bool reap();

  Uring ring_;
  std::vector<Transfer> transfers_;       // kDiskRequestsMax, never moved
  std::vector<std::uint32_t> free_;
  std::vector<DiskCompletion> finished_;  // reaped, not yet polled
  std::uint32_t in_flight_ = 0;           // submitted, not yet polled
};

}  // namespace hc
