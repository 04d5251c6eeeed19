// SPDX-License-Identifier: Apache-2.0
// disposer: a queue and a detached thread.
#include "daemon/os/disposer.h"

#include <chrono>
#include <thread>
#include <utility>

namespace hc {

Disposer::Disposer() : state_(std::make_shared<State>()) {
  std::thread([state = state_] {
    const RoleScope role(kDisposerRole);
    run(state);
  }).detach();
}

Disposer::~Disposer() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, std::chrono::seconds(1), [this] { return state_->ended; });
}

void Disposer::dispose(std::shared_ptr<void> thing) {
  if (thing == nullptr) {
    return;
  }
  const std::lock_guard lock(state_->mutex);
  state_->queue.push_back(std::move(thing));
  state_->changed.notify_all();
}

void Disposer::dispose(std::vector<UniqueFd>& fds) {
  for (UniqueFd& fd : fds) {
    if (fd) {
      dispose(std::make_shared<UniqueFd>(std::move(fd)));
    }
  }
  fds.clear();
}

std::size_t Disposer::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.size() + (state_->busy ? 1 : 0);
}

void Disposer::drain() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->queue.empty() && !state_->busy; });
}

void Disposer::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->stopping || !state->queue.empty(); });
    if (state->queue.empty()) {
      break;
    }
    std::shared_ptr<void> thing = std::move(state->queue.front());
    state->queue.pop_front();
    state->busy = true;
    lock.unlock();
    thing.reset();
    lock.lock();
    state->busy = false;
    state->changed.notify_all();
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace hc
