// SPDX-License-Identifier: Apache-2.0
// disk_probe: try io_uring for real, else threads.
#include "daemon/os/disk_probe.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/log/log.h"
#include "daemon/os/pool_disk.h"
#include "daemon/os/uring_disk.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr const char* kProbeFile = "probe.tmp";
constexpr std::uint8_t kProbeByte = 0xA5;

Result<void> run_one(Disk& disk, const DiskRequest& request) {
  HC_CHECK(disk.in_flight() == 0);
  HC_CHECK(disk.submit(request) == Code::ok);
  std::vector<DiskCompletion> done;
  while (done.empty()) {
    disk.wait();
    disk.poll(done);
  }
  if (done.front().code != Code::ok) {
    return make_error(done.front().code, "probe file", done.front().sys_errno);
  }
  return {};
}

// Two daemons that probe at once write the same bytes, so they don't disturb each other.
Result<void> write_and_read(Disk& disk, FileId file) {
  const std::unique_ptr<std::uint8_t, void (*)(void*)> block(
      static_cast<std::uint8_t*>(std::aligned_alloc(kBlockBytes, kBlockBytes)), std::free);
  HC_CHECK(block != nullptr);
  DiskRequest request;
  request.file = file;
  request.buffers[0] = {block.get(), kBlockBytes};
  std::memset(block.get(), kProbeByte, kBlockBytes);
  request.op = DiskOp::write;
  HC_TRY_VOID(run_one(disk, request));
  std::memset(block.get(), 0, kBlockBytes);
  request.op = DiskOp::read;
  HC_TRY_VOID(run_one(disk, request));
  for (std::uint32_t i = 0; i < kBlockBytes; ++i) {
    if (block.get()[i] != kProbeByte) {
      return make_error(Code::corrupt, "probe file: what was read is not what was written");
    }
  }
  return {};
}

Result<void> probe_io(Disk& disk) {
  const auto file = disk.open({kProbeFile, kBlockBytes, true, false});
  if (!file) {
    // A full disk says nothing about the back end, and the slabs have their space already.
    return file.error().code == Code::no_space ? Result<void>() : Result<void>(file.error());
  }
  const auto result = write_and_read(disk, *file);
  HC_TRY_VOID(disk.close(*file));
  HC_TRY_VOID(disk.remove(kProbeFile, 0));
  return result;
}

Result<std::unique_ptr<VolumeDisk>> make_uring(const DiskOptions& options) {
  auto ring = Uring::create_best(kDiskRequestsMax);
  HC_TRY(ring);
  auto volumes = open_volumes(options.dirs, options.lock_retry_ms);
  HC_TRY(volumes);
  std::unique_ptr<VolumeDisk> disk =
      std::make_unique<UringDisk>(std::move(*volumes), std::move(*ring));
  HC_TRY_VOID(probe_io(*disk));
  return disk;
}

Result<std::unique_ptr<VolumeDisk>> make_threads(const DiskOptions& options) {
  auto volumes = open_volumes(options.dirs, options.lock_retry_ms);
  HC_TRY(volumes);
  auto event = EventFd::create();
  HC_TRY(event);
  std::unique_ptr<VolumeDisk> disk =
      std::make_unique<PoolDisk>(std::move(*volumes), std::move(*event), options.io_threads);
  HC_TRY_VOID(probe_io(*disk));
  return disk;
}

}  // namespace

Result<std::vector<Volume>> open_volumes(const std::vector<std::string>& dirs,
                                         std::uint32_t lock_retry_ms) {
  std::vector<Volume> volumes;
  for (const std::string& dir : dirs) {
    const auto number = static_cast<std::uint16_t>(volumes.size());
    auto volume = Volume::open_dir({dir, lock_retry_ms, number});
    HC_TRY(volume);
    volumes.push_back(std::move(*volume));
  }
  return volumes;
}

Result<std::unique_ptr<VolumeDisk>> make_disk(const DiskOptions& options) {
  // A folder that can't be used is no reason to step down.
  HC_TRY_VOID(open_volumes(options.dirs, options.lock_retry_ms));
  if (options.backend != DiskBackend::threads) {
    auto disk = make_uring(options);
    if (disk) {
      log_info("disk.backend",
               {{"volumes", options.dirs.size()}, {"backend", (*disk)->description()}});
      return disk;
    }
    if (options.backend == DiskBackend::uring) {
      return disk.error();
    }
    log_warn("disk.backend_step_down", {{"volumes", options.dirs.size()},
                                        {"backend", "threads"},
                                        {"reason", disk.error().message()}});
  }
  auto disk = make_threads(options);
  HC_TRY(disk);
  log_info("disk.backend", {{"volumes", options.dirs.size()}, {"backend", (*disk)->description()}});
  return disk;
}

}  // namespace hc
