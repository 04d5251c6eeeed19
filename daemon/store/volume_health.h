// SPDX-License-Identifier: Apache-2.0
// volume_health: whether a volume answers, judged by how its requests end.
//
//   well -> failed (several errors in a row, or one that speaks for the whole device)
//        -> well (a probe was answered)
//
// A volume without space has not failed: what needs none goes on there. It is only told.
// Owner: the reactor thread. A failed volume is asked nothing but probes, so that nobody waits for
// it and none of its slots is blamed. Each change is one line in the log.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "daemon/os/clock.h"
#include "daemon/os/disk.h"

namespace hc {

enum class IoDirection : std::uint8_t { read, write };

// The device said no. Otherwise the kernel could not take the request this time (memory, a request
// broken off), or there is no room: that says nothing about the device.
bool device_refused(Code code, int sys_errno);

class VolumeHealth {
 public:
  explicit VolumeHealth(std::string name) : name_(std::move(name)) {}

  // A request of this direction has ended (a sync is a write).
  void note(IoDirection direction, Code code, int sys_errno, Instant now);
  // A request was not answered in time.
  void note_overdue(IoDirection direction, std::uint32_t timeout_ms, Instant now);

  // A volume that can't be read can't be written either.
  bool failed(IoDirection direction) const {
    return failed_[0] || (direction == IoDirection::write && failed_[1]);
  }
  bool well() const { return !failed(IoDirection::write); }
  // Whether an error may be put down to a place on the device: the first of a row. Further ones
  // speak of the device; what is bad there fails again, alone.
  bool blames_place(IoDirection direction) const {
    return !failed(direction) && bad_[static_cast<std::size_t>(direction)] <= 1;
  }

  // What to ask a failed volume next, and when.
  bool probe_due(Instant now) const { return !well() && !probing_ && now >= next_probe_; }
  // Of a failed volume that is not being asked; else long ago.
  Instant next_probe() const { return well() || probing_ ? Instant{} : next_probe_; }
  IoDirection probe_direction() const {
    return failed_[0] ? IoDirection::read : IoDirection::write;
  }
  void probe_started() { probing_ = true; }
  void probe_ended(IoDirection direction, Code code, Instant now);

  std::uint64_t errors() const { return errors_; }
  std::uint64_t timeouts() const { return timeouts_; }
  std::uint64_t failures() const { return failures_; }

 private:
  void note_full(Instant now);
  void note_space();
  void fail(IoDirection direction, const std::string& reason, Instant now);

  std::string name_;                    // for the log
  std::array<bool, 2> failed_{};        // by direction
  std::array<std::uint32_t, 2> bad_{};  // in a row
  bool late_told_ = false;              // until a request is answered again
  bool full_ = false;                   // the last write found no space
  bool full_told_ = false;
  Instant full_told_at_{};
  bool probing_ = false;
  Instant next_probe_{};
  Instant recovered_{};
  std::int64_t probe_ms_ = 0;
  std::uint64_t errors_ = 0;
  std::uint64_t timeouts_ = 0;
  std::uint64_t failures_ = 0;          // how often it became failed
};

}  // namespace hc
