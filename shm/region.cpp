// SPDX-License-Identifier: Apache-2.0
// region: mapping over boost::interprocess::mapped_region, whose exceptions end here.
#include "shm/region.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <exception>
#include <string>
#include <utility>

#ifdef HC_ONE_MAPPING
#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>
#endif

#include "proto/limits.h"
#include "shm/memory_file.h"

namespace hc {
namespace ipc = boost::interprocess;

struct Region::Mapping {
  ipc::mapped_region region;
  void* place = nullptr;
};

namespace {

// What mapped_region asks of the thing it maps: a handle and a mode.
class MappingHandle {
 public:
  MappingHandle(int fd, bool read_only)
      : fd_(fd), mode_(read_only ? ipc::read_only : ipc::read_write) {}
  ipc::mapping_handle_t get_mapping_handle() const {
    return ipc::ipcdetail::mapping_handle_from_file_handle(fd_);
  }
  ipc::mode_t get_mode() const { return mode_; }

 private:
  int fd_;
  ipc::mode_t mode_;
};

Code code_of(int sys_errno) {
  switch (sys_errno) {
    case EACCES:
    case EPERM:
      return Code::refused;
    case ENOMEM:
      return Code::no_space;
    default:
      return Code::io_error;
  }
}

std::string describe(const RegionOptions& options) {
  return "map " + std::to_string(options.size_bytes) + " bytes at " +
         std::to_string(options.offset_bytes) + " of a memory file";
}

// Touching a mapping beyond the end of its file is SIGBUS, and mmap does not look.
Result<void> check_inside_file(int fd, const RegionOptions& options) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return make_error(Code::io_error, describe(options), errno);
  }
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  if (options.size_bytes == 0 || options.offset_bytes > file_bytes ||
      options.size_bytes > file_bytes - options.offset_bytes) {
    return make_error(Code::bad_argument,
                      describe(options) + " of " + std::to_string(file_bytes) + " bytes");
  }
  return {};
}

// Huge pages can only be mapped and unmapped whole: munmap of a part fails and would leak.
Result<std::uint64_t> mapped_bytes(int fd, const RegionOptions& options) {
  if (!file_has_huge_pages(fd)) {
    return options.size_bytes;
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return make_error(Code::io_error, describe(options), errno);
  }
  const auto page_bytes = static_cast<std::uint64_t>(info.st_blksize);
  if (options.offset_bytes % page_bytes != 0) {
    return make_error(Code::bad_argument, describe(options) + ": offset must be a multiple of " +
                                              std::to_string(page_bytes));
  }
  return round_up(options.size_bytes, page_bytes);
}

// Room for a mapping that can have huge pages: its address is as far into one as its offset is into
// the file. The kernel puts a memory file anywhere. Reserved, so that nobody else takes it before
// the file is mapped over it; given back if it is not.
class HugePlace {
 public:
  // Null address: a mapping that wants no such place, or no room for one; any place will do.
  static HugePlace reserve(const RegionOptions& options, std::uint64_t length) {
    HugePlace place;
    const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    if (!options.hint_huge_pages || length < kHugePageBytes ||
        options.offset_bytes % page_bytes != 0) {
      return place;
    }
    length = round_up(length, page_bytes);
    void* const whole = ::mmap(nullptr, length + kHugePageBytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED) {
      return place;
    }
    const std::uint64_t into_page = options.offset_bytes % kHugePageBytes;
    const auto begin = reinterpret_cast<std::uintptr_t>(whole);
    const std::uint64_t before =
        (into_page + kHugePageBytes - begin % kHugePageBytes) % kHugePageBytes;
    auto* const address = static_cast<std::uint8_t*>(whole) + before;
    drop(whole, before);
    drop(address + length, kHugePageBytes - before);
    place.address_ = address;
    place.length_ = length;
    return place;
  }

  HugePlace(HugePlace&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), length_(other.length_) {}
  HugePlace& operator=(HugePlace&&) = delete;
  ~HugePlace() {
    if (address_ != nullptr) {
      drop(address_, length_);
    }
  }

  void* address() const { return address_; }
  ipc::map_options_t map_options() const {
    return address_ == nullptr ? ipc::default_map_options : MAP_FIXED;
  }
  void taken() { address_ = nullptr; }

