// SPDX-License-Identifier: Apache-2.0
// commands_test: what each command asks the daemon for, and its exit status.
//
// Covers client/ctl/read_command.cpp, client/ctl/flush_command.cpp, client/ctl/clear_command.cpp,
// client/ctl/cold_start_command.cpp and client/ctl/bench_command.cpp.
#include "client/ctl/commands.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "unit/client/ctl/fake_daemon.h"

namespace hc {

namespace {

using nlohmann::json;
using test::FakeAnswer;
using test::FakeDaemon;

CommandContext context_of(const FakeDaemon& daemon) {
  CommandContext context;
  context.socket = daemon.path();
  return context;
}

// What a piece of code writes to a stream of this process.
template <typename Code>
std::string captured(std::FILE* stream, Code&& code) {
  std::fflush(stream);
  std::FILE* const file = std::tmpfile();
  const int saved = ::dup(::fileno(stream));
  ::dup2(::fileno(file), ::fileno(stream));
  code();
  std::fflush(stream);
  ::dup2(saved, ::fileno(stream));
  ::close(saved);
  std::string text;
  std::rewind(file);
  for (int letter = std::fgetc(file); letter != EOF; letter = std::fgetc(file)) {
    text.push_back(static_cast<char>(letter));
  }
  std::fclose(file);
  return text;
}

FakeAnswer empty_answer(const json&) { return {}; }

}  // namespace

TEST_CASE("each read command asks for its verb and prints the answer as JSON", "[ctl]") {
  struct Case {
    const char* verb;
    int (*run)(const CommandContext&);
  };
  const Case at = GENERATE(Case{"status", run_status}, Case{"stats", run_stats},
                           Case{"spaces", run_spaces}, Case{"flush", run_flush},
                           Case{"version", run_version});
  FakeDaemon daemon([](const json&) { return FakeAnswer{Code::ok, R"({"x": 1})"}; });
  CommandContext context = context_of(daemon);
  context.json = true;
  int status = -1;

  const std::string text = captured(stdout, [&] { status = at.run(context); });

  CHECK(status == kExitOk);
  CHECK(daemon.questions().at(0).at("verb") == at.verb);
  CHECK(json::parse(text).dump().find("\"x\":1") != std::string::npos);
}

TEST_CASE("without a daemon every command ends with 69 and one line naming the socket", "[ctl]") {
  CommandContext context;
  context.socket = "/nonexistent/admin.sock";
  struct Case {
    int (*run)(const CommandContext&);
  };
  const Case at = GENERATE(
      Case{run_status}, Case{run_stats}, Case{run_spaces}, Case{run_flush}, Case{run_version},
      Case{[](const CommandContext& to) { return run_cold_start(to, {"load", false}); }},
      Case{[](const CommandContext& to) { return run_cold_start(to, {"load", true}); }},
      Case{[](const CommandContext& to) { return run_clear(to, {std::nullopt, true}); }});
  int status = -1;

  const std::string line = captured(
      stderr, [&] { captured(stdout, [&] { status = at.run(context); }); });

  CHECK(status == kExitUnreachable);
  CHECK(line.find("cachectl: /nonexistent/admin.sock: ") == 0);
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
}

TEST_CASE("a daemon that says no ends a command with 1 and its line", "[ctl]") {
  FakeDaemon daemon([](const json&) { return FakeAnswer{Code::refused, "not now"}; });
  const CommandContext context = context_of(daemon);
  int status = -1;
  const std::string line = captured(stderr, [&] { status = run_status(context); });
  CHECK(status == kExitNo);
  CHECK(line == "cachectl: not now\n");
  captured(stderr, [&] { status = run_clear(context, {std::nullopt, true}); });
  CHECK(status == kExitNo);
}

TEST_CASE("a daemon that calls our question wrong is no error of usage", "[ctl]") {
  FakeDaemon daemon([](const json&) { return FakeAnswer{Code::bad_argument, "unknown verb"}; });
  int status = -1;
  captured(stderr, [&] { status = run_stats(context_of(daemon)); });
  CHECK(status == kExitNo);
}

TEST_CASE("clear sends the space, and says how many pages it dropped", "[ctl]") {
  FakeDaemon daemon([](const json&) { return FakeAnswer{Code::ok, R"({"pages_dropped": 1234})"}; });
  int status = -1;
  const std::string text =
      captured(stdout, [&] { status = run_clear(context_of(daemon), {"01ab", true}); });
  CHECK(status == kExitOk);
  CHECK(text == "1,234 pages dropped\n");
  CHECK(daemon.questions().at(0) == json{{"verb", "clear"}, {"space", "01ab"}});
}

TEST_CASE("clear refuses a space that is no hex, and needs --yes without a terminal", "[ctl]") {
  FakeDaemon daemon(empty_answer);
  const int null_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null_fd, STDIN_FILENO);
  ::close(null_fd);
  int status = -1;
  captured(stderr, [&] { status = run_clear(context_of(daemon), {"xyz", true}); });
  CHECK(status == kExitUsage);
  captured(stderr, [&] { status = run_clear(context_of(daemon), {"AB", true}); });
  CHECK(status == kExitUsage);
  captured(stderr, [&] { status = run_clear(context_of(daemon), {std::nullopt, false}); });
  CHECK(status == kExitUsage);
  CHECK(daemon.questions().empty());
}

