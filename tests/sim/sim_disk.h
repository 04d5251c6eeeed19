// SPDX-License-Identifier: Apache-2.0
// sim_disk: a virtual disk. Writes land in a volatile cache at their completion, in any order; a
// sync makes durable what had completed when it was submitted; a crash keeps, drops or tears what
// was not synced. Faults follow the plan.
//
// Held as laws here: a buffer in flight is not changed; a read never overlaps a write in flight;
// nothing is asked outside of a file.
#pragma once

#include <array>
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/os/disk.h"
#include "tests/sim/fault_plan.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_file.h"
#include "tests/sim/trace.h"

namespace hc::sim {

enum class Crash : std::uint8_t {
  process,  // the kernel lives: what was written stays, what was in flight may land
  power,    // what was not synced is up to chance
};

struct DiskRead {
  FileId file{};
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

class SimDisk final : public Disk {
 public:
  SimDisk(SimClock& clock, Trace& trace, Laws& laws, Prng prng);

  Result<FileId> open(const FileSpec& spec) override;
  Result<void> close(FileId file) override;
  Result<void> remove(const std::string& name, std::uint16_t volume) override;
  Result<std::vector<FileInfo>> list(std::uint16_t volume) override;
  std::uint64_t size_bytes(FileId file) const override;
  std::uint16_t volume_count() const override { return volumes_; }
  std::string volume_name(std::uint16_t volume) const override {
    return "volume " + std::to_string(volume);
  }
  Result<void> read_now(FileId file, std::uint64_t offset_bytes,
                        std::span<std::uint8_t> out) override;
  Result<void> write_now(FileId file, std::uint64_t offset_bytes,
                         std::span<const std::uint8_t> bytes) override;
  Result<void> punch_now(FileId file, std::uint64_t offset_bytes,
                         std::uint64_t length_bytes) override;
  Result<void> allocate_now(FileId file, std::uint64_t offset_bytes,
                            std::uint64_t length_bytes) override;
  Result<std::optional<std::uint64_t>> next_data(FileId file,
                                                 std::uint64_t offset_bytes) override;
  Code submit(const DiskRequest& request) override;
  void poll(std::vector<DiskCompletion>& out) override;
  void wait() override;
  std::uint32_t in_flight() const override { return static_cast<std::uint32_t>(pending_.size()); }

  // The other side of the seam.
  bool has_in_flight(DiskOp op) const {
    return std::any_of(pending_.begin(), pending_.end(),
                       [op](const Pending& pending) { return pending.request.op == op; });
  }
  void set_plan(const FaultPlan& plan) { plan_ = plan; }
  void set_volumes(std::uint16_t count) { volumes_ = count; }
  // A volume that answers nothing, or every request of a kind with this error (0: well).
  void hold_volume(std::uint16_t volume, bool held) { faulty_[volume].held = held; }
  void fail_volume(std::uint16_t volume, int read_errno, int write_errno) {
    faulty_[volume].read_errno = read_errno;
    faulty_[volume].write_errno = write_errno;
  }
  Instant next_due() const;
  // The process is gone: nothing is in flight, nothing is open.
  void crash(Crash how);
  // The power goes at the n-th blocking write from now on (0: not).
  void cut_power_at_write(std::uint32_t n) { writes_to_cut_ = n; }
  bool power_is_cut() const { return cut_; }

  bool damaged(FileId file, std::uint64_t offset_bytes, std::uint64_t size_bytes) const;
  bool synced(FileId file, std::uint64_t offset_bytes, std::uint64_t size_bytes) const;
  void read_durable(FileId file, std::uint64_t offset_bytes, std::span<std::uint8_t> out) const;
  SimFile* file(FileId id) const { return open_[index_of(id)]; }
  SimFile* file_named(const std::string& name, std::uint16_t volume = 0);
  // What the slab files of a volume have got.
  std::uint64_t slab_bytes(std::uint16_t volume) const;

  // Since the last call.
  std::vector<DiskRead> take_reads();
  std::uint64_t submitted() const { return submitted_; }
  std::uint64_t bytes_read() const { return bytes_read_; }
  std::uint64_t faults() const { return faults_; }
  std::uint64_t transients() const { return transients_; }
  // Tests: every read from here on takes this long (0: as the plan says).
  void set_read_delay(std::int64_t delay_ns) { read_delay_ns_ = delay_ns; }

 private:
  struct Pending {
    DiskRequest request;
    Instant due{};
    std::uint64_t order = 0;
    std::uint64_t covers = 0;             // sync: versions up to this one
    std::vector<std::uint8_t> snapshot;   // write: the bytes at submission
  };

  struct Faulty {
    bool held = false;
    int read_errno = 0;
    int write_errno = 0;
  };
  bool is_held(const Pending& pending) const {
    return faulty_[volume_of(pending.request.file)].held;
  }
  static std::size_t index_of(FileId file) { return file.value & ((1U << kFileVolumeShift) - 1); }
  SimFile& opened(FileId file) const { return *open_[index_of(file)]; }
  void check(const DiskRequest& request);
  bool range_call_fails();
  std::int64_t draw_delay(DiskOp op);
  DiskCompletion complete(Pending& pending);
  Code refuse(Pending& pending);
  Code complete_write(Pending& pending);
  Code complete_read(const DiskRequest& request);
  Code complete_sync(const Pending& pending);
  Code complete_space(const DiskRequest& request);
  void land(SimFile& file, std::uint64_t offset_bytes, std::span<const std::uint8_t> bytes,
            bool whole);
  void misdirect(const DiskRequest& request, std::span<const std::uint8_t> bytes);
  void mark(SimFile& file, std::uint64_t offset_bytes, std::uint64_t size_bytes);
  Code fault(const char* name, Code code);

  SimClock& clock_;
  Trace& trace_;
  Laws& laws_;
  Prng prng_;
  FaultPlan plan_;
  // By volume and name.
  std::map<std::pair<std::uint16_t, std::string>, std::unique_ptr<SimFile>> files_;
  std::uint16_t volumes_ = 1;
  std::array<Faulty, kVolumesMax> faulty_{};
  std::vector<SimFile*> open_;            // by the id without its volume; null: closed
  std::vector<Pending> pending_;
  std::vector<DiskRead> reads_;
  std::uint64_t next_order_ = 0;
  std::uint64_t sequence_ = 0;            // of landed writes
  std::uint64_t submitted_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t transients_ = 0;
  std::int64_t read_delay_ns_ = 0;
  std::uint32_t writes_to_cut_ = 0;
  bool cut_ = false;
};

}  // namespace hc::sim
