// SPDX-License-Identifier: Apache-2.0
// reload_group_join: how the ranks meet, for the first time and again.
//
// What ranks know of each other when they meet is nothing. So all drop what was open and what is in
// L2, and compare what their trees say of L1: where that differs (a rank was started anew), all
// begin with nothing.
#include <chrono>
#include <string>
#include <utility>

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
Result<std::unique_ptr<Agreement>> ReloadGroup::meet_on_board(std::uint32_t timeout_ms) {
  auto joined = client_.join_board(AgreementVector::kWords, timeout_ms);
  HC_TRY(joined);
  const OpenPlan& plan = client_.plan();
  auto board = AgreementBoard::attach(std::move(joined->fd), plan.rank, plan.world,
                                      AgreementVector::kWords);
  HC_TRY(board);
  return std::unique_ptr<Agreement>(std::make_unique<ShmAgreement>(std::move(*board)));
}

Result<std::unique_ptr<Agreement>> ReloadGroup::meet(std::uint32_t timeout_ms) {
  if (kind_ == AgreementKind::automatic) {
    kind_ = plan_.reduce != nullptr ? AgreementKind::hook : AgreementKind::shm;
  }
  if (kind_ == AgreementKind::hook) {
    return std::unique_ptr<Agreement>(
        std::make_unique<HookAgreement>([this](std::span<std::int64_t> words) {
          const hicache_code code =
              plan_.reduce(plan_.reduce_context, words.data(), words.size());
          return static_cast<Code>(code);
        }));
  }
  return meet_on_board(timeout_ms);
}

Code ReloadGroup::compare(Agreement& agreement, std::uint32_t timeout_ms, bool& is_equal,
                          std::uint64_t& epoch) {
  AgreementVector vector;
  vector.set_pair(AgreementVector::kDigest, tree_.l1_digest());
  vector.set_pair(AgreementVector::kEpoch, static_cast<std::int64_t>(controller_.epoch()));
  const Code code =
      agreement.reduce(vector, {plan_.limits.spin_ns, timeout_ms * kNsPerMilli});
  is_equal = vector.is_equal(AgreementVector::kDigest);
  epoch = static_cast<std::uint64_t>(vector.highest(AgreementVector::kEpoch));
  return code;
}

// Ranks that meet on a board may have come for different ones: a rank that gave up makes the next.
Result<bool> ReloadGroup::join(std::uint32_t timeout_ms) {
  HC_TRY_VOID(check_bounds("timeout_ms", timeout_ms, {1, kDeadlineMsMax}));
  const Deadline deadline = deadline_after_ms(timeout_ms);
  agreement_.reset();
  bool is_equal = false;
  std::uint64_t epoch = 0;
  std::unique_ptr<Agreement> met;
  while (true) {
    auto at = meet(left_ms(deadline));
    HC_TRY(at);
    met = std::move(*at);
    const Code code = compare(*met, left_ms(deadline), is_equal, epoch);
    if (code == Code::ok) {
      break;
    }
    const bool is_late = std::chrono::steady_clock::now() >= deadline;
    if (kind_ == AgreementKind::hook || is_late) {
      return make_error(is_late ? Code::timed_out : code,
                        "not all " + std::to_string(client_.plan().world) +
                            " ranks of the group have come");
    }
  }
  if (!is_equal) {
    tree_.clear();
  }
  controller_.restart(epoch + 1, decisions_);
  carry_out();
  decisions_.clear();
  agreement_ = std::move(met);
  ++stats_.joins;
  return is_equal;
}

}  // namespace hc
