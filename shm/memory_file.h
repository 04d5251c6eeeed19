// SPDX-License-Identifier: Apache-2.0
// memory_file: a memory file (memfd) with its seals, the only kind of memory that processes share.
//
// Owner thread: whoever holds it; not shared.
// Invariants: a file that we created can neither shrink nor grow, so touching its mapping never
// raises SIGBUS for its size. A file that a peer gave us is judged before anything is mapped.
//
// The order of seals: create() sets SHRINK and GROW; the owner maps the file; finish_seals()
// sets FUTURE_WRITE where wanted (mappings made before keep their rights) and at last SEAL.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "proto/result.h"
#include "shm/unique_fd.h"

namespace hc {

inline constexpr std::uint64_t kHugePageBytes = 2ULL << 20;

struct MemoryFileOptions {
  // Ask for hugetlb pages, committed at once. Without enough of them the file falls back to
  // ordinary pages: see MemoryFile::huge_pages().
  bool try_huge_pages = false;
  // Allocate every page now, so that a shortage is Code::no_space here and no signal later.
  bool commit_memory = false;
  // Called between pieces of a commit, which takes seconds for a large file.
  std::function<void()> on_progress = {};
};

struct FreeMemory {
  std::uint64_t ordinary_bytes = 0;  // the largest number where the kernel does not say
  std::uint64_t huge_bytes = 0;      // in free huge pages of 2 MiB, which no cgroup counts
};
struct SystemFolders {
  std::string proc = "/proc";
  std::string sys = "/sys";
};
// What can be allocated before the kernel kills a process: the least that the machine and the
// memory cgroups of this process (version 1 and 2, with all above them) leave.
FreeMemory free_memory(const SystemFolders& folders = {});

// What a descriptor from a peer must be.
struct WantedFile {
  std::uint64_t size_bytes = 0;  // at least
  // No more than that either, in whole pages, and the GROW seal: whoever closes the last descriptor
  // of a file frees all of it.
  bool is_exact = false;
  // The SHRINK seal; without it a peer can cut the file under our mapping, and only code with a
  // SIGBUS guard may touch it.
  bool require_sealed = true;
  // A peer can punch a hole into a sealed file. An ordinary page comes back as zeros; a huge page
  // may not come back at all, which is SIGBUS. So a daemon does not accept huge pages unguarded.
  bool allow_huge_pages = true;
};

class [[nodiscard]] MemoryFile {
 public:
  // `name` is for /proc/PID/maps only. The mode is 0600: a peer of another user can't open a
  // descriptor of ours again for writing.
  // Errors: bad_argument (size 0), no_space (commit_memory), io_error.
  static Result<MemoryFile> create(const std::string& name, std::uint64_t size_bytes,
                                   const MemoryFileOptions& options = {});

  // Judges a descriptor that a peer gave us. Errors: refused, with one line that says why; then
  // `fd` has been left alone, because its close may take long.
  static Result<MemoryFile> from_fd(UniqueFd&& fd, const WantedFile& wanted);

  // Allocates every page now, one thread's work. Errors: no_space.
  Result<void> commit(const std::function<void()>& on_progress);

  // After this no seal can be added. With `forbid_new_writers` no new writable mapping and no
  // write() is possible any more, for anybody; mappings made before still write.
  Result<void> finish_seals(bool forbid_new_writers);

  // A descriptor of the same memory that can't be mapped writable; this one goes to the peer.
  Result<UniqueFd> readonly_fd() const;

  // One that can: for a peer that is trusted with the memory.
  Result<UniqueFd> writable_fd() const;

  int fd() const { return fd_.get(); }
  std::uint64_t size_bytes() const { return size_bytes_; }  // created: rounded up to its pages
  bool huge_pages() const { return huge_pages_; }

 private:
  MemoryFile(UniqueFd fd, std::uint64_t size_bytes, bool huge_pages)
      : fd_(std::move(fd)), size_bytes_(size_bytes), huge_pages_(huge_pages) {}

  UniqueFd fd_;
  std::uint64_t size_bytes_ = 0;
  bool huge_pages_ = false;
};

// Whether a descriptor is memory: on shmem or hugetlbfs, which alone know seals. Nothing else that
// is done to such a descriptor can block.
bool is_memory_file(int fd);
// True for a file on hugetlbfs; its mappings must be cut along its own page size.
bool file_has_huge_pages(int fd);

}  // namespace hc
