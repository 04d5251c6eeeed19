// SPDX-License-Identifier: Apache-2.0
// memory_file: creating, sealing and judging memory files.
#include "shm/memory_file.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>

#include "proto/limits.h"

// Not in the C library of Debian 12. Kernels before 6.3 answer EINVAL to MFD_NOEXEC_SEAL.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif

namespace hc {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kHugePageBytes = 2ULL << 20;
// The kernel undoes an interrupted allocation, so one signal must not cost more than a piece.
constexpr std::uint64_t kCommitPieceBytes = 64ULL << 20;

std::string describe(const std::string& name, std::uint64_t size_bytes) {
  return "memory file " + name + " of " + std::to_string(size_bytes) + " bytes";
}

UniqueFd open_memory(const std::string& name, unsigned flags) {
  flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(::memfd_create(name.c_str(), flags | MFD_NOEXEC_SEAL));
  if (!fd && errno == EINVAL) {
    fd.reset(::memfd_create(name.c_str(), flags));
  }
  return fd;
}

// Bytes that can be allocated without swapping, as the kernel estimates it; the largest number
// where it does not say.
std::uint64_t available_memory_bytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/meminfo", "re"),
                                                             std::fclose);
  std::array<char, 256> line{};
  while (file && std::fgets(line.data(), static_cast<int>(line.size()), file.get()) != nullptr) {
    unsigned long long kib = 0;
    if (std::sscanf(line.data(), "MemAvailable: %llu kB", &kib) == 1) {
      return kib << 10;
    }
  }
  return std::numeric_limits<std::uint64_t>::max();
}

// Returns 0 or an errno.
int commit(int fd, std::uint64_t size_bytes, const std::function<void()>& on_progress) {
  for (std::uint64_t at = 0; at < size_bytes;) {
    const std::uint64_t piece = std::min(kCommitPieceBytes, size_bytes - at);
    const int failed = ::posix_fallocate(fd, static_cast<off_t>(at), static_cast<off_t>(piece));
    if (failed == EINTR) {
      continue;
    }
    if (failed != 0) {
      return failed;
    }
    at += piece;
    if (on_progress) {
      on_progress();
    }
  }
  return 0;
}

// Size, mode, and the seals that hold from the start. Returns 0 or an errno.
int prepare(int fd, std::uint64_t size_bytes) {
  if (::ftruncate(fd, static_cast<off_t>(size_bytes)) != 0 || ::fchmod(fd, 0600) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return errno;
  }
  return 0;
}

// Huge pages are promised only by allocating them: creating and sizing such a file always works.
UniqueFd create_huge(const std::string& name, std::uint64_t size_bytes,
                     const std::function<void()>& on_progress) {
  UniqueFd fd = open_memory(name, MFD_HUGETLB | MFD_HUGE_2MB);
  if (fd && prepare(fd.get(), size_bytes) == 0 && commit(fd.get(), size_bytes, on_progress) == 0) {
    return fd;
  }
  return UniqueFd();
}

}  // namespace

Result<MemoryFile> MemoryFile::create(const std::string& name, std::uint64_t size_bytes,
                                      const MemoryFileOptions& options) {
  constexpr std::uint64_t kBytesMax = 1ULL << 62;
  if (size_bytes == 0 || size_bytes > kBytesMax) {
    return make_error(Code::bad_argument, describe(name, size_bytes) + ": size must be 1 .. 2^62");
  }
  if (options.try_huge_pages) {
    const std::uint64_t huge_bytes = round_up(size_bytes, kHugePageBytes);
    if (UniqueFd fd = create_huge(name, huge_bytes, options.on_progress)) {
      return MemoryFile(std::move(fd), huge_bytes, true);
    }
  }
  const std::uint64_t file_bytes = round_up(size_bytes, kPageBytes);
  UniqueFd fd = open_memory(name, 0);
  if (!fd) {
    return make_error(Code::io_error, describe(name, file_bytes) + ": create", errno);
  }
  if (const int failed = prepare(fd.get(), file_bytes); failed != 0) {
    return make_error(Code::io_error, describe(name, file_bytes) + ": size and seal", failed);
  }
  if (options.commit_memory) {
    // The kernel would kill some process before it refused, so the hopeless is refused here.
    if (file_bytes > available_memory_bytes()) {
      return make_error(Code::no_space, describe(name, file_bytes) + ": exceeds free memory");
    }
    if (const int failed = commit(fd.get(), file_bytes, options.on_progress); failed != 0) {
      return make_error(Code::no_space, describe(name, file_bytes) + ": allocate", failed);
    }
  }
  return MemoryFile(std::move(fd), file_bytes, false);
}

bool is_memory_file(int fd) { return ::fcntl(fd, F_GET_SEALS) >= 0; }

Result<MemoryFile> MemoryFile::from_fd(UniqueFd fd, const WantedFile& wanted) {
  // Only shmem and hugetlbfs know seals: every disk file, pipe, device and O_PATH fails here.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) {
    return make_error(Code::refused, "descriptor is not a memory file", errno);
  }
  if (wanted.require_sealed && (seals & F_SEAL_SHRINK) == 0) {
    return make_error(Code::refused, "memory file is not sealed against shrinking");
  }
  // The size is read after the seal was seen; the other way round it could have shrunk between.
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) {
    return make_error(Code::refused, "memory file has no size");
  }
  const auto size_bytes = static_cast<std::uint64_t>(info.st_size);
  if (size_bytes < wanted.size_bytes) {
    return make_error(Code::refused, "memory file has " + std::to_string(size_bytes) +
                                         " bytes, wanted at least " +
                                         std::to_string(wanted.size_bytes));
  }
  const bool huge_pages = file_has_huge_pages(fd.get());
  if (huge_pages && !wanted.allow_huge_pages) {
    return make_error(Code::refused, "memory file has huge pages, which are not accepted here");
  }
  return MemoryFile(std::move(fd), size_bytes, huge_pages);
}

Result<void> MemoryFile::finish_seals(bool forbid_new_writers) {
  const int seals = F_SEAL_SEAL | (forbid_new_writers ? F_SEAL_FUTURE_WRITE : 0);
  if (::fcntl(fd_.get(), F_ADD_SEALS, seals) != 0) {
    return make_error(Code::io_error, "seal a memory file", errno);
  }
  return {};
}

Result<UniqueFd> MemoryFile::readonly_fd() const {
  const std::string path = "/proc/self/fd/" + std::to_string(fd_.get());
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return make_error(Code::io_error, "open " + path + " for reading", errno);
  }
  return fd;
}

bool file_has_huge_pages(int fd) {
  struct statfs info {};
  return ::fstatfs(fd, &info) == 0 &&
         static_cast<std::uint32_t>(info.f_type) == std::uint32_t{HUGETLBFS_MAGIC};
}

}  // namespace hc
