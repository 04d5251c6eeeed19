// SPDX-License-Identifier: Apache-2.0
// fake_stream: the worker, and what it does with each kind of work.
#include "fake_stream.h"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_outlive.h"

namespace hc::fake {

namespace {

// A value changes by anybody's store, and nobody tells.
constexpr useconds_t kValuePollUs = 50;

}  // namespace

FakeStream::FakeStream(FakeReport& report, long delay_us, bool is_stalled, long torn_copy)
    : report_(report), torn_copy_(torn_copy), slots_(new FakeWork[FakeQueue::kSlots]) {
  queue_.slots = slots_.get();
  queue_.delay_us = delay_us;
  queue_.is_stalled = is_stalled;
  outlive_add(&queue_);
}

FakeStream::~FakeStream() {
  outlive_remove(&queue_);
}

std::shared_ptr<FakeStream> FakeStream::start(FakeReport& report, long delay_us, bool is_stalled,
                                              long torn_copy) {
  std::shared_ptr<FakeStream> stream(new FakeStream(report, delay_us, is_stalled, torn_copy));
  std::thread([stream] { stream->run(); }).detach();
  return stream;
}

// The work is in its slot before it counts: the helper may look at any time.
void FakeStream::push(FakeWork work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.head - queue_.tail < FakeQueue::kSlots; });
  slots_[queue_.head % FakeQueue::kSlots] = std::move(work);
  __atomic_store_n(&queue_.head, queue_.head + 1, __ATOMIC_RELEASE);
  changed_.notify_all();
}

bool FakeStream::is_idle() const {
  const std::lock_guard lock(mutex_);
  return queue_.head == queue_.tail;
}

void FakeStream::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.head == queue_.tail; });
}

void FakeStream::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

void FakeStream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(
        lock, [this] { return (queue_.head != queue_.tail && !queue_.is_stalled) || is_closed_; });
    if (queue_.head == queue_.tail || queue_.is_stalled) {
      return;
    }
    FakeWork& slot = slots_[queue_.tail % FakeQueue::kSlots];
    lock.unlock();
    if (queue_.delay_us > 0) {
      ::usleep(static_cast<useconds_t>(queue_.delay_us));  // waits: the device takes its time
    }
    perform(slot);
    lock.lock();
    const auto held = std::exchange(slot.hold, nullptr);
    __atomic_store_n(&queue_.tail, queue_.tail + 1, __ATOMIC_RELEASE);
    changed_.notify_all();
  }
}

void FakeStream::perform(const FakeWork& work) {
  switch (work.kind) {
    case FakeWork::kCall:
      work.call(work.argument);
      return;
    case FakeWork::kCopy:
      copy(work);
      return;
    case FakeWork::kFill:
      std::memset(work.address, static_cast<int>(work.value), work.bytes);
      return;
    case FakeWork::kRecord:
      reach(work.cell, static_cast<std::uint32_t>(work.value));
      return;
    case FakeWork::kWaitEvent:
      wait_reached(work.cell, static_cast<std::uint32_t>(work.value));
      return;
    case FakeWork::kWriteValue:
      __atomic_store_n(static_cast<std::uint64_t*>(work.address), work.value, __ATOMIC_RELEASE);
      return;
    case FakeWork::kWaitValue:
      while (!value_holds(
          __atomic_load_n(static_cast<const std::uint64_t*>(work.address), __ATOMIC_ACQUIRE),
          work.value, work.flags)) {
        ::usleep(kValuePollUs);  // waits: for a store of anybody
      }
      return;
  }
}

// The pieces of a batch have no order among themselves: from the last to the first.
void FakeStream::copy(const FakeWork& work) {
  for (std::size_t index = work.piece_count; index-- > 0;) {
    const FakePiece& piece = work.pieces[index];
    if (report_.get(Count::copies) + 1 == torn_copy_) {
      std::memcpy(piece.to, piece.from, piece.bytes / 2);
      ::kill(::getpid(), SIGKILL);
    }
    std::memcpy(piece.to, piece.from, piece.bytes);
    report_.add(Count::copies, 1);
    report_.add(Count::bytes, static_cast<std::int64_t>(piece.bytes));
  }
}

void* FakeStreams::open() {
  const std::lock_guard lock(mutex_);
  const std::string number = "@" + std::to_string(++opened_);
  const long delay_us = plan_.setting("stream_delay_us", 0);
  auto* const handle = reinterpret_cast<void*>(0x1000 + opened_);
  streams_[handle] = FakeStream::start(report_, plan_.setting("stream_delay_us" + number, delay_us),
                                       plan_.setting("stream_stall" + number, 0) != 0,
                                       plan_.setting("torn_copy", 0));
  report_.add(Count::streams, 1);
  return handle;
}

bool FakeStreams::close(void* handle) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(handle);
  if (found == streams_.end()) {
    return false;
  }
  found->second->close();
  streams_.erase(found);
  report_.add(Count::streams, -1);
  return true;
}

std::shared_ptr<FakeStream> FakeStreams::find(void* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second;
}

void FakeStreams::wait_for_all() const {
  std::vector<std::shared_ptr<FakeStream>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, stream] : streams_) {
      all.push_back(stream);
    }
  }
  for (const auto& stream : all) {
    stream->wait_idle();
  }
}

}  // namespace hc::fake
