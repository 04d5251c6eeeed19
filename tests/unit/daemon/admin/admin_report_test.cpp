// SPDX-License-Identifier: Apache-2.0
// admin_report_test: requests of the admin socket, taken apart.
#include "daemon/admin/admin_server.h"
#include "support/catch.h"

namespace {

using namespace hc;

TEST_CASE("admin: a request with every field is taken apart") {
  const auto request = parse_admin_request(
      R"({"verb":"clear","mode":"load","space":"ab12","timeout_ms":5000})");

  REQUIRE(request);
  CHECK(request->verb == "clear");
  CHECK(request->mode == "load");
  CHECK(request->space == "ab12");
  CHECK(request->timeout_ms == 5000);
}

TEST_CASE("admin: what is no request is refused in one line that names the fault") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "JSON object"},
      {"[]", "JSON object"},
      {"{}", "verb"},
      {R"({"verb":7})", "verb"},
      {R"({"verb":"status","frobnicate":1})", "frobnicate"},
      {R"({"verb":"flush","timeout_ms":-1})", "timeout_ms"},
      {R"({"verb":"flush","timeout_ms":"soon"})", "timeout_ms"},
      {R"({"verb":"clear","space":7})", "space"},
      {"{\"verb\":\"status\"", "JSON object"},
  };
  for (const auto& [text, names] : cases) {
    const auto request = parse_admin_request(text);
    INFO(text);
    REQUIRE_FALSE(request);
    CHECK(request.error().code == Code::bad_argument);
    CHECK(request.error().text.find(names) != std::string::npos);
    CHECK(request.error().text.find('\n') == std::string::npos);
  }
}

TEST_CASE("admin: version and dropped pages are JSON with their numbers") {
  CHECK(report_version().find("\"protocol\":1") != std::string::npos);
  CHECK(report_dropped(17) == R"({"pages_dropped":17})");
}

}  // namespace
