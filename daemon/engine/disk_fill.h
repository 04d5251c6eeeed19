// SPDX-License-Identifier: Apache-2.0
// disk_fill: brings a stored part back into L2, and believes nothing that it reads.
//
//   start -> queued -> reading -> judging (header, then payload sum) -> resident | failed
//
// Owner: the reactor thread.
// Invariants: while a part is being filled its frame is taken and its page busy; its slot is
// pinned from the start of the read to its completion.
#pragma once

#include <cstdint>
#include <deque>

#include "daemon/engine/catalog.h"
#include "daemon/store/io_queue.h"

namespace hc {

struct Works;

class DiskFill {
 public:
  explicit DiskFill(Works& works) : works_(works) {}

  // The part is stored and absent from L2; a frame of its kind is free.
  void start(PartRef ref);
  void on_read(const IoEvent& event);
  void on_sum(PartRef ref, std::uint32_t crc);
  void turn();  // starts queued reads
  bool idle() const { return queue_.empty() && reading_ == 0; }

 private:
  void read(PartRef ref);  // needs room in the io queue
  bool is_unreachable(PartRef ref) const;
  void fail(PartRef ref, BlobVerdict verdict, bool device_failed);
  BlobVerdict judge(PartRef ref, const IoEvent& event);

  Works& works_;
  std::deque<PartRef> queue_;
  std::uint32_t reading_ = 0;
};

}  // namespace hc
