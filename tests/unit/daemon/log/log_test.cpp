// SPDX-License-Identifier: Apache-2.0
// log_test: what a line looks like on standard error.
#include "daemon/log/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <regex>
#include <sstream>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace hc::test {

namespace {

// What `code` wrote to standard error.
std::string captured(const std::function<void()>& code) {
  const TempDir dir;
  const int saved = ::dup(STDERR_FILENO);
  const int file = ::open(dir.file("stderr").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::dup2(file, STDERR_FILENO) == STDERR_FILENO);
  ::close(file);
  code();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  std::ifstream in(dir.file("stderr"));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a line is time, level, event and fields") {
  log_start(LogLevel::info, false);

  const std::string text = captured([] {
    log_warn("disk.backend", {{"dir", "/data"}, {"threads", 8}, {"bytes", std::uint64_t{1} << 40}});
  });

  const std::regex wanted(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warn disk\.backend dir=/data threads=8 )"
      R"(bytes=1099511627776\n)");
  CHECK(std::regex_match(text, wanted));
}

TEST_CASE("under systemd a line starts with its priority and has no time") {
  log_start(LogLevel::debug, true);

  const std::string text = captured([] {
    log_line(LogLevel::debug, "a", {});
    log_info("b");
    log_warn("c");
    log_error("d");
  });

  CHECK(text == "<7>debug a\n<6>info b\n<4>warn c\n<3>error d\n");
}

TEST_CASE("a value can't break the line or forge a field") {
  log_start(LogLevel::info, true);

  const std::string text = captured([] {
    log_info("x", {{"plain", "a/b:c"},
                   {"space", "a b"},
                   {"line", "a\nb"},
                   {"forged", "1 y=2"},
                   {"quote", "a\"b\\"},
                   {"empty", ""},
                   {"braces", "{} %s {0}"}});
  });

  CHECK(text ==
        "<6>info x plain=a/b:c space=\"a b\" line=\"a\\x0ab\" forged=\"1 y=2\" "
        "quote=\"a\\\"b\\\\\" empty=\"\" braces=\"{} %s {0}\"\n");
}

TEST_CASE("lines below the level are not written") {
  log_start(LogLevel::error, true);

  CHECK(captured([] { log_warn("x"); }).empty());
  CHECK(captured([] { log_error("x"); }) == "<3>error x\n");
}

TEST_CASE("levels have names, and an unknown name is an error that lists them") {
  for (const auto level : {LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error}) {
    const auto parsed = parse_log_level(log_level_name(level));
    REQUIRE(parsed);
    CHECK(*parsed == level);
  }
  const auto parsed = parse_log_level("loud");
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().text == "log level 'loud': must be debug, info, warn or error");
}

}  // namespace hc::test
