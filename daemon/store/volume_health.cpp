// SPDX-License-Identifier: Apache-2.0
// volume_health: errors in a row, probes with a pause that grows, one line for each change.
#include "daemon/store/volume_health.h"

#include <algorithm>
#include <cerrno>

#include "daemon/log/log.h"
#include "proto/check.h"

namespace hc {

namespace {

constexpr std::uint32_t kBadInARowMax = 8;
constexpr std::int64_t kProbeMs = 1000;
// A volume that fails again soon after it came back is asked less and less often.
constexpr std::int64_t kProbeMsMax = 60'000;
constexpr std::int64_t kSoonMs = 60'000;

// One of these is enough: it isn't about a place on the device.
bool speaks_for_the_device(int sys_errno) {
  return sys_errno == EROFS || sys_errno == ENODEV || sys_errno == ENXIO || sys_errno == EBADF;
}

const char* name_of(IoDirection direction) {
  return direction == IoDirection::read ? "read" : "write";
}

}  // namespace

bool device_refused(Code code, int sys_errno) {
  return code == Code::io_error && sys_errno != ENOMEM && sys_errno != ECANCELED &&
         sys_errno != EAGAIN && sys_errno != EINTR;
}

void VolumeHealth::note(IoDirection direction, Code code, int sys_errno, Instant now) {
  const auto at = static_cast<std::size_t>(direction);
  if (code == Code::ok) {
    bad_[at] = 0;
    late_told_ = false;
    if (direction == IoDirection::write) {
      note_space();
    }
    return;
  }
  if (code == Code::no_space) {
    note_full(now);
  }
  if (!device_refused(code, sys_errno)) {
    return;
  }
  ++errors_;
  if (++bad_[at] >= kBadInARowMax || speaks_for_the_device(sys_errno)) {
    fail(direction, make_error(code, name_of(direction), sys_errno).message(), now);
  }
}

// Writes into places that are there and writes that need new ones may take turns: not each turn is
// told.
void VolumeHealth::note_full(Instant now) {
  const bool recently = full_told_at_.ns != 0 && now - full_told_at_ < kSoonMs * kNsPerMs;
  if (!full_ && !recently) {
    full_told_ = true;
    full_told_at_ = now;
    log_warn("volume.full", {{"volume", name_}});
  }
  full_ = true;
}

void VolumeHealth::note_space() {
  if (full_told_) {
    log_info("volume.has_space", {{"volume", name_}});
  }
  full_ = full_told_ = false;
}

void VolumeHealth::note_overdue(IoDirection direction, std::uint32_t timeout_ms, Instant now) {
  ++timeouts_;
  const std::string reason =
      "no answer to a " + std::string(name_of(direction)) + " in " + std::to_string(timeout_ms) +
      " ms";
  if (!late_told_) {
    late_told_ = true;
    log_warn("volume.late", {{"volume", name_}, {"reason", reason}});
  }
  if (++bad_[static_cast<std::size_t>(direction)] >= kBadInARowMax) {
    fail(direction, reason, now);
  }
}

void VolumeHealth::fail(IoDirection direction, const std::string& reason, Instant now) {
  bool& failed = failed_[static_cast<std::size_t>(direction)];
  if (failed) {
    return;
  }
  failed = true;
  ++failures_;
  const bool again = recovered_.ns != 0 && now - recovered_ < kSoonMs * kNsPerMs;
  probe_ms_ = again ? std::min(2 * probe_ms_, kProbeMsMax) : kProbeMs;
  next_probe_ = now + probe_ms_ * kNsPerMs;
  log_warn("volume.failed", {{"volume", name_},
                             {"what", direction == IoDirection::read ? "all" : "writes"},
                             {"reason", reason}});
}

void VolumeHealth::probe_ended(IoDirection direction, Code code, Instant now) {
  HC_CHECK(probing_);
  probing_ = false;
  next_probe_ = now + (code == Code::ok ? 0 : probe_ms_ * kNsPerMs);
  if (code != Code::ok) {
    return;
  }
  const auto at = static_cast<std::size_t>(direction);
  failed_[at] = false;
  bad_[at] = 0;
  late_told_ = false;
  if (well()) {
    recovered_ = now;
    log_info("volume.recovered", {{"volume", name_}});
  }
}

}  // namespace hc
