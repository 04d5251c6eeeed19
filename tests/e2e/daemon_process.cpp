// SPDX-License-Identifier: Apache-2.0
// daemon_process: configuration, readiness, and questions to the daemon and to the kernel.
#include "e2e/daemon_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "client/ctl/admin_client.h"
#include "proto/check.h"
#include "support/catch.h"
#include "support/paths.h"

namespace hc::test {

namespace {

UniqueFd notify_socket(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  HC_CHECK(static_cast<bool>(fd));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  HC_CHECK(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  HC_CHECK(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// Takes what the daemon has said; true if it said that it is ready.
bool take_ready(int fd) {
  bool ready = false;
  std::array<char, 1024> text{};
  for (ssize_t bytes = 0; (bytes = ::recv(fd, text.data(), text.size(), 0)) > 0;) {
    const std::string_view message(text.data(), static_cast<std::size_t>(bytes));
    ready = ready || message.find("READY=1") != std::string_view::npos;
  }
  return ready;
}

}  // namespace

DaemonProcess::DaemonProcess(DaemonOptions options)
    : options_(std::move(options)), notify_(notify_socket(folder_.file("notify.sock"))) {}

// In the short form, or the list behind everything else of the table.
std::string DaemonProcess::volumes_text() const {
  if (options_.volume_bytes.empty()) {
    return "volume_dir = \"" + volume() + "\"\nl3_bytes = " + std::to_string(options_.l3_bytes) +
           "\n";
  }
  std::string list = "volume = [";
  for (std::size_t i = 0; i < options_.volume_bytes.size(); ++i) {
    list += (i == 0 ? "{dir = \"" : ", {dir = \"") + volume(i) + "\", bytes = " +
            std::to_string(options_.volume_bytes[i]) + "}";
  }
  return list + "]\n";
}

std::string DaemonProcess::config_text() const {
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  return "[daemon]\nruntime_dir = \"" + folder_.file("run") + "\"\n[l2]\nl2_bytes = " +
         number(options_.l2_bytes) + "\nfamily_bytes = " + number(options_.family_bytes) +
         "\nhuge_pages = " + (options_.huge_pages ? "true" : "false") + "\n[l3]\n" +
         volumes_text() +
         (options_.small_index_bytes == 0 ? "" : "index_dir = \"" + index_dir() + "\"\n") +
         "missing_volume = \"" + options_.missing_volume +
         "\"\ndisk_backend = \"" + options_.disk_backend +
         "\"\nreserve_slots = " + number(options_.reserve_slots) +
         "\ncommit_interval_ms = " + number(options_.commit_interval_ms) +
         "\nio_timeout_ms = " + number(options_.io_timeout_ms) +
         "\nlock_wait_ms = " + number(options_.lock_wait_ms) +
         "\nspill_policy = \"" + options_.spill_policy + "\"\n[cold_start]\nmode = \"" +
         options_.cold_start + "\"\nload_verify = \"" + options_.load_verify +
         "\"\n[limits]\nsessions_max = " + number(options_.sessions_max) + "\n" +
         (options_.gpu_transfer.empty() ? ""
                                        : "[gpu]\ntransfer = \"" + options_.gpu_transfer + "\"\n");
}

std::string DaemonProcess::log() const {
  return read_text(folder_.file("log." + std::to_string(starts_)));
}

void DaemonProcess::spawn() {
  REQUIRE(!running());
  write_text(config_path(), config_text());
  take_ready(notify_.get());  // what an earlier process said late
  ++starts_;
  Command command;
  command.argv = {program(options_.program).string(), "--config", config_path()};
  command.environment = options_.environment;
  command.environment.push_back("NOTIFY_SOCKET=" + folder_.file("notify.sock"));
  command.err_path = folder_.file("log." + std::to_string(starts_));
  command.io_uring_errno = options_.io_uring_errno;
  command.locked_bytes_max = options_.locked_bytes_max;
  if (options_.small_index_bytes != 0) {
    std::filesystem::create_directories(index_dir());
    command.small_disk = index_dir();
    command.small_disk_bytes = options_.small_index_bytes;
  }
  process_ = std::make_unique<Process>(command);
}

void DaemonProcess::start() {
  begin_start();
  await_start();
}

void DaemonProcess::await_start() {
  if (!await_ready()) {
    FAIL("the daemon was killed\n" << log());
  }
}

bool DaemonProcess::was_killed() {
  if (!running() || !readable_within(process_->pidfd(), 0)) {
    return false;
  }
  const int status = process_->wait();
  if (status != -SIGKILL) {
    FAIL("the daemon ended with status " << status << "\n" << log());
  }
  return true;
}

bool DaemonProcess::start_unless_killed() {
  spawn();
  return await_ready();
}

bool DaemonProcess::await_ready() {
  const std::uint64_t end_ms = monotonic_ms() + kPatienceMs;
  while (monotonic_ms() < end_ms) {
    std::array<pollfd, 2> events{{{notify_.get(), POLLIN, 0}, {process_->pidfd(), POLLIN, 0}}};
    ::poll(events.data(), events.size(), kPatienceMs);
    if (take_ready(notify_.get())) {
      return true;
    }
    if (events[1].revents != 0) {
      break;
    }
  }
  const int status = process_->wait(1);
  if (status != -SIGKILL) {
    FAIL("the daemon did not get ready; status " << status << "\n" << log());
  }
  return false;
}

void DaemonProcess::start(const std::string& cold_start) {
  options_.cold_start = cold_start;
  start();
}

bool DaemonProcess::start_unheard() {
  spawn();
  const bool up =
      eventually([this] { return log().find("daemon.ready") != std::string::npos; });
  return up && take_ready(notify_.get());
}

int DaemonProcess::start_refused() {
  spawn();
  return process_->wait();
}

int DaemonProcess::stop() {
  begin_stop();
  return await_stop();
}

void DaemonProcess::kill_now() { process_->kill_now(); }

nlohmann::json DaemonProcess::ask(const std::string& verb,
                                  const nlohmann::json& arguments) const {
  auto client = AdminClient::connect(admin_socket());
  if (!client) {
    FAIL(verb << ": " << client.error().message() << "\n" << log());
  }
  auto answer = client->call(verb, arguments, kPatienceMs);
  if (!answer) {
    FAIL(verb << ": " << answer.error().message() << "\n" << log());
  }
  // Whoever counts the descriptors of the daemon next must not count this connection.
  if (!client->hang_up(kPatienceMs)) {
    FAIL(verb << ": the daemon did not close the connection\n" << log());
  }
  return *answer;
}

Outcome DaemonProcess::cachectl(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"--socket", admin_socket()});
  return run_program("cachectl", arguments);
}

std::size_t DaemonProcess::open_descriptors() const {
  std::size_t count = 0;
  const std::filesystem::path folder = "/proc/" + std::to_string(pid()) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += entry.path().empty() ? 0U : 1U;
  }
  return count;
}

std::size_t DaemonProcess::mappings() const {
  return lines_of(read_text("/proc/" + std::to_string(pid()) + "/maps")).size();
}

std::size_t DaemonProcess::shared_mappings() const {
  std::size_t count = 0;
  for (const std::string& line : lines_of(read_text("/proc/" + std::to_string(pid()) + "/maps"))) {
    count += line.find("memfd:") != std::string::npos ? 1U : 0U;
  }
  return count;
}

}  // namespace hc::test
