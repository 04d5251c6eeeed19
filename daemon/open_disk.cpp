// SPDX-License-Identifier: Apache-2.0
// open_disk: options of the disk from the keys of the configuration.
#include "daemon/open_disk.h"

#include <utility>

#include "daemon/os/disk_probe.h"
#include "proto/limits.h"

namespace hc {

Result<std::unique_ptr<WaitableDisk>> open_disk(const Config& config) {
  DiskOptions options;
  options.dirs = volume_dirs(config);
  options.backend = config.disk_backend;
  options.lock_retry_ms = config.lock_wait_ms;
  options.io_threads = config.io_threads;
  // The arenas, and the header blocks of requests.
  options.registered_bytes =
      config.l2_bytes + options.dirs.size() * kDiskRequestsMax * std::uint64_t{kBlockBytes};
  auto disk = make_disk(options);
  HC_TRY(disk);
#ifdef HC_TEST_HOOKS
  return wrap_with_faults(std::move(*disk));
#else
  return std::unique_ptr<WaitableDisk>(std::move(*disk));
#endif
}

}  // namespace hc
