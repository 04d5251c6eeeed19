// SPDX-License-Identifier: Apache-2.0
// rank_copier: batches into jobs, jobs into lanes, ends back into batches.
#include "client/gpu/rank_copier.h"

#include <poll.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::chrono::milliseconds kStopLook(20);

// No signal of the engine is ours to take. Threads inherit this from whoever makes them.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
      ::sigdelset(&all, fault);
    }
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

RankCopier::RankCopier(std::shared_ptr<CudaDevice> device, OnDone on_done)
    : device_(std::move(device)), on_done_(std::move(on_done)) {
  const BlockedSignals blocked;
  for (int in = 0; in < 2; ++in) {
    lanes_[in] = std::make_unique<CudaLane>(LaneOptions{device_, &registry_, in == 1}, *this);
  }
  registration_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "hicache-pin");
    run_registration();
  });
}

RankCopier::~RankCopier() {
  // Not reset: what is reported until their end may still put copies into them.
  lanes_[0]->end();
  lanes_[1]->end();
  drop_arenas();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  registration_.join();
}

void RankCopier::add_arenas(std::vector<Arena> arenas, std::shared_ptr<const void> keeps) {
  {
    const std::lock_guard lock(mutex_);
    arenas_ = std::move(arenas);
    arenas_keep_ = std::move(keeps);
  }
  changed_.notify_all();
}

// No copy of it is in flight.
void RankCopier::drop_arenas() {
  std::unique_lock lock(mutex_);
  arenas_.clear();
  changed_.wait(lock, [this] { return !registering_; });
  const std::vector<Arena> dropped = std::exchange(registered_, {});
  const std::shared_ptr<const void> kept = std::exchange(arenas_keep_, nullptr);
  lock.unlock();
  const CurrentContext current(device_->context());
  for (const Arena& arena : dropped) {
    registry_.drop(device_->driver(), arena.memory);
  }
}

void RankCopier::run_registration() {
  const CurrentContext current(device_->context());
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !arenas_.empty(); });
    if (closing_) {
      return;
    }
    const Arena arena = arenas_.back();
    arenas_.pop_back();
    registered_.push_back(arena);
    registering_ = true;
    lock.unlock();
    // One that is refused is copied without: the engine has no log of ours.
    static_cast<void>(registry_.add(device_->driver(), arena.memory, arena.frame_bytes));
    HC_FAILPOINT(client_frames_registered);
    lock.lock();
    registering_ = false;
    changed_.notify_all();
  }
}

void RankCopier::put(RankBatch batch) {
  HC_CHECK(!batch.copies.empty());
  const auto running = std::make_shared<Running>();
  running->batch = std::move(batch);
  if (!running->batch.awaits_event) {
    start_copies(running);
    return;
  }
  CopyJob job;
  job.kind = CopyKind::await;
  job.event = running->batch.slot;
  {
    const std::lock_guard lock(mutex_);
    job.ticket = next_ticket_++;
    running_.emplace(job.ticket, running);
  }
  lanes_[running->batch.to_device]->put(job, running->batch.mapping);
}

void RankCopier::start_copies(const RunningPtr& running) {
  std::vector<CopyJob> jobs;
  {
    const std::lock_guard lock(mutex_);
    running->batch.awaits_event = false;
    running->left = running->batch.copies.size();
    for (const RankCopy& copy : running->batch.copies) {
      CopyJob job;
      job.kind = running->batch.to_device ? CopyKind::scatter : CopyKind::gather;
      job.frame = copy.frame;
      job.payload_bytes = copy.payload_bytes;
      job.runs = copy.runs;
      job.ticket = next_ticket_++;
      running_.emplace(job.ticket, running);
      jobs.push_back(job);
    }
  }
  for (const CopyJob& job : jobs) {
    lanes_[running->batch.to_device]->put(job, running->batch.mapping);
  }
}

void RankCopier::copied(const CopyCompletion& done, CudaMappingPtr /*mapping*/) {
  RunningPtr running;
  bool is_done = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(done.ticket);
    HC_CHECK(found != running_.end());
    running = std::move(found->second);
    if (!running->batch.awaits_event) {
      HC_CHECK(running->left > 0);
      --running->left;
    }
    running->code = running->code == Code::ok ? done.code : running->code;
    is_done = running->batch.awaits_event ? running->code != Code::ok : running->left == 0;
  }
  // Its ticket stays known until its copies are, or until its end was told: wait_idle sees no gap.
  if (is_done) {
    HC_FAILPOINT(client_batch_copied);
    on_done_(running->batch.name, running->code);
  } else if (running->batch.awaits_event) {
    start_copies(running);
  }
  {
    const std::lock_guard lock(mutex_);
    running_.erase(done.ticket);
  }
  if (is_done) {
    changed_.notify_all();
  }
}

// Its copies fail one by one, which the daemon hears of.
void RankCopier::lost(const std::string& /*line*/) {}

bool RankCopier::wait_idle(int stop_fd) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kStopLook, [this] { return running_.empty(); })) {
    pollfd stop{stop_fd, POLLIN, 0};
    if (::poll(&stop, 1, 0) > 0) {
      return false;
    }
  }
  return true;
}

}  // namespace hc
