// SPDX-License-Identifier: Apache-2.0
// client_gpu: registration of device memory: the driver is asked first, and without the mutex.
#include <utility>

#include "client/argument_error.h"
#include "client/client.h"

namespace hc {

Result<void> Client::register_cuda_region(const hicache_cuda_region* region,
                                          std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, {1, kDeadlineMsMax}));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  const std::lock_guard exporting(export_mutex_);
  Lock lock(mutex_);
  auto plan = check_cuda_region(region, plan_.space);
  HC_TRY(plan);
  HC_TRY_VOID(check_region_number_is_free(region->region));
  HC_TRY_VOID(check_attached());
  std::shared_ptr<DeviceExporter> exporter = exporter_;
  // The driver may take its time, for the first one most of all.
  lock.unlock();
  if (exporter == nullptr) {
    auto opened = DeviceExporter::open(region->address);
    HC_TRY(opened);
    exporter = std::move(*opened);
  }
  auto exported = exporter->export_region({region->address, region->size_bytes});
  lock.lock();
  HC_TRY(exported);
  exporter_ = exporter;
  exported->region = plan->request.region;
  exported->layout_count = plan->request.layout_count;
  exported->rows = plan->request.rows;
  plan->events = exporter->event_handles();
  exported->event_count = static_cast<std::uint32_t>(plan->events.size());
  plan->request = *exported;
  HC_TRY_VOID(check_region_number_is_free(region->region));
  HC_TRY_VOID(check_attached());
  return announce_region(lock, {std::move(*plan), UniqueFd()}, deadline);
}

}  // namespace hc
