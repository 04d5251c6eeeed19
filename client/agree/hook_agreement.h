// SPDX-License-Identifier: Apache-2.0
// hook_agreement: the engine reduces our words together with its own, by the collective that it
// runs in each tick anyway.
#pragma once

#include <functional>
#include <span>
#include <utility>

#include "client/agree/agreement.h"

namespace hc {

class HookAgreement final : public Agreement {
 public:
  // Replaces the words by their minimum over all ranks; keeps to the engine's own deadline.
  using Hook = std::function<Code(std::span<std::int64_t> words)>;
  explicit HookAgreement(Hook hook) : hook_(std::move(hook)) {}

  Code reduce(AgreementVector& vector, const AgreementLimits& /*limits*/) override {
    return hook_(vector.words);
  }

 private:
  Hook hook_;
};

}  // namespace hc
