// SPDX-License-Identifier: Apache-2.0
// cuda_copier: mappings by number, lanes by device, news into their places.
#include "daemon/gpu/cuda_copier.h"

#include <algorithm>
#include <utility>

#include "daemon/log/log.h"
#include "daemon/os/disposer.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::uint32_t kAwaitLane = kNone32 - 1;  // of a ticket that takes no lane's place

CudaDeviceLine::Direction direction_of(const LaneCounters& counters) {
  return {counters.copies.load(std::memory_order_relaxed),
          counters.bytes.load(std::memory_order_relaxed),
          counters.batches.load(std::memory_order_relaxed),
          counters.single.load(std::memory_order_relaxed),
          counters.failures.load(std::memory_order_relaxed)};
}

}  // namespace

Result<std::unique_ptr<CudaCopier>> CudaCopier::create(std::string library) {
  auto event = EventFd::create();
  HC_TRY(event);
  return std::make_unique<CudaCopier>(std::move(*event), std::move(library));
}

CudaCopier::CudaCopier(EventFd event, std::string library)
    : news_(std::move(event)),
      keeper_(std::make_unique<CudaKeeper>(std::move(library), news_)) {}

CudaCopier::~CudaCopier() {
  Disposer closer;  // descriptors of clients may take long to close
  for (DeviceOpened& opened : opened_) {
    closer.dispose(opened.spent);
  }
  slots_.clear();
  devices_.clear();
  keeper_.reset();
}

std::uint32_t CudaCopier::lane_of(const CopyJob& job) const {
  const bool in = job.kind == CopyKind::await ? job.to_device : job.kind == CopyKind::scatter;
  return 2 * slots_.at(job.mapping).device + (in ? 1U : 0U);
}

Code CudaCopier::submit(const CopyJob& job) {
  const std::uint32_t lane = lane_of(job);
  const Slot& slot = slots_[job.mapping];
  HC_CHECK(slot.mapping != nullptr);
  Device& device = devices_[slot.device];
  std::uint32_t& jobs = device.jobs[lane % 2];
  const bool is_await = job.kind == CopyKind::await;
  if (!is_await && jobs == kCudaJobsPerLane) {
    return Code::busy;
  }
  jobs += is_await ? 0U : 1U;
  ++in_flight_;
  lane_of_ticket_.resize(std::max<std::size_t>(lane_of_ticket_.size(), job.ticket + 1), kNone32);
  HC_CHECK(lane_of_ticket_[job.ticket] == kNone32);
  lane_of_ticket_[job.ticket] = is_await ? kAwaitLane : lane;
  device.lanes[lane % 2]->put(job, slot.mapping);
  return Code::ok;
}

void CudaCopier::collect() {
  for (CudaNews& news : news_.take_all()) {
    if (const auto* copied = std::get_if<CudaCopied>(&news)) {
      const CopyCompletion& done = copied->done;
      const std::uint32_t lane = std::exchange(lane_of_ticket_.at(done.ticket), kNone32);
      HC_CHECK(lane != kNone32 && in_flight_ > 0);
      --in_flight_;
      if (lane != kAwaitLane) {
        --devices_[lane / 2].jobs[lane % 2];
      }
      completions_.push_back(done);
    } else if (auto* opened = std::get_if<CudaOpened>(&news)) {
      take(*opened);
    } else if (const auto* closed = std::get_if<CudaClosed>(&news)) {
      Slot& slot = slots_.at(closed->id);
      HC_CHECK(slot.taken && slot.closing);
      if (slot.ticket != 0) {
        closed_.push_back(slot.ticket);
      }
      slot = Slot{};
    } else if (const auto* lost = std::get_if<CudaLost>(&news)) {
      log_error("gpu.lost", {{"reason", lost->line}});
    } else {
      const auto& remark = std::get<CudaRemark>(news);
      log_info(remark.event.c_str(), {{"reason", remark.line}});
    }
  }
}

