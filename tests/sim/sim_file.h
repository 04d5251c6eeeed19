// SPDX-License-Identifier: Apache-2.0
// sim_file: one file of the virtual disk as 4 KiB blocks, each with its durable content and the
// versions that were written since the last sync.
//
// `damaged` marks a block whose content is not what its writer meant, until it is written anew:
// that is what may excuse the loss of a blob.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/limits.h"
#include "tests/sim/prng.h"

namespace hc::sim {

using BlockBytes = std::array<std::uint8_t, kBlockBytes>;

class SimFile {
 public:
  SimFile(std::string name, std::uint16_t volume, std::uint64_t size_bytes)
      : name_(std::move(name)), volume_(volume) {
    grow(size_bytes);
  }

  const std::string& name() const { return name_; }
  std::uint16_t volume() const { return volume_; }
  bool is_slab() const { return name_.rfind("slab-", 0) == 0; }
  std::uint64_t size_bytes() const { return blocks_.size() * std::uint64_t{kBlockBytes}; }
  std::size_t block_count() const { return blocks_.size(); }
  // The new blocks have space.
  void grow(std::uint64_t size_bytes) {
    const std::size_t blocks = (size_bytes + kBlockBytes - 1) / kBlockBytes;
    space_blocks_ += blocks - blocks_.size();
    blocks_.resize(blocks);
  }

  // A new version on top. `sequence` orders versions against syncs.
  void put(std::size_t block, std::span<const std::uint8_t> bytes, std::uint64_t sequence);
  // Straight to the medium, for blocking writes.
  void put_durable(std::size_t block, std::span<const std::uint8_t> bytes);
  void get(std::size_t block, std::span<std::uint8_t> out) const;
  void get_durable(std::size_t block, std::span<std::uint8_t> out) const;
  void flip_bit(std::size_t block, std::uint32_t bit);

  // Blocks with space of their own; those of a punched range read as zeros. Header blocks have it.
  void set_space(std::size_t first, std::size_t count, bool has_space);
  bool has_space(std::size_t first, std::size_t count) const;
  void punch(std::size_t first, std::size_t count, std::uint64_t sequence);
  std::uint64_t space_bytes() const { return space_blocks_ * std::uint64_t{kBlockBytes}; }
  // The first block from this one on that has space and was written to.
  std::optional<std::size_t> next_written(std::size_t block) const;

  // Versions up to `sequence` reach the medium.
  void sync(std::uint64_t sequence);
  // A flush that failed: some of what it should have covered is gone, and nobody will say so.
  void fail_sync(std::uint64_t sequence, Prng& prng);
  // Power loss: each block on its own keeps an old content, one of its versions, or a mixture.
  void lose_power(Prng& prng);

  void set_damaged(std::size_t block, bool damaged) { blocks_[block].damaged = damaged; }
  bool damaged(std::size_t first, std::size_t count) const;
  bool synced(std::size_t first, std::size_t count) const;
  // A failed flush dropped what was written here last.
  bool flush_lost(std::size_t first, std::size_t count) const;

 private:
  struct Version {
    std::uint64_t sequence = 0;
    std::unique_ptr<BlockBytes> bytes;
  };
  struct Block {
    std::unique_ptr<BlockBytes> durable;  // null: zeros
    std::vector<Version> versions;        // oldest first
    bool damaged = false;
    bool flush_lost = false;
    bool space = true;
    bool punched = false;                 // by its last version, which a power loss may undo
  };
  void give_space(Block& block, bool has_space);
  const BlockBytes* choose(const Block& block, Prng& prng) const;

  std::string name_;
  std::uint16_t volume_;
  std::vector<Block> blocks_;
  std::size_t space_blocks_ = 0;
};

}  // namespace hc::sim
