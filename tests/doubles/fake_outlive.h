// SPDX-License-Identifier: Apache-2.0
// fake_outlive: copies that go on after the death of the process that queued them, as DMA may.
//
// A helper process shares the memory of this one and nothing else: no descriptor, no signal, no
// session. It sleeps until this process is dead, runs off what its streams still hold for as long
// as it may, and ends. While this process lives, its own threads do the work.
//
// Owner thread: any; the list has a lock of its own kind, which the helper does not need.
#pragma once

#include <cstdint>

#include "fake_work.h"

namespace hc::fake {

// Once, at the start of the driver. `done` counts pieces.
void outlive_start(long lifetime_us, std::int64_t* done);
void outlive_add(FakeQueue* queue);
void outlive_remove(FakeQueue* queue);

}  // namespace hc::fake
