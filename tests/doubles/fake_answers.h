// SPDX-License-Identifier: Apache-2.0
// fake_answers: the answers that the stand-in driver gives by itself, and its kinds of addresses.
//
// Owner thread: any; plain values.
#pragma once

#include <cstdint>

namespace hc::fake {

enum Answer : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kMapFailed = 205,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kNotPermitted = 800,
  kNotSupported = 801,
  kUnknown = 999,
};

// Each makes an address of this process one that the processor refuses: of device memory, and of
// registered host memory as the device sees it.
inline constexpr std::uint64_t kDeviceBit = 1ULL << 62;
inline constexpr std::uint64_t kAliasBit = 1ULL << 61;

}  // namespace hc::fake
