// SPDX-License-Identifier: Apache-2.0
// local_dir: directories on local file systems, and errno values as codes.
#include "daemon/os/local_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>

namespace hc {

namespace {

struct FileSystem {
  std::uint32_t magic;
  const char* name;
  bool remote;
};

constexpr std::array<FileSystem, 13> kFileSystems{{
    {0xEF53, "ext4", false},
    {0x58465342, "xfs", false},
    {0x9123683E, "btrfs", false},
    {0x2FC12FC1, "zfs", false},
    {0xF2F52010, "f2fs", false},
    {0x01021994, "tmpfs", false},
    {0x794C7630, "overlayfs", false},
    {0x65735546, "fuse", false},
    {0x6969, "nfs", true},
    {0x517B, "smb", true},
    {0xFF534D42, "cifs", true},
    {0xFE534D42, "smb2", true},
    {0x01021997, "9p", true},
}};

const FileSystem* find_file_system(int fd) {
  struct statfs info {};
  if (::fstatfs(fd, &info) != 0) {
    return nullptr;
  }
  const auto magic = static_cast<std::uint32_t>(info.f_type);
  const auto* found = std::find_if(kFileSystems.begin(), kFileSystems.end(),
                                   [magic](const FileSystem& one) { return one.magic == magic; });
  return found == kFileSystems.end() ? nullptr : found;
}

}  // namespace

Code code_of_errno(int error) {
  switch (error) {
    case ENOENT: return Code::not_found;
    case ENOSPC:
    case EDQUOT: return Code::no_space;
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP: return Code::refused;
    default: return Code::io_error;
  }
}

std::string file_system_name(int fd) {
  if (const FileSystem* known = find_file_system(fd)) {
    return known->name;
  }
  struct statfs info {};
  std::array<char, 32> text{};
  const int rc = ::fstatfs(fd, &info);
  const unsigned long magic = rc == 0 ? static_cast<unsigned long>(info.f_type) : 0;
  std::snprintf(text.data(), text.size(), "0x%lx", magic);
  return text.data();
}

Result<UniqueFd> open_local_dir(const std::string& path, const std::string& label) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return make_error(code_of_errno(errno), label + ": mkdir", errno);
  }
  UniqueFd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir) {
    return make_error(code_of_errno(errno), label, errno);
  }
  if (const FileSystem* known = find_file_system(dir.get()); known != nullptr && known->remote) {
    return make_error(Code::refused, label + ": " + known->name +
                                         " is a network file system; a local disk is needed");
  }
  return dir;
}

Result<void> sync_dir(int dir, const std::string& label) {
  if (::fsync(dir) != 0) {
    return make_error(Code::io_error, label + ": fsync", errno);
  }
  return {};
}

}  // namespace hc
