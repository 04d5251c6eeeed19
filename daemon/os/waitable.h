// SPDX-License-Identifier: Apache-2.0
// waitable: what the reactor can sleep on. Kept apart from the seams, which simulation replaces.
#pragma once

namespace hc {

class Waitable {
 public:
  virtual ~Waitable() = default;
  // Readable once `poll` of the same object has something to answer; `poll` empties it again. Watch
  // it level-triggered. It may be readable for nothing, never unreadable with something to answer.
  virtual int event_fd() const = 0;
};

}  // namespace hc
