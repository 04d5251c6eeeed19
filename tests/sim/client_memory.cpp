// SPDX-License-Identifier: Apache-2.0
// client_memory: layouts, rows and the guard bytes behind every run.
#include "tests/sim/client_memory.h"

#include <algorithm>
#include <cstring>

#include "proto/check.h"

namespace hc::sim {

namespace {

constexpr std::uint64_t kGuardBytes = 8;
constexpr std::uint8_t kGuard = 0xA5;

// Cuts a payload into one to four runs.
std::vector<std::uint64_t> cut(std::uint64_t bytes, Prng& prng) {
  std::vector<std::uint64_t> out;
  const std::uint64_t runs = prng.between(1, std::min<std::uint64_t>(4, bytes));
  for (std::uint64_t left = runs; left > 1; --left) {
    const std::uint64_t length = prng.between(1, bytes - (left - 1));
    out.push_back(length);
    bytes -= length;
  }
  out.push_back(bytes);
  return out;
}

}  // namespace

ClientMemory::ClientMemory(const SpaceDescriptor& space, std::uint32_t rows, Prng& prng)
    : rows_(rows), owners_(rows, 0) {
  const bool side_by_side = prng.one_in(2);
  std::uint64_t offset = prng.below(64);
  for (const KindSpec& kind : space.kinds) {
    std::vector<LayoutRun> runs;
    for (const std::uint64_t length : cut(kind.payload_bytes, prng)) {
      const std::uint64_t stride = length + kGuardBytes;
      runs.push_back({offset, stride, length});
      offset += side_by_side ? stride * rows : stride;
    }
    layouts_.push_back(std::move(runs));
  }
  if (!side_by_side) {
    for (auto& runs : layouts_) {
      for (LayoutRun& run : runs) {
        run.stride_bytes = offset;
      }
    }
    offset *= rows + 1U;
  }
  bytes_.assign(offset + kGuardBytes, kGuard);
}

EngineRegion ClientMemory::engine_region() {
  EngineRegion region;
  region.present = true;
  region.base = reinterpret_cast<std::uintptr_t>(bytes_.data());
  region.size_bytes = bytes_.size();
  region.rows = rows_;
  for (std::size_t kind = 0; kind < layouts_.size(); ++kind) {
    region.layouts[kind] = {true, layouts_[kind]};
  }
  return region;
}

std::uint32_t ClientMemory::free_rows() const {
  return static_cast<std::uint32_t>(std::count(owners_.begin(), owners_.end(), 0U));
}

std::uint32_t ClientMemory::take_row(std::uint32_t op) {
  const auto row = static_cast<std::uint32_t>(
      std::find(owners_.begin(), owners_.end(), 0U) - owners_.begin());
  HC_CHECK(row < rows_);
  owners_[row] = op;
  return row;
}

template <typename Fn>
void ClientMemory::for_each_run(std::uint32_t row, std::uint16_t kind, Fn&& fn) const {
  std::uint64_t at = 0;
  for (const LayoutRun& run : layouts_[kind]) {
    fn(run.offset_bytes + row * run.stride_bytes, at, run.length_bytes);
    at += run.length_bytes;
  }
}

void ClientMemory::write(std::uint32_t row, std::uint16_t kind,
                         std::span<const std::uint8_t> payload) {
  for_each_run(row, kind, [&](std::uint64_t offset, std::uint64_t at, std::uint64_t length) {
    std::memcpy(bytes_.data() + offset, payload.data() + at, length);
  });
}

bool ClientMemory::equals(std::uint32_t row, std::uint16_t kind,
                          std::span<const std::uint8_t> payload) const {
  bool equal = true;
  for_each_run(row, kind, [&](std::uint64_t offset, std::uint64_t at, std::uint64_t length) {
    equal = equal && std::memcmp(bytes_.data() + offset, payload.data() + at, length) == 0;
  });
  return equal;
}

void ClientMemory::scribble(std::uint32_t row, std::uint8_t value) {
  for (std::uint16_t kind = 0; kind < layouts_.size(); ++kind) {
    for_each_run(row, kind, [&](std::uint64_t offset, std::uint64_t, std::uint64_t length) {
      std::memset(bytes_.data() + offset, value, length);
    });
  }
}

bool ClientMemory::guards_are_whole(std::uint32_t row) const {
  bool whole = true;
  for (std::uint16_t kind = 0; kind < layouts_.size(); ++kind) {
    for_each_run(row, kind, [&](std::uint64_t offset, std::uint64_t, std::uint64_t length) {
      for (std::uint64_t i = 0; i < kGuardBytes; ++i) {
        whole = whole && bytes_[offset + length + i] == kGuard;
      }
    });
  }
  return whole;
}

bool ClientMemory::find_row(const std::uint8_t* at, std::uint64_t size_bytes,
                            std::uint32_t& row) const {
  if (at < bytes_.data() || at >= bytes_.data() + bytes_.size()) {
    return false;
  }
  const auto offset = static_cast<std::uint64_t>(at - bytes_.data());
  for (const auto& runs : layouts_) {
    for (const LayoutRun& run : runs) {
      const bool begins = offset >= run.offset_bytes &&
                          (offset - run.offset_bytes) % run.stride_bytes == 0 &&
                          (offset - run.offset_bytes) / run.stride_bytes < rows_;
      if (begins && size_bytes == run.length_bytes) {
        row = static_cast<std::uint32_t>((offset - run.offset_bytes) / run.stride_bytes);
        return true;
      }
    }
  }
  return false;
}

}  // namespace hc::sim
