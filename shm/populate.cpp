// SPDX-License-Identifier: Apache-2.0
// populate: madvise in pieces that threads take from one counter.
#include "shm/populate.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

// Kernels from 5.14 on.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace hc {
namespace {

// Small enough that a manager hears a sign of life between two of them, a multiple of a huge page.
constexpr std::uint64_t kPieceBytes = 32ULL << 20;
constexpr std::uint32_t kThreadsMax = 16;

// Returns 0 or an errno.
int populate_piece(std::uint8_t* memory, std::uint64_t size_bytes) {
  int result = 0;
  do {
    result = ::madvise(memory, size_bytes, MADV_POPULATE_WRITE);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

struct Progress {
  std::span<std::uint8_t> memory;
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> failed{0};

  void work(const std::function<void()>& on_piece) {
    while (failed.load() == 0) {
      const std::uint64_t at = next.fetch_add(kPieceBytes);
      if (at >= memory.size()) {
        return;
      }
      const std::uint64_t size_bytes = std::min<std::uint64_t>(kPieceBytes, memory.size() - at);
      if (const int error = populate_piece(memory.data() + at, size_bytes); error != 0) {
        failed.store(error);
      }
      if (on_piece) {
        on_piece();
      }
    }
  }
};

std::uint32_t thread_count(const PopulateOptions& options, std::uint64_t size_bytes) {
  const std::uint32_t wanted = options.threads != 0
                                   ? options.threads
                                   : std::max(1U, std::thread::hardware_concurrency());
  const std::uint64_t pieces = (size_bytes + kPieceBytes - 1) / kPieceBytes;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(wanted, 1, std::min<std::uint64_t>(pieces, kThreadsMax)));
}

}  // namespace

Result<void> populate_for_writing(std::span<std::uint8_t> memory, const PopulateOptions& options) {
  if (memory.empty()) {
    return {};
  }
  Progress progress;
  progress.memory = memory;
  std::vector<std::thread> helpers;
  for (std::uint32_t i = 1; i < thread_count(options, memory.size()); ++i) {
    helpers.emplace_back([&progress] { progress.work({}); });
  }
  progress.work(options.on_progress);
  for (std::thread& helper : helpers) {
    helper.join();
  }
  switch (const int error = progress.failed.load(); error) {
    case 0: return {};
    case EINVAL: return make_error(Code::unsupported, "populate memory", error);
    case ENOMEM:
    case EFAULT: return make_error(Code::no_space, "populate memory", error);
    default: return make_error(Code::io_error, "populate memory", error);
  }
}

}  // namespace hc
