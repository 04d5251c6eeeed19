// SPDX-License-Identifier: Apache-2.0
// lmdb_file: read both meta pages of an LMDB 0.9 file and compare them with its length.
#include "daemon/index/lmdb_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "daemon/os/local_dir.h"
#include "proto/wire_struct.h"

namespace hc {

namespace {

// A meta page of data format 1 on a 64-bit machine, as LMDB 0.9 writes it: 16 bytes of page
// header, then this. Only what is judged here has a name.
struct MetaPage {
  std::array<std::uint8_t, 16> page_header;
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t address;
  std::uint64_t map_bytes;
  std::uint32_t page_bytes;  // md_pad of the first database
  std::array<std::uint8_t, 92> databases;
  std::uint64_t last_page;
  std::uint64_t transaction;
};
static_assert(WireStruct<MetaPage> && sizeof(MetaPage) == 152);
static_assert(offsetof(MetaPage, page_bytes) == 40 && offsetof(MetaPage, last_page) == 136);

constexpr std::uint32_t kMetaMagic = 0xBEEFC0DE;
constexpr std::uint32_t kMetaVersion = 1;

std::optional<MetaPage> read_meta(int fd, std::uint64_t offset) {
  MetaPage meta{};
  if (::pread(fd, &meta, sizeof meta, static_cast<off_t>(offset)) != sizeof meta) {
    return std::nullopt;
  }
  const bool page_size_ok = meta.page_bytes >= 512 && meta.page_bytes <= 65536 &&
                            (meta.page_bytes & (meta.page_bytes - 1)) == 0;
  if (meta.magic != kMetaMagic || meta.version != kMetaVersion || !page_size_ok) {
    return std::nullopt;
  }
  return meta;
}

}  // namespace

Result<void> check_lmdb_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    return make_error(code_of_errno(errno), path, errno);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return make_error(Code::io_error, path, errno);
  }
  const auto first = read_meta(fd.get(), 0);
  if (!first) {
    return make_error(Code::corrupt, path + " is no LMDB file");
  }
  // LMDB reads the page size from the first and then needs both.
  const auto second = read_meta(fd.get(), first->page_bytes);
  if (!second || second->page_bytes != first->page_bytes) {
    return make_error(Code::corrupt, path + " has a damaged second header");
  }
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  for (const MetaPage& meta : {*first, *second}) {
    if (meta.map_bytes > bytes || meta.last_page >= bytes / first->page_bytes) {
      return make_error(Code::corrupt, path + " is cut short: " + std::to_string(bytes) +
                                           " bytes, its header names " +
                                           std::to_string(meta.map_bytes) + " and page " +
                                           std::to_string(meta.last_page));
    }
  }
  return {};
}

}  // namespace hc
