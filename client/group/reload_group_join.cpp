// SPDX-License-Identifier: Apache-2.0
// reload_group_join: how the ranks meet, for the first time and again.
//
// What ranks know of each other when they meet is nothing. So all drop what was open and what is in
// L2, and compare what their trees say of L1: where that differs (a rank was started anew), all
// begin with nothing.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "client/agree/board_notice.h"
#include "client/agree/hook_agreement.h"
#include "client/agree/shm_agreement.h"
#include "client/argument_error.h"
#include "client/group/reload_group.h"

namespace hc {

namespace {

constexpr std::int64_t kNsPerMilli = 1'000'000;

std::uint32_t left_ms(Deadline deadline) {
  return static_cast<std::uint32_t>(std::max(poll_timeout_ms(deadline), 1));
}

}  // namespace

// A new board for every meeting: what an old one still holds is for nobody.
Result<AgreementBoard> ReloadGroup::next_board(Deadline deadline, std::uint64_t& number) {
  auto joined = client_.join_board(AgreementVector::kWords, left_ms(deadline));
  HC_TRY(joined);
  number = joined->board.number;
  const OpenPlan& plan = client_.plan();
  return AgreementBoard::attach(std::move(joined->fd), plan.rank, plan.world,
                                AgreementVector::kWords);
}

// An id serves one meeting. Ranks of one node get theirs through the daemon, under the number of
// the board that they meet on.
Result<NcclUniqueId> ReloadGroup::meeting_id(const NcclLibrary& library, std::uint64_t number,
                                             Deadline deadline) {
  NcclUniqueId id;
  if (plan_.nccl_id) {
    std::copy(plan_.nccl_id->begin(), plan_.nccl_id->end(), id.bytes);
    plan_.nccl_id.reset();
    return id;
  }
  const auto key = static_cast<std::uint32_t>(number);
  if (client_.plan().rank == 0) {
    auto made = library.make_unique_id();
    HC_TRY(made);
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(made->bytes);
    HC_TRY_VOID(client_.post(key, {bytes, sizeof made->bytes}, left_ms(deadline)));
    return made;
  }
  const auto got = client_.get(key, left_ms(deadline));
  HC_TRY(got);
  if (got->size() != sizeof id.bytes) {
    return make_error(Code::protocol, "the group's NCCL id has " + std::to_string(got->size()) +
                                          " bytes");
  }
  std::copy(got->begin(), got->end(), id.bytes);
  return id;
}

// On one node the board says who has died; between nodes the deadline is all there is.
Result<std::unique_ptr<Agreement>> ReloadGroup::meet_by_nccl(Deadline deadline) {
  auto driver = CudaDriver::load();
  HC_TRY(driver);
  auto library = NcclLibrary::load();
  HC_TRY(library);
  NcclOptions options;
  options.rank = client_.plan().rank;
  options.world = client_.plan().world;
  options.device = plan_.cuda_device;
  std::uint64_t number = 0;
  if (!plan_.is_apart) {
    auto board = next_board(deadline, number);
    HC_TRY(board);
    options.notice = std::make_shared<BoardNotice>(std::move(*board));
  } else if (!plan_.nccl_id) {
    return make_error(Code::bad_argument,
                      "options.nccl_id = NULL: must be given for each meeting of ranks on several "
                      "nodes (hicache_group_set_nccl_id)");
  }
  const auto id = meeting_id(*library, number, deadline);
  HC_TRY(id);
  options.id = *id;
  options.limits = {plan_.limits.spin_ns, left_ms(deadline) * kNsPerMilli};
  auto made = NcclAgreement::create(*driver, *library, options);
  HC_TRY(made);
  return std::unique_ptr<Agreement>(std::move(*made));
}

// What the engine reduces costs nothing; memory of the node costs a cache line, where a
// communicator takes hundreds of MiB of device memory. So NCCL is for ranks on several nodes, or
// when asked for.
Result<std::unique_ptr<Agreement>> ReloadGroup::meet(Deadline deadline) {
  if (kind_ == AgreementKind::automatic) {
    kind_ = plan_.reduce != nullptr ? AgreementKind::hook
            : plan_.is_apart        ? AgreementKind::nccl
                                    : AgreementKind::shm;
  }
  if (kind_ == AgreementKind::nccl) {
    return meet_by_nccl(deadline);
  }
  if (kind_ == AgreementKind::hook) {
    return std::unique_ptr<Agreement>(
        std::make_unique<HookAgreement>([this](std::span<std::int64_t> words) {
          return static_cast<Code>(
              plan_.reduce(plan_.reduce_context, words.data(), words.size()));
        }));
  }
  std::uint64_t number = 0;
  auto board = next_board(deadline, number);
  HC_TRY(board);
  return std::unique_ptr<Agreement>(std::make_unique<ShmAgreement>(std::move(*board)));
}

Code ReloadGroup::compare(Agreement& agreement, std::uint32_t timeout_ms, bool& is_equal,
                          Controller::Footing& footing) {
  AgreementVector vector;
  vector.set_pair(AgreementVector::kDigest,
                  engine_tree_ ? engine_tree_->l1_digest() : tree_.l1_digest());
  vector.set_pair(AgreementVector::kEpoch, static_cast<std::int64_t>(controller_.epoch()));
  vector.set_instances(controller_.instances());
  const Code code =
      agreement.reduce(vector, {plan_.limits.spin_ns, timeout_ms * kNsPerMilli});
  is_equal = vector.is_equal(AgreementVector::kDigest);
  footing.epoch = static_cast<std::uint64_t>(vector.highest(AgreementVector::kEpoch)) + 1;
  footing.instances = vector.highest_instances();
  return code;
}

// Ranks that meet on a board may have come for different ones: a rank that gave up makes the next.
Result<bool> ReloadGroup::join(std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, {1, kDeadlineMsMax}));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  agreement_.reset();
  note_ground();
  bool is_equal = false;
  Controller::Footing footing;
  std::unique_ptr<Agreement> met;
  while (true) {
    auto at = meet(deadline);
    const bool is_gone =
        !at && at.error().code == Code::disconnected && client_.ground().is_attached;
    if (!at && !is_gone) {
      return at.error();
    }
    Code code = Code::disconnected;
    if (at) {
      met = std::move(*at);
      code = compare(*met, left_ms(deadline), is_equal, footing);
    }
    if (code == Code::ok) {
      break;
    }
    met.reset();
    const bool is_late = std::chrono::steady_clock::now() >= deadline;
    if (kind_ == AgreementKind::hook || is_late) {
      return make_error(is_late ? Code::timed_out : code,
                        "not all " + std::to_string(client_.plan().world) +
                            " ranks of the group have come");
    }
  }
  if (!is_equal && engine_tree_) {
    plan_.engine_tree->clear(plan_.engine_tree->context);
  }
  if (!is_equal) {
    clear_tree();
  }
  controller_.restart(footing, decisions_);
  keep_for_next_tick();
  agreement_ = std::move(met);
  ++stats_.joins;
  return is_equal;
}

}  // namespace hc
