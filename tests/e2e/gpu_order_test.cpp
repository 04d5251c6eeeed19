// SPDX-License-Identifier: Apache-2.0
// gpu_order_test: what a rank stores is what its stream wrote, what it loads is there when it is
// told so.
#include "e2e/gpu_stories.h"
#include "support/catch.h"

namespace hc::test {
namespace {

TEST_CASE("What a rank's stream wrote is what is stored, and what is loaded is there") {
  for (const Story& story : gpu_stories()) {
    INFO(story.name);
    CHECK(told(story, "") == 0);
  }
}

}  // namespace
}  // namespace hc::test
