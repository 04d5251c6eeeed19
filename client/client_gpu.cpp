// SPDX-License-Identifier: Apache-2.0
// client_gpu: device memory: its registration, and the copies that this process makes itself.
//
// The driver is asked without the mutex: it may take its time. Order of locks: export_mutex_,
// mutex_, those of the copier.
#include <algorithm>
#include <utility>

#include "client/argument_error.h"
#include "client/client.h"
#include "client/client_rank.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

// Of an attempt by IPC, after which copies of our own may still do.
bool may_copy_otherwise(Code code) {
  return code == Code::unsupported || code == Code::refused || code == Code::io_error;
}

}  // namespace

Result<void> Client::register_cuda_region(const hicache_cuda_region* region,
                                          std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, {1, kDeadlineMsMax}));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  const std::lock_guard exporting(export_mutex_);
  Lock lock(mutex_);
  HC_TRY_VOID(check_cuda_region(region, plan_.space));
  if (region->transfer == HICACHE_TRANSFER_RANK && !plan_.rank_copies) {
    return make_error(Code::bad_argument,
                      "region.transfer = HICACHE_TRANSFER_RANK: the client must be opened with "
                      "HICACHE_OPEN_RANK_COPIES");
  }
  HC_TRY_VOID(check_region_number_is_free(region->region));
  HC_TRY_VOID(check_attached());
  if (exporter_ == nullptr) {
    lock.unlock();
    auto opened = DeviceExporter::open(region->address);
    lock.lock();
    HC_TRY(opened);
    exporter_ = std::move(*opened);
  }
  if (region->transfer == HICACHE_TRANSFER_RANK) {
    return register_rank(lock, *region, deadline, "asked for");
  }
  auto registered = register_ipc(lock, *region, deadline);
  const bool may_fall_back = region->transfer == HICACHE_TRANSFER_AUTO && plan_.rank_copies;
  if (!registered && may_fall_back && may_copy_otherwise(registered.error().code)) {
    return register_rank(lock, *region, deadline, registered.error().message());
  }
  return registered;
}

Result<void> Client::register_ipc(Lock& lock, const hicache_cuda_region& region,
                                  Deadline deadline) {
  const std::shared_ptr<DeviceExporter> exporter = exporter_;
  lock.unlock();
  auto exported = exporter->export_region({region.address, region.size_bytes});
  lock.lock();
  HC_TRY(exported);
  HC_FAILPOINT(client_region_exported);
  auto plan = check_cuda_region(&region, plan_.space);
  HC_TRY(plan);
  RegionRequest& request = exported->request;
  request.region = plan->request.region;
  request.layout_count = plan->request.layout_count;
  request.rows = plan->request.rows;
  plan->events = exporter->event_handles();
  plan->chunks = std::move(exported->chunks);
  request.event_count = static_cast<std::uint32_t>(plan->events.size());
  plan->request = request;
  HC_TRY_VOID(check_region_number_is_free(region.region));
  HC_TRY_VOID(check_attached());
  return announce_region(lock, {std::move(*plan), std::move(exported->fds), nullptr}, deadline);
}

Result<void> Client::register_rank(Lock& lock, const hicache_cuda_region& region,
                                   Deadline deadline, const std::string& reason) {
  const std::shared_ptr<DeviceExporter> exporter = exporter_;
  lock.unlock();
  auto mapping = exporter->map_region({region.address, region.size_bytes});
  lock.lock();
  HC_TRY(mapping);
  auto plan = check_cuda_region(&region, plan_.space);
  HC_TRY(plan);
  plan->request.region_kind = static_cast<std::uint16_t>(RegionKind::rank);
  plan->reason = reason.substr(0, kReasonBytesMax);
  HC_TRY_VOID(check_region_number_is_free(region.region));
  HC_TRY_VOID(check_attached());
  if (rank_copier_ == nullptr) {
    rank_copier_ = std::make_unique<RankCopier>(
        exporter->device(), [this](std::uint64_t name, Code code) { rank_copied(name, code); });
    give_arenas();
    // From here on the daemon must tell the background thread of completions.
    static_cast<void>(session_->begin_wait(wait_flags()));
  }
  HC_FAILPOINT(client_region_mapped);
  return announce_region(lock, {std::move(*plan), {}, std::move(*mapping)}, deadline);
}

// Those of the session of the moment.
void Client::give_arenas() {
  if (rank_copier_ == nullptr || session_ == nullptr) {
    return;
  }
  std::vector<RankCopier::Arena> arenas;
  for (const ArenaView::Memory& memory : session_->arenas()->writable_memory()) {
    arenas.push_back({memory.bytes, memory.frame_bytes});
  }
  rank_copier_->add_arenas(std::move(arenas), session_->arenas());
}

