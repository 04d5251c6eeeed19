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
// The flag is up exactly while there are results: it goes up with the first one and down when they
// are taken, both under the lock. So nothing is slept through, nobody is woken for nothing, and a
// burst costs one system call. A look that finds nothing costs one load and no lock: the reactor
// looks in every turn, and a client waits for that turn.
template <typename Done>
class ResultBox {
 public:
  explicit ResultBox(EventFd event) : event_(std::move(event)) {}

  int event_fd() const { return event_.fd(); }

  void put(Done done) {
    {
      const std::lock_guard lock(mutex_);
      if (results_.empty()) {
        event_.raise();
        any_.store(true, std::memory_order_release);
      }
      results_.push_back(std::move(done));
    }
    ready_.notify_one();
  }

  // Everything that is there, possibly nothing; does not wait.
  std::vector<Done> take_all() {
    if (!any_.load(std::memory_order_acquire)) {
      return {};
    }
    const std::lock_guard lock(mutex_);
    event_.clear();
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
