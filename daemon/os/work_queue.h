// SPDX-License-Identifier: Apache-2.0
// work_queue: mailboxes between the reactor and its helper threads: work out, results back.
//
// A mutex and a condition variable are enough: one piece of work moves at least tens of kilobytes.
// The bound is kept by the caller, who counts what is in flight.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/os/event_fd.h"

namespace hc {

// Reactor -> helpers. Helpers block in take(); after close() they drain what is left, then end.
template <typename Work>
class WorkQueue {
 public:
  void put(Work work) {
    {
      const std::lock_guard lock(mutex_);
      HC_CHECK(!closed_);
      queue_.push_back(std::move(work));
    }
    ready_.notify_one();
  }

  std::optional<Work> take() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) {
      return std::nullopt;
    }
    std::optional<Work> work(std::move(queue_.front()));
    queue_.pop_front();
    return work;
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Work> queue_;
  bool closed_ = false;
};

// Helpers -> reactor, announced through an eventfd.
//
// Why no result is slept through: a helper (1) appends under the lock, (2) raises; the reactor
// (a) clears, (b) takes under the lock. If (b) missed the append then (1) came after it, so (2)
// comes after (a) and the flag goes up. A look that finds nothing appended costs one load and no
// system call: the reactor looks in every turn, and a client waits for that turn. So the flag may
// stay up over results that were taken already; who waits for it waits for its edge. It is raised
// outside the lock: raised inside, it wakes a reactor that then waits for the lock, and loads out
// of L2 ran at a third of their rate.
template <typename Done>
class ResultBox {
 public:
  explicit ResultBox(EventFd event) : event_(std::move(event)) {}

  int event_fd() const { return event_.fd(); }

  void put(Done done) {
    {
      const std::lock_guard lock(mutex_);
      results_.push_back(std::move(done));
      any_.store(true, std::memory_order_release);
    }
    event_.raise();
    ready_.notify_one();
  }

  // Everything that is there, possibly nothing; does not wait.
  std::vector<Done> take_all() {
    if (!any_.load(std::memory_order_acquire)) {
      return {};
    }
    event_.clear();
    const std::lock_guard lock(mutex_);
    any_.store(false, std::memory_order_relaxed);
    return std::exchange(results_, {});
  }

  void wait() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return !results_.empty(); });
  }

 private:
  EventFd event_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Done> results_;
  std::atomic<bool> any_{false};  // results_ is not empty; written under the lock
};

}  // namespace hc
