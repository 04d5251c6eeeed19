// SPDX-License-Identifier: Apache-2.0
// copier_set: host memory and devices behind one seam: lane 0 is the host's.
//
// Owner: the reactor thread.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "daemon/gpu/cuda_copier.h"
#include "daemon/gpu/host_copier.h"

namespace hc {

class CopierSet final : public Copier {
 public:
  // `threads` of host copies, 0: chosen; `library`: the CUDA driver, which is not loaded yet.
  static Result<std::unique_ptr<CopierSet>> create(std::uint32_t threads, std::string library) {
    auto host = HostCopier::create(threads);
    HC_TRY(host);
    auto cuda = CudaCopier::create(std::move(library));
    HC_TRY(cuda);
    return std::make_unique<CopierSet>(std::move(*host), std::move(*cuda));
  }
  CopierSet(std::unique_ptr<HostCopier> host, std::unique_ptr<CudaCopier> cuda)
      : host_owner_(std::move(host)),
        cuda_owner_(std::move(cuda)),
        host_(*host_owner_),
        cuda_(*cuda_owner_) {}

  HostCopier& host() { return host_; }
  CudaCopier& cuda() { return cuda_; }

  std::uint32_t lanes() const override { return 1 + cuda_.lanes(); }
  std::uint32_t lane_of(const CopyJob& job) const override HC_REACTOR {
    return is_host(job) ? 0 : 1 + cuda_.lane_of(job);
  }
  Code submit(const CopyJob& job) override HC_REACTOR {
    return is_host(job) ? host_.submit(job) : cuda_.submit(job);
  }
  void poll(std::vector<CopyCompletion>& out) override HC_REACTOR {
    host_.poll(out);
    cuda_.poll(out);
  }
  // Both end by themselves; which one is waited for first makes no difference to who stops.
  void wait() override HC_REACTOR { host_.in_flight() > 0 ? host_.wait() : cuda_.wait(); }
  std::uint32_t in_flight() const override HC_REACTOR {
    return host_.in_flight() + cuda_.in_flight();
  }
  void add_memory(std::span<std::uint8_t> arena, std::uint32_t frame_bytes) override {
    cuda_.add_memory(arena, frame_bytes);
  }
  void drop_memory(std::span<std::uint8_t> arena) override { cuda_.drop_memory(arena); }

 private:
  static bool is_host(const CopyJob& job) { return job.mapping == kHostMapping; }

  std::unique_ptr<HostCopier> host_owner_;
  std::unique_ptr<CudaCopier> cuda_owner_;
  HostCopier& host_;
  CudaCopier& cuda_;
};

}  // namespace hc
