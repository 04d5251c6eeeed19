// SPDX-License-Identifier: Apache-2.0
// private_daemon: fork, exec, and polling of its pidfd.
#include "client/ctl/private_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/ctl/admin_client.h"
#include "client/ctl/monotonic.h"

namespace hc {

namespace {

constexpr std::uint64_t kStartNs = 120 * kNsPerSecond;
constexpr std::uint64_t kStopMs = 60'000;
constexpr std::uint64_t kProbeMs = 2'000;
constexpr int kBetweenProbesMs = 20;

// Runs in the child.
[[noreturn]] void become_daemon(const PrivateDaemonOptions& options, const Interrupt& interrupt,
                                pid_t bench) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != bench) {
    ::_exit(127);
  }
  // A process group of its own: Ctrl-C is for the bench, which then stops the daemon in order.
  ::setpgid(0, 0);
  interrupt.restore_signals();
  const std::string log = options.folder + "/daemon.log";
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::unsetenv("NOTIFY_SOCKET");
  ::unsetenv("WATCHDOG_USEC");
  const std::string config = options.folder + "/hicached.toml";
  ::execlp(options.binary.c_str(), "hicached", "--config", config.c_str(), nullptr);
  const int error = errno;
  ::dprintf(STDERR_FILENO, "%s: can't be started: %s\n", options.binary.c_str(),
            std::strerror(error));
  ::_exit(127);
}

}  // namespace

std::string find_hicached(const std::string& given) {
  if (!given.empty()) {
    return given;
  }
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = self.parent_path() / "hicached";
  if (!error && ::access(beside.c_str(), X_OK) == 0) {
    return beside.string();
  }
  return "hicached";
}

std::string private_config(const PrivateDaemonOptions& options) {
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  // A TOML basic string escapes as JSON does.
  const auto text = [](const std::string& value) { return nlohmann::json(value).dump(); };
  return "[daemon]\nruntime_dir = " + text(options.folder) + "\n" + options.more_daemon +
         "\n[l2]\nl2_bytes = " + number(options.l2_bytes) +
         "\n\n[l3]\nvolume_dir = " + text(options.folder + "/volume") +
         "\nl3_bytes = " + number(options.l3_bytes) +
         "\nreserve_slots = " + number(options.reserve_slots) +
         "\ndisk_backend = " + text(options.disk_backend) +
         "\ncommit_interval_ms = " + number(options.commit_interval_ms) +
         "\nspill_policy = " + text(options.spill_policy) +
         "\n\n[cold_start]\nmode = \"load\"\nload_verify = " + text(options.load_verify) + "\n";
}

PrivateDaemon::~PrivateDaemon() { kill(); }

Result<void> PrivateDaemon::launch() {
  HC_CHECK(pid_ < 0);
  HC_TRY_VOID(write_config());
  return spawn();
}

Result<void> PrivateDaemon::start() {
  HC_TRY_VOID(launch());
  auto serving = await_serving();
  if (!serving) {
    kill();
  }
  return serving;
}

Result<void> PrivateDaemon::write_config() const {
  std::error_code error;
  std::filesystem::create_directory(options_.folder + "/volume", error);
  const std::string path = options_.folder + "/hicached.toml";
  std::ofstream file(path, std::ios::trunc);
  file << private_config(options_);
  file.flush();
  if (error || !file) {
    return make_error(Code::io_error, path + ": can't be written", error ? error.value() : errno);
  }
  return {};
}

Result<void> PrivateDaemon::spawn() {
  const pid_t bench = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return make_error(Code::io_error, "a process for the daemon", errno);
  }
  if (pid == 0) {
    become_daemon(options_, interrupt_, bench);
  }
  pid_ = pid;
  pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd_) {
    const int error = errno;
    kill();
    return make_error(Code::io_error, "pidfd_open", error);
  }
  return {};
}

Result<void> PrivateDaemon::await_serving() {
  const std::uint64_t deadline_ns = monotonic_ns() + kStartNs;
  while (monotonic_ns() < deadline_ns) {
    auto status = ask_daemon(admin_socket(), "status", nlohmann::json::object(), kProbeMs);
    if (status && status->value("state", std::string()) == "serving") {
      return {};
    }
    std::array<pollfd, 2> events{{{pidfd_.get(), POLLIN, 0}, {interrupt_.fd(), POLLIN, 0}}};
    static_cast<void>(::poll(events.data(), events.size(), kBetweenProbesMs));
    if (events[1].revents != 0) {
      return make_error(Code::cancelled, "interrupted");
    }
    if (events[0].revents != 0) {
      const int exit_status = reap();
      return make_error(Code::io_error, options_.binary + ": ended with status " +
                                            std::to_string(exit_status) + ": " + last_log_line());
    }
  }
  return make_error(Code::timed_out, options_.binary + ": does not serve after 120 s: " +
                                         last_log_line());
}

bool PrivateDaemon::ended_within(std::uint64_t timeout_ms) const {
  pollfd event{pidfd_.get(), POLLIN, 0};
  const std::uint64_t deadline_ns = monotonic_ns() + timeout_ms * kNsPerMs;
  for (std::uint64_t now_ns = monotonic_ns(); now_ns < deadline_ns; now_ns = monotonic_ns()) {
    const int left_ms = static_cast<int>((deadline_ns - now_ns) / kNsPerMs + 1);
    if (::poll(&event, 1, left_ms) > 0) {
      return true;
    }
  }
  return false;
}

int PrivateDaemon::reap() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  pidfd_.reset();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void PrivateDaemon::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    reap();
  }
}

Result<void> PrivateDaemon::stop() {
  if (pid_ <= 0) {
    return {};
  }
  ::kill(pid_, SIGTERM);
  if (!ended_within(kStopMs)) {
    kill();
    return make_error(Code::timed_out, "the daemon did not stop within 60 s");
  }
  const int status = reap();
  if (status != 0) {
    return make_error(Code::io_error, "the daemon stopped with status " + std::to_string(status) +
                                          ": " + last_log_line());
  }
  return {};
}

std::string PrivateDaemon::last_log_line() const {
  std::ifstream file(options_.folder + "/daemon.log");
  std::string line;
  std::string last = "it logged nothing";
  while (std::getline(file, line)) {
    if (!line.empty()) {
      last = line;
    }
  }
  return last;
}

}  // namespace hc
