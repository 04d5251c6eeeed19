// SPDX-License-Identifier: Apache-2.0
// fio_run_test: reading a report, and a program that can't be run.
#include "client/ctl/fio_run.h"

#include "support/catch.h"

namespace hc {

namespace {

// What fio 3.33 prints, cut to what is used; a warning stands before it.
constexpr const char* kReport = R"(fio: a warning
{
  "fio version" : "fio-3.33",
  "jobs" : [ {
    "jobname" : "limit", "error" : 0,
    "read" : { "io_bytes" : 2000000, "total_ios" : 500, "runtime" : 250 },
    "write" : { "io_bytes" : 0, "total_ios" : 0, "runtime" : 0 },
    "usr_cpu" : 4.0, "sys_cpu" : 16.0
  } ]
})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("a report of fio gives bytes, requests, seconds and processor time", "[ctl]") {
  const auto result = parse_fio_report(kReport);

  REQUIRE(result);
  CHECK(result->bytes == Approx(2e6));
  CHECK(result->requests == Approx(500));
  CHECK(result->elapsed_s == Approx(0.25));
  CHECK(result->cpu_s == Approx(0.05));
}

TEST_CASE("a report that is none, or of a run that failed, is an error", "[ctl]") {
  for (const std::string& text :
       {std::string(), std::string("fio: no such file\n"), std::string("{}"),
        std::string(R"({"jobs": []})"), std::string(R"({"jobs": [7]})"),
        replaced(kReport, "\"error\" : 0", "\"error\" : 28"),
        replaced(kReport, "2000000", "0"), replaced(kReport, "250", "0")}) {
    INFO(text);
    const auto result = parse_fio_report(text);
    REQUIRE_FALSE(result);
    CHECK(result.error().text.find('\n') == std::string::npos);
  }
}

TEST_CASE("a program that is not there is named", "[ctl]") {
  const auto version = fio_version("no-such-fio");
  REQUIRE_FALSE(version);
  CHECK(version.error().code == Code::not_found);
  CHECK(version.error().text.find("no-such-fio") != std::string::npos);
}

}  // namespace hc
