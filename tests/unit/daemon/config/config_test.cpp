// SPDX-License-Identifier: Apache-2.0
// config_test: daemon/config/config.cpp, daemon/config/config_keys.cpp, daemon/config/size_text.cpp
#include "daemon/config/config.h"

#include <set>

#include "daemon/config/config_keys.h"
#include "daemon/config/size_text.h"
#include "support/catch.h"

namespace hc::test {

TEST_CASE("the defaults are valid") { CHECK(validate_config(Config{}).has_value()); }

TEST_CASE("a struct that was filled by hand is checked by the same rules") {
  Config config;
  config.sessions_max = 0;

  const auto checked = validate_config(config);

  REQUIRE_FALSE(checked);
  CHECK(checked.error().code == Code::bad_argument);
  CHECK(checked.error().text == "limits.sessions_max = 0: must be 1..256");
}

TEST_CASE("no key stands twice, and the tables are not interleaved") {
  std::set<std::string> seen;
  std::set<std::string> tables;
  std::string current;
  for (const ConfigKey& key : config_keys()) {
    CHECK(seen.insert(key_path(key)).second);
    if (current != key.table) {
      current = key.table;
      CHECK(tables.insert(current).second);
    }
  }
}

TEST_CASE("names of the choices go both ways") {
  for (const auto mode : {ColdStart::clear, ColdStart::load, ColdStart::hold}) {
    const auto parsed = parse_cold_start(cold_start_name(mode));
    REQUIRE(parsed);
    CHECK(*parsed == mode);
  }
  const auto unknown = parse_cold_start("warm");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().text == "cold start 'warm': must be clear, load or hold");
  CHECK(std::string(disk_backend_name(DiskBackend::uring)) == "uring");
}

TEST_CASE("sizes are read with and without units") {
  const auto [text, size] = GENERATE(table<std::string, std::uint64_t>({
      {"0", 0},
      {"1000000", 1'000'000},
      {"7B", 7},
      {"64GiB", 64ULL << 30},
      {"512 MiB", 512ULL << 20},
      {"1KiB", 1024},
      {"1KB", 1000},
      {"3TiB", 3ULL << 40},
      {"2GB", 2'000'000'000},
      {"1PiB", 1ULL << 50},
      {"2PB", 2'000'000'000'000'000},
      {"16777215TiB", 16777215ULL << 40},
      {"18446744073709551615", 0xFFFFFFFFFFFFFFFF},
  }));

  const auto parsed = parse_size(text);

  REQUIRE(parsed);
  CHECK(*parsed == size);
}

TEST_CASE("what is no size is refused") {
  const auto* text = GENERATE("", " ", "GiB", "-1", "+1", "1.5GiB", "1gib", "1 ", "1  GiB",
                              "1GiB ", "0x10", "16777216TiB", "16384PiB",
                              "18446744073709551616", "1G");

  const auto parsed = parse_size(text);

  CAPTURE(text);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == Code::bad_argument);
}

TEST_CASE("sizes are printed in the shortest exact form") {
  CHECK(format_size(0) == "0");
  CHECK(format_size(1000) == "1000");
  CHECK(format_size(4096) == "4KiB");
  CHECK(format_size(1536ULL << 20) == "1536MiB");
  CHECK(format_size(64ULL << 30) == "64GiB");
  CHECK(format_size(2ULL << 40) == "2TiB");
  CHECK(format_size(1ULL << 50) == "1PiB");
}

}  // namespace hc::test
