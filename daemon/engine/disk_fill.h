// SPDX-License-Identifier: Apache-2.0
// disk_fill: brings a stored part back into L2, and believes nothing that it reads.
//
//   start -> queued -> reading -> judging (header, then payload sum) -> resident | failed
//
// A read that the device does not answer in time is a miss for whoever waits for it or comes for
// it; its frame and its slot stay its own until the device has answered.
//
// Owner: the reactor thread.
// Invariants: while a part is being filled its frame is taken and its page busy; its slot is
// pinned from the start of the read to its completion.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/engine/catalog.h"
#include "daemon/store/io_queue.h"

namespace hc {

struct Works;

class DiskFill {
 public:
  explicit DiskFill(Works& works) : works_(works), queues_(kVolumesMax) {}

  // The part is stored and absent from L2; a frame of its kind is free.
  void start(PartRef ref);
  void on_read(const IoEvent& event);
  void on_sum(PartRef ref, std::uint32_t crc);
  void turn();  // starts queued reads
  bool idle() const { return queued_ == 0 && reading_ == 0; }

 private:
  void read(PartRef ref);  // needs room in the io queue
  bool can_read(std::uint16_t volume) const;
  bool is_unreachable(std::uint16_t volume) const;
  void tell_overdue();
  void fail(PartRef ref, BlobVerdict verdict, bool device_failed);
  BlobVerdict judge(PartRef ref, const IoEvent& event);

  Works& works_;
  std::vector<std::deque<PartRef>> queues_;  // by volume
  std::vector<PartRef> overdue_;             // reads that nobody waits for any more
  std::uint32_t queued_ = 0;
  std::uint32_t reading_ = 0;
};

}  // namespace hc
