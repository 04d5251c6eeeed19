// SPDX-License-Identifier: Apache-2.0
// index_child: both sides of the throw-away process.
#include "daemon/index/index_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "daemon/index/lmdb_env.h"
#include "daemon/index/lmdb_file.h"
#include "daemon/index/lmdb_tree_check.h"
#include "daemon/os/local_dir.h"

namespace hc {

namespace {

constexpr int kProgressMs = 200;
constexpr std::size_t kLineBytesMax = 512;
constexpr std::uint64_t kLimitMsMin = 30'000;
constexpr std::uint64_t kBytesPerMs = 4096;  // a slow disk, page by page

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) {
    return make_error(Code::unsupported, "pipe", errno);
  }
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Between fork and exec: calls that are safe in the child of a process with threads, nothing else.
[[noreturn]] void become(char* const* arguments, int line, int failure, pid_t parent) {
  // It ends with the thread that started it; a parent that has gone already gives no signal.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent &&
      ::dup2(line, STDOUT_FILENO) >= 0) {
    const rlimit no_core{0, 0};
    (void)::setrlimit(RLIMIT_CORE, &no_core);
    ::execv(arguments[0], arguments);
  }
  const int error = errno;
  (void)!::write(failure, &error, sizeof error);
  ::_exit(127);
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Reads until the other end is closed, which happens at the latest when the child has ended.
// False: the time is over.
bool read_line(int fd, const IndexChild& child, std::string& line) {
  const std::int64_t start = now_ms();
  while (static_cast<std::uint64_t>(now_ms() - start) < child.limit_ms) {
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(&entry, 1, kProgressMs);
    if (child.on_progress) {
      child.on_progress();
    }
    if (ready <= 0) {
      continue;
    }
    std::array<char, kLineBytesMax> bytes{};
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got == 0) {
      return true;
    }
    if (got > 0) {
      line.append(bytes.data(), std::min(static_cast<std::size_t>(got),
                                         kLineBytesMax - std::min(line.size(), kLineBytesMax)));
    }
  }
  return false;
}

int reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Result<std::string> judge(int status, const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  if (WIFSIGNALED(status)) {
    return make_error(Code::corrupt, "the check of the index ended by signal " +
                                         std::to_string(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != kIndexIsSound) {
    return make_error(Code::corrupt, line.empty() ? "the check of the index ended with code " +
                                                        std::to_string(WEXITSTATUS(status))
                                                  : line);
  }
  return line;
}

// What LMDB itself makes of the file: every row once, by its own cursors.
Result<std::uint64_t> walk_with_lmdb(const std::string& path) {
  auto env = LmdbEnv::open(path, 0, LmdbOpen::look);
  HC_TRY(env);
  std::uint64_t rows = 0;
  std::uint64_t wrong = 0;
  IndexVisitor visitor{[](const IndexSpace&) {}, [&](const IndexRow&) { ++rows; },
                       [&](const Error&) { ++wrong; }};
  HC_TRY_VOID(env->visit(visitor));
  return wrong == 0 ? Result<std::uint64_t>(rows)
                    : make_error(Code::corrupt, std::to_string(wrong) + " rows do not verify");
}

Result<std::string> check_file(const std::string& path) {
  HC_TRY_VOID(check_lmdb_file(path));
  const auto facts = check_lmdb_trees(path);
  HC_TRY(facts);
  const auto rows = walk_with_lmdb(path);
  HC_TRY(rows);
  if (*rows != facts->rows) {
    return make_error(Code::corrupt, "LMDB sees " + std::to_string(*rows) + " rows of " +
                                         std::to_string(facts->rows));
  }
  return std::to_string(facts->rows) + " rows in " + std::to_string(facts->used_bytes) + " bytes";
}

}  // namespace

std::uint64_t index_check_limit_ms(std::uint64_t used_bytes) {
  return kLimitMsMin + used_bytes / kBytesPerMs;
}

int run_index_check(const std::string& path) {
  const auto found = check_file(path);
  std::printf("%s\n", found ? found->c_str() : found.error().message().c_str());
  std::fflush(stdout);
  return found ? kIndexIsSound : kIndexIsDamaged;
}

Result<std::string> run_index_child(const IndexChild& child) {
  auto line = make_pipe();
  HC_TRY(line);
  auto failure = make_pipe();
  HC_TRY(failure);
  std::vector<std::string> words = child.command;
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return make_error(Code::unsupported, "fork", errno);
  }
  if (pid == 0) {
    become(arguments.data(), line->write.get(), failure->write.get(), parent);
  }
  line->write.reset();
  failure->write.reset();
  // Closed by the exec, or a number.
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(failure->read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    (void)reap(pid);
    return make_error(Code::unsupported, child.command.front(), error);
  }
  std::string text;
  if (!read_line(line->read.get(), child, text)) {
    (void)::kill(pid, SIGKILL);
    (void)reap(pid);
    return make_error(Code::corrupt, "the check of the index took more than " +
                                         std::to_string(child.limit_ms) + " ms");
  }
  return judge(reap(pid), text);
}

}  // namespace hc