 private:
  HugePlace() = default;
  static void drop(void* begin, std::uint64_t length) {
    if (length > 0) {
      HC_CHECK(::munmap(begin, length) == 0);
    }
  }

  void* address_ = nullptr;
  std::uint64_t length_ = 0;
};

// Advice works on whole pages, so the range is widened to them. Returns 0 or an errno.
int advise(std::span<std::uint8_t> bytes, const RegionOptions& options) {
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t start = address / page_bytes * page_bytes;
  const std::size_t length = bytes.size() + (address - start);
  void* const place = bytes.data() - (address - start);
  if (options.keep_from_fork && ::madvise(place, length, MADV_DONTFORK) != 0) {
    return errno;
  }
  if (options.keep_from_dump && ::madvise(place, length, MADV_DONTDUMP) != 0) {
    return errno;
  }
  if (options.hint_huge_pages) {
    // A hint: a kernel without it serves ordinary pages.
    static_cast<void>(::madvise(place, length, MADV_HUGEPAGE));
  }
  return 0;
}

#ifdef HC_ONE_MAPPING
// A build for the thread sanitizer has client and daemon in one process, and the sanitizer knows
// memory by its address: both sides must have the same one. So a file is mapped once and never
// unmapped. Null: this process has not mapped that part, or not so that it may be written.
void* find_mapping(int fd, const RegionOptions& options, std::uint64_t length) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return nullptr;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint64_t offset = 0;
    unsigned major_number = 0;
    unsigned minor_number = 0;
    ino_t inode = 0;
    char mark = 0;
    std::string rights;
    words >> std::hex >> first >> mark >> last >> rights >> offset >> major_number >> mark >>
        minor_number >> std::dec >> inode;
    const bool same = words && inode == info.st_ino &&
                      makedev(major_number, minor_number) == info.st_dev;
    const bool enough = offset <= options.offset_bytes &&
                        options.offset_bytes - offset + length <= last - first;
    if (same && enough && (options.read_only || rights[1] == 'w')) {
      return reinterpret_cast<void*>(first + (options.offset_bytes - offset));
    }
  }
  return nullptr;
}
#endif

}  // namespace

Region::Region(std::unique_ptr<Mapping> mapping, const RegionOptions& options)
    : mapping_(std::move(mapping)),
      data_(static_cast<std::uint8_t*>(mapping_->place)),
      size_bytes_(options.size_bytes),
      read_only_(options.read_only) {}

Region::Region(Region&&) noexcept = default;
Region& Region::operator=(Region&&) noexcept = default;
Region::~Region() = default;

Result<Region> Region::map(int fd, const RegionOptions& options) {
  HC_TRY_VOID(check_inside_file(fd, options));
  auto length = mapped_bytes(fd, options);
  HC_TRY(length);
  try {
    auto mapping = std::make_unique<Mapping>();
#ifdef HC_ONE_MAPPING
    if ((mapping->place = find_mapping(fd, options, *length)) != nullptr) {
      return Region(std::move(mapping), options);
    }
#endif
    HugePlace place = HugePlace::reserve(options, *length);
    mapping->region = ipc::mapped_region(
        MappingHandle(fd, options.read_only), options.read_only ? ipc::read_only : ipc::read_write,
        static_cast<ipc::offset_t>(options.offset_bytes), static_cast<std::size_t>(*length),
        place.address(), place.map_options());
    place.taken();
    mapping->place = mapping->region.get_address();
#ifdef HC_ONE_MAPPING
    static_cast<void>(new ipc::mapped_region(std::move(mapping->region)));
#endif
    Region region(std::move(mapping), options);
    const int failed = advise({region.data_, static_cast<std::size_t>(*length)}, options);
    if (failed != 0) {
      return make_error(Code::io_error, describe(options) + ": advise", failed);
    }
    return region;
  } catch (const ipc::interprocess_exception& caught) {
    const int cause = caught.get_native_error();
    return make_error(code_of(cause), describe(options), cause);
  } catch (const std::exception& caught) {
    return make_error(Code::no_space, describe(options) + ": " + caught.what());
  }
}

}  // namespace hc
