// SPDX-License-Identifier: Apache-2.0
// lru_model: a doubly linked list over block numbers.
#include "client/ctl/lru_model.h"

#include "proto/check.h"

namespace hc {

LruModel::LruModel(std::uint32_t block_count, std::uint64_t capacity)
    : newer_(std::size_t{block_count} + 1, block_count),
      older_(std::size_t{block_count} + 1, block_count),
      held_(block_count, 0),
      sentinel_(block_count),
      capacity_(capacity) {
  HC_CHECK(capacity > 0);
}

std::uint64_t LruModel::hit_prefix(std::span<const std::uint32_t> blocks) const {
  std::uint64_t hit = 0;
  while (hit < blocks.size() && holds(blocks[hit])) {
    ++hit;
  }
  return hit;
}

void LruModel::touch_request(std::span<const std::uint32_t> blocks) {
  for (auto at = blocks.rbegin(); at != blocks.rend(); ++at) {
    touch(*at);
  }
}

void LruModel::start_again(std::span<const std::uint32_t> oldest_first) {
  while (size_ > 0) {
    unlink(newer_[sentinel_]);
  }
  for (const std::uint32_t block : oldest_first) {
    touch(block);
  }
}

void LruModel::unlink(std::uint32_t block) {
  HC_CHECK(held_[block] != 0);
  older_[newer_[block]] = older_[block];
  newer_[older_[block]] = newer_[block];
  held_[block] = 0;
  --size_;
}

void LruModel::push_newest(std::uint32_t block) {
  const std::uint32_t second = older_[sentinel_];
  older_[sentinel_] = block;
  newer_[block] = sentinel_;
  older_[block] = second;
  newer_[second] = block;
  held_[block] = 1;
  ++size_;
}

void LruModel::touch(std::uint32_t block) {
  if (holds(block)) {
    unlink(block);
  } else if (size_ == capacity_) {
    unlink(newer_[sentinel_]);
  }
  push_newest(block);
  HC_CHECK(size_ <= capacity_);
}

}  // namespace hc