void CudaCopier::poll(std::vector<CopyCompletion>& out) {
  collect();
  out.insert(out.end(), completions_.begin(), completions_.end());
  completions_.clear();
}

std::uint32_t CudaCopier::place_of(const std::shared_ptr<CudaDevice>& device) {
  for (std::uint32_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].device == device) {
      return i;
    }
  }
  if (devices_.size() == kCudaDevicesMax) {
    return kNone32;
  }
  Device added;
  added.device = device;
  for (int in = 0; in < 2; ++in) {
    added.lanes[in] =
        std::make_unique<CudaLane>(LaneOptions{device, &keeper_->registry(), in == 1}, sink_);
  }
  devices_.push_back(std::move(added));
  return static_cast<std::uint32_t>(devices_.size() - 1);
}

void CudaCopier::take(CudaOpened& opened) {
  Slot& slot = slots_.at(opened.id);
  HC_CHECK(slot.taken && slot.mapping == nullptr);
  DeviceOpened out{opened.ticket, opened.id, false, Code::ok, {}, std::move(opened.spent)};
  const std::uint32_t device =
      opened.mapping == nullptr ? kNone32 : place_of(opened.mapping->device);
  if (device == kNone32) {
    const Error error =
        opened.mapping == nullptr
            ? opened.error
            : make_error(Code::no_space, std::to_string(kCudaDevicesMax) + " devices are in use");
    out.mapping = kHostMapping;
    out.code = error.code;
    out.text = error.message();
    slot.closing = opened.mapping != nullptr;  // then it is heard of once more
    slot.taken = slot.closing;
    opened.mapping.reset();
  } else {
    slot.device = device;
    slot.mapping = std::move(opened.mapping);
    out.has_events = !slot.mapping->events.empty();
  }
  opened_.push_back(std::move(out));
}

void CudaCopier::open(std::uint64_t ticket, DeviceExport wanted) {
  const auto free =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.taken; });
  const auto id = static_cast<MappingId>(free - slots_.begin());
  if (free == slots_.end()) {
    slots_.emplace_back();
  }
  slots_[id].taken = true;
  keeper_->open(ticket, id, std::move(wanted));
}

// What `poll` has met: it is called in every turn.
void CudaCopier::poll_opened(std::vector<DeviceOpened>& out) {
  std::move(opened_.begin(), opened_.end(), std::back_inserter(out));
  opened_.clear();
}

void CudaCopier::close(MappingId mapping, std::uint64_t ticket) {
  Slot& slot = slots_.at(mapping);
  HC_CHECK(slot.mapping != nullptr);
  for (const auto& lane : devices_[slot.device].lanes) {
    lane->cancel_awaits(slot.mapping);
  }
  slot.closing = true;
  slot.ticket = ticket;
  slot.mapping.reset();
  HC_FAILPOINT(gpu_mapping_let_go);
}

void CudaCopier::poll_closed(std::vector<std::uint64_t>& tickets) {
  tickets.insert(tickets.end(), closed_.begin(), closed_.end());
  closed_.clear();
}

void CudaCopier::add_memory(std::span<std::uint8_t> arena, std::uint32_t frame_bytes) {
  keeper_->add_memory(arena, frame_bytes);
}

void CudaCopier::drop_memory(std::span<std::uint8_t> arena) { keeper_->drop_memory(arena); }

std::vector<CudaDeviceLine> CudaCopier::devices() const {
  std::vector<CudaDeviceLine> lines;
  for (const Device& at : devices_) {
    const CudaDevice::Facts& facts = at.device->facts();
    lines.push_back({uuid_text(facts.uuid), facts.name, facts.pci, at.device->is_lost(),
                     at.device->context_bytes(),
                     direction_of(at.lanes[0]->counters()),
                     direction_of(at.lanes[1]->counters())});
  }
  return lines;
}

}  // namespace hc
