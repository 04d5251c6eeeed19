// SPDX-License-Identifier: Apache-2.0
// rebuild_bench: what the tests of a rebuild do to the store between two lives of the daemon.
//
// Owner: the thread of the test.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "daemon/engine/works.h"
#include "unit/daemon/engine/engine_bench.h"

namespace hc::test {

inline void run_until_rebuilt(EngineBench& bench) {
  bench.run_until([&] { return !bench.engine->rebuilding(); });
  bench.run_for(1000);
}

// The daemon is killed, its index is lost, and it starts again.
inline void lose_index(EngineBench& bench, sim::Crash how = sim::Crash::process) {
  bench.kill(how);
  bench.index.lose();
  bench.start(ColdStartMode::load);
}

using Blob = std::vector<std::uint8_t>;

inline Blob read_blob(EngineBench& bench, std::uint32_t number) {
  Blob blob(bench.slab_of(0).header().slot_bytes);
  REQUIRE(bench.disk.read_now(bench.slab_file(0), bench.slot_offset(number, 0), blob));
  return blob;
}

// As it would stand in that slot, had it been written there with that generation.
inline void write_blob(EngineBench& bench, Blob blob, SlotId slot, std::uint32_t generation) {
  BlobHeader header;
  std::memcpy(&header, blob.data(), sizeof header);
  header.slot = slot.value;
  header.generation = generation;
  encode_header_block(std::span(blob).first(kBlockBytes), header,
                      bench.engine->core().superblock->seed_of(SpaceNo{0}), {});
  REQUIRE(bench.disk.write_now(bench.slab_file(0), bench.slab_of(0).slot_offset(slot), blob));
}

inline void copy_blob(EngineBench& bench, std::uint32_t number, SlotId slot,
                      std::uint32_t generation) {
  write_blob(bench, read_blob(bench, number), slot, generation);
}

inline bool committed(EngineBench& bench, std::uint32_t number) {
  return bench.index.row(SpaceNo{0}, page_hash(number)) != nullptr;
}

}  // namespace hc::test
