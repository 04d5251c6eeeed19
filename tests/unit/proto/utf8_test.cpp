// SPDX-License-Identifier: Apache-2.0
// utf8_test: what is UTF-8 and what is not, at every border of the encoding.
#include "proto/utf8.h"

#include <string>

#include "support/catch.h"

namespace hc::test {

TEST_CASE("Texts that are UTF-8") {
  const auto* const text = GENERATE("", "plain", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80",
                                    "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
                                    "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "a\xC3\xA4z");
  CHECK(is_utf8(text));
}

TEST_CASE("Texts that are not UTF-8") {
  const auto* const text = GENERATE("\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41",
                                    "\xC2\xC0", "\xE0\x9F\xBF", "\xE0\xA0", "\xED\xA0\x80",
                                    "\xF0\x8F\xBF\xBF", "\xF0\x90\x80", "\xF4\x90\x80\x80",
                                    "\xF5\x80\x80\x80", "\xFF", "ok\xE2\x82");
  CHECK_FALSE(is_utf8(text));
}

}  // namespace hc::test
