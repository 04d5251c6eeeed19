// SPDX-License-Identifier: Apache-2.0
// store_audit: superblock, index rows and slab headers, held against each other.
#include "e2e/store_audit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "daemon/index/lmdb_env.h"
#include "e2e/rank.h"
#include "proto/blob_header.h"
#include "proto/slab_header.h"
#include "proto/space.h"
#include "proto/superblock.h"
#include "shm/unique_fd.h"

namespace hc::test {

namespace {

struct SlabFile {
  std::string path;
  SlabHeader header{};
};

bool read_at(const std::string& path, std::uint64_t offset, std::span<std::uint8_t> out) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd && ::pread(fd.get(), out.data(), out.size(), static_cast<off_t>(offset)) ==
                   static_cast<ssize_t>(out.size());
}

// Whether the file has space in this range; a file system that can't say claims it.
bool has_space(const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const off_t data = fd ? ::lseek(fd.get(), static_cast<off_t>(offset), SEEK_DATA) : -1;
  return data >= 0 && static_cast<std::uint64_t>(data) < offset + bytes;
}

class Auditor {
 public:
  explicit Auditor(std::vector<std::string> volumes) : volumes_(std::move(volumes)) {}

  // False: there is no store yet, or no index of this epoch.
  bool open() {
    std::vector<std::uint8_t> copies(kSuperblockCopies * kSuperblockCopyBytes);
    if (!read_at(volumes_.front() + "/superblock", 0, copies)) {
      return false;
    }
    auto superblock = parse_superblock(copies);
    if (!superblock) {
      // The first write of all may have been cut off; from then on one copy is always good.
      return fail_if(superblock.error().code != Code::not_found, "the superblock is not readable");
    }
    superblock_ = *superblock;
    for (const std::string& volume : volumes_) {
      read_slabs(volume);
    }
    const std::string path = volumes_.front() + "/index.lmdb";
    if (!std::filesystem::exists(path)) {
      return false;
    }
    auto env = LmdbEnv::open(path, std::filesystem::file_size(path), LmdbOpen::look);
    if (!env) {
      return fail_if(true, "index: " + env.error().message());
    }
    env_.emplace(std::move(*env));
    const auto identity = env_->read_identity();
    return identity && *identity == IndexIdentity{superblock_.store_uuid, superblock_.epoch};
  }

  void read_rows() {
    IndexVisitor visitor;
    visitor.on_space = [this](const IndexSpace& space) {
      families_[space.number.value] = space;
    };
    visitor.on_row = [this](const IndexRow& row) { read_row(row); };
    visitor.on_damaged_row = [this](const Error& error) {
      fail_if(true, "a row does not verify: " + error.message());
    };
    const auto visited = env_->visit(visitor);
    fail_if(!visited.has_value(), "the index can't be walked");
  }

  // Where the row of `page` says its first part is.
  std::optional<std::pair<std::string, std::uint64_t>> place_of(const PageHash& page) {
    std::optional<std::pair<std::string, std::uint64_t>> out;
    IndexVisitor visitor;
    visitor.on_space = [this](const IndexSpace& space) {
      families_[space.number.value] = space;
    };
    visitor.on_row = [&](const IndexRow& row) {
      if (row.page == page && !row.parts.empty()) {
        if (const SlabFile* slab = slab_of(row, row.parts[0])) {
          out = {slab->path, slab->header.first_slot_offset +
                                 row.parts[0].slot * slab->header.slot_bytes};
        }
      }
    };
    visitor.on_damaged_row = [](const Error&) {};
    (void)env_->visit(visitor).has_value();
    return out;
  }

  StoreAudit take() { return std::move(audit_); }

 private:
  bool fail_if(bool wrong, const std::string& what) {
    if (wrong) {
      audit_.findings.push_back(what);
    }
    return false;
  }

  void read_slabs(const std::string& volume) {
    if (!std::filesystem::exists(volume)) {
      return;
    }
    for (const auto& entry : std::filesystem::directory_iterator(volume)) {
      if (entry.path().filename().string().rfind("slab-", 0) != 0) {
        continue;
      }
      std::vector<std::uint8_t> blocks(kSlabHeaderCopies * std::size_t{kBlockBytes});
      if (!read_at(entry.path().string(), 0, blocks)) {
        continue;  // its creation was cut short
      }
      if (const auto header = parse_slab_header(blocks)) {
        slabs_.push_back({entry.path().string(), *header});
        audit_.slots += header->slot_count;
      }
    }
  }

  const SlabFile* slab_of(const IndexRow& row, const IndexRowPart& part) const {
    const auto space = families_.find(row.space.value);
    for (const SlabFile& slab : slabs_) {
      if (space != families_.end() && slab.header.kind == part.kind &&
          slab.header.shard == part.shard && slab.header.volume == part.volume &&
          slab.header.family == make_family_id(space->second.descriptor)) {
        return &slab;
      }
    }
    return nullptr;
  }

