// SPDX-License-Identifier: Apache-2.0
// cuda_keeper: a queue of work for one thread.
#include "daemon/gpu/cuda_keeper.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

#include "daemon/gpu/chunk_map.h"
#include "daemon/os/disposer.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

Error wrong_export(const char* field, std::uint64_t value, std::uint64_t most) {
  return make_error(Code::bad_argument, std::string(field) + " = " + std::to_string(value) +
                                            ": must be 0.." + std::to_string(most));
}

void destroy_events(const CudaDriver& driver, const std::vector<CuEvent>& events) {
  for (CuEvent event : events) {
    static_cast<void>(driver->event_destroy(event));
  }
}

}  // namespace

CudaKeeper::CudaKeeper(std::string library, CudaNewsBox& news)
    : library_(std::move(library)), news_(news) {
  thread_ = std::thread([this] {
    const RoleScope role(kCopierRole);
    ::pthread_setname_np(::pthread_self(), "gpu-keeper");
    run();
  });
}

CudaKeeper::~CudaKeeper() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  // What was opened and nobody took would come back here when it is too late. Its descriptors are a
  // client's, and may take long to close.
  Disposer closer;
  for (CudaNews& news : news_.take_all()) {
    if (auto* opened = std::get_if<CudaOpened>(&news)) {
      closer.dispose(opened->spent);
    }
  }
  for (const std::function<void()>& work : std::exchange(work_, {})) {
    work();
  }
  HC_CHECK(allocations_.empty() && owners_.empty());
  for (const Arena& arena : arenas_) {
    drop_registered(arena);
  }
}

void CudaKeeper::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void CudaKeeper::run() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !work_.empty(); });
      if (work_.empty()) {
        return;
      }
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

void CudaKeeper::open(std::uint64_t ticket, MappingId id, DeviceExport wanted) {
  const auto shared = std::make_shared<DeviceExport>(std::move(wanted));
  post([this, ticket, id, shared] { do_open(ticket, id, *shared); });
}

void CudaKeeper::add_memory(std::span<std::uint8_t> arena, std::uint32_t frame_bytes) {
  post([this, arena, frame_bytes] {
    arenas_.push_back({arena, frame_bytes, false});
    register_memory();
  });
}

void CudaKeeper::drop_memory(std::span<std::uint8_t> arena) {
  std::promise<void> dropped;
  post([this, arena, &dropped] {
    const auto same = [&](const Arena& at) { return at.memory.data() == arena.data(); };
    const auto found = std::find_if(arenas_.begin(), arenas_.end(), same);
    if (found != arenas_.end()) {
      drop_registered(*found);
    }
    arenas_.erase(std::remove_if(arenas_.begin(), arenas_.end(), same), arenas_.end());
    dropped.set_value();
  });
  dropped.get_future().wait();
}

// Memory is registered for every context of the process, so any one does.
void CudaKeeper::register_memory() {
  if (devices_.empty() || devices_.begin()->second->is_lost()) {
    return;
  }
  const CurrentContext current(devices_.begin()->second->context());
  for (Arena& arena : arenas_) {
    if (arena.registered || current.result() != kCuSuccess) {
      continue;
    }
    arena.registered = true;  // a part of it may be
    const auto added = registry_.add(**driver_, arena.memory, arena.frame_bytes);
    HC_FAILPOINT(gpu_frames_registered);
    if (!added) {
      news_.put(CudaRemark{"gpu.not_registered", added.error().message()});
    }
  }
}

void CudaKeeper::drop_registered(const Arena& arena) {
  if (arena.registered) {
    const CurrentContext current(devices_.begin()->second->context());
    registry_.drop(**driver_, arena.memory);
  }
}

Result<std::shared_ptr<CudaDevice>> CudaKeeper::device_of(const DeviceExport& wanted) {
  const Uuid& uuid = wanted.device;
  if (!driver_) {
    driver_ = CudaDriver::load(library_);
    const bool is_there = driver_->has_value();
    news_.put(CudaRemark{is_there ? "gpu.driver" : "gpu.none",
                         is_there ? "version " + std::to_string((**driver_).version())
                                  : driver_->error().message()});
  }
  HC_TRY(*driver_);
  const auto known = devices_.find(uuid);
  if (known != devices_.end()) {
    return known->second;
  }
  auto device = CudaDevice::open(**driver_, uuid);
  HC_TRY(device);
  (**device).note_free_before(wanted.device_free_bytes);
  devices_[uuid] = *device;
  return *device;
}

