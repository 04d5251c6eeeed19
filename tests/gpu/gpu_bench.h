// SPDX-License-Identifier: Apache-2.0
// gpu_bench: a process that uses whatever driver HC_GPU_LIBRARY names: the stand-in or a real one.
//
// Owner thread: the one that made it. Only in a forked process: a driver does not survive a fork,
// so the process that forks never loads one.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "proto/check.h"
#include "shm/cuda/primary_context.h"
#include "support/doubles.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc::test {

inline constexpr const char* kDoubleName = "hicached test double";
inline constexpr unsigned kHangSeconds = 40;  // then a call that never returned ends its process
inline constexpr std::chrono::seconds kPatience{20};

// Without the variable it is the stand-in of this build.
inline std::string gpu_library() {
  const char* const named = std::getenv("HC_GPU_LIBRARY");
  return named != nullptr && *named != '\0' ? named : double_library("libcuda.so.1").string();
}

// A stream, and pinned memory, of the context of device 0, which is current until the end.
struct GpuBench {
  static constexpr std::size_t kPinned = std::size_t{1} << 20;

  CudaDriver driver;
  PrimaryContext context;
  CurrentContext current;
  std::string name;
  CuStream stream = nullptr;
  unsigned char* pinned = nullptr;

  GpuBench(const CudaDriver& loaded, PrimaryContext retained)
      : driver(loaded), context(std::move(retained)), current(context) {}
  // The end of the process ends the context: a last release would wait for streams that a test
  // has left waiting.
  ~GpuBench() { context.keep_for_good(); }

  static std::unique_ptr<GpuBench> make() {
    ::alarm(kHangSeconds);
    const auto loaded = CudaDriver::load(gpu_library());
    if (!loaded) {
      std::fprintf(stderr, "%s: %s\n", gpu_library().c_str(), loaded.error().message().c_str());
      ::_exit(1);
    }
    auto retained = PrimaryContext::retain(*loaded, 0);
    HC_CHECK(retained);
    auto bench = std::make_unique<GpuBench>(*loaded, std::move(*retained));
    char name[128] = {};
    void* pinned = nullptr;
    HC_CHECK(bench->driver->device_name(name, sizeof name - 1, 0) == kCuSuccess);
    HC_CHECK(bench->driver->stream_create(&bench->stream, kCuStreamNonBlocking, 0) == kCuSuccess);
    HC_CHECK(bench->driver->host_alloc(&pinned, kPinned, kCuHostPortable) == kCuSuccess);
    bench->name = name;
    bench->pinned = static_cast<unsigned char*>(pinned);
    return bench;
  }

  bool is_double() const { return name == kDoubleName; }

  CuStream new_stream() const {
    CuStream made = nullptr;
    HC_CHECK(driver->stream_create(&made, kCuStreamNonBlocking, 0) == kCuSuccess);
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
  int attribute(int kind) const {
    int value = -1;
    return driver->device_attribute(&value, kind, 0) == kCuSuccess ? value : -1;
  }

  // What `query` answers once it is anything but "not ready"; that too, if patience ends.
  template <typename Query>
  static CuResult settled_by(Query&& query) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    CuResult result = kCuNotReady;
    while ((result = query()) == kCuNotReady && std::chrono::steady_clock::now() < end) {
      ::sched_yield();
    }
    return result;
  }
  CuResult settled(CuStream of) const {
    return settled_by([&] { return driver->stream_query(of); });
  }
  CuResult settled() const { return settled(stream); }
  CuResult settled(CuEvent of) const {
    return settled_by([&] { return driver->event_query(of); });
  }

  // Through the stream, and the first byte of `pinned`.
  bool fill(CuAddress address, unsigned char value, std::size_t bytes) const {
    return driver->memset_async(address, value, bytes, stream) == kCuSuccess &&
           settled() == kCuSuccess;
  }
  int byte_at(CuAddress address) const {
    const CuResult result = driver->copy_to_host(pinned, address, 1, stream);
    return result == kCuSuccess && settled() == kCuSuccess ? pinned[0] : -1;
  }

  // What drivers may answer differently, and the product does not build on: printed, with what the
  // stand-in answers if that is another. False only if the stand-in itself answers otherwise.
  bool observe(const std::string& what, long long value, long long of_double) const {
    const std::string differs =
        value == of_double ? "" : " (the stand-in: " + std::to_string(of_double) + ")";
    ::dprintf(STDOUT_FILENO, "observed: %s: %lld%s\n", what.c_str(), value, differs.c_str());
    return value == of_double || !is_double();
  }
};

// Once in a program, before its first test: nobody is to take one driver for another.
inline void say_which_driver() {
  static bool said = false;
  if (std::exchange(said, true)) {
    return;
  }
  Child([] {
    const auto bench = GpuBench::make();
    ::dprintf(STDOUT_FILENO, "driver: %s, version %d\ndevice: %s, one of %d\n",
              gpu_library().c_str(), bench->driver.version(), bench->name.c_str(),
              bench->driver.device_count());
    return 0;
  }).wait();
}

// True if `code` ran to its end in a forked process and all that it expects is so.
template <typename Code>
[[nodiscard]] bool on_gpu(Code&& code) {
  say_which_driver();
  return holds_in_child(code);
}

// Holds streams until it is opened, by a word that processes may share. A driver without waits for
// values gets copies to do, which last longer than what is looked at meanwhile.
class Gate {
 public:
  static constexpr std::size_t kLoadBytes = std::size_t{32} << 20;
  static constexpr int kLoadCopies = 64;

  // `word`: in memory of shared_memory().
  Gate(const GpuBench& bench, std::uint64_t* word) : bench_(bench), word_(word) {
    HC_CHECK(bench.driver->host_register(word, sizeof *word, kCuHostPortable | kCuHostDeviceMap) ==
             kCuSuccess);
    HC_CHECK(bench.driver->host_device_pointer(&seen_, word, 0) == kCuSuccess);
  }
  explicit Gate(const GpuBench& bench)
      : Gate(bench, reinterpret_cast<std::uint64_t*>(shared_memory(4096))) {}

  // True: by the word. What is queued in the stream from now on begins after the gate.
  bool hold(CuStream stream) {
    const auto& driver = bench_.driver;
    if (driver->stream_wait_value64 != nullptr &&
        driver->stream_wait_value64(stream, seen_, 1, kCuWaitAtLeast) == kCuSuccess) {
      return true;
    }
    if (load_ == nullptr) {
      source_ = bench_.new_memory(kLoadBytes);
      HC_CHECK(driver->host_alloc(&load_, kLoadBytes, kCuHostPortable) == kCuSuccess);
    }
    for (int copy = 0; copy < kLoadCopies; ++copy) {
      HC_CHECK(driver->copy_to_host(load_, source_, kLoadBytes, stream) == kCuSuccess);
    }
    return false;
  }
  void open() { open(word_); }
  static void open(std::uint64_t* word) { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }
  void shut() { __atomic_store_n(word_, 0, __ATOMIC_RELEASE); }

 private:
  const GpuBench& bench_;
  std::uint64_t* word_;
  CuAddress seen_ = 0;
  CuAddress source_ = 0;
  void* load_ = nullptr;
};

}  // namespace hc::test
