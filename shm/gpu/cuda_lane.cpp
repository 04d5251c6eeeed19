// SPDX-License-Identifier: Apache-2.0
// cuda_lane: the loop of a lane: take, look, issue, pause.
#include "shm/gpu/cuda_lane.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::uint32_t kYieldLooks = 64;       // before the first sleep
constexpr std::uint32_t kSleepShiftMax = 4;     // 10 us, doubled so often at most
constexpr long kSleepNs = 10'000;

}  // namespace

CudaLane::CudaLane(const LaneOptions& options, CopySink& sink)
    : options_(options), sink_(sink) {
  thread_ = std::thread([this] {
    const RoleScope role(kCopierRole);
    ::pthread_setname_np(::pthread_self(), options_.to_device ? "gpu-in" : "gpu-out");
    run();
  });
}

void CudaLane::end() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CudaLane::put(const CopyJob& job, CudaMappingPtr mapping) {
  auto active = std::make_shared<Active>(job, std::move(mapping));
  {
    const std::lock_guard lock(mutex_);
    incoming_.push_back(std::move(active));
  }
  changed_.notify_one();
}

void CudaLane::cancel_awaits(const CudaMappingPtr& mapping) {
  if (HC_MUTANT(awaits_not_cancelled)) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    cancelled_.emplace_back(mapping);
  }
  changed_.notify_one();
}

bool CudaLane::is_idle() const { return queue_.empty() && awaits_.empty() && batches_.empty(); }

// False once the lane is to end and nothing is left of it.
bool CudaLane::take_incoming() {
  std::vector<ActivePtr> taken;
  std::vector<WeakMapping> cancelled;
  bool closing = false;
  {
    std::unique_lock lock(mutex_);
    const auto has_news = [this] {
      return closing_ || !incoming_.empty() || !cancelled_.empty();
    };
    if (is_idle()) {
      changed_.wait(lock, has_news);
    }
    taken = std::exchange(incoming_, {});
    cancelled = std::exchange(cancelled_, {});
    closing = closing_;
  }
  looks_ = taken.empty() ? looks_ : 0;
  for (ActivePtr& active : taken) {
    const bool is_await = active->job.kind == CopyKind::await;
    is_await ? take_await(std::move(active)) : queue_.push_back(std::move(active));
  }
  for (auto at = awaits_.begin(); at != awaits_.end();) {
    const auto is_same = [&](const WeakMapping& gone) {
      return !gone.owner_before((*at)->mapping) && !(*at)->mapping.owner_before(gone);
    };
    if (closing || std::any_of(cancelled.begin(), cancelled.end(), is_same)) {
      (*at)->code = Code::cancelled;
      finish(**at);
      at = awaits_.erase(at);
    } else {
      ++at;
    }
  }
  return !closing || !is_idle();
}

// An event is of one operation at a time: who awaited it before has ended meanwhile. Clients that
// begin and cancel in a loop would fill the memory otherwise.
void CudaLane::take_await(ActivePtr active) {
  const std::vector<CuEvent>& events = active->mapping->events;
  const std::uint16_t event = active->job.event;
  const auto before = std::find_if(awaits_.begin(), awaits_.end(), [&](const ActivePtr& at) {
    const std::vector<CuEvent>& others = at->mapping->events;
    return at->job.event == event && event < events.size() && event < others.size() &&
           others[event] == events[event];
  });
  if (before == awaits_.end()) {
    awaits_.push_back(std::move(active));
    return;
  }
  (*before)->code = Code::cancelled;
  finish(**before);
  *before = std::move(active);
}

bool CudaLane::open() {
  const CudaDriver& driver = options_.device->driver();
  int lowest = 0;
  int highest = 0;
  CuResult result = driver->ctx_priorities(&lowest, &highest);
  if (result == kCuSuccess) {
    result = driver->stream_create(&stream_, kCuStreamNonBlocking, lowest);
  }
  if (result != kCuSuccess) {
    lose(result, "cuStreamCreateWithPriority");
    return false;
  }
  for (std::size_t i = 0; i < kBatchesInFlight; ++i) {
    CuEvent event = nullptr;
    result = driver->event_create(&event, kCuEventNoTiming);
    if (result != kCuSuccess) {
      lose(result, "cuEventCreate");
      return false;
    }
    spare_events_.push_back(event);
  }
  return true;
}

void CudaLane::shut() {
  const CudaDriver& driver = options_.device->driver();
  for (CuEvent event : spare_events_) {
    static_cast<void>(driver->event_destroy(event));
  }
  if (stream_ != nullptr) {
    static_cast<void>(driver->stream_destroy(stream_));
  }
}

