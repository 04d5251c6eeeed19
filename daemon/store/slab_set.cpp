// SPDX-License-Identifier: Apache-2.0
// slab_set: slab files by family, kind and shard.
#include "daemon/store/slab_set.h"

#include <cstring>
#include <utility>

#include "daemon/store/aligned_buffer.h"
#include "proto/blob_header.h"
#include "proto/check.h"
#include "proto/space.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::uint64_t kHeaderBytes = std::uint64_t{kSlabHeaderCopies} * kBlockBytes;
constexpr const char* kSlabPrefix = "slab-";

std::string family_prefix(const FamilyId& family) {
  return kSlabPrefix + to_hex(family.bytes).substr(0, 16) + "-";
}

}  // namespace

SlabSet::SlabSet(Disk& disk, const Uuid& store_uuid, std::uint64_t budget_bytes)
    : disk_(disk), store_uuid_(store_uuid), budget_bytes_(budget_bytes) {}

std::string SlabSet::file_name(const SlabSpec& spec) {
  const std::string shard =
      spec.shard == kShardReplicated ? "replicated" : "shard" + std::to_string(spec.shard);
  return family_prefix(spec.family) + "kind" + std::to_string(spec.kind) + "-" + shard;
}

std::optional<SlabId> SlabSet::find(std::uint16_t kind, std::uint16_t shard) const {
  for (std::uint16_t i = 0; i < count(); ++i) {
    const SlabHeader& header = slabs_[i]->header();
    if (header.kind == kind && header.shard == shard) {
      return SlabId{i};
    }
  }
  return std::nullopt;
}

Result<SlabHeader> SlabSet::read_header(FileId file) {
  AlignedBuffer buffer(kHeaderBytes);
  if (disk_.size_bytes(file) < kHeaderBytes) {
    return make_error(Code::corrupt, "slab file is shorter than its header");
  }
  HC_TRY_VOID(disk_.read_now(file, 0, buffer.bytes()));
  return parse_slab_header(buffer.bytes());
}

Result<void> SlabSet::write_header(FileId file, const SlabHeader& header) {
  AlignedBuffer buffer(kHeaderBytes);
  for (std::uint32_t copy = 0; copy < kSlabHeaderCopies; ++copy) {
    std::memcpy(buffer.data() + std::size_t{copy} * kBlockBytes, &header, sizeof header);
  }
  return disk_.write_now(file, 0, buffer.bytes());
}

SlabHeader SlabSet::header_of(const SlabSpec& spec) const {
  SlabHeader header{};
  header.kind = spec.kind;
  header.shard = spec.shard;
  header.store_uuid = store_uuid_;
  header.family = spec.family;
  header.slot_bytes = blob_bytes(spec.payload_bytes);
  header.first_slot_offset = kFirstSlotOffset;
  header.slot_count = spec.slot_count;
  header.slots_per_step = spec.slot_count;
  header.payload_bytes = spec.payload_bytes;
  seal_slab_header(header);
  return header;
}

// Takes an opened file into the set when its header is the one expected.
Result<SlabId> SlabSet::adopt(FileId file, const SlabSpec& spec, bool any_geometry) {
  auto header = read_header(file);
  HC_TRY(header);
  SlabHeader expected = header_of(spec);
  if (any_geometry) {
    expected.slot_count = header->slot_count;
    expected.slots_per_step = header->slots_per_step;
    seal_slab_header(expected);
  }
  const std::string name = file_name(spec);
  if (header->store_uuid != store_uuid_) {
    return make_error(Code::refused, "slab " + name + " belongs to another store");
  }
  if (std::memcmp(&*header, &expected, sizeof expected) != 0) {
    return make_error(Code::refused,
                      "slab " + name + " has " + std::to_string(header->slot_count) +
                          " slots of " + std::to_string(header->slot_bytes) +
                          " bytes, the configuration asks for " +
                          std::to_string(spec.slot_count) + " of " +
                          std::to_string(expected.slot_bytes) +
                          ": restore l3.l3_bytes and l3.reserve_slots, or clear the store");
  }
  auto slab = std::make_unique<Slab>(file, *header);
  if (disk_.size_bytes(file) < slab->file_bytes()) {
    return make_error(Code::corrupt, "slab " + name + " is shorter than its header says");
  }
  if (allocated_bytes_ + slab->file_bytes() > budget_bytes_) {
    return make_error(Code::no_space,
                      "l3.l3_bytes = " + std::to_string(budget_bytes_) + ": the slabs of " +
                          "this store already take " +
                          std::to_string(allocated_bytes_ + slab->file_bytes()));
  }
  allocated_bytes_ += slab->file_bytes();
  slabs_.push_back(std::move(slab));
  return SlabId{static_cast<std::uint16_t>(slabs_.size() - 1)};
}

