// SPDX-License-Identifier: Apache-2.0
// process: fork, exec, and waiting on the pidfd.
#include "e2e/process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "proto/check.h"
#include "support/child.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace hc::test {

namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> whole_environment(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    // Ours would speak to the manager of the machine that runs the tests.
    const bool manager = text.rfind("NOTIFY_SOCKET=", 0) == 0 ||
                         text.rfind("WATCHDOG_", 0) == 0 || text.rfind("HICACHE_", 0) == 0 ||
                         text.rfind("INVOCATION_ID=", 0) == 0;
    if (!manager) {
      all.push_back(text);
    }
  }
  return all;
}

// The right to lock any amount would come back to root with the new program: its bound goes.
void lock_at_most(std::uint64_t bytes) {
  const rlimit limit{bytes, bytes};
  HC_CHECK(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  HC_CHECK(::prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0) == 0 || errno == EPERM);
}

int open_output(const std::string& path) {
  const std::string file = path.empty() ? "/dev/null" : path;
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  HC_CHECK(fd >= 0);
  return fd;
}

// Runs in a child, before exec.
bool mount_apart(const char* folder, const char* size) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder, "tmpfs", 0, size) == 0;
}

// Runs in the child, before exec.
void forbid_io_uring(std::uint32_t error) {
  std::array<sock_filter, 4> code{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_io_uring_setup},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(126);
  }
}

}  // namespace

bool can_mount() {
  return Child([] { return mount_apart("/tmp", "size=64k") ? 0 : 1; }).wait() == 0;
}

Process::Process(const Command& command) {
  const std::string disk_size = "size=" + std::to_string(command.small_disk_bytes);
  std::vector<std::string> argv = command.argv;
  std::vector<std::string> environment = whole_environment(command.environment);
  const std::vector<char*> argv_pointers = pointers_to(argv);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  const UniqueFd in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd out(open_output(command.out_path));
  const UniqueFd err(open_output(command.err_path));
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  HC_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(127);
    }
    std::signal(SIGPIPE, SIG_DFL);
    ::dup2(in.get(), STDIN_FILENO);
    ::dup2(out.get(), STDOUT_FILENO);
    ::dup2(err.get(), STDERR_FILENO);
    if (command.small_disk_bytes != 0 &&
        !mount_apart(command.small_disk.c_str(), disk_size.c_str())) {
      ::_exit(125);
    }
    if (command.locked_bytes_max != 0) {
      lock_at_most(command.locked_bytes_max);
    }
    if (command.io_uring_errno != 0) {
      forbid_io_uring(static_cast<std::uint32_t>(command.io_uring_errno));
    }
    ::execve(argv_pointers[0], argv_pointers.data(), environment_pointers.data());
    ::_exit(127);
  }
  pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0U)));
  HC_CHECK(static_cast<bool>(pidfd_));
}

Process::~Process() { kill_now(); }

void Process::signal(int number) const {
  HC_CHECK(pid_ > 0);
  ::kill(pid_, number);
}

int Process::reap() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  pidfd_.reset();
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int Process::wait(int timeout_ms) {
  HC_CHECK(pid_ > 0);
  if (!readable_within(pidfd_.get(), timeout_ms)) {
    kill_now();
    return kHung;
  }
  return reap();
}

void Process::kill_now() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    reap();
  }
}

Outcome run_program(const std::string& name, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment) {
  const TempDir folder;
  Command command;
  command.argv = arguments;
  command.argv.insert(command.argv.begin(), program(name).string());
  command.environment = environment;
  command.out_path = folder.file("out");
  command.err_path = folder.file("err");
  Process process(command);
  Outcome outcome;
  outcome.status = process.wait(3 * kPatienceMs);
  outcome.out = read_text(command.out_path);
  outcome.err = read_text(command.err_path);
  return outcome;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  HC_CHECK(static_cast<bool>(file));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> complaints(const std::string& err) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(err)) {
    const bool logged = line.size() > 24 && std::isdigit(static_cast<unsigned char>(line[0])) &&
                        line[10] == 'T' && line[23] == 'Z';
    if (!logged) {
      found.push_back(line);
    }
  }
  return found;
}

std::size_t occurrences(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

std::string missing(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return "'" + part + "' is not in: " + text;
    }
  }
  return "";
}

bool eventually(const std::function<bool()>& done, int limit_ms) {
  constexpr int kBetweenLooksMs = 2;
  const std::uint64_t end_ms = monotonic_ms() + static_cast<std::uint64_t>(limit_ms);
  while (!done()) {
    if (monotonic_ms() >= end_ms) {
      return false;
    }
    ::poll(nullptr, 0, kBetweenLooksMs);  // waits: what another process shows sends us no event
  }
  return true;
}

bool readable_within(int fd, int timeout_ms) {
  const std::uint64_t end_ms = monotonic_ms() + static_cast<std::uint64_t>(timeout_ms);
  pollfd entry{fd, POLLIN, 0};
  while (true) {
    const std::uint64_t now_ms = monotonic_ms();
    const int left_ms = now_ms < end_ms ? static_cast<int>(end_ms - now_ms) : 0;
    const int count = ::poll(&entry, 1, left_ms);
    if (count > 0) {
      return true;
    }
    if (count == 0 && left_ms == 0) {
      return false;
    }
  }
}

std::uint64_t monotonic_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

std::uint32_t kill_count(std::uint32_t normally) {
  const char* const wanted = std::getenv("HC_E2E_KILLS");
  const long count = wanted == nullptr ? 0 : std::strtol(wanted, nullptr, 10);
  return count > 0 ? static_cast<std::uint32_t>(count) : normally;
}

}  // namespace hc::test
