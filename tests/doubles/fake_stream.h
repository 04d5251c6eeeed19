// SPDX-License-Identifier: Apache-2.0
// fake_stream: an ordered queue of work with a thread of its own, as a stream of a device is.
//
// Owner thread: any may push and ask; the work runs on the worker. Each thread holds the stream, so
// one that was destroyed with work in it runs that work off, as the real one does.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "fake_plan.h"
#include "fake_report.h"
#include "fake_work.h"

namespace hc::fake {

class FakeStream {
 public:
  // Each piece of work begins `delay_us` after the one before it has ended; that of a stalled
  // stream never.
  static std::shared_ptr<FakeStream> start(FakeReport& report, long delay_us, bool is_stalled,
                                           long torn_copy);
  ~FakeStream();

  // Waits for room, as a launch does.
  void push(FakeWork work);
  // Nothing waits and nothing runs.
  bool is_idle() const;
  void wait_idle();
  // The worker ends after the last piece.
  void close();

 private:
  FakeStream(FakeReport& report, long delay_us, bool is_stalled, long torn_copy);
  void run();
  void perform(const FakeWork& work);
  void copy(const FakeWork& work);

  FakeReport& report_;
  const long torn_copy_;
  const std::unique_ptr<FakeWork[]> slots_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  FakeQueue queue_;
  bool is_closed_ = false;
};

// The streams of the process, by handle.
class FakeStreams {
 public:
  FakeStreams(const FakePlan& plan, FakeReport& report) : plan_(plan), report_(report) {}

  void* open();
  bool close(void* handle);
  std::shared_ptr<FakeStream> find(void* handle) const;
  // As the real one does before it unmaps anything: who frees what a stuck stream uses hangs.
  void wait_for_all() const;

 private:
  const FakePlan& plan_;
  FakeReport& report_;
  mutable std::mutex mutex_;
  std::map<void*, std::shared_ptr<FakeStream>> streams_;
  std::uintptr_t opened_ = 0;
};

}  // namespace hc::fake