// Whether the handle is open for other memory: opening it once more would give that memory.
bool CudaKeeper::is_stale(const Key& key) const {
  const auto& [device, handle, buffer, import] = key;
  const auto first = allocations_.lower_bound(Key{device, handle, 0, 0});
  return import == 0 && first != allocations_.end() && std::get<0>(first->first) == device &&
         std::get<1>(first->first) == handle && std::get<2>(first->first) != buffer;
}

Result<CudaKeeper::Allocation> CudaKeeper::open_handle(const DeviceExport& wanted,
                                                       const std::shared_ptr<CudaDevice>& device) {
  const CudaDriver& driver = device->driver();
  CuIpcMemHandle handle{};
  static_assert(sizeof handle == sizeof wanted.handle);
  std::memcpy(&handle, wanted.handle.data(), sizeof handle);
  Allocation opened;
  opened.device = device;
  if (const CuResult result = driver->ipc_open_mem(&opened.base, handle, kCuIpcLazyPeerAccess);
      result != kCuSuccess) {
    return driver.error("cuIpcOpenMemHandle", result);
  }
  CuAddress base = 0;
  std::size_t bytes = 0;
  const CuResult result = driver->mem_range(&base, &bytes, opened.base);
  opened.size_bytes = bytes;
  if (result != kCuSuccess || base != opened.base) {
    static_cast<void>(driver->ipc_close_mem(opened.base));
    return result != kCuSuccess
               ? driver.error("cuMemGetAddressRange", result)
               : make_error(Code::refused, "the handle does not stand for a whole allocation");
  }
  return opened;
}

Result<CudaKeeper::Allocation> CudaKeeper::open_chunks(const DeviceExport& wanted,
                                                       const std::shared_ptr<CudaDevice>& device) {
  const auto map = map_chunks(*device, wanted);
  HC_TRY(map);
  return Allocation{device, map->base, map->bytes, true, 0};
}

void CudaKeeper::close_allocation(const Allocation& allocation) {
  const CudaDriver& driver = allocation.device->driver();
  if (!allocation.is_chunks) {
    static_cast<void>(driver->ipc_close_mem(allocation.base));
  } else if (!HC_MUTANT(chunks_kept)) {
    unmap_chunks(driver, {allocation.base, allocation.size_bytes});
  }
}

Result<CudaKeeper::Allocation*> CudaKeeper::allocation_of(
    const Key& key, const DeviceExport& wanted, const std::shared_ptr<CudaDevice>& device) {
  const auto known = allocations_.find(key);
  if (known != allocations_.end()) {
    return &known->second;
  }
  if (is_stale(key)) {
    return make_error(Code::busy, "ipc_handle: memory that had it before is registered still");
  }
  auto opened = wanted.kind == ExportKind::vmm ? open_chunks(wanted, device)
                                               : open_handle(wanted, device);
  HC_TRY(opened);
  open_count_.fetch_add(1, std::memory_order_relaxed);
  HC_FAILPOINT(gpu_memory_opened);
  return &allocations_.emplace(key, std::move(*opened)).first->second;
}

// All or none.
Result<void> CudaKeeper::open_events(Owner& owner, const DeviceExport& wanted) {
  const CudaDriver& driver = owner.device->driver();
  std::vector<CuEvent> events;
  for (const IpcHandle& raw : wanted.events) {
    CuIpcEventHandle handle{};
    static_assert(sizeof handle == sizeof raw);
    std::memcpy(&handle, raw.data(), sizeof handle);
    CuEvent event = nullptr;
    if (const CuResult result = driver->ipc_open_event(&event, handle); result != kCuSuccess) {
      destroy_events(driver, events);
      return driver.error("cuIpcOpenEventHandle", result);
    }
    events.push_back(event);
  }
  owner.events = std::move(events);
  HC_FAILPOINT(gpu_events_opened);
  return {};
}

