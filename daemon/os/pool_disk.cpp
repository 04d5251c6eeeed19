// SPDX-License-Identifier: Apache-2.0
// pool_disk: run requests on threads with blocking system calls.
#include "daemon/os/pool_disk.h"

#include <utility>

#include "daemon/os/blocking_io.h"
#include "proto/limits.h"

namespace hc {

PoolDisk::PoolDisk(Volume volume, EventFd event, std::uint32_t threads)
    : VolumeDisk(std::move(volume)), done_(std::move(event)) {
  HC_CHECK(threads > 0);
  threads_.reserve(threads);
  for (std::uint32_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { run(); });
  }
}

PoolDisk::~PoolDisk() {
  work_.close();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

std::string PoolDisk::description() const {
  return "threads (" + std::to_string(threads_.size()) + ")";
}

Code PoolDisk::submit(const DiskRequest& request) {
  if (in_flight_ == kDiskRequestsMax) {
    return Code::busy;
  }
  Transfer transfer(request, volume_.fd(request.file));
  volume_.begin_io(request.file);
  ++in_flight_;
  work_.put(transfer);
  return Code::ok;
}

void PoolDisk::run() {
  while (auto transfer = work_.take()) {
    const DiskCompletion completion = run_blocking(*transfer);
    done_.put({transfer->file(), completion});
  }
}

void PoolDisk::poll(std::vector<DiskCompletion>& out) {
  for (const Done& done : done_.take_all()) {
    HC_CHECK(in_flight_ > 0);
    --in_flight_;
    volume_.end_io(done.file);
    out.push_back(done.completion);
  }
}

void PoolDisk::wait() {
  if (in_flight_ > 0) {
    done_.wait();
  }
}

}  // namespace hc
