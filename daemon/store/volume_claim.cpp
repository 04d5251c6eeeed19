// SPDX-License-Identifier: Apache-2.0
// volume_claim: one identity file per volume, checked against the superblock.
#include "daemon/store/volume_claim.h"

#include <cstring>
#include <string>

#include "daemon/log/log.h"
#include "daemon/store/aligned_buffer.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr const char* kPrefix = "volume-";
constexpr std::uint64_t kIdentityBytes = kSuperblockCopies * kSuperblockCopyBytes;

std::string label(const Disk& disk, std::uint16_t volume) {
  return "l3.volume " + std::to_string(volume) + " (" + disk.volume_name(volume) + ")";
}

// Another volume of some store lies in this directory: the list is in another order.
Result<void> check_neighbours(Disk& disk, std::uint16_t volume, const std::string& wanted) {
  auto files = disk.list(volume);
  HC_TRY(files);
  for (const FileInfo& file : *files) {
    const bool home = file.name == "superblock";
    if (home || (file.name.rfind(kPrefix, 0) == 0 && file.name != wanted)) {
      return make_error(Code::refused,
                        label(disk, volume) + " is " +
                            (home ? "the first volume" : file.name) +
                            " of a store: list the volumes in the order they had");
    }
  }
  return {};
}

// not_found: no identity is there.
Result<Superblock> read_identity(Disk& disk, FileId file) {
  AlignedBuffer copies(kIdentityBytes);
  HC_TRY_VOID(disk.read_now(file, 0, copies.bytes()));
  return parse_superblock(copies.bytes());
}

Result<void> write_identity(Disk& disk, FileId file, const Superblock& superblock) {
  AlignedBuffer copies(kIdentityBytes);
  auto sealed = std::make_unique<Superblock>(superblock);
  seal_superblock(*sealed);
  for (std::uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
    std::memcpy(copies.data() + copy * kSuperblockCopyBytes, sealed.get(), sizeof *sealed);
  }
  return disk.write_now(file, 0, copies.bytes());
}

Result<void> claim_one(Disk& disk, std::uint16_t volume, SuperblockFile& superblock,
                   bool drop_missing) {
  const std::string name = kPrefix + std::to_string(volume);
  const bool known = superblock.has_volume(volume);
  HC_TRY_VOID(check_neighbours(disk, volume, name));
  auto file = disk.open(FileSpec{name, 0, false, true, volume});
  const bool absent = !file && file.error().code == Code::not_found;
  if (absent && known && !drop_missing) {
    return make_error(Code::refused,
                      label(disk, volume) + ": what this store has there is missing; mount it, or "
                                            "say l3.missing_volume = \"drop\" to go on without");
  }
  if (absent) {
    file = disk.open(FileSpec{name, kIdentityBytes, true, true, volume});
  }
  HC_TRY(file);
  const auto identity = disk.size_bytes(*file) < kIdentityBytes
                            ? Result<Superblock>(make_error(Code::not_found, name))
                            : read_identity(disk, *file);
  if (identity && identity->store_uuid != superblock.current().store_uuid) {
    return make_error(Code::refused, label(disk, volume) + " belongs to another store");
  }
  if (identity) {
    superblock.set_volume(volume, true);
    return {};
  }
  if (identity.error().code == Code::io_error) {
    return identity.error();
  }
  if (known && !absent && !drop_missing) {
    return make_error(Code::refused, label(disk, volume) + ": its identity is damaged; say "
                                                           "l3.missing_volume = \"drop\" to go on "
                                                           "without what it holds");
  }
  if (known) {
    log_warn("volume.dropped", {{"volume", std::uint32_t{volume}},
                                {"dir", disk.volume_name(volume)},
                                {"reason", "what the store had there is missing"}});
  }
  if (disk.size_bytes(*file) < kIdentityBytes) {
    HC_TRY_VOID(disk.close(*file));
    file = disk.open(FileSpec{name, kIdentityBytes, true, true, volume});
    HC_TRY(file);
  }
  HC_TRY_VOID(write_identity(disk, *file, superblock.current()));
  HC_FAILPOINT(volume_named);
  superblock.set_volume(volume, true);
  return {};
}

}  // namespace

Result<void> claim_volumes(Disk& disk, SuperblockFile& superblock, bool drop_missing) {
  for (std::uint16_t volume = 1; volume < kVolumesMax; ++volume) {
    if (volume < disk.volume_count()) {
      HC_TRY_VOID(claim_one(disk, volume, superblock, drop_missing));
      continue;
    }
    if (!superblock.has_volume(volume)) {
      continue;
    }
    if (!drop_missing) {
      return make_error(Code::refused, "l3.volume: this store has a volume " +
                                           std::to_string(volume) +
                                           " that is not listed; list it, or say "
                                           "l3.missing_volume = \"drop\" to go on without");
    }
    log_warn("volume.dropped", {{"volume", std::uint32_t{volume}}, {"reason", "it is not listed"}});
    superblock.set_volume(volume, false);
  }
  return {};
}

}  // namespace hc