  void read_row(const IndexRow& row) {
    ++audit_.rows;
    const std::string name = "row of " + to_hex(row.page.bytes).substr(0, 12);
    if (row.space.value >= superblock_.space_count || families_.count(row.space.value) == 0) {
      ++audit_.stale;  // a space that is being dropped
      return;
    }
    for (const IndexRowPart& part : row.parts) {
      const SlabFile* slab = slab_of(row, part);
      if (slab == nullptr || part.slot >= slab->header.slot_count) {
        fail_if(true, name + " names a slot that is not there");
        continue;
      }
      if (!named_.insert({slab->path, part.slot}).second) {
        fail_if(true, name + " names a slot that another row names");
      }
      judge(row, part, *slab, name);
    }
  }

  BlobVerdict judge_block(const IndexRow& row, const IndexRowPart& part, const SlabFile& slab,
                          std::span<const std::uint8_t> block, std::uint64_t epochs_ago) const {
    const SpaceEpoch& space = superblock_.spaces[row.space.value];
    const BlobSeed seed{superblock_.store_uuid, superblock_.epoch, space.epoch - epochs_ago};
    BlobHeader header{};
    const BlobVerdict verdict = parse_header_block(block, seed, header);
    const BlobExpectation expected{part.kind,
                                   slab.header.payload_bytes,
                                   row.page,
                                   make_space_tag(space.space, part.shard),
                                   SlotId{part.slot},
                                   Generation{part.generation}};
    return verdict == BlobVerdict::good ? judge_header(header, expected) : verdict;
  }

  void judge(const IndexRow& row, const IndexRowPart& part, const SlabFile& slab,
             const std::string& name) {
    std::array<std::uint8_t, kBlockBytes> block{};
    if (!read_at(slab.path, slab.header.first_slot_offset + part.slot * slab.header.slot_bytes,
                 block)) {
      fail_if(true, name + ": its slot can't be read");
      return;
    }
    const BlobVerdict verdict = judge_block(row, part, slab, block, 0);
    const bool cleared = verdict == BlobVerdict::bad_header_crc &&
                         judge_block(row, part, slab, block, 1) == BlobVerdict::good;
    // A wiped slot still has its payload, and the space of it.
    const std::uint64_t payload =
        slab.header.first_slot_offset + part.slot * slab.header.slot_bytes + kBlockBytes;
    fail_if(!has_space(slab.path, payload, slab.header.payload_bytes),
            name + ": its slot has no space");
    if (verdict == BlobVerdict::good) {
      ++audit_.live;
    } else if (verdict == BlobVerdict::unwritten || cleared) {
      ++audit_.stale;
    } else {
      fail_if(true, name + ": its slot holds something else: " + blob_verdict_name(verdict));
    }
  }

  std::vector<std::string> volumes_;
  StoreAudit audit_;
  Superblock superblock_{};
  std::optional<LmdbEnv> env_;
  std::vector<SlabFile> slabs_;
  std::map<std::uint32_t, IndexSpace> families_;  // by SpaceNo
  std::set<std::pair<std::string, std::uint32_t>> named_;
};

}  // namespace

StoreAudit audit_store(const std::vector<std::string>& volumes) {
  Auditor auditor(volumes);
  if (auditor.open()) {
    auditor.read_rows();
  }
  return auditor.take();
}

bool damage_payload(const std::vector<std::string>& volumes, std::uint64_t page) {
  Auditor auditor(volumes);
  PageHash hash;
  const auto key = page_key(page);
  std::memcpy(hash.bytes.data(), key.data(), key.size());
  if (!auditor.open()) {
    return false;
  }
  const auto place = auditor.place_of(hash);
  if (!place) {
    return false;
  }
  const UniqueFd fd(::open(place->first.c_str(), O_RDWR | O_CLOEXEC));
  std::uint8_t byte = 0;
  const auto at = static_cast<off_t>(place->second + kBlockBytes + 100);
  if (!fd || ::pread(fd.get(), &byte, 1, at) != 1) {
    return false;
  }
  byte ^= 0x10;
  return ::pwrite(fd.get(), &byte, 1, at) == 1 && ::fsync(fd.get()) == 0;
}

std::uint64_t slab_bytes_on_disk(const std::string& volume) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(volume)) {
    struct stat info {};
    if (entry.path().filename().string().rfind("slab", 0) == 0 &&
        ::stat(entry.path().c_str(), &info) == 0) {
      bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
    }
  }
  return bytes;
}

}  // namespace hc::test
