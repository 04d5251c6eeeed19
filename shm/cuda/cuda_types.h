// SPDX-License-Identifier: Apache-2.0
// cuda_types: the types and numbers of the CUDA driver's ABI that we use, declared by ourselves, so
// that the product builds on a machine without the toolkit.
//
// Owner thread: any; plain values. Source: the driver API reference; the numbers are ABI and never
// change. Where a toolkit is installed, cuda_abi_test compares each of them with its header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hc {

using CuResult = int;
using CuDevice = int;
// An address of the device. It is no pointer of this process: nobody may follow it.
using CuAddress = unsigned long long;
using CuContext = struct CuContextObject*;
using CuStream = struct CuStreamObject*;
using CuEvent = struct CuEventObject*;
// Physical memory without an address.
using CuMemHandle = unsigned long long;

inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuInvalidValue = 1;
inline constexpr CuResult kCuOutOfMemory = 2;
inline constexpr CuResult kCuNotInitialized = 3;
inline constexpr CuResult kCuDeinitialized = 4;
inline constexpr CuResult kCuStubLibrary = 34;
inline constexpr CuResult kCuDeviceUnavailable = 46;
inline constexpr CuResult kCuNoDevice = 100;
inline constexpr CuResult kCuInvalidDevice = 101;
inline constexpr CuResult kCuInvalidContext = 201;
inline constexpr CuResult kCuMapFailed = 205;
inline constexpr CuResult kCuOperatingSystem = 304;
inline constexpr CuResult kCuInvalidHandle = 400;
inline constexpr CuResult kCuNotFound = 500;
inline constexpr CuResult kCuNotReady = 600;
inline constexpr CuResult kCuIllegalAddress = 700;
inline constexpr CuResult kCuContextIsDestroyed = 709;
inline constexpr CuResult kCuHostAlreadyRegistered = 712;
inline constexpr CuResult kCuHostNotRegistered = 713;
inline constexpr CuResult kCuLaunchFailed = 719;
inline constexpr CuResult kCuNotPermitted = 800;
inline constexpr CuResult kCuNotSupported = 801;
inline constexpr CuResult kCuUnknown = 999;

// Of a stream: it does not wait for the legacy default stream, nor that one for it.
inline constexpr unsigned kCuStreamNonBlocking = 1;
// Of an event: no time stamp, which makes it cheap; usable by another process (both together).
inline constexpr unsigned kCuEventNoTiming = 2;
inline constexpr unsigned kCuEventInterprocess = 4;
// Of pinned memory, allocated or registered: pinned for every context of the process; with an
// address of the device.
inline constexpr unsigned kCuHostPortable = 1;
inline constexpr unsigned kCuHostDeviceMap = 2;
// The only flag that opening a memory handle takes, and it must be given.
inline constexpr unsigned kCuIpcLazyPeerAccess = 1;

// What device_attribute can be asked.
inline constexpr int kCuDevicePciBus = 33;
inline constexpr int kCuDevicePciDevice = 34;
inline constexpr int kCuDeviceCopyEngines = 40;
inline constexpr int kCuDeviceUnifiedAddressing = 41;
inline constexpr int kCuDevicePciDomain = 50;
inline constexpr int kCuDeviceHostPointerUsable = 91;  // 0: only host_device_pointer's result is
inline constexpr int kCuDeviceHostRegister = 99;
inline constexpr int kCuDeviceHostPageTables = 100;
inline constexpr int kCuDeviceVmm = 102;
inline constexpr int kCuDeviceVmmPosixFd = 103;
inline constexpr int kCuDeviceStreamMemOps64 = 122;
inline constexpr int kCuDeviceIpcEvents = 125;
inline constexpr int kCuDeviceHostNuma = 134;

// What pointer_attribute can be asked, and what is written.
inline constexpr int kCuPointerContext = 1;        // CuContext
inline constexpr int kCuPointerMemoryType = 2;     // unsigned: kCuMemoryHost, kCuMemoryDevice
inline constexpr int kCuPointerDeviceAddress = 3;  // CuAddress
inline constexpr int kCuPointerHostAddress = 4;    // void*
inline constexpr int kCuPointerBufferId = 7;       // std::uint64_t; never the same again
inline constexpr int kCuPointerDeviceOrdinal = 9;  // int
inline constexpr int kCuPointerLegacyIpc = 10;     // truth; give an int that is 0
inline constexpr int kCuPointerRangeStart = 11;    // CuAddress, of the reservation if there is one
inline constexpr int kCuPointerRangeSize = 12;     // std::size_t
inline constexpr int kCuPointerMapped = 13;        // truth; give an int that is 0
inline constexpr int kCuPointerHandleTypes = 14;   // set; give a std::uint64_t that is 0
inline constexpr int kCuPointerPool = 17;          // void*, null if of no pool
inline constexpr int kCuPointerMappingSize = 18;   // std::size_t, of the mapping of a chunk; 12.0
inline constexpr int kCuPointerMappingBase = 19;   // CuAddress
inline constexpr unsigned kCuMemoryHost = 1;
inline constexpr unsigned kCuMemoryDevice = 2;

struct CuUuid {
  unsigned char bytes[16];
};
// Opaque; they stand for an allocation and an event of another process.
struct CuIpcMemHandle {
  char bytes[64];
};
struct CuIpcEventHandle {
  char bytes[64];
};

inline constexpr int kCuLocationDevice = 1;
inline constexpr int kCuLocationHost = 2;
struct CuMemLocation {
  int type;
  int id;  // the ordinal, if of a device
};

// When the bytes of a copy's source are read: at its turn in the stream; before the call returns;
// at any time, which may be before its turn and after the return.
inline constexpr int kCuSourceInStream = 1;
inline constexpr int kCuSourceDuringCall = 2;
inline constexpr int kCuSourceAnyTime = 3;
struct CuMemcpyAttributes {
  int source_order;
  CuMemLocation source_hint;  // hints are of managed memory only; zero
  CuMemLocation target_hint;
  unsigned flags;
};

inline constexpr int kCuHandlePosixFd = 1;
inline constexpr int kCuAllocationPinned = 1;
inline constexpr int kCuGranularityMinimum = 0;
struct CuMemProperties {
  int type;
  int handle_types;
  CuMemLocation location;
  void* windows_only;
  unsigned char compression;
  unsigned char rdma;
  unsigned short usage;
  unsigned char reserved[4];
};

inline constexpr int kCuAccessReadWrite = 3;
struct CuMemAccess {
  CuMemLocation location;
  int flags;
};

// Of a wait for a value: until it is at least so much, counted cyclically.
inline constexpr unsigned kCuWaitAtLeast = 0;
// Of stream_is_capturing.
inline constexpr int kCuCaptureNone = 0;

}  // namespace hc
