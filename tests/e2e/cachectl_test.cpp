// SPDX-License-Identifier: Apache-2.0
// cachectl_test: every command against a real daemon, against none, and with bad arguments.
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/ctl/admin_client.h"
#include "e2e/daemon_process.h"
#include "e2e/process.h"
#include "e2e/rank.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr int kExitNo = 1;
constexpr int kExitUnreachable = 69;

using Arguments = std::vector<std::string>;

std::string text_of(const Arguments& arguments) {
  std::string text = "cachectl";
  for (const std::string& argument : arguments) {
    text += " " + argument;
  }
  return text;
}

nlohmann::json json_of(const DaemonProcess& daemon, const Arguments& arguments) {
  const Outcome outcome = daemon.cachectl(arguments);
  INFO(text_of(arguments) << ": " << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  const nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(json.is_object());
  return json;
}

TEST_CASE("Each command with --json prints one JSON object that says what happened") {
  DaemonProcess daemon;
  daemon.start();
  {
    Rank rank({daemon.client_socket()});
    REQUIRE(rank.open() == HICACHE_OK);
    REQUIRE(rank.store({1, 10, 0}).code == HICACHE_OK);
    const nlohmann::json sessions = json_of(daemon, {"status", "--json"}).at("sessions");
    REQUIRE(sessions.size() == 1);
    CHECK(sessions[0].at("pid") == ::getpid());
    CHECK(sessions[0].at("regions") == 1);
    CHECK(sessions[0].at("group") == "engine");
  }

  CHECK(json_of(daemon, {"version", "--json"}).at("daemon").at("pid") == daemon.pid());
  CHECK(json_of(daemon, {"status", "--json"}).at("state") == "serving");
  CHECK(json_of(daemon, {"--json", "flush"}).is_object());
  const nlohmann::json stats = json_of(daemon, {"stats", "--json"});
  CHECK(stats.at("pages_stored") == 10);
  CHECK(stats.at("durable_parts") == 10);
  const nlohmann::json spaces = json_of(daemon, {"spaces", "--json"}).at("spaces");
  REQUIRE(spaces.size() == 1);
  CHECK(spaces[0].at("model") == "test-model");
  CHECK(spaces[0].at("durable_pages") == 10);
  CHECK(json_of(daemon, {"clear", "--yes", "--json"}).at("pages_dropped") == 10);
  CHECK(json_of(daemon, {"stats", "--json"}).at("pages") == 0);
}

TEST_CASE("Connections to the admin socket that nobody uses lock no operator out") {
  DaemonProcess daemon;
  daemon.start();
  std::vector<AdminClient> idle;
  for (int i = 0; i < 40; ++i) {
    auto connected = AdminClient::connect(daemon.admin_socket());
    REQUIRE(connected);
    idle.push_back(std::move(*connected));
    // An answer says that the daemon has taken this one.
    REQUIRE(idle.back().call("version", {}, 10'000));
  }

  CHECK(json_of(daemon, {"status", "--json"}).at("state") == "serving");
  CHECK_FALSE(idle.front().call("version", {}, 10'000));
  CHECK(idle.back().call("version", {}, 10'000));
}

// An answer of the daemon holds 64 of them.
TEST_CASE("Spaces are listed however many there are") {
  DaemonProcess daemon;
  daemon.start();
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  for (int version = 0; version < 150; ++version) {
    REQUIRE(hicache_space_switch(rank.client(), ("weights-" + std::to_string(version)).c_str(),
                                 kPatienceMs) == HICACHE_OK);
  }

  const nlohmann::json spaces = json_of(daemon, {"spaces", "--json"}).at("spaces");

  REQUIRE(spaces.size() == 151);
  for (std::size_t number = 1; number < spaces.size(); ++number) {
    CHECK(spaces[number].at("weight_version").get<std::string>() ==
          "weights-" + std::to_string(number - 1));
  }
}

TEST_CASE("A clear of the empty space is refused by the daemon itself: nothing is lost") {
  DaemonProcess daemon;
  daemon.start();
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  REQUIRE(rank.store({1, 4, 0}).code == HICACHE_OK);

  const auto answer = ask_daemon(daemon.admin_socket(), "clear", {{"space", ""}}, kPatienceMs);

  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == Code::bad_argument);
  CHECK(missing(answer.error().text, {"space = ''"}) == "");
  CHECK(rank.present({1, 4, 0}) == 4);
}

TEST_CASE("Each command prints for people within 80 columns") {
  DaemonProcess daemon;
  daemon.start();
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  REQUIRE(rank.store({1, 10, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  for (const std::string command : {"version", "status", "stats", "spaces", "flush"}) {
    const Outcome outcome = daemon.cachectl({command});

    INFO(outcome.out << outcome.err);
    CHECK(outcome.status == 0);
    CHECK_FALSE(outcome.out.empty());
    for (const std::string& line : lines_of(outcome.out)) {
      // A path is as long as it is; a bar of three bytes a cell counts by cells.
      const bool holds_path = line.find(daemon.volume()) != std::string::npos;
      std::size_t columns = 0;
      for (const char letter : line) {
        columns += (static_cast<unsigned char>(letter) & 0xC0U) != 0x80U ? 1U : 0U;
      }
      CHECK((holds_path || columns <= 80));
    }
  }
}

TEST_CASE("cold-start --wait and --json work on a daemon that holds") {
  DaemonOptions options;
  options.cold_start = "hold";
  DaemonProcess daemon(options);
  daemon.start();

  CHECK(json_of(daemon, {"status", "--json"}).at("state") == "holding");
  const Outcome outcome = daemon.cachectl({"cold-start", "load", "--wait", "--json"});
  CHECK(outcome.status == 0);
  CHECK(nlohmann::json::parse(outcome.out, nullptr, false).is_object());
  CHECK(json_of(daemon, {"status", "--json"}).at("state") == "serving");
}

struct Refusal {
  Arguments arguments;
  std::vector<std::string> parts;  // of the one line
};

void expect_refusals(const DaemonProcess& daemon, int status,
                     const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    const Outcome outcome = daemon.cachectl(refusal.arguments);

    INFO(text_of(refusal.arguments) << " -> " << outcome.status << " " << outcome.err);
    CHECK(outcome.status == status);
    CHECK(outcome.out.empty());
    CHECK(lines_of(outcome.err).size() == 1);
    CHECK(outcome.err.rfind("cachectl: ", 0) == 0);
    CHECK(missing(outcome.err, refusal.parts) == "");
  }
}

TEST_CASE("A wrong command line is one line and exit status 64") {
  DaemonProcess daemon;
  daemon.start();
  expect_refusals(
      daemon, kExitUsage,
      {{{}, {"ubcommand"}},
       {{"stat"}, {"stat"}},
       {{"status", "now"}, {"now"}},
       {{"status", "--jsom"}, {"--jsom"}},
       {{"--timeout", "0", "status"}, {"--timeout", "0"}},
       {{"--timeout", "soon", "status"}, {"--timeout", "soon"}},
       {{"--timeout", "600001", "status"}, {"--timeout", "600000"}},
       {{"cold-start"}, {"mode"}},
       {{"cold-start", "warm"}, {"warm", "load", "clear"}},
       {{"cold-start", "load", "clear"}, {"clear"}},
       {{"clear"}, {"--yes"}},
       {{"clear", "--space"}, {"--space"}},
       {{"bench"}, {"ubcommand"}},
       {{"bench", "replay"}, {"--l"}},
       {{"bench", "replay", "--synthetic", "users=2", "--l2", "many", "--l3", "1GiB"},
        {"--l2", "many"}},
       {{"bench", "replay", "--synthetic", "users=2", "--l2", "1GiB", "--l3", "-5"}, {"--l3"}},
       {{"bench", "replay", "--synthetic", "usrs=2", "--l2", "1GiB", "--l3", "1GiB"}, {"usrs"}},
       {{"bench", "replay", "--l2", "1GiB", "--l3", "1GiB"}, {"--trace"}},
       {{"clear", "--space", "xyz", "--yes"}, {"--space", "xyz", "a-f"}},
       {{"clear", "--space", "", "--yes"}, {"--space", "a-f"}},
       {{"bench", "replay", "--synthetic", "users=2", "--l2", "1GiB", "--l3", "1GiB", "--kinds",
         "kv"}, {"--kinds", "kv"}},
       {{"bench", "replay", "--synthetic", "users=2", "--l2", "1GiB", "--l3", "1GiB",
         "--placement", "here"}, {"--placement", "here"}},
       {{"bench", "replay", "--synthetic", "users=2", "--l2", "1GiB", "--l3", "1GiB", "--ranks",
         "0"}, {"--ranks", "0"}},
       {{"bench", "replay", "--synthetic", "users=2", "--l2", "1GiB", "--l3", "1GiB",
         "--disk-backend", "tape"}, {"--disk-backend", "tape"}}});
}

TEST_CASE("What can't be done is one line and exit status 1") {
  DaemonProcess daemon;
  daemon.start();
  expect_refusals(daemon, kExitNo,
                  {{{"cold-start", "load"}, {"holds"}},
                   {{"clear", "--space", "abcdef", "--yes"}, {"abcdef", "not known"}},
                   {{"bench", "replay", "--trace", "/nowhere/t", "--l2", "1GiB", "--l3", "1GiB"},
                    {"/nowhere/t"}}});
}

TEST_CASE("Without a daemon every command is one line with the socket, and exit status 69") {
  const TempDir folder;
  const std::string socket = folder.file("admin.sock");
  const std::vector<Arguments> commands{{"version"},          {"status"},
                                        {"stats"},            {"spaces"},
                                        {"flush"},            {"clear", "--yes"},
                                        {"cold-start", "load"}, {"status", "--json"}};
  for (const Arguments& command : commands) {
    Arguments arguments = command;
    arguments.insert(arguments.begin(), {"--socket", socket});

    const Outcome outcome = run_program("cachectl", arguments);

    INFO(text_of(command) << " -> " << outcome.err);
    CHECK(outcome.status == kExitUnreachable);
    CHECK(lines_of(outcome.err).size() == 1);
    CHECK(missing(outcome.err, {socket}) == "");
  }
  const Outcome by_environment =
      run_program("cachectl", {"status"}, {"HICACHE_ADMIN_SOCKET=" + socket});
  CHECK(by_environment.status == kExitUnreachable);
  CHECK(missing(by_environment.err, {socket}) == "");
}

TEST_CASE("A daemon that gives no answer in time is exit status 69 and names the socket") {
  DaemonProcess daemon;
  daemon.start();
  ::kill(daemon.pid(), SIGSTOP);

  const Outcome outcome = daemon.cachectl({"--timeout", "50", "status"});

  ::kill(daemon.pid(), SIGCONT);
  CHECK(outcome.status == kExitUnreachable);
  CHECK(lines_of(outcome.err).size() == 1);
  CHECK(missing(outcome.err, {daemon.admin_socket()}) == "");
}

TEST_CASE("bench replay checks every byte across a killed daemon, and cleans up") {
  const TempDir folder;
  const Outcome outcome = run_program(
      "cachectl",
      {"bench", "replay", "--synthetic", "users=6,turns=3,seed=7", "--ranks", "2", "--kinds",
       "kv=16384", "--l2", "40blocks", "--l3", "2000blocks", "--restart-at", "9", "--json",
       "--dir", folder.str()});

  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(report.is_object());
  CHECK(report.at("wrong_bytes") == 0);
  CHECK(report.at("lost_durable_pages") == 0);
  CHECK(report.at("hit_ratio").get<double>() > 0);
  CHECK(std::abs(report.at("hit_ratio").get<double>() -
                 report.at("model_hit_ratio").get<double>()) <= 0.005);
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace hc::test
