// SPDX-License-Identifier: Apache-2.0
// log_test: what a line looks like on standard error.
#include "daemon/log/log.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
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

// Points standard error at `fd` for its lifetime.
class StderrTo {
 public:
  explicit StderrTo(int fd) : saved_(::dup(STDERR_FILENO)) {
    REQUIRE(::dup2(fd, STDERR_FILENO) == STDERR_FILENO);
  }
  StderrTo(const StderrTo&) = delete;
  StderrTo& operator=(const StderrTo&) = delete;
  ~StderrTo() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

struct Ends {
  int read;
  int write;
};

Ends pipe_ends() {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  return {ends[0], ends[1]};
}

Ends socket_ends() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {ends[0], ends[1]};
}

void set_blocking(int fd, bool blocking) {
  const int flags = ::fcntl(fd, F_GETFL);
  REQUIRE(::fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0);
}

// Until not one byte fits, and then the descriptor blocks again.
void fill(int fd) {
  set_blocking(fd, false);
  const std::string block(PIPE_BUF, '.');
  for (const std::size_t size : {block.size(), std::size_t{1}}) {
    while (::write(fd, block.data(), size) > 0) {
    }
    REQUIRE(errno == EAGAIN);
  }
  set_blocking(fd, true);
}

std::string drained(int fd) {
  set_blocking(fd, false);
  std::string text;
  std::array<char, 4096> block{};
  for (ssize_t got = 0; (got = ::read(fd, block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

TEST_CASE("a reader that stopped costs lines and no time, and the next line says how many") {
  log_start(LogLevel::info, true);
  const bool socket = GENERATE(false, true);
  const Ends ends = socket ? socket_ends() : pipe_ends();
  fill(ends.write);
  const int flags = ::fcntl(ends.write, F_GETFL);
  std::string before;
  std::string after;

  {
    const StderrTo redirected(ends.write);
    log_info("one");
    log_info("two");
    log_info("three");
    before = drained(ends.read);
    log_info("four");
    log_info("five");
    after = drained(ends.read);
  }

  CHECK(before.find_first_not_of('.') == std::string::npos);
  CHECK(after == "<4>warn log.dropped lines=3\n<6>info four\n<6>info five\n");
  CHECK(::fcntl(ends.write, F_GETFL) == flags);
  ::close(ends.read);
  ::close(ends.write);
}

TEST_CASE("a line that is longer than a pipe takes at once is cut and still one line") {
  log_start(LogLevel::info, true);

  const std::string text = captured([] {
    log_info("x", {{"long", std::string(2 * PIPE_BUF, 'a')}});
    log_info("y");
  });

  const std::size_t end = text.find('\n');
  REQUIRE(end == PIPE_BUF - 1);
  CHECK(text.substr(end - 4) == "a...\n<6>info y\n");
}

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
