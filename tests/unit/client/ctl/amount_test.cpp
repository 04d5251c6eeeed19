// SPDX-License-Identifier: Apache-2.0
// amount_test: what a person may write for a size, and what is printed.
#include "client/ctl/amount.h"

#include "support/catch.h"

namespace hc {

TEST_CASE("an amount is a size with a unit or a number of blocks", "[ctl]") {
  CHECK(parse_amount("--l2", "65536")->value == 65536);
  CHECK_FALSE(parse_amount("--l2", "65536")->in_blocks);
  CHECK(parse_amount("--l2", "4GiB")->value == 4ULL << 30);
  CHECK(parse_amount("--l2", "3GB")->value == 3000000000ULL);
  CHECK(parse_amount("--l2", "5000blocks")->value == 5000);
  CHECK(parse_amount("--l2", "5000blocks")->in_blocks);
}

TEST_CASE("an amount that is not allowed is refused with field, value and rule", "[ctl]") {
  const std::string text = GENERATE("", "0", "0blocks", "-1", "4XB", "blocks", "1.5GiB", " 4",
                                    "99999999999999999999", "18446744073709551615KiB", "4 GiB");
  const auto amount = parse_amount("--l3", text);
  REQUIRE_FALSE(amount);
  CHECK(amount.error().code == Code::bad_argument);
  CHECK(amount.error().text.find("--l3: \"" + text + "\" is not allowed; ") == 0);
}

TEST_CASE("a count outside its range is refused with the range", "[ctl]") {
  CHECK(*parse_count("--ranks", "64", {1, 64}) == 64);
  for (const char* text : {"0", "65", "", "x", "1x"}) {
    const auto count = parse_count("--ranks", text, {1, 64});
    REQUIRE_FALSE(count);
    CHECK(count.error().text.find("from 1 to 64") != std::string::npos);
  }
}

TEST_CASE("numbers are printed for people", "[ctl]") {
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(4ULL << 30) == "4.0 GiB");
  CHECK(format_count(7) == "7");
  CHECK(format_count(182790) == "182,790");
  CHECK(format_count(1234567) == "1,234,567");
  CHECK(format_ratio(0.35514) == "0.3551");
  CHECK(format_percent(0.5) == "50.0 %");
  CHECK(format_nanoseconds(999) == "999 ns");
  CHECK(format_nanoseconds(4210) == "4.21 us");
  CHECK(format_nanoseconds(1500000) == "1.50 ms");
  CHECK(format_nanoseconds(2500000000) == "2.50 s");
}

}  // namespace hc
