// SPDX-License-Identifier: Apache-2.0
// cuda_types: the few types and numbers of the CUDA driver's ABI that we use, declared by
// ourselves, so that the product builds on a machine without the toolkit.
//
// Owner thread: any; plain values. Source: the driver API reference; the numbers are ABI and never
// change.
#pragma once

#include <cstdint>

namespace hc {

using CuResult = int;
using CuDevice = int;
// An address of the device. It is no pointer of this process: nobody may follow it.
using CuAddress = unsigned long long;
using CuContext = struct CuContextObject*;
using CuStream = struct CuStreamObject*;
using CuEvent = struct CuEventObject*;

inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuStubLibrary = 34;
inline constexpr CuResult kCuNoDevice = 100;
inline constexpr CuResult kCuNotReady = 600;

// Of a stream: it does not wait for the legacy default stream, nor that one for it.
inline constexpr unsigned kCuStreamNonBlocking = 1;
// Of an event: no time stamp, which makes it cheap.
inline constexpr unsigned kCuEventNoTiming = 2;
// Of pinned memory: pinned for every context of the process.
inline constexpr unsigned kCuHostPortable = 1;

}  // namespace hc
