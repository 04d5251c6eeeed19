// SPDX-License-Identifier: Apache-2.0
// fake_bench: a process that uses the stand-in driver, and how two of them talk.
//
// Owner thread: the one that made it. Only in a forked process (support/doubles.h).
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "proto/check.h"
#include "shm/cuda/primary_context.h"
#include "support/doubles.h"

namespace hc::test {

// A stream, device memory and pinned memory, of a context that is current until the end.
struct FakeBench {
  static constexpr std::size_t kBytes = 4096;

  CudaDriver driver;
  PrimaryContext context;
  CurrentContext current;
  CuStream stream = nullptr;
  CuAddress device = 0;
  unsigned char* pinned = nullptr;

  FakeBench(const CudaDriver& loaded, PrimaryContext retained)
      : driver(loaded), context(std::move(retained)), current(context) {}

  static std::unique_ptr<FakeBench> make(const std::string& plan, int ordinal = 0) {
    plan_double("HC_FAKE_CUDA", plan);
    const auto loaded = CudaDriver::load(double_library("libcuda.so.1"));
    HC_CHECK(loaded);
    auto retained = PrimaryContext::retain(*loaded, ordinal);
    HC_CHECK(retained);
    auto bench = std::make_unique<FakeBench>(*loaded, std::move(*retained));
    void* pinned = nullptr;
    HC_CHECK(bench->driver->stream_create(&bench->stream, 1, 0) == kCuSuccess);
    HC_CHECK(bench->driver->mem_alloc(&bench->device, kBytes) == kCuSuccess);
    HC_CHECK(bench->driver->host_alloc(&pinned, kBytes, 1) == kCuSuccess);
    bench->pinned = static_cast<unsigned char*>(pinned);
    return bench;
  }

  CuStream new_stream() const {
    CuStream made = nullptr;
    HC_CHECK(driver->stream_create(&made, 1, 0) == kCuSuccess);
    return made;
  }
  CuEvent new_event(unsigned flags = kCuEventNoTiming) const {
    CuEvent made = nullptr;
    HC_CHECK(driver->event_create(&made, flags) == kCuSuccess);
    return made;
  }
  CuAddress new_memory(std::size_t bytes) const {
    CuAddress made = 0;
    HC_CHECK(driver->mem_alloc(&made, bytes) == kCuSuccess);
    return made;
  }

  // What the stream answers once it is anything but "not ready".
  CuResult settled(CuStream of) const {
    CuResult result = kCuNotReady;
    while ((result = driver->stream_query(of)) == kCuNotReady) {
      ::sched_yield();
    }
    return result;
  }
  CuResult settled() const { return settled(stream); }

  // Through the stream and `pinned`.
  bool fill(CuAddress address, unsigned char value, std::size_t bytes) const {
    return driver->memset_async(address, value, bytes, stream) == kCuSuccess &&
           settled() == kCuSuccess;
  }
  int byte_at(CuAddress address) const {
    HC_CHECK(driver->copy_to_host(pinned, address, 1, stream) == kCuSuccess);
    return settled() == kCuSuccess ? pinned[0] : -1;
  }
};

// Messages of one size between a process and its child; who waits for a dead one is told.
class FakeLine {
 public:
  FakeLine() { HC_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) == 0); }
  FakeLine(const FakeLine&) = delete;
  FakeLine& operator=(const FakeLine&) = delete;
  ~FakeLine() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }

  // Each side first says which it is; the other end is then closed here.
  void be_parent() { be(0); }
  void be_child() { be(1); }

  template <typename Message>
  void send(const Message& message) {
    HC_CHECK(::send(ends_[side_], &message, sizeof message, MSG_NOSIGNAL) == sizeof message);
  }
  void go() { send('g'); }
  template <typename Message>
  [[nodiscard]] bool receive(Message& message) {
    return ::recv(ends_[side_], &message, sizeof message, 0) == sizeof message;
  }
  // False: the other process is gone.
  bool wait() {
    char go = 0;
    return receive(go);
  }

 private:
  void be(int side) {
    side_ = side;
    ::close(std::exchange(ends_[1 - side], -1));
  }

  int ends_[2] = {-1, -1};
  int side_ = 0;
};

// Memory that a process and the children that it forks share.
inline unsigned char* shared_memory(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  HC_CHECK(memory != MAP_FAILED);
  return static_cast<unsigned char*>(memory);
}

}  // namespace hc::test
