// SPDX-License-Identifier: Apache-2.0
// device_words: what a vector needs on a device, taken and given back in order.
#include "client/agree/device_words.h"

#include <utility>

#include "client/agree/poll_wait.h"

namespace hc {

namespace {

// At the end of an object. Longer than any copy of a kilobyte waits behind an engine's kernels, and
// short enough for an engine that wants to stop.
constexpr std::int64_t kLastDrainNs = 1'000'000'000;

}  // namespace

Result<DeviceWords> DeviceWords::create(const CudaDriver& driver, std::size_t count) {
  DeviceWords words(driver, count);
  HC_TRY_VOID(words.acquire());
  return words;
}

Result<void> DeviceWords::acquire() {
  // The highest priority: a reduce of a kilobyte must not queue behind the engine's kernels.
  int lowest = 0;
  int highest = 0;
  if (const CuResult result = driver_->ctx_priorities(&lowest, &highest); result != kCuSuccess) {
    return driver_.error("cuCtxGetStreamPriorityRange", result);
  }
  CuResult result = driver_->stream_create(&stream_, kCuStreamNonBlocking, highest);
  if (result != kCuSuccess) {
    return driver_.error("cuStreamCreateWithPriority", result);
  }
  result = driver_->mem_alloc(&device_, size_bytes());
  if (result != kCuSuccess) {
    return driver_.error("cuMemAlloc", result);
  }
  result = driver_->host_alloc(&host_, size_bytes(), kCuHostPortable);
  if (result != kCuSuccess) {
    return driver_.error("cuMemHostAlloc", result);
  }
  return {};
}

DeviceWords::DeviceWords(DeviceWords&& other) noexcept
    : driver_(other.driver_),
      count_(other.count_),
      stream_(std::exchange(other.stream_, nullptr)),
      device_(std::exchange(other.device_, 0)),
      host_(std::exchange(other.host_, nullptr)) {}

// Freeing memory waits for the device without a limit, so it may only be tried on an idle stream.
// Destroying the stream never waits.
DeviceWords::~DeviceWords() {
  if (stream_ == nullptr) {
    return;
  }
  const bool is_idle = drain(kLastDrainNs);
  static_cast<void>(driver_->stream_destroy(stream_));
  if (!is_idle) {
    return;
  }
  if (device_ != 0) {
    static_cast<void>(driver_->mem_free(device_));
  }
  if (host_ != nullptr) {
    static_cast<void>(driver_->host_free(host_));
  }
}

CuResult DeviceWords::copy_in() const {
  return driver_->copy_to_device(device_, host_, size_bytes(), stream_);
}

CuResult DeviceWords::copy_out() const {
  return driver_->copy_to_host(host_, device_, size_bytes(), stream_);
}

bool DeviceWords::drain(std::int64_t timeout_ns) const {
  PollWait wait({.spin_ns = 0, .timeout_ns = timeout_ns});
  while (query() == kCuNotReady) {
    if (!wait.pause()) {
      return false;
    }
  }
  return true;
}

}  // namespace hc
