// SPDX-License-Identifier: Apache-2.0
// micro_pages: stores of many small pages, for the figures that count pages and not bytes.
//
// Owner thread: the bench's only thread.
#pragma once

#include <cstdint>
#include <memory>

#include "client/ctl/micro_bench.h"
#include "client/ctl/micro_client.h"

namespace hc {

// The smallest payload that fills its slot: 4 KiB, so a slot has 8 KiB.
inline constexpr std::uint32_t kSmallPayloadBytes = 4096;

SpaceDescriptor small_space();
// Options of a daemon whose store holds `pages` pages and `reserve` free slots.
PrivateDaemonOptions small_store_options(const MicroBench& bench, const char* name,
                                         std::uint64_t pages);
// Stores pages [first, first + pages) and waits until they are durable.
Result<void> fill_small_store(MicroBench& bench, MicroClient& client, std::uint64_t first,
                              std::uint64_t pages);

}  // namespace hc
