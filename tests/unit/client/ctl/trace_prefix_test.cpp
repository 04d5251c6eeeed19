// SPDX-License-Identifier: Apache-2.0
// trace_prefix_test: ids of prefixes are told from ids of single blocks.
#include "client/ctl/trace_prefix.h"

#include "support/catch.h"

namespace hc {

namespace {

using Ids = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("ids that always follow the same id are those of prefixes", "[ctl]") {
  Trace trace;
  trace.add({}, Ids{1, 2, 3});
  trace.add({}, Ids{1, 2, 4});
  trace.add({}, Ids{});
  trace.add({}, Ids{5});

  CHECK(check_prefixes("trace", trace));
}

TEST_CASE("the first block that follows two ids is named in one line", "[ctl]") {
  Trace trace;
  trace.add({}, Ids{1, 2, 3});
  trace.add({}, Ids{4, 2, 3});

  const auto checked = check_prefixes("trace.jsonl", trace);

  REQUIRE_FALSE(checked);
  CHECK(checked.error().code == Code::bad_argument);
  CHECK(checked.error().text ==
        "trace.jsonl: request 1: block 2 follows 4, but elsewhere follows 1; --reload needs ids of "
        "prefixes");
}

TEST_CASE("a block that begins one request and stands within another is no prefix", "[ctl]") {
  Trace trace;
  trace.add({}, Ids{1, 2});
  trace.add({}, Ids{2});

  const auto checked = check_prefixes("trace", trace);

  REQUIRE_FALSE(checked);
  CHECK(checked.error().text ==
        "trace: request 1: block 2 begins a request, but elsewhere follows 1; --reload needs ids "
        "of prefixes");
}

}  // namespace hc
