// SPDX-License-Identifier: Apache-2.0
// board_notice: a death notice that the group's board gives: the daemon marks a member that has
// died, and a member that gives up leaves. For agreements that reduce elsewhere.
//
// Owner thread: the engine's scheduler. This rank leaves the board with the notice.
#pragma once

#include <utility>

#include "client/agree/nccl_agreement.h"
#include "shm/agreement_board.h"

namespace hc {

class BoardNotice final : public DeathNotice {
 public:
  explicit BoardNotice(AgreementBoard board) : board_(std::move(board)) {}
  ~BoardNotice() override { board_.leave(); }

  bool is_given() const override { return DeathNotice::is_given() || board_.has_gone(); }

 private:
  AgreementBoard board_;
};

}  // namespace hc
