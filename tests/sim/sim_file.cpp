// SPDX-License-Identifier: Apache-2.0
// sim_file: versions of blocks, and what a sync or a power loss makes of them.
#include "tests/sim/sim_file.h"

#include <algorithm>

namespace hc::sim {

namespace {

constexpr std::size_t kSectorBytes = 512;

void copy_or_zero(const BlockBytes* from, std::span<std::uint8_t> out) {
  if (from == nullptr) {
    std::memset(out.data(), 0, kBlockBytes);
  } else {
    std::memcpy(out.data(), from->data(), kBlockBytes);
  }
}

std::unique_ptr<BlockBytes> copy_of(std::span<const std::uint8_t> bytes) {
  auto out = std::make_unique<BlockBytes>();
  std::memcpy(out->data(), bytes.data(), kBlockBytes);
  return out;
}

}  // namespace

void SimFile::put(std::size_t block, std::span<const std::uint8_t> bytes,
                  std::uint64_t sequence) {
  blocks_[block].versions.push_back({sequence, copy_of(bytes)});
  blocks_[block].damaged = false;
  blocks_[block].flush_lost = false;
  blocks_[block].punched = false;
}

void SimFile::put_durable(std::size_t block, std::span<const std::uint8_t> bytes) {
  blocks_[block].versions.clear();
  blocks_[block].durable = copy_of(bytes);
  blocks_[block].damaged = false;
}

void SimFile::get(std::size_t block, std::span<std::uint8_t> out) const {
  const Block& at = blocks_[block];
  copy_or_zero(at.versions.empty() ? at.durable.get() : at.versions.back().bytes.get(), out);
}

void SimFile::get_durable(std::size_t block, std::span<std::uint8_t> out) const {
  copy_or_zero(blocks_[block].durable.get(), out);
}

void SimFile::flip_bit(std::size_t block, std::uint32_t bit) {
  Block& at = blocks_[block];
  const auto flip = [&](BlockBytes& bytes) {
    bytes[bit / 8 % kBlockBytes] ^= static_cast<std::uint8_t>(1U << bit % 8);
  };
  if (at.durable == nullptr) {
    at.durable = std::make_unique<BlockBytes>();
    at.durable->fill(0);
  }
  flip(*at.durable);
  for (Version& version : at.versions) {
    flip(*version.bytes);
  }
  at.damaged = true;
}

void SimFile::give_space(Block& block, bool has_space) {
  space_blocks_ += has_space && !block.space ? 1U : 0U;
  space_blocks_ -= !has_space && block.space ? 1U : 0U;
  block.space = has_space;
}

std::optional<std::size_t> SimFile::next_written(std::size_t block) const {
  for (; block < blocks_.size(); ++block) {
    const Block& at = blocks_[block];
    if (at.space && (at.durable != nullptr || !at.versions.empty())) {
      return block;
    }
  }
  return std::nullopt;
}

void SimFile::set_space(std::size_t first, std::size_t count, bool has_space) {
  for (std::size_t block = first; block < first + count; ++block) {
    give_space(blocks_[block], has_space);
  }
}

bool SimFile::has_space(std::size_t first, std::size_t count) const {
  return std::all_of(blocks_.begin() + static_cast<std::ptrdiff_t>(first),
                     blocks_.begin() + static_cast<std::ptrdiff_t>(first + count),
                     [](const Block& block) { return block.space; });
}

void SimFile::punch(std::size_t first, std::size_t count, std::uint64_t sequence) {
  const BlockBytes zeros{};
  for (std::size_t block = first; block < first + count; ++block) {
    if (blocks_[block].durable != nullptr || !blocks_[block].versions.empty()) {
      put(block, zeros, sequence);
      blocks_[block].punched = true;
    }
    give_space(blocks_[block], false);
  }
}

void SimFile::sync(std::uint64_t sequence) {
  for (Block& block : blocks_) {
    while (!block.versions.empty() && block.versions.front().sequence <= sequence) {
      block.durable = std::move(block.versions.front().bytes);
      block.versions.erase(block.versions.begin());
    }
  }
}

void SimFile::fail_sync(std::uint64_t sequence, Prng& prng) {
  for (Block& block : blocks_) {
    const bool covered = !block.versions.empty() && block.versions.front().sequence <= sequence;
    if (covered && prng.percent(50)) {
      block.versions.clear();
      block.flush_lost = true;
    }
  }
}

const BlockBytes* SimFile::choose(const Block& block, Prng& prng) const {
  const std::uint64_t pick = prng.below(block.versions.size() + 1);
  return pick == 0 ? block.durable.get() : block.versions[pick - 1].bytes.get();
}

void SimFile::lose_power(Prng& prng) {
  for (Block& block : blocks_) {
    if (block.versions.empty()) {
      continue;
    }
    const BlockBytes* first = choose(block, prng);
    if (block.punched && first != block.versions.back().bytes.get()) {
      give_space(block, true);  // the punch was not on the medium yet
    }
    block.punched = false;
    auto kept = std::make_unique<BlockBytes>();
    copy_or_zero(first, *kept);
    if (prng.percent(30)) {
      // Torn: sectors of two contents. If that was a header being wiped, its page may look alive
      // until it is read: that is no loss.
      block.damaged = true;
      const BlockBytes* second = choose(block, prng);
      BlockBytes other;
      copy_or_zero(second, other);
      for (std::size_t at = 0; at < kBlockBytes; at += kSectorBytes) {
        if (prng.one_in(2)) {
          std::memcpy(kept->data() + at, other.data() + at, kSectorBytes);
        }
      }
    } else if (prng.percent(5)) {
      const std::uint64_t junk = prng.next();
      for (std::size_t at = 0; at < kBlockBytes; ++at) {
        (*kept)[at] = static_cast<std::uint8_t>(junk >> at % 56);
      }
    }
    block.versions.clear();
    block.durable = std::move(kept);
  }
}

bool SimFile::damaged(std::size_t first, std::size_t count) const {
  for (std::size_t block = first; block < first + count; ++block) {
    if (blocks_[block].damaged) {
      return true;
    }
  }
  return false;
}

bool SimFile::flush_lost(std::size_t first, std::size_t count) const {
  for (std::size_t block = first; block < first + count; ++block) {
    if (blocks_[block].flush_lost) {
      return true;
    }
  }
  return false;
}

bool SimFile::synced(std::size_t first, std::size_t count) const {
  for (std::size_t block = first; block < first + count; ++block) {
    if (!blocks_[block].versions.empty()) {
      return false;
    }
  }
  return true;
}

}  // namespace hc::sim
