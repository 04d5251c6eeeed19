// SPDX-License-Identifier: Apache-2.0
// volume: files of one directory, opened for direct I/O, locked and preallocated.
#include "daemon/os/volume.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>

#include "daemon/log/log.h"
#include "daemon/os/blocking_io.h"
#include "daemon/os/file_lock.h"
#include "daemon/os/local_dir.h"

namespace hc {

namespace {

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

DiskBuffer as_buffer(std::uint8_t* data, std::size_t size_bytes) {
  HC_CHECK(size_bytes <= std::numeric_limits<std::uint32_t>::max());
  return {data, static_cast<std::uint32_t>(size_bytes)};
}

}  // namespace

Result<Volume> Volume::open_dir(VolumeOptions options) {
  auto dir = open_local_dir(options.dir, "volume " + options.dir);
  HC_TRY(dir);
  return Volume(std::move(options), std::move(*dir));
}

const Volume::File& Volume::at(FileId file) const {
  const std::size_t index = file.value & 0xFFFFU;
  HC_CHECK(index < files_.size());
  HC_CHECK(volume_of(file) == options_.number);
  HC_CHECK(files_[index].fd && files_[index].incarnation == (file.value >> 16 & 0xFFU));
  return files_[index];
}

bool Volume::is_open(const std::string& name) const {
  return std::any_of(files_.begin(), files_.end(),
                     [&name](const File& file) { return file.fd && file.name == name; });
}

FileId Volume::install(File file) {
  auto free = std::find_if(files_.begin(), files_.end(), [](const File& one) { return !one.fd; });
  if (free == files_.end()) {
    HC_CHECK(files_.size() < 0xFFFF);
    files_.emplace_back();
    free = files_.end() - 1;
  }
  file.incarnation = static_cast<std::uint8_t>(free->incarnation + 1);
  *free = std::move(file);
  const auto index = static_cast<std::uint32_t>(free - files_.begin());
  return FileId{std::uint32_t{options_.number} << kFileVolumeShift |
                std::uint32_t{free->incarnation} << 16 | index};
}

void Volume::end_io(FileId file) {
  File& found = at(file);
  HC_CHECK(found.in_flight > 0);
  --found.in_flight;
}

int Volume::open_at(const std::string& name, int extra_flags) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | extra_flags;
  if (direct_) {
    const int fd = ::openat(dir_.get(), name.c_str(), flags | O_DIRECT, 0600);
    if (fd >= 0 || errno != EINVAL) {
      return fd;
    }
    // The file may exist now: O_CREAT is done before O_DIRECT is refused.
    direct_ = false;
    log_warn("volume.buffered", {{"dir", options_.dir},
                                 {"file_system", file_system_name(dir_.get())},
                                 {"reason", "no O_DIRECT; the page cache doubles every byte"}});
    return ::openat(dir_.get(), name.c_str(), flags & ~O_EXCL, 0600);
  }
  return ::openat(dir_.get(), name.c_str(), flags, 0600);
}

Result<Volume::Opened> Volume::open_or_create(const FileSpec& spec) {
  UniqueFd fd(open_at(spec.name, 0));
  if (fd || errno != ENOENT || !spec.create) {
    return fd ? Result<Opened>(Opened{std::move(fd), false})
              : make_error(code_of_errno(errno), label(spec.name), errno);
  }
  UniqueFd made(open_at(spec.name, O_CREAT | O_EXCL));
  if (!made) {
    return make_error(code_of_errno(errno), label(spec.name) + ": create", errno);
  }
  HC_TRY_VOID(sync_dir(dir_.get(), "volume " + options_.dir));
  return Opened{std::move(made), true};
}

// The lock is taken on what was opened; the holder may have removed the name meanwhile, so that a
// lock on a file without a name is worth nothing and the name is opened again.
Result<Volume::Opened> Volume::open_locked(const FileSpec& spec) {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    auto opened = open_or_create(spec);
    HC_TRY(opened);
    struct stat info {};
    if (spec.exclusive) {
      HC_TRY_VOID(lock_exclusive(opened->fd.get(), label(spec.name), options_.lock_retry_ms));
    }
    if (::fstat(opened->fd.get(), &info) != 0) {
      return make_error(Code::io_error, label(spec.name) + ": fstat", errno);
    }
    if (!S_ISREG(info.st_mode)) {
      return make_error(Code::refused, label(spec.name) + " is no regular file");
    }
    if (info.st_nlink > 0) {
      return opened;
    }
  }
  return make_error(Code::refused, label(spec.name) + " is removed again and again by others");
}

Result<void> Volume::extend(int fd, std::uint64_t old_bytes, const FileSpec& spec) const {
  const auto wanted = static_cast<off_t>(spec.size_bytes);
  if (spec.sparse && old_bytes >= spec.size_bytes) {
    return {};
  }
  int rc = 0;
  do {
    rc = spec.sparse ? ::ftruncate(fd, wanted) : ::fallocate(fd, 0, 0, wanted);
  } while (rc != 0 && errno == EINTR);
  if (rc == 0) {
    return {};
  }
  const int error = errno;
  if (::ftruncate(fd, static_cast<off_t>(old_bytes)) != 0) {
    log_warn("volume.truncate_failed", {{"file", label(spec.name)}, {"errno", errno}});
  }
  const Code code = error == EOPNOTSUPP ? Code::unsupported : code_of_errno(error);
  return make_error(code, label(spec.name) + ": allocating " + std::to_string(spec.size_bytes) +
                              " bytes on " + file_system_name(fd), error);
}