// What an operation on device memory says to the daemon, or remembers for our own copies.
Result<void> Client::place_operation(Session::Submission& submission, const hicache_op& op) {
  const auto verb = static_cast<Verb>(submission.entry.verb);
  if (verb != Verb::store && verb != Verb::load) {
    return {};
  }
  const std::shared_ptr<const KnownRegion>& known = regions_.at(op.region).known;
  const bool awaits = (op.flags & HICACHE_AFTER_STREAM) != 0;
  submission.record.on_device = known->plan.is_cuda();
  if (awaits && !known->plan.is_cuda() && !known->plan.is_rank()) {
    return make_error(Code::bad_argument, "op.flags has HICACHE_AFTER_STREAM: op.region = " +
                                              std::to_string(op.region) + " must be GPU memory");
  }
  if (awaits && known->plan.is_cuda() && known->plan.events.empty()) {
    return make_error(Code::unsupported,
                      "op.flags has HICACHE_AFTER_STREAM: this device can't share events");
  }
  if (awaits) {
    submission.prepare = [exporter = exporter_, stream = op.stream](std::uint16_t slot) {
      return exporter->record(slot, stream);
    };
  }
  if (known->plan.is_rank()) {
    submission.entry.flags &= static_cast<std::uint8_t>(~kFlagAwaitEvent);
    auto by_rank = std::make_shared<RankOp>();
    by_rank->region = known;
    by_rank->to_device = verb == Verb::load;
    by_rank->awaits_event = awaits;
    for (const hicache_page& page : submission.pages) {
      by_rank->rows.push_back(page.row);
    }
    submission.record.by_rank = std::move(by_rank);
  }
  return {};
}

void Client::take_from_session(std::size_t max) {
  const bool broken = session_->take_completions(ready_, max, leases_) != Code::ok;
  bool sound = true;
  for (const Session::Prepared& prepared : session_->take_prepared()) {
    sound = start_rank_copies(prepared) && sound;
  }
  if ((broken || !sound) && !session_->closed()) {
    break_session(broken ? "the daemon sent a completion that nobody waits for"
                         : "the daemon named a frame that is not there");
  }
}

// False: the daemon names what can't be. Its word is not answered then.
bool Client::start_rank_copies(const Session::Prepared& prepared) {
  HC_FAILPOINT(client_prepared_taken);
  const RankOp& op = *prepared.op;
  RankBatch batch;
  batch.name = op_id_of(prepared.name);
  batch.to_device = op.to_device;
  batch.awaits_event = op.awaits_event;
  batch.slot = prepared.name.slot;
  batch.mapping = op.region->mapping;
  batch.keeps = session_->arenas();
  std::size_t first_run = 0;
  for (const LayoutRequest& layout : op.region->plan.layouts) {
    const std::span runs = std::span(op.region->plan.runs).subspan(first_run, layout.run_count);
    first_run += layout.run_count;
    for (std::size_t page = 0; page < op.rows.size(); ++page) {
      const FrameRef& ref = prepared.frames.at(page * kKindsMax + layout.kind);
      if (ref.frame == kNone32) {
        continue;
      }
      RankCopy copy;
      copy.frame = session_->arenas()->writable(layout.kind, ref.frame);
      if (copy.frame == nullptr || rank_copier_ == nullptr) {
        return false;
      }
      for (const LayoutRun& run : runs) {
        copy.runs.push_back({run.offset_bytes + op.rows[page] * run.stride_bytes,
                             run.length_bytes});
        copy.payload_bytes += run.length_bytes;
      }
      batch.copies.push_back(std::move(copy));
    }
  }
  if (batch.copies.empty()) {
    return false;
  }
  ++rank_copies_;
  rank_copier_->put(std::move(batch));
  HC_FAILPOINT(client_batch_queued);
  return true;
}

// On a thread of the copier. The daemon is told also when the session is over: it keeps the frames
// until it hears of it, or until this process is dead.
void Client::rank_copied(std::uint64_t name, Code code) {
  const Lock lock(mutex_);
  --rank_copies_;
  const OpName op = op_name_of(name);
  if (session_ != nullptr && session_->attachment() == op.attachment) {
    static_cast<void>(session_->say_copied(op, code));
    if (session_->closed()) {
      refuse_prepared();
      if (rank_copies_ == 0) {
        session_->detach(parting(), false);
      }
    }
  }
  changed_.notify_all();
}

// Of a session that is over: what the daemon has still told us of is not begun.
void Client::refuse_prepared() {
  static_cast<void>(session_->take_completions(ready_, kCompletionEntries, leases_));
  for (const Session::Prepared& prepared : session_->take_prepared()) {
    static_cast<void>(session_->say_copied(prepared.name, Code::cancelled));
  }
}

}  // namespace hc
