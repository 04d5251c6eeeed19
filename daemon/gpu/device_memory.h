// SPDX-License-Identifier: Apache-2.0
// device_memory: the seam through which client memory on a device is opened and closed.
//
// Opening takes a driver's time (the first one of a device takes a context), so it is answered
// later. Owner: the reactor thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/gpu/copier.h"
#include "proto/handshake.h"
#include "proto/ids.h"
#include "shm/unique_fd.h"

namespace hc {

// What a client says of memory that it exports, and of its region in it.
struct DeviceExport {
  std::uint64_t owner = 0;              // the session; never the same again
  Uuid device{};
  ExportKind kind = ExportKind::legacy;
  IpcHandle handle{};                   // legacy
  std::uint64_t buffer = 0;             // legacy: the driver's number of it, never reused
  std::vector<RegionChunk> chunks;      // vmm: they follow each other, and fill allocation_bytes
  std::vector<UniqueFd> fds;            // vmm: of each chunk
  std::uint32_t registration = 0;       // the client's count of registrations
  std::uint64_t allocation_bytes = 0;
  std::uint64_t offset_bytes = 0;       // of the region in the allocation, or the chunks
  std::uint64_t size_bytes = 0;
  std::uint64_t device_free_bytes = 0;  // as its owner saw it before; 0: unknown
  std::vector<IpcHandle> events;        // one per operation slot; none: the owner gave them before
};

struct DeviceOpened {
  std::uint64_t ticket = 0;
  MappingId mapping = kHostMapping;
  bool has_events = false;              // its client can say when its own work is done
  Code code = Code::ok;                 // else nothing is open
  std::string text;                     // why
  // What came with the export and is of no use any more. Who closes it may have to wait: whatever
  // the client sent, it need not be memory.
  std::vector<UniqueFd> spent{};
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Answered with the same ticket by poll_opened, whatever becomes of it.
  virtual void open(std::uint64_t ticket, DeviceExport wanted) = 0;
  virtual void poll_opened(std::vector<DeviceOpened>& out) = 0;
  // No copy of the mapping is queued here any more. It is let go of as soon as none runs; who
  // awaits its events hears `cancelled`. `ticket`, unless it is 0, is told when the device knows
  // nothing of it any more: then its owner may free the memory.
  virtual void close(MappingId mapping, std::uint64_t ticket) = 0;
  virtual void poll_closed(std::vector<std::uint64_t>& tickets) = 0;
};

}  // namespace hc
