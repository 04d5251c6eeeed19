// SPDX-License-Identifier: Apache-2.0
// shm_agreement: one round of the board for each reduce.
#include "client/agree/shm_agreement.h"

#include "proto/check.h"

namespace hc {

// Who gives up must not let the others wait for it until their own time is up.
Code ShmAgreement::reduce(AgreementVector& vector, const AgreementLimits& limits) {
  HC_CHECK(!has_failed_);
  board_.tell(vector.words);
  const Code code = board_.take(vector.words, limits.spin_ns, limits.timeout_ns);
  if (code != Code::ok) {
    has_failed_ = true;
    board_.leave();
  }
  return code;
}

}  // namespace hc
