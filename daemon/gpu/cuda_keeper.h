// SPDX-License-Identifier: Apache-2.0
// cuda_keeper: the thread that loads the driver, opens and closes what clients export, and
// registers the memory of frames.
//
// All of that may take long, so none of it happens on the reactor. Owner thread: the reactor asks,
// whoever lets a mapping go gives it back; everything below is the keeper's own thread.
// Invariants:
//   - the driver is loaded, and a device gets its context, only once somebody exports memory of it
//   - one allocation is opened once, whoever names it how often, and closed once: drivers have been
//     seen to end all mappings of it with the first close. What names it is its handle together
//     with the driver's number of it, because a handle may come again after a free
//   - chunks have no name: each export of them is mapped by itself, and the driver counts
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "daemon/gpu/cuda_news.h"
#include "daemon/gpu/device_memory.h"
#include "shm/gpu/host_registry.h"
#include "proto/thread_roles.h"

namespace hc {

class CudaKeeper {
 public:
  CudaKeeper(std::string library, CudaNewsBox& news);
  CudaKeeper(const CudaKeeper&) = delete;
  CudaKeeper& operator=(const CudaKeeper&) = delete;
  // Closes what is open. No mapping is left.
  ~CudaKeeper();

  void open(std::uint64_t ticket, MappingId id, DeviceExport wanted);
  void add_memory(std::span<std::uint8_t> arena, std::uint32_t frame_bytes);
  // Returns when the driver has let go of it.
  void drop_memory(std::span<std::uint8_t> arena);

  const HostRegistry& registry() const { return registry_; }
  // Exported allocations that are open.
  std::uint32_t open_count() const { return open_count_.load(std::memory_order_relaxed); }

 private:
  // Device, handle, buffer; of chunks, the number of their import, which is 0 for a handle.
  using Key = std::tuple<Uuid, IpcHandle, std::uint64_t, std::uint64_t>;
  struct Allocation {
    std::shared_ptr<CudaDevice> device;
    CuAddress base = 0;
    std::uint64_t size_bytes = 0;
    bool is_chunks = false;
    std::uint32_t users = 0;
  };
  struct Owner {
    std::shared_ptr<CudaDevice> device;
    std::vector<CuEvent> events;
    std::uint32_t users = 0;  // mappings
  };
  struct Holder {
    std::uint64_t owner = 0;
    MappingId id = kHostMapping;
  };
  struct Arena {
    std::span<std::uint8_t> memory;
    std::uint32_t frame_bytes = 0;
    bool registered = false;
  };

  void post(std::function<void()> work);
  void run() HC_COPIER;
  void do_open(std::uint64_t ticket, MappingId id, DeviceExport& wanted);
  Result<CudaMappingPtr> try_open(MappingId id, const DeviceExport& wanted);
  Result<std::shared_ptr<CudaDevice>> device_of(const DeviceExport& wanted);
  Result<Allocation*> allocation_of(const Key& key, const DeviceExport& wanted,
                                    const std::shared_ptr<CudaDevice>& device);
  static Result<Allocation> open_handle(const DeviceExport& wanted,
                                        const std::shared_ptr<CudaDevice>& device);
  static Result<Allocation> open_chunks(const DeviceExport& wanted,
                                        const std::shared_ptr<CudaDevice>& device);
  Result<CudaMappingPtr> make_region(const Key& key, MappingId id, const DeviceExport& wanted,
                                     const Allocation& allocation);
  static void close_allocation(const Allocation& allocation);
  Result<void> open_events(Owner& owner, const DeviceExport& wanted);
  bool is_stale(const Key& key) const;
  // Told of by its number when it is closed.
  CudaMappingPtr make_mapping(const Key& key, const Holder& holder, CudaMapping mapping);
  void close(const Key& key, std::uint64_t owner);
  void close_owner(std::uint64_t owner);
  void register_memory();
  void drop_registered(const Arena& arena);

  const std::string library_;
  CudaNewsBox& news_;
  HostRegistry registry_;
  std::atomic<std::uint32_t> open_count_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // under the mutex
  bool closing_ = false;                    // under the mutex
  // The keeper's thread only.
  std::optional<Result<CudaDriver>> driver_;
  std::map<Uuid, std::shared_ptr<CudaDevice>> devices_;
  std::map<Key, Allocation> allocations_;
  std::map<std::uint64_t, Owner> owners_;
  std::uint64_t imports_ = 0;  // of chunks
  std::vector<Arena> arenas_;
  std::thread thread_;
};

}  // namespace hc
