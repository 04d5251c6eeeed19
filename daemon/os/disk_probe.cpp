// SPDX-License-Identifier: Apache-2.0
// disk_probe: try io_uring for real, else threads.
#include "daemon/os/disk_probe.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

// Two daemons that probe at once write the same bytes, so they don't disturb each other. The block
// is offered to the back end, so that a registered transfer is what is tried.
Result<void> write_and_read(Disk& disk, FileId file) {
  const std::unique_ptr<std::uint8_t, void (*)(void*)> block(
      static_cast<std::uint8_t*>(std::aligned_alloc(kBlockBytes, kBlockBytes)), std::free);
  HC_CHECK(block != nullptr);
  const std::span<std::uint8_t> bytes(block.get(), kBlockBytes);
  DiskRequest request;
  request.file = file;
  request.buffers[0] = {block.get(), kBlockBytes};
  std::memset(block.get(), kProbeByte, kBlockBytes);
  disk.add_memory(bytes);
  request.op = DiskOp::write;
  auto result = run_one(disk, request);
  if (result) {
    std::memset(block.get(), 0, kBlockBytes);
    request.op = DiskOp::read;
    result = run_one(disk, request);
  }
  disk.drop_memory(bytes);
  HC_TRY_VOID(result);
  const bool same = std::all_of(bytes.begin(), bytes.end(),
                                [](std::uint8_t byte) { return byte == kProbeByte; });
  return same ? Result<void>()
              : make_error(Code::corrupt, "probe file: what was read is not what was written");
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

// Memory that the kernel keeps for the requests is locked memory; who may lock any is not bounded.
Result<void> check_locked_memory(std::uint64_t wanted_bytes) {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  const bool free = ::syscall(SYS_capget, &head, sets.data()) == 0 &&
                    (sets[0].effective & 1U << CAP_IPC_LOCK) != 0;
  rlimit limit{};
  HC_CHECK(::getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  if (free || limit.rlim_cur >= wanted_bytes) {
    return {};
  }
  return make_error(Code::no_space, "registered buffers lock " + std::to_string(wanted_bytes) +
                                        " bytes of memory, RLIMIT_MEMLOCK allows " +
                                        std::to_string(limit.rlim_cur));
}

Result<std::unique_ptr<VolumeDisk>> make_uring(const DiskOptions& options, bool registered) {
  if (registered) {
    HC_TRY_VOID(check_locked_memory(options.registered_bytes));
  }
  auto ring = Uring::create_best(UringDisk::entries_for(options.dirs.size()));
  HC_TRY(ring);
  if (registered) {
    HC_TRY_VOID(ring->create_tables(UringTables::kFilesMax, UringTables::kBuffersMax));
  }
  auto volumes = open_volumes(options.dirs, options.lock_retry_ms);
  HC_TRY(volumes);
  std::unique_ptr<VolumeDisk> disk =
      std::make_unique<UringDisk>(std::move(*volumes), std::move(*ring), registered);
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

Result<std::unique_ptr<VolumeDisk>> make_backend(const DiskOptions& options, DiskBackend backend) {
  return backend == DiskBackend::threads
             ? make_threads(options)
             : make_uring(options, backend == DiskBackend::uring_fixed);
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
  std::vector<DiskBackend> steps{options.backend};
  if (options.backend == DiskBackend::automatic) {
    steps = {DiskBackend::uring_fixed, DiskBackend::uring, DiskBackend::threads};
  }
  for (std::size_t step = 0;; ++step) {
    auto disk = make_backend(options, steps[step]);
    if (disk) {
      log_info("disk.backend",
               {{"volumes", options.dirs.size()}, {"backend", (*disk)->description()}});
      return disk;
    }
    if (step + 1 == steps.size()) {
      return disk.error();
    }
    log_warn("disk.backend_step_down", {{"from", disk_backend_name(steps[step])},
                                        {"to", disk_backend_name(steps[step + 1])},
                                        {"reason", disk.error().message()}});
  }
}

}  // namespace hc
