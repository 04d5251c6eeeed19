// SPDX-License-Identifier: Apache-2.0
// micro_limits: memcpy, memset, two ping-pongs and fdatasync.
#include "client/ctl/micro_limits.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "client/ctl/micro_figure.h"
#include "client/ctl/monotonic.h"
#include "proto/check.h"
#include "shm/shared_word.h"
#include "shm/unique_fd.h"

namespace hc {

namespace {

constexpr int kFill = 0x5A;
constexpr std::size_t kDirectAlign = 4096;

double rate(std::uint64_t bytes, std::uint64_t elapsed_ns) {
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<std::uint64_t>(
                                                elapsed_ns, 1));
}

Result<std::uint8_t*> map_memory_file(std::uint64_t size_bytes) {
  const UniqueFd fd(::memfd_create("cachectl-limit", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    return make_error(Code::io_error, "a memory file", errno);
  }
  void* const memory =
      ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    return make_error(Code::no_space, "a mapping of " + std::to_string(size_bytes) + " bytes",
                      errno);
  }
  return static_cast<std::uint8_t*>(memory);
}

// One word each way, on cache lines of their own.
struct PingPongWords {
  alignas(128) std::atomic<std::uint32_t> ping{0};
  alignas(128) std::atomic<std::uint32_t> pong{0};
};

void await(std::atomic<std::uint32_t>& word, std::uint32_t wanted, PingPong how) {
  for (std::uint32_t seen = word.load(std::memory_order_acquire); seen != wanted;
       seen = word.load(std::memory_order_acquire)) {
    if (how == PingPong::spin) {
      spin_pause();
    } else {
      ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
    }
  }
}

void send(std::atomic<std::uint32_t>& word, std::uint32_t value, PingPong how) {
  word.store(value, std::memory_order_release);
  if (how == PingPong::futex) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

[[noreturn]] void answer_pings(PingPongWords& words, PingPong how, std::uint32_t round_trips) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (std::uint32_t i = 1; i <= round_trips; ++i) {
    await(words.ping, i, how);
    send(words.pong, i, how);
  }
  ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<CopyBuffers>> CopyBuffers::make(std::uint64_t size_bytes) {
  std::unique_ptr<CopyBuffers> out(new CopyBuffers(size_bytes));
  for (std::uint8_t** buffer : {&out->from_, &out->to_}) {
    auto memory = map_memory_file(size_bytes);
    HC_TRY(memory);
    *buffer = *memory;
    std::memset(*buffer, kFill, size_bytes);
  }
  return out;
}

CopyBuffers::~CopyBuffers() {
  for (std::uint8_t* buffer : {from_, to_}) {
    if (buffer != nullptr) {
      ::munmap(buffer, size_bytes_);
    }
  }
}

double CopyBuffers::copy(std::uint32_t threads, std::uint64_t piece_bytes) {
  HC_CHECK(threads > 0 && piece_bytes > 0);
  const std::uint64_t begin_ns = monotonic_ns();
  std::atomic<std::uint64_t> next{0};
  const auto work = [&] {
    for (std::uint64_t at = next.fetch_add(piece_bytes); at < size_bytes_;
         at = next.fetch_add(piece_bytes)) {
      std::memcpy(to_ + at, from_ + at, std::min(piece_bytes, size_bytes_ - at));
    }
  };
  std::vector<std::thread> helpers;
  for (std::uint32_t i = 1; i < threads; ++i) {
    helpers.emplace_back(work);
  }
  work();
  for (std::thread& helper : helpers) {
    helper.join();
  }
  return rate(size_bytes_, monotonic_ns() - begin_ns);
}

Result<double> set_fresh_memory(std::uint64_t size_bytes) {
  auto memory = map_memory_file(size_bytes);
  HC_TRY(memory);
  const std::uint64_t begin_ns = monotonic_ns();
  std::memset(*memory, kFill, size_bytes);
  const double result = rate(size_bytes, monotonic_ns() - begin_ns);
  ::munmap(*memory, size_bytes);
  return result;
}

Result<double> ping_pong(PingPong how, std::uint32_t round_trips) {
  auto memory = map_memory_file(sizeof(PingPongWords));
  HC_TRY(memory);
  auto& words = *new (*memory) PingPongWords;
  const pid_t child = ::fork();
  if (child < 0) {
    return make_error(Code::io_error, "a process for the ping-pong", errno);
  }
  if (child == 0) {
    answer_pings(words, how, round_trips);
  }
  std::vector<double> elapsed_ns;
  for (std::uint32_t i = 1; i <= round_trips; ++i) {
    const std::uint64_t begin_ns = monotonic_ns();
    send(words.ping, i, how);
    await(words.pong, i, how);
    elapsed_ns.push_back(static_cast<double>(monotonic_ns() - begin_ns));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::munmap(*memory, sizeof(PingPongWords));
  return median(std::move(elapsed_ns));
}

Result<std::uint64_t> time_fdatasync(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) {
    return make_error(Code::io_error, path, errno);
  }
  const std::uint64_t begin_ns = monotonic_ns();
  if (::fdatasync(fd.get()) != 0) {
    return make_error(Code::io_error, path + ": fdatasync", errno);
  }
  return monotonic_ns() - begin_ns;
}

Result<RawStall> longest_stall(const RawWriter& writer) {
  HC_CHECK(writer.piece_bytes % kDirectAlign == 0 && writer.span_bytes >= writer.piece_bytes);
  const UniqueFd fd(::open(writer.file.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  const std::unique_ptr<std::uint8_t, void (*)(void*)> piece(
      static_cast<std::uint8_t*>(std::aligned_alloc(kDirectAlign, writer.piece_bytes)), std::free);
  if (!fd || !piece) {
    return make_error(Code::io_error, writer.file + ": open for direct writes", errno);
  }
  std::memset(piece.get(), kFill, writer.piece_bytes);
  const double period_ns = 1e9 / writer.pieces_per_s;
  const std::uint64_t begin_ns = monotonic_ns();
  std::uint64_t flushed_ns = begin_ns;
  std::uint64_t written_ns = 0;
  RawStall stall;
  std::uint64_t offset = 0;
  for (std::uint64_t i = 0; monotonic_ns() - begin_ns < writer.window_ns; ++i) {
    const auto due_ns = begin_ns + static_cast<std::uint64_t>(static_cast<double>(i) * period_ns);
    sleep_until_ns(due_ns);
    if (::pwrite(fd.get(), piece.get(), writer.piece_bytes, static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(writer.piece_bytes)) {
      return make_error(Code::io_error, writer.file + ": write", errno);
    }
    const std::uint64_t now_ns = monotonic_ns();
    stall.longest_ns = written_ns == 0 ? 0 : std::max(stall.longest_ns, now_ns - written_ns);
    written_ns = now_ns;
    offset = (offset + writer.piece_bytes) % writer.span_bytes;
    if (monotonic_ns() - flushed_ns >= writer.flush_interval_ns) {
      flushed_ns = monotonic_ns();
      if (::fdatasync(fd.get()) != 0) {
        return make_error(Code::io_error, writer.file + ": fdatasync", errno);
      }
      ++stall.flushes;
    }
  }
  return stall;
}

}  // namespace hc
