// SPDX-License-Identifier: Apache-2.0
// request_rules_test: flags of each verb, and the payload bytes of a page.
#include "proto/request_rules.h"

#include "support/catch.h"

namespace hc::test {

TEST_CASE("Flags of a verb are its own") {
  CHECK(flags_of(Verb::store) == (kFlagKeepLease | kFlagEveryAck | kFlagAwaitEvent));
  CHECK(flags_of(Verb::load) == (kFlagMaxPrefix | kFlagAwaitEvent));
  for (const Verb verb : {Verb::reload, Verb::pin, Verb::release, Verb::free_object, Verb::flush,
                          Verb::cancel}) {
    CHECK(flags_of(verb) == 0);
  }
}

TEST_CASE("A page counts the kinds that take part, owned ones on their owner only") {
  SpaceDescriptor space;
  space.kinds = {{"kv", 100, Placement::sharded, HitPolicy::all_pages, 0},
                 {"index", 20, Placement::replicated, HitPolicy::all_pages, 0},
                 {"state", 3, Placement::owned, HitPolicy::all_pages, 0}};
  CHECK(page_payload_bytes(space, 0, 1, 1) == 123);
  CHECK(page_payload_bytes(space, 0, 1, 2) == 120);
  CHECK(page_payload_bytes(space, 0b010, 1, 1) == 20);
  CHECK(page_payload_bytes(space, 0b100, 1, 2) == 0);
}

}  // namespace hc::test
