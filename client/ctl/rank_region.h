// SPDX-License-Identifier: Apache-2.0
// rank_region: the memory that a rank's pages live in, in the place of a KV cache on a GPU.
//
// Each kind is cut into runs, as an engine cuts a page by layers: run r of page `row` lies in the
// run's own area, at row * stride. Host memory, or memory of a GPU behind a mirror (device_rows).
// Owner thread: the rank's only thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/ctl/device_rows.h"
#include "client/ctl/stream.h"
#include "client/hicache.h"
#include "proto/result.h"
#include "proto/space.h"

namespace hc {

// cuda_chunks, cuda_sealed: of a GPU as well, but of cuMemCreate; sealed: not to be exported.
enum class BenchDevice : std::uint8_t { host, cuda, cuda_chunks, cuda_sealed };

constexpr const char* device_name(BenchDevice device) {
  return device == BenchDevice::host          ? "host"
         : device == BenchDevice::cuda        ? "cuda"
         : device == BenchDevice::cuda_chunks ? "cuda-chunks"
                                              : "cuda-sealed";
}

class RankRegion {
 public:
  struct Shape {
    std::uint32_t rows = 1;
    std::uint32_t runs = 1;
    BenchDevice device = BenchDevice::host;
    std::uint32_t rank = 0;
    std::uint32_t transfer = HICACHE_TRANSFER_AUTO;  // of a GPU's memory
  };
  static Result<RankRegion> make(const SpaceDescriptor& space, const Shape& shape);
  RankRegion(RankRegion&& other) noexcept;
  RankRegion& operator=(RankRegion&&) = delete;
  ~RankRegion();

  std::uint32_t rows() const { return rows_; }
  // Registers the memory as region `number` of the client.
  hicache_code attach(hicache_client* client, std::uint32_t number, std::uint32_t timeout_ms) const;

  // What an operation on the rows has to say besides: whose work it must wait for.
  void prepare(hicache_op& op) const;

  // Writes the stream into one payload of a row.
  void fill(std::uint32_t row, const StreamKey& key);
  // Writes bytes that no stream would hold there, so that a load that copies nothing is seen.
  void spoil(std::uint32_t row, std::uint16_t kind);
  // Bytes of a spoiled payload that somebody has written since.
  std::uint64_t unspoiled(std::uint32_t row, std::uint16_t kind) const;
  StreamMismatch compare(std::uint32_t row, const StreamKey& key) const;

 private:
  struct Run {
    std::uint64_t area_offset;     // of row 0, in the region
    std::uint64_t stride;
    std::uint64_t payload_offset;
    std::uint64_t length;
  };
  RankRegion(int fd, std::uint8_t* memory, std::uint64_t bytes, std::uint32_t rows)
      : fd_(fd), memory_(memory), bytes_(bytes), rows_(rows) {}
  static Result<RankRegion> make_on_host(std::uint64_t bytes, const Shape& shape);
  static Result<RankRegion> make_on_device(std::uint64_t bytes, const Shape& shape);
  void push(std::uint32_t row, std::uint16_t kind) const;
  void pull(std::uint32_t row, std::uint16_t kind) const;
  std::uint8_t* at(const Run& run, std::uint32_t row) const {
    return memory_ + run.area_offset + row * run.stride;
  }

  int fd_;
  std::uint8_t* memory_;
  std::uint64_t bytes_;
  std::uint32_t rows_;
  std::vector<std::vector<Run>> kinds_;
  std::unique_ptr<DeviceRows> device_;  // then memory_ is its mirror
  std::uint32_t transfer_ = HICACHE_TRANSFER_AUTO;
};

}  // namespace hc
