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
#include <string>

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

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::string read_text(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             [](std::FILE* open) {
                                                               return std::fclose(open);
                                                             });
  std::string text;
  std::array<char, 4096> block{};
  std::size_t got = 0;
  while (file && (got = std::fread(block.data(), 1, block.size(), file.get())) > 0) {
    text.append(block.data(), got);
  }
  return text;
}

// The number after `name` at the start of a line; `otherwise` where there is none ("max").
std::uint64_t number_after(const std::string& text, const std::string& name,
                           std::uint64_t otherwise) {
  std::size_t at = 0;
  while (text.compare(at, name.size(), name) != 0) {
    at = text.find('\n', at);
    if (at == std::string::npos) {
      return otherwise;
    }
    ++at;
  }
  unsigned long long number = 0;
  return std::sscanf(text.c_str() + at + name.size(), "%llu", &number) == 1 ? number : otherwise;
}

// How one version of cgroups calls its files.
struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* cache[2];  // in memory.stat: file pages, which are given up before anybody is killed
};
constexpr CgroupFiles kCgroupV2{"memory.max", "memory.current", {"inactive_file ", "active_file "}};
constexpr CgroupFiles kCgroupV1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                {"total_inactive_file ", "total_active_file "}};

std::uint64_t group_available_bytes(const std::string& dir, const CgroupFiles& files) {
  const std::uint64_t limit = number_after(read_text(dir + "/" + files.limit), "", kUnlimited);
  if (limit == kUnlimited) {
    return kUnlimited;
  }
  std::uint64_t usage = number_after(read_text(dir + "/" + files.usage), "", 0);
  const std::string stat = read_text(dir + "/memory.stat");
  for (const char* name : files.cache) {
    usage -= std::min(usage, number_after(stat, name, 0));
  }
  return limit - std::min(limit, usage);
}

// The tightest of the group and all above it. A container may see its own group as the root of the
// hierarchy while its path is that of the host: what does not exist there limits nothing.
std::uint64_t chain_available_bytes(const std::string& root, std::string path,
                                    const CgroupFiles& files) {
  if (path.find("/..") != std::string::npos) {
    path.clear();  // outside of what this cgroup namespace shows
  }
  std::uint64_t available = kUnlimited;
  for (;;) {
    available = std::min(available, group_available_bytes(root + path, files));
    if (path.empty()) {
      return available;
    }
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

// Lines are "NUMBER:CONTROLLERS:PATH"; version 2 has no controllers.
std::uint64_t cgroup_available_bytes(const SystemFolders& folders) {
  const std::string groups = folders.sys + "/fs/cgroup";
  const std::string text = read_text(folders.proc + "/self/cgroup");
  std::uint64_t available = kUnlimited;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (names == ",,") {
      available = std::min({available, chain_available_bytes(groups, path, kCgroupV2),
                            chain_available_bytes(groups + "/unified", path, kCgroupV2)});
    } else if (names.find(",memory,") != std::string::npos) {
      available = std::min(available, chain_available_bytes(groups + "/memory", path, kCgroupV1));
    }
  }
  return available;
}

// Returns 0 or an errno.
int commit_pages(int fd, std::uint64_t size_bytes, const std::function<void()>& on_progress) {
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
  if (fd && prepare(fd.get(), size_bytes) == 0 &&
      commit_pages(fd.get(), size_bytes, on_progress) == 0) {
    return fd;
  }
  return UniqueFd();
}

}  // namespace

FreeMemory free_memory(const SystemFolders& folders) {
  const std::uint64_t kib =
      number_after(read_text(folders.proc + "/meminfo"), "MemAvailable:", kUnlimited >> 10);
  const std::uint64_t machine = kib >= kUnlimited >> 10 ? kUnlimited : kib << 10;
  const std::uint64_t huge_pages = number_after(
      read_text(folders.sys + "/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"), "", 0);
  return {std::min(machine, cgroup_available_bytes(folders)), huge_pages * kHugePageBytes};
}

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
    if (file_bytes > free_memory().ordinary_bytes) {
      return make_error(Code::no_space, describe(name, file_bytes) + ": exceeds free memory");
    }
    if (const int failed = commit_pages(fd.get(), file_bytes, options.on_progress); failed != 0) {
      return make_error(Code::no_space, describe(name, file_bytes) + ": allocate", failed);
    }
  }
  return MemoryFile(std::move(fd), file_bytes, false);
}

bool is_memory_file(int fd) { return ::fcntl(fd, F_GET_SEALS) >= 0; }

Result<MemoryFile> MemoryFile::from_fd(UniqueFd&& fd, const WantedFile& wanted) {
  // Only shmem and hugetlbfs know seals: every disk file, pipe, device and O_PATH fails here.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) {
    return make_error(Code::refused, "descriptor is not a memory file", errno);
  }
  if (wanted.require_sealed && (seals & F_SEAL_SHRINK) == 0) {
    return make_error(Code::refused, "memory file is not sealed against shrinking");
  }
  if (wanted.is_exact && (seals & F_SEAL_GROW) == 0) {
    return make_error(Code::refused, "memory file is not sealed against growing");
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
  if (wanted.is_exact && size_bytes - wanted.size_bytes >=
                             static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))) {
    return make_error(Code::refused, "memory file has " + std::to_string(size_bytes) +
                                         " bytes, wanted " + std::to_string(wanted.size_bytes));
  }
  const bool huge_pages = file_has_huge_pages(fd.get());
  if (huge_pages && !wanted.allow_huge_pages) {
    return make_error(Code::refused, "memory file has huge pages, which are not accepted here");
  }
  return MemoryFile(std::move(fd), size_bytes, huge_pages);
}

Result<void> MemoryFile::commit(const std::function<void()>& on_progress) {
  const int failed = commit_pages(fd_.get(), size_bytes_, on_progress);
  return failed == 0 ? Result<void>()
                     : Result<void>(make_error(Code::no_space, "allocate a memory file", failed));
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

Result<UniqueFd> MemoryFile::writable_fd() const { return fd_.duplicate(); }

bool file_has_huge_pages(int fd) {
  struct statfs info {};
  return ::fstatfs(fd, &info) == 0 &&
         static_cast<std::uint32_t>(info.f_type) == std::uint32_t{HUGETLBFS_MAGIC};
}

}  // namespace hc
