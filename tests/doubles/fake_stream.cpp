// SPDX-License-Identifier: Apache-2.0
// fake_stream: the worker.
#include "fake_stream.h"

#include <unistd.h>

#include <thread>
#include <utility>

namespace hc::fake {

std::shared_ptr<FakeStream> FakeStream::start(long delay_us) {
  std::shared_ptr<FakeStream> stream(new FakeStream(delay_us));
  std::thread([stream] { stream->run(); }).detach();
  return stream;
}

void FakeStream::push(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

bool FakeStream::is_idle() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !is_running_;
}

void FakeStream::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !is_running_; });
}

void FakeStream::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

void FakeStream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || is_closed_; });
    if (queue_.empty()) {
      return;
    }
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    is_running_ = true;
    lock.unlock();
    if (delay_us_ > 0) {
      ::usleep(static_cast<useconds_t>(delay_us_));  // waits: the device takes its time
    }
    work();
    lock.lock();
    is_running_ = false;
    changed_.notify_all();
  }
}

}  // namespace hc::fake
