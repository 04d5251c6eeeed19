// SPDX-License-Identifier: Apache-2.0
// uring_disk: the Disk over one io_uring for all volumes.
//
// Owner: the reactor thread, which must also be the creator. Every request in flight owns a slot
// of a fixed table; its vectors stay there until the kernel has answered. Registered, the kernel
// keeps the files and the pages of the memory at hand; what is not in its tables goes without.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/os/transfer.h"
#include "daemon/os/uring.h"
#include "daemon/os/uring_tables.h"
#include "daemon/os/volume_disk.h"

namespace hc {

class UringDisk final : public VolumeDisk {
 public:
  // How many requests can be in flight on that many volumes: the entries that the ring needs. One
  // that goes in halves takes two; those that find no entry make the ring submit early, and its
  // completions have twice as many places.
  static std::uint32_t entries_for(std::size_t volumes);
  // `registered`: the ring has its tables (Uring::create_tables).
  UringDisk(std::vector<Volume> volumes, Uring ring, bool registered);
  UringDisk(const UringDisk&) = delete;
  UringDisk& operator=(const UringDisk&) = delete;
  // Waits for what is in flight: the kernel still owns those buffers.
  ~UringDisk() override;

  Code submit(const DiskRequest& request) override;
  void poll(std::vector<DiskCompletion>& out) override;
  void wait() override;
  std::uint32_t in_flight() const override { return in_flight_; }
  int event_fd() const override { return ring_.event_fd(); }
  std::string description() const override;
  void add_memory(std::span<std::uint8_t> bytes) override;
  void drop_memory(std::span<std::uint8_t> bytes) override;

 private:
  void file_opened(FileId file, int fd) override;
  void file_closing(FileId file) override;
  // One request, or one of its two halves: a fixed transfer is one piece of one registered buffer,
  // and a blob's header does not lie where its payload does.
  struct Flight {
    Transfer transfer;
    std::optional<std::uint32_t> other;  // the half that is still in flight
    std::optional<DiskCompletion> failed;  // how the other half ended
  };

  std::uint32_t take_off(const DiskRequest& request);
  bool is_better_apart(const DiskRequest& request) const;
  void queue(std::uint32_t slot);
  Uring::Target target_of(const Transfer& transfer, std::span<const iovec> vectors) const;
  void settle(const Uring::Done& done);
  bool reap();

  Uring ring_;
  std::optional<UringTables> tables_;     // registered
  bool told_unregistered_ = false;
  std::vector<Flight> flights_;           // kDiskRequestsMax of each volume, twice; never moved
  std::vector<std::uint32_t> free_;
  std::vector<DiskCompletion> finished_;  // reaped, not yet polled
  std::vector<FileId> finished_files_;    // of those
  std::uint32_t in_flight_ = 0;           // submitted, not yet polled
};

}  // namespace hc