// Allocates the whole range even where the size is right already: a sparse file would answer
// "no space" in the middle of a spill. A file that is meant to be sparse gets its ranges allocated
// before they are used. On failure the file is as it was.
Result<std::uint64_t> Volume::allocate(int fd, const FileSpec& spec) const {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return make_error(Code::io_error, label(spec.name) + ": fstat", errno);
  }
  const auto old_bytes = static_cast<std::uint64_t>(info.st_size);
  if (spec.size_bytes == 0) {
    return old_bytes;
  }
  HC_TRY_VOID(extend(fd, old_bytes, spec));
  // The size is metadata that a later fdatasync of an overwrite need not carry.
  if (::fsync(fd) != 0) {
    return make_error(Code::io_error, label(spec.name) + ": fsync", errno);
  }
  return std::max(old_bytes, spec.size_bytes);
}

Result<FileId> Volume::open(const FileSpec& spec) {
  HC_CHECK(is_plain_name(spec.name));
  if (is_open(spec.name)) {
    return make_error(Code::refused, label(spec.name) + " is open already");
  }
  auto opened = open_locked(spec);
  HC_TRY(opened);
  const auto size = allocate(opened->fd.get(), spec);
  if (!size) {
    if (opened->created) {
      ::unlinkat(dir_.get(), spec.name.c_str(), 0);
    }
    return size.error();
  }
  File file;
  file.fd = std::move(opened->fd);
  file.name = spec.name;
  file.size_bytes = *size;
  return install(std::move(file));
}

Result<void> Volume::close(FileId file) {
  File& found = at(file);
  HC_CHECK(found.in_flight == 0);
  found.fd = UniqueFd();
  found.name.clear();
  return {};
}

Result<void> Volume::remove(const std::string& name) {
  HC_CHECK(is_plain_name(name));
  HC_CHECK(!is_open(name));
  if (::unlinkat(dir_.get(), name.c_str(), 0) != 0) {
    return errno == ENOENT ? Result<void>()
                           : make_error(code_of_errno(errno), label(name) + ": remove", errno);
  }
  return sync_dir(dir_.get(), "volume " + options_.dir);
}

Result<std::vector<FileInfo>> Volume::list() const {
  const int copy = ::openat(dir_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(copy < 0 ? nullptr : ::fdopendir(copy),
                                                   ::closedir);
  if (!stream) {
    return make_error(code_of_errno(errno), "volume " + options_.dir + ": list", errno);
  }
  std::vector<FileInfo> files;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {  // NOLINT(concurrency-mt-unsafe)
    struct stat info {};
    if (::fstatat(dir_.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode)) {
      files.push_back({entry->d_name, static_cast<std::uint64_t>(info.st_size)});
    }
    errno = 0;
  }
  if (errno != 0) {
    return make_error(Code::io_error, "volume " + options_.dir + ": list", errno);
  }
  std::sort(files.begin(), files.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.name < b.name; });
  return files;
}

Result<void> Volume::run_now(const DiskRequest& request) const {
  Transfer transfer(request, fd(request.file));
  const DiskCompletion done = run_blocking(transfer);
  if (done.code != Code::ok) {
    return make_error(done.code, label(at(request.file).name), done.sys_errno);
  }
  return {};
}

Result<void> Volume::read_now(FileId file, std::uint64_t offset_bytes,
                              std::span<std::uint8_t> out) const {
  return run_now({DiskOp::read, file, offset_bytes, {as_buffer(out.data(), out.size())}, 0});
}

Result<void> Volume::write_now(FileId file, std::uint64_t offset_bytes,
                               std::span<const std::uint8_t> bytes) const {
  // The kernel only reads it; the request type is the same for both directions.
  auto* data = const_cast<std::uint8_t*>(bytes.data());
  HC_TRY_VOID(run_now({DiskOp::write, file, offset_bytes, {as_buffer(data, bytes.size())}, 0}));
  return run_now({DiskOp::sync, file, 0, {}, 0});
}

Result<void> Volume::allocate_now(FileId file, std::uint64_t offset_bytes,
                                  std::uint64_t length_bytes) const {
  return run_now({DiskOp::allocate, file, offset_bytes, {}, 0, length_bytes});
}

Result<void> Volume::punch_now(FileId file, std::uint64_t offset_bytes,
                               std::uint64_t length_bytes) const {
  return run_now({DiskOp::punch, file, offset_bytes, {}, 0, length_bytes});
}

// A file system that keeps no count of holes says: here.
Result<std::optional<std::uint64_t>> Volume::next_data(FileId file,
                                                       std::uint64_t offset_bytes) const {
  const off_t found = ::lseek(fd(file), static_cast<off_t>(offset_bytes), SEEK_DATA);
  if (found >= 0) {
    return std::optional(static_cast<std::uint64_t>(found));
  }
  if (errno == ENXIO) {
    return std::optional<std::uint64_t>();
  }
  if (errno == EINVAL || errno == EOPNOTSUPP) {
    return std::optional(offset_bytes);
  }
  return make_error(code_of_errno(errno), label(at(file).name) + ": looking for data", errno);
}

}  // namespace hc
