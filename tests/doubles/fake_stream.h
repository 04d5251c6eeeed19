// SPDX-License-Identifier: Apache-2.0
// fake_stream: an ordered queue of work with a thread of its own, as a stream of a device is.
//
// Owner thread: any may push and ask; the work runs on the worker. Each thread holds the stream, so
// one that was destroyed with work in it runs that work off, as the real one does.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace hc::fake {

class FakeStream : public std::enable_shared_from_this<FakeStream> {
 public:
  // Each piece of work begins `delay_us` after the one before it has ended.
  static std::shared_ptr<FakeStream> start(long delay_us);

  void push(std::function<void()> work);
  // Nothing waits and nothing runs.
  bool is_idle() const;
  void wait_idle();
  // The worker ends after the last piece.
  void close();

 private:
  explicit FakeStream(long delay_us) : delay_us_(delay_us) {}
  void run();

  const long delay_us_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool is_running_ = false;
  bool is_closed_ = false;
};

}  // namespace hc::fake
