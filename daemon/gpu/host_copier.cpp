// SPDX-License-Identifier: Apache-2.0
// host_copier: gather, scatter and sum on helper threads; client memory only under the guard.
#include "daemon/gpu/host_copier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/gpu/sigbus_guard.h"
#include "daemon/gpu/stream_copy.h"
#include "proto/checksum.h"

namespace hc {

namespace {

constexpr std::uint32_t kThreadsMax = 4;  // by default; memory bandwidth is used up before

// One run of a job; plain data, because the guard may leave it in the middle.
struct RunCopy {
  std::uint8_t* frame;
  CopyRun run;
  std::uint32_t crc;
};

void gather_run(void* argument) {
  auto& copy = *static_cast<RunCopy*>(argument);
  copy.crc = copy_crc32c(copy.frame, {host_address(copy.run), copy.run.size_bytes}, copy.crc);
}

void scatter_run(void* argument) {
  const auto& copy = *static_cast<const RunCopy*>(argument);
  stream_copy(host_address(copy.run), copy.frame, copy.run.size_bytes);
}

CopyCompletion copy_runs(const CopyJob& job, void (*body)(void*)) {
  RunCopy copy{job.frame, {}, 0};
  for (const CopyRun& run : job.runs) {
    copy.run = run;
    if (!run_guarded({host_address(run), run.size_bytes}, body, &copy)) {
      return {job.ticket, Code::memory_fault};
    }
    copy.frame += run.size_bytes;
  }
  return {job.ticket, Code::ok, copy.crc};
}

CopyCompletion run_job(const CopyJob& job) {
  switch (job.kind) {
    case CopyKind::gather: {
      if (job.padded_bytes > job.payload_bytes) {
        std::memset(job.frame + job.payload_bytes, 0, job.padded_bytes - job.payload_bytes);
      }
      return copy_runs(job, gather_run);
    }
    case CopyKind::scatter: return copy_runs(job, scatter_run);
    case CopyKind::sum:
      return {job.ticket, Code::ok, crc32c({job.frame, job.payload_bytes})};
    case CopyKind::await: break;  // host memory has no work of its own
  }
  HC_UNREACHABLE();
}

void check_job(const CopyJob& job) {
  std::uint64_t total_bytes = 0;
  for (const CopyRun& run : job.runs) {
    HC_CHECK(run.address != 0 && run.size_bytes > 0);
    total_bytes += run.size_bytes;
  }
  HC_CHECK(job.frame != nullptr && job.mapping == kHostMapping);
  HC_CHECK(job.kind == CopyKind::sum ? job.runs.empty() : total_bytes == job.payload_bytes);
}

}  // namespace

Result<std::unique_ptr<HostCopier>> HostCopier::create(std::uint32_t threads) {
  auto event = EventFd::create();
  HC_TRY(event);
  const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::make_unique<HostCopier>(std::move(*event),
                                      threads > 0 ? threads : std::min(kThreadsMax, cores));
}

HostCopier::HostCopier(EventFd event, std::uint32_t threads) : done_(std::move(event)) {
  HC_CHECK(threads > 0);
  install_sigbus_guard();
  threads_.reserve(threads);
  for (std::uint32_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      const RoleScope role(kCopierRole);
      run();
    });
  }
}

HostCopier::~HostCopier() {
  work_.close();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

Code HostCopier::submit(const CopyJob& job) {
  if (in_flight_ == kCopyJobsMax) {
    return Code::busy;
  }
  check_job(job);
  ++in_flight_;
  work_.put(job);
  return Code::ok;
}

void HostCopier::run() {
  while (const auto job = work_.take()) {
    done_.put(run_job(*job));
  }
}

void HostCopier::poll(std::vector<CopyCompletion>& out) {
  const auto done = done_.take_all();
  HC_CHECK(done.size() <= in_flight_);
  in_flight_ -= static_cast<std::uint32_t>(done.size());
  out.insert(out.end(), done.begin(), done.end());
}

void HostCopier::wait() {
  if (in_flight_ > 0) {
    done_.wait();
  }
}

}  // namespace hc
