// SPDX-License-Identifier: Apache-2.0
// lru_model: what a perfect LRU cache of exactly N blocks would hit, to compare the daemon with.
//
// Owner thread: one. Invariants: at most `capacity` blocks are held; the list holds exactly the
// blocks marked as held, newest first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hc {

class LruModel {
 public:
  // Blocks are numbered from 0 to block_count - 1.
  LruModel(std::uint32_t block_count, std::uint64_t capacity);

  // Leading blocks of the request that are held. Changes nothing.
  std::uint64_t hit_prefix(std::span<const std::uint32_t> blocks) const;
  // Touches every block from last to first, so that a tail is always older than its head.
  void touch_request(std::span<const std::uint32_t> blocks);
  // Starts again with these blocks, each once, oldest first: what a crash left. Of more than the
  // capacity the newest stay.
  void start_again(std::span<const std::uint32_t> oldest_first);

  std::uint64_t size() const { return size_; }
  bool holds(std::uint32_t block) const { return held_[block] != 0; }

 private:
  void unlink(std::uint32_t block);
  void push_newest(std::uint32_t block);
  void touch(std::uint32_t block);

  // Circular lists through a sentinel at index block_count.
  std::vector<std::uint32_t> newer_;
  std::vector<std::uint32_t> older_;
  std::vector<std::uint8_t> held_;
  std::uint32_t sentinel_;
  std::uint64_t capacity_;
  std::uint64_t size_ = 0;
};

}  // namespace hc