Result<CudaMappingPtr> CudaKeeper::try_open(MappingId id, const DeviceExport& wanted) {
  auto device = device_of(wanted);
  HC_TRY(device);
  if ((*device)->is_lost()) {
    return make_error(Code::io_error, "device " + uuid_text(wanted.device) +
                                          " was lost: the daemon must be started again to use it");
  }
  const CurrentContext current((*device)->context());
  if (current.result() != kCuSuccess) {
    return (*device)->driver().error("cuCtxPushCurrent", current.result());
  }
  const bool is_vmm = wanted.kind == ExportKind::vmm;
  const Key key = is_vmm ? Key{wanted.device, IpcHandle{}, 0, ++imports_}
                         : Key{wanted.device, wanted.handle, wanted.buffer, 0};
  auto allocation = allocation_of(key, wanted, *device);
  HC_TRY(allocation);
  ++(**allocation).users;
  ++owners_[wanted.owner].users;
  auto region = make_region(key, id, wanted, **allocation);
  if (!region) {
    close(key, wanted.owner);
  }
  return region;
}

// Of memory that is open and counted: whoever can't use it closes it.
Result<CudaMappingPtr> CudaKeeper::make_region(const Key& key, MappingId id,
                                               const DeviceExport& wanted,
                                               const Allocation& allocation) {
  Owner& owner = owners_[wanted.owner];
  if (owner.device == nullptr) {
    owner.device = allocation.device;
  }
  const std::shared_ptr<CudaDevice>& device = devices_.at(wanted.device);
  if (owner.device != device || allocation.device != device) {
    return make_error(Code::bad_argument, "device = " + uuid_text(wanted.device) +
                                              ": a session has regions of one device only");
  }
  const std::uint64_t size = allocation.size_bytes;
  if (wanted.allocation_bytes != size) {
    return make_error(Code::bad_argument,
                      "allocation_bytes = " + std::to_string(wanted.allocation_bytes) +
                          ": the device says " + std::to_string(size));
  }
  if (wanted.offset_bytes > size) {
    return wrong_export("region offset_bytes", wanted.offset_bytes, size);
  }
  if (wanted.size_bytes > size - wanted.offset_bytes) {
    return wrong_export("region size_bytes", wanted.size_bytes, size - wanted.offset_bytes);
  }
  if (owner.events.empty()) {
    HC_TRY_VOID(open_events(owner, wanted));
  }
  const std::uint64_t offset = HC_MUTANT(region_offset_dropped) ? 0 : wanted.offset_bytes;
  return make_mapping(key, {wanted.owner, id},
                      {allocation.base + offset, wanted.size_bytes, device, owner.events});
}

void CudaKeeper::do_open(std::uint64_t ticket, MappingId id, DeviceExport& wanted) {
  auto mapping = try_open(id, wanted);
  CudaOpened opened{ticket, id, nullptr, {}, std::move(wanted.fds)};
  if (mapping) {
    opened.mapping = std::move(*mapping);
  } else {
    opened.error = mapping.error();
  }
  const bool is_open = opened.mapping != nullptr;
  news_.put(std::move(opened));
  HC_FAILPOINT(gpu_mapping_told);
  if (is_open) {
    register_memory();  // its copies are only slower before
  }
}

// The last one who lets go does so on any thread.
CudaMappingPtr CudaKeeper::make_mapping(const Key& key, const Holder& holder,
                                        CudaMapping mapping) {
  return {new CudaMapping(std::move(mapping)), [this, key, holder](const CudaMapping* gone) {
            delete gone;
            post([this, key, holder] {
              close(key, holder.owner);
              news_.put(CudaClosed{holder.id});
            });
          }};
}

void CudaKeeper::close(const Key& key, std::uint64_t owner) {
  const auto found = allocations_.find(key);
  HC_CHECK(found != allocations_.end() && found->second.users > 0);
  const std::shared_ptr<CudaDevice> device = found->second.device;
  const CurrentContext current(device->context());
  close_owner(owner);  // before the count, which says that all of it is closed
  if (--found->second.users == 0 || HC_MUTANT(shared_mapping_closed)) {
    close_allocation(found->second);
    if (found->second.users == 0) {
      allocations_.erase(found);
      open_count_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  HC_FAILPOINT(gpu_memory_closed);
}

void CudaKeeper::close_owner(std::uint64_t number) {
  const auto found = owners_.find(number);
  HC_CHECK(found != owners_.end() && found->second.users > 0);
  if (--found->second.users > 0) {
    return;
  }
  if (!HC_MUTANT(owner_events_kept)) {
    destroy_events(found->second.device->driver(), found->second.events);
  }
  owners_.erase(found);
}

}  // namespace hc