TEST_CASE("cold-start sends its mode and reports the end", "[ctl]") {
  FakeDaemon daemon(empty_answer);
  int status = -1;
  const std::string text =
      captured(stdout, [&] { status = run_cold_start(context_of(daemon), {"load", false}); });
  CHECK(status == kExitOk);
  CHECK(text == "cold start load done\n");
  CHECK(daemon.questions().at(0) == json{{"verb", "cold-start"}, {"mode", "load"}});
}

TEST_CASE("cold-start without --wait does not wait for the end", "[ctl]") {
  FakeDaemon daemon([](const json&) { return FakeAnswer{Code::ok, "", true}; });
  CommandContext context = context_of(daemon);
  context.timeout_ms = 1;
  int status = -1;
  const std::string line =
      captured(stderr, [&] { status = run_cold_start(context, {"load", false}); });
  CHECK(status == kExitOk);
  CHECK(line == "cachectl: cold start load goes on; see: cachectl status\n");
}

TEST_CASE("cold-start --wait asks for progress, and ends when the daemon goes away", "[ctl]") {
  std::atomic<int> asked{0};
  FakeDaemon daemon([&](const json& question) {
    if (question.at("verb") == "cold-start") {
      return FakeAnswer{Code::ok, "", true};
    }
    if (++asked > 2) {
      return FakeAnswer{Code::io_error, "gone"};
    }
    return FakeAnswer{Code::ok, R"({"state": "loading",
                                    "load": {"slots_scanned": 5, "slots_total": 10}})"};
  });
  int status = -1;
  const std::string lines =
      captured(stderr, [&] { status = run_cold_start(context_of(daemon), {"load", true}); });
  CHECK(status == kExitNo);
  CHECK(lines.find("cachectl: loading: 5 of 10 slots\n") == 0);
}

TEST_CASE("errors map to exit statuses", "[ctl]") {
  int status = -1;
  const auto status_of = [&](Code code) {
    captured(stderr, [&] { status = report_error(make_error(code, "x")); });
    return status;
  };
  CHECK(status_of(Code::disconnected) == kExitUnreachable);
  CHECK(status_of(Code::bad_argument) == kExitUsage);
  CHECK(status_of(Code::cancelled) == kExitInterrupted);
  CHECK(status_of(Code::io_error) == kExitNo);
}

TEST_CASE("a bench with a bad option starts nothing and ends with 64", "[ctl]") {
  CommandContext context;
  BenchOptions options;
  options.l2 = "many";
  options.l3 = "10blocks";
  options.synthetic = "users=1,turns=1";
  int status = -1;
  const std::string line =
      captured(stderr, [&] { status = run_bench_replay(context, options); });
  CHECK(status == kExitUsage);
  CHECK(line.find("cachectl: --l2: ") == 0);
}

}  // namespace hc
