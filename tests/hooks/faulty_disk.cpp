// SPDX-License-Identifier: Apache-2.0
// faulty_disk: errors, and requests that are held.
#include "tests/hooks/faulty_disk.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shm/unique_fd.h"

namespace hc {

namespace {

class FaultyDisk final : public WaitableDisk {
 public:
  FaultyDisk(std::unique_ptr<WaitableDisk> disk, DiskFaults& faults)
      : disk_(std::move(disk)), faults_(faults) {}

  Result<FileId> open(const FileSpec& spec) override {
    const auto error = static_cast<int>(faults_.volumes[spec.volume].write_errno.load());
    if (error != 0 && spec.create) {
      return make_error(Code::io_error, "volume: " + spec.name, error);
    }
    return disk_->open(spec);
  }
  Result<void> close(FileId file) override { return disk_->close(file); }
  Result<void> remove(const std::string& name, std::uint16_t volume) override {
    return disk_->remove(name, volume);
  }
  Result<std::vector<FileInfo>> list(std::uint16_t volume) override { return disk_->list(volume); }
  std::uint64_t size_bytes(FileId file) const override { return disk_->size_bytes(file); }
  std::uint16_t volume_count() const override { return disk_->volume_count(); }
  std::string volume_name(std::uint16_t volume) const override {
    return disk_->volume_name(volume);
  }
  Result<void> read_now(FileId file, std::uint64_t offset, std::span<std::uint8_t> out) override {
    HC_TRY_VOID(blocking(file, DiskOp::read));
    return disk_->read_now(file, offset, out);
  }
  Result<void> write_now(FileId file, std::uint64_t offset,
                         std::span<const std::uint8_t> bytes) override {
    HC_TRY_VOID(blocking(file, DiskOp::write));
    return disk_->write_now(file, offset, bytes);
  }
  Result<void> punch_now(FileId file, std::uint64_t offset, std::uint64_t length) override {
    HC_TRY_VOID(blocking(file, DiskOp::punch));
    return disk_->punch_now(file, offset, length);
  }
  Result<void> allocate_now(FileId file, std::uint64_t offset, std::uint64_t length) override {
    HC_TRY_VOID(blocking(file, DiskOp::allocate));
    return disk_->allocate_now(file, offset, length);
  }
  Result<std::optional<std::uint64_t>> next_data(FileId file, std::uint64_t offset) override {
    HC_TRY_VOID(blocking(file, DiskOp::read));
    return disk_->next_data(file, offset);
  }
  void add_memory(std::span<std::uint8_t> bytes) override { disk_->add_memory(bytes); }
  void drop_memory(std::span<std::uint8_t> bytes) override { disk_->drop_memory(bytes); }

  Code submit(const DiskRequest& request) override {
    VolumeFaults& faults = of(request.file);
    if (faults.holds.load() != 0) {
      held_.push_back(request);
      ++faults.held;
      return Code::ok;
    }
    if (error_of(request.file, request.op) != 0) {
      fail(request);
      return Code::ok;
    }
    return disk_->submit(request);
  }
  void poll(std::vector<DiskCompletion>& out) override {
    for (std::size_t left = held_.size(); left > 0; --left) {
      const DiskRequest request = held_.front();
      held_.pop_front();
      --of(request.file).held;
      if (submit(request) != Code::ok) {
        held_.push_back(request);  // no room below: at the next look
        ++of(request.file).held;
      }
    }
    disk_->poll(out);
    out.insert(out.end(), failed_.begin(), failed_.end());
    failed_.clear();
  }
  void wait() override {
    if (failed_.empty()) {
      disk_->wait();
    }
  }
  std::uint32_t in_flight() const override {
    return disk_->in_flight() + static_cast<std::uint32_t>(held_.size() + failed_.size());
  }
  int event_fd() const override { return disk_->event_fd(); }
  std::string description() const override { return disk_->description(); }

 private:
  VolumeFaults& of(FileId file) { return faults_.volumes[volume_of(file)]; }
  int error_of(FileId file, DiskOp op) {
    const VolumeFaults& faults = of(file);
    return static_cast<int>(op == DiskOp::read ? faults.read_errno.load()
                                               : faults.write_errno.load());
  }
  Result<void> blocking(FileId file, DiskOp op) {
    const int error = error_of(file, op);
    return error == 0 ? Result<void>() : make_error(Code::io_error, "volume", error);
  }
  void fail(const DiskRequest& request) {
    const int error = error_of(request.file, request.op);
    const Code code = error == ENOSPC ? Code::no_space : Code::io_error;
    failed_.push_back({request.ticket, code, error});
  }

  std::unique_ptr<WaitableDisk> disk_;
  DiskFaults& faults_;
  std::deque<DiskRequest> held_;
  std::vector<DiskCompletion> failed_;
};

}  // namespace

std::unique_ptr<WaitableDisk> wrap_with_faults(std::unique_ptr<WaitableDisk> disk) {
  const char* path = std::getenv("HICACHE_DISK_FAULTS");  // NOLINT(concurrency-mt-unsafe)
  if (path == nullptr) {
    return disk;
  }
  const UniqueFd file(::open(path, O_RDWR | O_CLOEXEC));
  HC_CHECK(file);
  void* memory = ::mmap(nullptr, sizeof(DiskFaults), PROT_READ | PROT_WRITE, MAP_SHARED,
                        file.get(), 0);
  HC_CHECK(memory != MAP_FAILED);
  return std::make_unique<FaultyDisk>(std::move(disk), *static_cast<DiskFaults*>(memory));
}

}  // namespace hc
