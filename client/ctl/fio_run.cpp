// SPDX-License-Identifier: Apache-2.0
// fio_run: fork, exec, a pipe to read the report from.
#include "client/ctl/fio_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <vector>

#include "shm/unique_fd.h"

namespace hc {

namespace {

constexpr int kNotFound = 127;

Error broken(const std::string& program, const std::string& why) {
  return make_error(Code::io_error, program + ": " + why);
}

// Runs in the child; its report goes to `out`, its complaints to the same place.
[[noreturn]] void become_program(const std::vector<std::string>& words, int out,
                                 const Interrupt* interrupt) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (interrupt != nullptr) {
    interrupt->restore_signals();
  }
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  ::_exit(kNotFound);
}

int reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Everything that the program prints, until it closes its end. False: interrupted.
bool read_all(int fd, const Interrupt* interrupt, std::string& text) {
  std::array<char, 65536> block;
  for (;;) {
    std::array<pollfd, 2> events{
        {{fd, POLLIN, 0}, {interrupt == nullptr ? -1 : interrupt->fd(), POLLIN, 0}}};
    static_cast<void>(::poll(events.data(), events.size(), -1));
    if (events[1].revents != 0) {
      return false;
    }
    if (events[0].revents == 0) {
      continue;
    }
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got > 0) {
      text.append(block.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return true;
    }
  }
}

Result<std::string> run_program(const std::vector<std::string>& words,
                                const Interrupt* interrupt) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return make_error(Code::io_error, "a pipe", errno);
  }
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) {
    return make_error(Code::io_error, words.front() + ": a process", errno);
  }
  if (pid == 0) {
    become_program(words, out.get(), interrupt);
  }
  out.reset();
  std::string text;
  if (!read_all(in.get(), interrupt, text)) {
    ::kill(pid, SIGKILL);
    reap(pid);
    return make_error(Code::cancelled, "interrupted");
  }
  const int status = reap(pid);
  if (status == kNotFound) {
    return make_error(Code::not_found, words.front() + ": can't be run");
  }
  if (status != 0) {
    return broken(words.front(), "ended with status " + std::to_string(status) + ": " +
                                     text.substr(0, text.find('\n')));
  }
  return text;
}

double number(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

}  // namespace

Result<std::string> fio_version(const std::string& program) {
  auto text = run_program({program, "--version"}, nullptr);
  HC_TRY(text);
  return text->substr(0, text->find('\n'));
}

Result<FioResult> run_fio(const std::string& program, const FioJob& job,
                          const Interrupt& interrupt) {
  const auto text = run_program(
      {program, "--name=limit", "--filename=" + job.file, "--rw=" + job.rw, "--direct=1",
       "--ioengine=io_uring", "--thread", "--randrepeat=0", "--norandommap",
       "--iodepth=" + std::to_string(job.depth), "--bs=" + std::to_string(job.block_bytes),
       "--offset=" + std::to_string(job.offset_bytes), "--size=" + std::to_string(job.span_bytes),
       "--time_based", "--runtime=" + std::to_string(job.runtime_ms) + "ms",
       "--ramp_time=" + std::to_string(job.runtime_ms / 2) + "ms", "--output-format=json"},
      &interrupt);
  HC_TRY(text);
  return parse_fio_report(*text);
}

Result<FioResult> parse_fio_report(const std::string& text) {
  // fio prints warnings before the report.
  const std::size_t begin = text.find('{');
  const auto report = nlohmann::json::parse(
      begin == std::string::npos ? std::string() : text.substr(begin), nullptr, false);
  if (!report.is_object() || !report.contains("jobs") || !report["jobs"].is_array() ||
      report["jobs"].empty() || !report["jobs"][0].is_object()) {
    return broken("fio", "its report is not understood: " + text.substr(0, text.find('\n')));
  }
  const nlohmann::json& job = report["jobs"][0];
  FioResult result;
  for (const char* direction : {"read", "write"}) {
    if (job.contains(direction) && job[direction].is_object()) {
      result.bytes += number(job[direction], "io_bytes");
      result.requests += number(job[direction], "total_ios");
      result.elapsed_s += number(job[direction], "runtime") / 1000.0;
    }
  }
  result.cpu_s = (number(job, "usr_cpu") + number(job, "sys_cpu")) / 100.0 * result.elapsed_s;
  if (number(job, "error") != 0 || result.bytes <= 0 || result.elapsed_s <= 0) {
    return broken("fio", "moved nothing, error " + std::to_string(number(job, "error")));
  }
  return result;
}

}  // namespace hc