void CudaLane::run() {
  const CurrentContext current(options_.device->context());
  if (current.result() != kCuSuccess) {
    lose(current.result(), "cuCtxPushCurrent");
  } else if (!options_.device->is_lost()) {
    static_cast<void>(open());
  }
  while (take_incoming()) {
    if (options_.device->is_lost()) {
      fail_all();
      continue;
    }
    bool moved = look_at_awaits();
    moved = look_at_batches() || moved;
    moved = issue() || moved;
    looks_ = moved ? 0 : looks_ + 1;
    if (!moved && !is_idle()) {
      pause();
    }
  }
  if (current.result() == kCuSuccess) {
    shut();
  }
}

bool CudaLane::look_at_awaits() {
  bool moved = false;
  for (auto at = awaits_.begin(); at != awaits_.end();) {
    const CudaMapping& mapping = *(*at)->mapping;
    const std::uint16_t event = HC_MUTANT(event_of_slot_zero) ? 0 : (*at)->job.event;
    const CuResult result = event < mapping.events.size()
                                ? options_.device->driver()->event_query(mapping.events[event])
                                : kCuInvalidHandle;
    if (result == kCuNotReady) {
      ++at;
      continue;
    }
    (*at)->code = result == kCuSuccess ? Code::ok : Code::io_error;
    if (result != kCuSuccess) {
      lost_by(result, "cuEventQuery of a client's event");
    }
    HC_FAILPOINT(gpu_await_over);
    finish(**at);
    at = awaits_.erase(at);
    moved = true;
  }
  return moved;
}

bool CudaLane::look_at_batches() {
  bool moved = false;
  while (!batches_.empty()) {
    const CuResult result = options_.device->driver()->event_query(batches_.front().event);
    if (result == kCuNotReady && !HC_MUTANT(copy_done_when_issued)) {
      break;
    }
    const bool failed = result != kCuSuccess && result != kCuNotReady;
    // An event that does not answer says nothing of the copies before it; the stream does.
    if (failed && (lost_by(result, "cuEventQuery") ||
                   options_.device->driver()->stream_query(stream_) != kCuSuccess)) {
      break;
    }
    Batch batch = std::move(batches_.front());
    batches_.pop_front();
    HC_FAILPOINT(gpu_batch_done);
    finish_batch(batch, failed ? Code::io_error : Code::ok);
    moved = true;
  }
  return moved;
}

void CudaLane::finish_batch(Batch& batch, Code code) {
  spare_events_.push_back(batch.event);
  for (const ActivePtr& active : batch.jobs) {
    HC_CHECK(active->batches > 0);
    --active->batches;
    active->code = active->code == Code::ok ? code : active->code;
    if (active->batches == 0 && active->cursor.at_end()) {
      finish(*active);
    }
  }
}

void CudaLane::finish(Active& active) {
  CopyCompletion done;
  done.ticket = active.job.ticket;
  done.code = active.code;
  done.summed = active.job.kind != CopyKind::gather;
  if (active.job.kind != CopyKind::await) {
    counters_.copies.fetch_add(1, std::memory_order_relaxed);
    counters_.bytes.fetch_add(active.code == Code::ok ? active.job.payload_bytes : 0,
                              std::memory_order_relaxed);
  }
  counters_.failures.fetch_add(active.code == Code::io_error ? 1 : 0, std::memory_order_relaxed);
  sink_.copied(done, std::move(active.mapping));
}

// Whether the context answers nothing else any more. A call that failed by itself leaves the
// stream well.
bool CudaLane::lost_by(CuResult result, const char* call) {
  const CudaDriver& driver = options_.device->driver();
  const CuResult now = driver->stream_query(stream_);
  if (now == kCuSuccess || now == kCuNotReady) {
    return false;
  }
  lose(result, call);
  return true;
}

void CudaLane::lose(CuResult result, const char* call) {
  if (options_.device->lose()) {
    sink_.lost(uuid_text(options_.device->uuid()) + ": " +
               options_.device->driver().error(call, result).message());
  }
}

// Nothing of a lost context touches memory any more.
void CudaLane::fail_all() {
  for (Batch& batch : std::exchange(batches_, {})) {
    finish_batch(batch, HC_MUTANT(lost_copies_believed) ? Code::ok : Code::io_error);
  }
  for (const ActivePtr& active : std::exchange(queue_, {})) {
    active->code = Code::io_error;
    finish(*active);
  }
  for (const ActivePtr& active : std::exchange(awaits_, {})) {
    active->code = Code::io_error;
    finish(*active);
  }
}

void CudaLane::pause() {
  if (looks_ < kYieldLooks) {
    ::sched_yield();
    return;
  }
  const std::uint32_t shift = std::min((looks_ - kYieldLooks) / kYieldLooks, kSleepShiftMax);
  const timespec sleep{0, kSleepNs << shift};
  ::nanosleep(&sleep, nullptr);
}

}  // namespace hc
