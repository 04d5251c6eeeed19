// SPDX-License-Identifier: Apache-2.0
// waitable: what the reactor can sleep on. Kept apart from the seams, which simulation replaces.
#pragma once

namespace hc {

class Waitable {
 public:
  virtual ~Waitable() = default;
  // Becomes readable when `poll` of the same object has something to answer. Watch it by its edge:
  // it may stay readable over what `poll` has answered already.
  virtual int event_fd() const = 0;
};

}  // namespace hc
