// SPDX-License-Identifier: Apache-2.0
// admin_client_test: questions, answers, refusals and silence on the admin socket.
#include "client/ctl/admin_client.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "unit/client/ctl/fake_daemon.h"

namespace hc {

using nlohmann::json;
using test::FakeAnswer;
using test::FakeDaemon;

TEST_CASE("a question carries its verb and arguments, and the answer comes back", "[ctl]") {
  FakeDaemon daemon([](const json&) { return FakeAnswer{Code::ok, R"({"pages": 3})"}; });

  const auto answer = ask_daemon(daemon.path(), "clear", {{"space", "ab"}}, 10'000);

  REQUIRE(answer);
  CHECK(answer->at("pages") == 3);
  CHECK(daemon.questions().at(0) == json{{"verb", "clear"}, {"space", "ab"}});
}

TEST_CASE("a refusal keeps the daemon's code and its line", "[ctl]") {
  FakeDaemon daemon([](const json&) { return FakeAnswer{Code::refused, "not in hold"}; });

  const auto answer = ask_daemon(daemon.path(), "cold-start", json::object(), 10'000);

  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == Code::refused);
  CHECK(answer.error().text == "not in hold");
}

TEST_CASE("silence ends with the time limit and can be waited for again", "[ctl]") {
  FakeDaemon daemon([](const json&) { return FakeAnswer{Code::ok, "", true}; });
  auto client = AdminClient::connect(daemon.path());
  REQUIRE(client);
  REQUIRE(client->send("flush", json::object()));

  const auto answer = client->receive(1);

  REQUIRE_FALSE(answer);
  CHECK(client->waiting());
  CHECK(answer.error().code == Code::disconnected);
  CHECK(answer.error().text.find(daemon.path()) == 0);
}

TEST_CASE("an answer that is no object is a broken protocol", "[ctl]") {
  const char* text = GENERATE("", "[1]", "nonsense", "5");
  FakeDaemon daemon([&](const json&) { return FakeAnswer{Code::ok, text}; });
  const auto answer = ask_daemon(daemon.path(), "status", json::object(), 10'000);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == Code::protocol);
}

TEST_CASE("a socket that is not there is named", "[ctl]") {
  const auto answer = ask_daemon("/nonexistent/admin.sock", "status", json::object(), 10'000);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == Code::disconnected);
  CHECK(answer.error().message().find("/nonexistent/admin.sock") == 0);
}

TEST_CASE("a path that no socket can have is out of reach too", "[ctl]") {
  const auto answer = ask_daemon(std::string(200, 'x'), "status", json::object(), 10'000);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == Code::disconnected);
}

TEST_CASE("the environment may name the admin socket", "[ctl]") {
  ::setenv("HICACHE_ADMIN_SOCKET", "/somewhere/admin.sock", 1);
  CHECK(admin_socket_path() == "/somewhere/admin.sock");
  ::unsetenv("HICACHE_ADMIN_SOCKET");
  CHECK(admin_socket_path() == kDefaultAdminSocket);
}

}  // namespace hc