Result<SlabId> SlabSet::create(const SlabSpec& spec) {
  const SlabHeader header = header_of(spec);
  const std::uint64_t bytes = kFirstSlotOffset + header.slot_count * header.slot_bytes;
  if (allocated_bytes_ + bytes > budget_bytes_) {
    return make_error(Code::no_space, "l3.l3_bytes = " + std::to_string(budget_bytes_) +
                                          ": slab " + file_name(spec) + " needs " +
                                          std::to_string(bytes) + " beside " +
                                          std::to_string(allocated_bytes_) + " in use");
  }
  auto file = disk_.open(FileSpec{file_name(spec), bytes, true, true});
  if (!file) {
    (void)disk_.remove(file_name(spec), 0).has_value();
    return file.error();
  }
  HC_FAILPOINT(slab_file_created);
  auto written = write_header(*file, header);
  if (HC_FAILPOINT_FAILS(slab_header_written)) {
    written = make_error(Code::io_error, "slab header");
  }
  auto adopted = written ? adopt(*file, spec, false) : Result<SlabId>(written.error());
  if (!adopted) {
    // Nothing is in it. Left open, its own lock would refuse the next attempt.
    HC_TRY_VOID(disk_.close(*file));
    HC_TRY_VOID(disk_.remove(file_name(spec), 0));
  }
  return adopted;
}

Result<SlabId> SlabSet::open_or_create(const SlabSpec& spec) {
  if (const auto known = find(spec.kind, spec.shard)) {
    return *known;
  }
  auto file = disk_.open(FileSpec{file_name(spec), 0, false, true});
  if (!file && file.error().code == Code::not_found) {
    return create(spec);
  }
  HC_TRY(file);
  auto adopted = adopt(*file, spec, false);
  if (adopted) {
    return adopted;
  }
  HC_TRY_VOID(disk_.close(*file));
  // A file without a valid header is a creation that a crash cut short: nothing is in it.
  if (adopted.error().code != Code::corrupt) {
    return adopted.error();
  }
  HC_TRY_VOID(disk_.remove(file_name(spec), 0));
  return create(spec);
}

Result<SlabId> SlabSet::open_existing(const SlabSpec& spec) {
  if (const auto known = find(spec.kind, spec.shard)) {
    return *known;
  }
  auto file = disk_.open(FileSpec{file_name(spec), 0, false, true});
  HC_TRY(file);
  auto adopted = adopt(*file, spec, true);
  if (!adopted) {
    HC_TRY_VOID(disk_.close(*file));
  }
  return adopted;
}

// A file that is not open.
Result<bool> SlabSet::file_matches(const SlabSpec& spec) {
  auto file = disk_.open(FileSpec{file_name(spec), 0, false, true});
  HC_TRY(file);
  const SlabHeader expected = header_of(spec);
  const auto header = read_header(*file);
  HC_TRY_VOID(disk_.close(*file));
  if (!header && header.error().code == Code::io_error) {
    return header.error();
  }
  return header && std::memcmp(&*header, &expected, sizeof expected) == 0;
}

Result<void> SlabSet::keep_only(const std::vector<SlabSpec>& specs) {
  auto files = disk_.list(0);
  HC_TRY(files);
  for (const FileInfo& info : *files) {
    if (info.name.rfind(kSlabPrefix, 0) != 0) {
      continue;
    }
    bool keep = false;
    for (const SlabSpec& spec : specs) {
      if (file_name(spec) != info.name) {
        continue;
      }
      const auto matches = find(spec.kind, spec.shard) ? Result<bool>(true) : file_matches(spec);
      HC_TRY(matches);
      keep = *matches;
    }
    if (!keep && !HC_MUTANT(slab_files_kept)) {
      HC_TRY_VOID(disk_.remove(info.name, 0));
    }
  }
  return {};
}

Result<void> SlabSet::close_all() {
  Result<void> outcome;
  for (const auto& slab : std::exchange(slabs_, {})) {
    if (auto closed = disk_.close(slab->file()); !closed && outcome) {
      outcome = closed;
    }
  }
  allocated_bytes_ = 0;
  return outcome;
}

Result<void> SlabSet::remove_all() {
  const auto closed = close_all();
  HC_TRY_VOID(keep_only({}));
  return closed;
}

}  // namespace hc
