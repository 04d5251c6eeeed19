// SPDX-License-Identifier: Apache-2.0
// client_memory: the registered memory of one session, cut into page rows, and which operation
// owns each row. The copier asks before it touches a byte: law 7.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/engine/sessions.h"
#include "proto/space.h"
#include "tests/sim/prng.h"

namespace hc::sim {

class ClientMemory {
 public:
  // The layout is drawn: rows one after another, or runs of all rows side by side.
  ClientMemory(const SpaceDescriptor& space, std::uint32_t rows, Prng& prng);

  EngineRegion engine_region();
  std::uint32_t rows() const { return rows_; }
  // Number of an operation, 0: the row is the client's.
  std::uint32_t owner(std::uint32_t row) const { return owners_[row]; }
  void set_owner(std::uint32_t row, std::uint32_t op) { owners_[row] = op; }
  std::uint32_t free_rows() const;
  std::uint32_t take_row(std::uint32_t op);  // there is a free one

  void write(std::uint32_t row, std::uint16_t kind, std::span<const std::uint8_t> payload);
  bool equals(std::uint32_t row, std::uint16_t kind, std::span<const std::uint8_t> payload) const;
  void scribble(std::uint32_t row, std::uint8_t value);  // every payload of the row
  bool guards_are_whole(std::uint32_t row) const;        // nothing wrote between the payloads

  // The row of a run that begins at this address; false when none does.
  bool find_row(const std::uint8_t* at, std::uint64_t size_bytes, std::uint32_t& row) const;

 private:
  template <typename Fn>
  void for_each_run(std::uint32_t row, std::uint16_t kind, Fn&& fn) const;

  std::uint32_t rows_;
  std::vector<std::vector<LayoutRun>> layouts_;  // by kind
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint32_t> owners_;
};

}  // namespace hc::sim
