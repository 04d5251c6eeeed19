// SPDX-License-Identifier: Apache-2.0
// copier_bench: a copier on the stand-in driver, with frames, and a process that exports to it.
//
// Owner thread: the one that made it, which stands for the reactor. Only in a forked process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/gpu/cuda_copier.h"
#include "unit/daemon/gpu/gpu_exporter.h"

namespace hc::test {

// Bytes that tell where they are from.
inline void fill_bytes(std::span<std::uint8_t> bytes, std::uint32_t seed) {
  std::uint32_t word = seed * 2654435761U + 1;
  for (std::uint8_t& byte : bytes) {
    word = word * 1664525U + 1013904223U;
    byte = static_cast<std::uint8_t>(word >> 24);
  }
}

struct BenchPlans {
  std::string daemon;
  std::string client;
};

class CopierBench {
 public:
  static constexpr std::uint32_t kFrameBytes = 4 << 20;
  static constexpr std::uint32_t kFrames = 4;

  explicit CopierBench(const BenchPlans& plans = {})
      : exporter(plans.client), arena(shared_memory(kFrameBytes * kFrames), kFrameBytes * kFrames) {
    plan_double("HC_FAKE_CUDA", plans.daemon);
    auto made = CudaCopier::create(double_library("libcuda.so.1"));
    HC_CHECK(made);
    copier = std::move(*made);
  }

  std::uint8_t* frame(std::uint32_t number) const {
    return arena.data() + std::size_t{number} * kFrameBytes;
  }
  void register_frames() { copier->add_memory(arena, kFrameBytes); }

  DeviceOpened open(DeviceExport wanted) {
    const std::uint64_t ticket = next_ticket_++;
    copier->open(ticket, std::move(wanted));
    HC_CHECK(until([&] { return !opened_.empty(); }));
    HC_CHECK(opened_.size() == 1 && opened_.back().ticket == ticket);
    DeviceOpened opened = std::move(opened_.back());
    opened_.clear();
    return opened;
  }
  // A region that must open. The frames are registered then, which follows the first one.
  MappingId open_region(std::uint64_t address, std::uint64_t bytes) {
    const DeviceOpened opened = open(exporter.region(address, bytes));
    if (opened.code != Code::ok) {
      std::fprintf(stderr, "not opened: %s\n", opened.text.c_str());
    }
    HC_CHECK(opened.code == Code::ok);
    copier->drop_memory({});  // nothing's: waits for what the keeper does
    return opened.mapping;
  }

  CopyJob job(CopyKind kind, MappingId mapping, std::span<const CopyRun> runs,
              std::uint32_t frame_number = 0) {
    CopyJob made;
    made.kind = kind;
    made.frame = frame(frame_number);
    for (const CopyRun& run : runs) {
      made.payload_bytes += run.size_bytes;
    }
    made.padded_bytes = round_up(made.payload_bytes, kBlockBytes);
    made.runs = runs;
    made.ticket = next_ticket_++;
    made.mapping = mapping;
    return made;
  }
  CopyJob await(MappingId mapping, std::uint16_t event, bool to_device = false) {
    CopyJob made;
    made.kind = CopyKind::await;
    made.mapping = mapping;
    made.event = event;
    made.to_device = to_device;
    made.ticket = next_ticket_++;
    return made;
  }

  // Looks once; the completion of the ticket, if it was there by now.
  std::optional<CopyCompletion> look(std::uint64_t ticket) {
    copier->poll(done_);
    copier->poll_opened(opened_);
    const auto found = std::find_if(done_.begin(), done_.end(), [&](const CopyCompletion& at) {
      return at.ticket == ticket;
    });
    return found == done_.end() ? std::nullopt : std::optional(*found);
  }
  CopyCompletion finish(std::uint64_t ticket) {
    std::optional<CopyCompletion> found;
    HC_CHECK(until([&] { return (found = look(ticket)).has_value(); }));
    return *found;
  }
  CopyCompletion run(const CopyJob& job) {
    HC_CHECK(copier->submit(job) == Code::ok);
    return finish(job.ticket);
  }

  // Looks until it is so, for a minute at most.
  template <typename Condition>
  bool until(Condition&& is_so) {
    for (int looks = 0; looks < 60'000; ++looks) {
      copier->poll(done_);
      copier->poll_opened(opened_);
      if (is_so()) {
        return true;
      }
      ::usleep(1000);  // waits: what the driver's threads do sends no event to this one
    }
    return false;
  }

  // Ends the copier: 0 if nothing of it is left in the driver.
  int leave() {
    copier.reset();
    for (const char* what : {"mappings", "mapped_bytes", "events", "opened_events", "streams",
                             "retains", "registered", "maps", "reservations", "handles"}) {
      if (cuda_count(what) != 0) {
        std::fprintf(stderr, "left: %ld %s\n", cuda_count(what), what);
        return 1;
      }
    }
    return 0;
  }

  GpuExporter exporter;
  std::span<std::uint8_t> arena;
  std::unique_ptr<CudaCopier> copier;

 private:
  std::uint64_t next_ticket_ = 0;
  std::vector<CopyCompletion> done_;
  std::vector<DeviceOpened> opened_;
};

}  // namespace hc::test
