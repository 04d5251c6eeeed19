// SPDX-License-Identifier: Apache-2.0
// rank_region: a memory file with one area per (kind, run).
#include "client/ctl/rank_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "proto/check.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::uint64_t kRowAlign = 64;
constexpr int kSpoiled = 0xA5;

}  // namespace

Result<RankRegion> RankRegion::make(const SpaceDescriptor& space, const Shape& shape) {
  std::vector<std::vector<Run>> kinds;
  std::uint64_t bytes = 0;
  for (const KindSpec& kind : space.kinds) {
    std::vector<Run> pieces;
    std::uint64_t done = 0;
    for (std::uint32_t piece = 0; piece < shape.runs; ++piece) {
      const std::uint64_t end = std::uint64_t{kind.payload_bytes} * (piece + 1) / shape.runs;
      const std::uint64_t stride = round_up(end - done, kRowAlign);
      pieces.push_back({bytes, stride, done, end - done});
      bytes += stride * shape.rows;
      done = end;
    }
    kinds.push_back(std::move(pieces));
  }
  bytes = round_up(bytes, kBlockBytes);
  auto region = shape.device == BenchDevice::host ? make_on_host(bytes, shape)
                                                  : make_on_device(bytes, shape);
  HC_TRY(region);
  region->kinds_ = std::move(kinds);
  return region;
}

Result<RankRegion> RankRegion::make_on_device(std::uint64_t bytes, const Shape& shape) {
  const RowsMemory memory = shape.device == BenchDevice::cuda_chunks   ? RowsMemory::chunks
                            : shape.device == BenchDevice::cuda_sealed ? RowsMemory::sealed_chunks
                                                                       : RowsMemory::allocation;
  auto device = DeviceRows::make(bytes, shape.rank, memory);
  HC_TRY(device);
  RankRegion region(-1, (**device).mirror(), bytes, shape.rows);
  region.device_ = std::move(*device);
  region.transfer_ = shape.transfer;
  return region;
}

Result<RankRegion> RankRegion::make_on_host(std::uint64_t bytes, const Shape& shape) {
  const int fd = ::memfd_create("cachectl-rank", MFD_CLOEXEC);
  if (fd < 0) {
    return make_error(Code::io_error, "a memory file for a rank's pages", errno);
  }
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    ::close(fd);
    return make_error(Code::io_error, "the size of a rank's memory file", error);
  }
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    return make_error(Code::io_error, "the mapping of a rank's memory file", error);
  }
  return RankRegion(fd, static_cast<std::uint8_t*>(memory), bytes, shape.rows);
}

RankRegion::RankRegion(RankRegion&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      rows_(other.rows_),
      kinds_(std::move(other.kinds_)),
      device_(std::move(other.device_)),
      transfer_(other.transfer_) {}

RankRegion::~RankRegion() {
  if (memory_ != nullptr && device_ == nullptr) {
    ::munmap(memory_, bytes_);
  }
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

hicache_code RankRegion::attach(hicache_client* client, std::uint32_t number,
                                std::uint32_t timeout_ms) const {
  std::vector<std::vector<hicache_run>> runs(kinds_.size());
  std::vector<hicache_layout> layouts;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    for (const Run& run : kinds_[kind]) {
      runs[kind].push_back({run.area_offset, run.stride, run.length});
    }
    layouts.push_back({static_cast<std::uint32_t>(kind),
                       static_cast<std::uint32_t>(runs[kind].size()), runs[kind].data()});
  }
  if (device_ != nullptr) {
    hicache_cuda_region region{};
    region.region = number;
    region.rows = rows_;
    region.address = device_->address();
    region.size_bytes = bytes_;
    region.transfer = transfer_;
    region.layout_count = static_cast<std::uint32_t>(layouts.size());
    region.layouts = layouts.data();
    return hicache_register_cuda_region(client, &region, timeout_ms);
  }
  hicache_region region{};
  region.region = number;
  region.fd = fd_;
  region.size_bytes = bytes_;
  region.rows = rows_;
  region.layout_count = static_cast<std::uint32_t>(layouts.size());
  region.layouts = layouts.data();
  return hicache_register_region(client, &region, timeout_ms);
}

void RankRegion::prepare(hicache_op& op) const {
  if (device_ != nullptr) {
    op.flags |= HICACHE_AFTER_STREAM;
    op.stream = device_->stream();
  }
}

// A bench whose GPU fails has nothing more to say.
void RankRegion::push(std::uint32_t row, std::uint16_t kind) const {
  for (const Run& run : kinds_[kind]) {
    const auto done = device_ == nullptr
                          ? Result<void>()
                          : device_->push({run.area_offset + row * run.stride, run.length});
    HC_CHECK(done.has_value());
  }
}

void RankRegion::pull(std::uint32_t row, std::uint16_t kind) const {
  for (const Run& run : kinds_[kind]) {
    const auto done = device_ == nullptr
                          ? Result<void>()
                          : device_->pull({run.area_offset + row * run.stride, run.length});
    HC_CHECK(done.has_value());
  }
}

void RankRegion::fill(std::uint32_t row, const StreamKey& key) {
  HC_CHECK(row < rows_ && key.kind < kinds_.size());
  for (const Run& run : kinds_[key.kind]) {
    fill_stream(key, run.payload_offset, {at(run, row), run.length});
  }
  push(row, key.kind);
}

void RankRegion::spoil(std::uint32_t row, std::uint16_t kind) {
  HC_CHECK(row < rows_ && kind < kinds_.size());
  for (const Run& run : kinds_[kind]) {
    std::memset(at(run, row), kSpoiled, run.length);
  }
  push(row, kind);
}

std::uint64_t RankRegion::unspoiled(std::uint32_t row, std::uint16_t kind) const {
  HC_CHECK(row < rows_ && kind < kinds_.size());
  pull(row, kind);
  std::uint64_t count = 0;
  for (const Run& run : kinds_[kind]) {
    const std::uint8_t* const bytes = at(run, row);
    const auto spoiled = std::count(bytes, bytes + run.length, std::uint8_t{kSpoiled});
    count += run.length - static_cast<std::uint64_t>(spoiled);
  }
  return count;
}

StreamMismatch RankRegion::compare(std::uint32_t row, const StreamKey& key) const {
  HC_CHECK(row < rows_ && key.kind < kinds_.size());
  pull(row, key.kind);
  StreamMismatch all;
  for (const Run& run : kinds_[key.kind]) {
    const StreamMismatch found =
        compare_stream(key, run.payload_offset, {at(run, row), run.length});
    if (all.wrong_bytes == 0) {
      all.first_offset = found.first_offset;
    }
    all.wrong_bytes += found.wrong_bytes;
  }
  return all;
}

}  // namespace hc
