// SPDX-License-Identifier: Apache-2.0
// disposer: destroys, on a thread of its own, what may block: descriptors that a client sent and
// mappings of a client's memory.
//
// The last close of a stranger's descriptor can take as long as the stranger likes (a lingering
// socket, a FUSE file), and the last unmapping of a dead engine's pool frees all of it. Neither may
// happen on the reactor.
//
// Owner: any thread; dispose never waits.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "proto/thread_roles.h"
#include "shm/unique_fd.h"

namespace hc {

class Disposer {
 public:
  Disposer();
  // Waits for what is queued, at most one second: whatever blocks longer ends with the process.
  ~Disposer();
  Disposer(const Disposer&) = delete;
  Disposer& operator=(const Disposer&) = delete;

  void dispose(std::shared_ptr<void> thing);
  // Takes the open descriptors out of `fds`.
  void dispose(std::vector<UniqueFd>& fds);
  // Things that are not destroyed yet.
  std::size_t waiting() const;
  // Returns once everything queued before is destroyed (tests).
  void drain();

 private:
  // Shared with the thread, which may outlive this object.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<void>> queue;
    bool busy = false;
    bool stopping = false;
    bool ended = false;
  };
  static void run(const std::shared_ptr<State>& state) HC_DISPOSER;

  std::shared_ptr<State> state_;
};

}  // namespace hc
