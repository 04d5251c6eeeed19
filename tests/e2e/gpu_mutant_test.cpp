// SPDX-License-Identifier: Apache-2.0
// gpu_mutant_test: the stories would see the small bugs of HC_GPU_MUTANTS (proto/test_hooks.h).
#include "e2e/gpu_stories.h"
#include "support/catch.h"

namespace hc::test {
namespace {

TEST_CASE("Each small bug of the copies is seen by its story") {
  for (const Story& story : gpu_stories()) {
    for (const std::string& mutant : story.mutants) {
      INFO(story.name << ": " << mutant);
      CHECK(told(story, mutant) == 1);
    }
  }
}

}  // namespace
}  // namespace hc::test
