// SPDX-License-Identifier: Apache-2.0
// pool_disk: run requests on threads with blocking system calls.
#include "daemon/os/pool_disk.h"

#include <utility>

#include "daemon/os/blocking_io.h"

namespace hc {

PoolDisk::PoolDisk(std::vector<Volume> volumes, EventFd event, std::uint32_t threads)
    : VolumeDisk(std::move(volumes)), done_(std::move(event)), threads_(threads) {
  HC_CHECK(threads > 0);
  for (std::uint16_t number = 0; number < volume_count(); ++number) {
    auto& lane = *lanes_.emplace_back(std::make_unique<Lane>());
    lane.threads.reserve(threads);
    for (std::uint32_t i = 0; i < threads; ++i) {
      lane.threads.emplace_back([this, &lane] {
        const RoleScope role(kIoWorkerRole);
        run(lane.work);
      });
    }
  }
}

PoolDisk::~PoolDisk() {
  for (const auto& lane : lanes_) {
    lane->work.close();
  }
  for (const auto& lane : lanes_) {
    for (std::thread& thread : lane->threads) {
      thread.join();
    }
  }
}

std::string PoolDisk::description() const { return "threads (" + std::to_string(threads_) + ")"; }

Code PoolDisk::submit(const DiskRequest& request) {
  Transfer transfer(request, volume(request.file).fd(request.file));
  if (is_full(request.file)) {
    return Code::busy;
  }
  begin(request.file);
  ++in_flight_;
  lanes_[volume_of(request.file)]->work.put(transfer);
  return Code::ok;
}

void PoolDisk::run(WorkQueue<Transfer>& work) {
  while (auto transfer = work.take()) {
    const DiskCompletion completion = run_blocking(*transfer);
    done_.put({transfer->file(), completion});
  }
}

void PoolDisk::poll(std::vector<DiskCompletion>& out) {
  for (const Done& done : done_.take_all()) {
    HC_CHECK(in_flight_ > 0);
    --in_flight_;
    end(done.file);
    out.push_back(done.completion);
  }
}

void PoolDisk::wait() {
  if (in_flight_ > 0) {
    done_.wait();
  }
}

}  // namespace hc
