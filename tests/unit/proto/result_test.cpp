// SPDX-License-Identifier: Apache-2.0
// result_test: errors as values: what they say, how they return early, and when they end us.
#include "proto/result.h"

#include <cerrno>
#include <memory>
#include <set>
#include <string>

#include "proto/status.h"
#include "support/catch.h"
#include "support/dies.h"

namespace hc::proto_test {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) {
    return make_error(Code::bad_argument, "number = " + std::to_string(number) + ": must be even");
  }
  return number / 2;
}

Result<int> quarter(int number) {
  auto first = half(number);
  HC_TRY(first);
  return half(*first);
}

Result<void> check_quarter(int number) {
  HC_TRY_VOID(quarter(number));
  return {};
}

}  // namespace

TEST_CASE("Every known code has a name of its own, and no other number is known") {
  std::set<std::string_view> names;
  std::int32_t known = 0;
  while (code_is_known(known)) {
    names.insert(code_name(static_cast<Code>(known)));
    ++known;
  }
  CHECK(known == static_cast<std::int32_t>(Code::not_durable) + 1);
  CHECK(names.size() == static_cast<std::size_t>(known));
  CHECK(names.count("unknown") == 0);
  CHECK(code_name(static_cast<Code>(known)) == "unknown");
  CHECK_FALSE(code_is_known(-1));
}

TEST_CASE("Codes keep their numbers, which are part of the protocol") {
  CHECK(static_cast<std::int32_t>(Code::ok) == 0);
  CHECK(static_cast<std::int32_t>(Code::not_found) == 1);
  CHECK(static_cast<std::int32_t>(Code::busy) == 2);
  CHECK(static_cast<std::int32_t>(Code::no_space) == 3);
  CHECK(static_cast<std::int32_t>(Code::bad_argument) == 4);
  CHECK(static_cast<std::int32_t>(Code::not_ready) == 5);
  CHECK(static_cast<std::int32_t>(Code::disconnected) == 6);
  CHECK(static_cast<std::int32_t>(Code::timed_out) == 7);
  CHECK(static_cast<std::int32_t>(Code::cancelled) == 8);
  CHECK(static_cast<std::int32_t>(Code::retry) == 9);
  CHECK(static_cast<std::int32_t>(Code::io_error) == 10);
  CHECK(static_cast<std::int32_t>(Code::corrupt) == 11);
  CHECK(static_cast<std::int32_t>(Code::refused) == 12);
  CHECK(static_cast<std::int32_t>(Code::superseded) == 13);
  CHECK(static_cast<std::int32_t>(Code::unsupported) == 14);
  CHECK(static_cast<std::int32_t>(Code::memory_fault) == 15);
  CHECK(static_cast<std::int32_t>(Code::protocol) == 16);
  CHECK(static_cast<std::int32_t>(Code::not_durable) == 17);
}

TEST_CASE("An error says its text, or its code without one, and the system's reason") {
  CHECK(make_error(Code::busy, "").message() == "busy");
  CHECK(make_error(Code::busy, "all slots taken").message() == "all slots taken");
  CHECK(make_error(Code::io_error, "slab 3", ENOSPC).message() ==
        "slab 3: No space left on device");
}

TEST_CASE("The first error returns early and keeps its line") {
  CHECK(*quarter(12) == 3);
  CHECK(check_quarter(12));
  CHECK(quarter(7).error().message() == "number = 7: must be even");
  CHECK(quarter(6).error().message() == "number = 3: must be even");
  CHECK(check_quarter(6).error().message() == "number = 3: must be even");
}

TEST_CASE("A value moves out of its result") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = *std::move(result);
  CHECK(*taken == 7);
}

TEST_CASE("Taking the value of an error or the error of a value is our own error and ends us") {
  CHECK(test::dies_by_check([] { (void)half(1).value(); }));
  CHECK(test::dies_by_check([] { (void)half(2).error(); }));
  CHECK(test::dies_by_check([] { (void)Result<void>().error(); }));
}

}  // namespace hc::proto_test
