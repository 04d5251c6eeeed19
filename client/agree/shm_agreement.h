// SPDX-License-Identifier: Apache-2.0
// shm_agreement: ranks of one node, over the board that their daemon gives them.
#pragma once

#include "client/agree/agreement.h"
#include "shm/agreement_board.h"

namespace hc {

class ShmAgreement final : public Agreement {
 public:
  explicit ShmAgreement(AgreementBoard board) : board_(std::move(board)) {}
  ~ShmAgreement() override { board_.leave(); }
  ShmAgreement(const ShmAgreement&) = delete;
  ShmAgreement& operator=(const ShmAgreement&) = delete;

  Code reduce(AgreementVector& vector, const AgreementLimits& limits) override;

 private:
  AgreementBoard board_;
  bool has_failed_ = false;
};

}  // namespace hc
