// SPDX-License-Identifier: Apache-2.0
// slab_set: slab files by family, kind, shard and volume.
#include "daemon/store/slab_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/log/log.h"
#include "daemon/store/aligned_buffer.h"
#include "proto/blob_header.h"
#include "proto/check.h"
#include "proto/space.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr const char* kSlabPrefix = "slab-";
constexpr std::uint64_t kStepBytesMax = 1ULL << 30;
constexpr std::uint32_t kStepsPerSlab = 64;

bool is_blank(std::span<const std::uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

SlabSet::SlabSet(Disk& disk, const Uuid& store_uuid,
                 const std::vector<std::uint64_t>& volume_bytes)
    : disk_(disk), store_uuid_(store_uuid) {
  HC_CHECK(!volume_bytes.empty());
  for (const std::uint64_t bytes : volume_bytes) {
    ledgers_.emplace_back(bytes);
  }
}

std::string SlabSet::file_name(const SlabSpec& spec) {
  const std::string shard =
      spec.shard == kShardReplicated ? "replicated" : "shard" + std::to_string(spec.shard);
  return kSlabPrefix + to_hex(spec.family.bytes).substr(0, 16) + "-kind" +
         std::to_string(spec.kind) + "-" + shard;
}

std::uint32_t SlabSet::slots_per_step(std::uint64_t slot_bytes, std::uint32_t slot_count) {
  const std::uint64_t most = std::max<std::uint64_t>(1, kStepBytesMax / slot_bytes);
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(slot_count / kStepsPerSlab, 1, most));
}

std::uint64_t SlabSet::step_cost(const Slab& slab, std::uint32_t step) {
  return slab.step_bytes(step) + (slab.born() ? 0 : slab.header().first_slot_offset);
}

std::uint64_t SlabSet::allocated_bytes() const {
  std::uint64_t total = 0;
  for (const StepLedger& ledger : ledgers_) {
    total += ledger.charged_bytes();
  }
  return total;
}

std::optional<SlabId> SlabSet::find(const SlabSpec& spec) const {
  for (std::uint16_t i = 0; i < count(); ++i) {
    const SlabHeader& header = slabs_[i]->header();
    if (header.kind == spec.kind && header.shard == spec.shard && header.volume == spec.volume &&
        header.family == spec.family) {
      return SlabId{i};
    }
  }
  return std::nullopt;
}

// not_found: a file that has no header yet, nothing is in it.
Result<SlabHeader> SlabSet::read_header(FileId file) {
  AlignedBuffer buffer(kHeaderBytes);
  if (disk_.size_bytes(file) < kHeaderBytes) {
    return make_error(Code::corrupt, "slab file is shorter than its header");
  }
  HC_TRY_VOID(disk_.read_now(file, 0, buffer.bytes()));
  if (is_blank(buffer.bytes())) {
    return make_error(Code::not_found, "slab file without a header");
  }
  return parse_slab_header(buffer.bytes());
}

void SlabSet::fill_header(const SlabHeader& header, std::span<std::uint8_t> blocks) {
  HC_CHECK(blocks.size() == kHeaderBytes);
  std::memset(blocks.data(), 0, blocks.size());
  for (std::uint32_t copy = 0; copy < kSlabHeaderCopies; ++copy) {
    std::memcpy(blocks.data() + std::size_t{copy} * kBlockBytes, &header, sizeof header);
  }
}

// One copy after the other: a torn write leaves one that is whole.
Result<void> SlabSet::write_header(FileId file, const SlabHeader& header) {
  AlignedBuffer buffer(kHeaderBytes);
  fill_header(header, buffer.bytes());
  for (std::uint32_t copy = 0; copy < kSlabHeaderCopies; ++copy) {
    HC_TRY_VOID(disk_.write_now(file, std::uint64_t{copy} * kBlockBytes,
                                buffer.bytes().subspan(0, kBlockBytes)));
  }
  return {};
}

SlabHeader SlabSet::header_of(const SlabSpec& spec) const {
  SlabHeader header{};
  header.kind = spec.kind;
  header.shard = spec.shard;
  header.volume = spec.volume;
  header.store_uuid = store_uuid_;
  header.family = spec.family;
  header.slot_bytes = blob_bytes(spec.payload_bytes);
  header.first_slot_offset = kFirstSlotOffset;
  header.slot_count = spec.slot_count;
  header.slots_per_step = slots_per_step(header.slot_bytes, spec.slot_count);
  header.payload_bytes = spec.payload_bytes;
  seal_slab_header(header);
  return header;
}

SlabId SlabSet::add(FileId file, const SlabHeader& header) {
  HC_CHECK(slabs_.size() < 0xFFFF);
  slabs_.push_back(std::make_unique<Slab>(file, header));
  return SlabId{static_cast<std::uint16_t>(slabs_.size() - 1)};
}

// The budget has grown: more slots behind the ones that are there.
Result<void> SlabSet::lengthen(FileId file, SlabHeader& header, const SlabSpec& spec) {
  header.slot_count = spec.slot_count;
  seal_slab_header(header);
  const std::uint64_t bytes = header.first_slot_offset + header.slot_count * header.slot_bytes;
  HC_TRY_VOID(disk_.close(file));
  auto longer = disk_.open(FileSpec{file_name(spec), bytes, false, true, spec.volume, true});
  HC_TRY(longer);
  auto written = write_header(*longer, header);
  HC_TRY_VOID(disk_.close(*longer));
  return written;
}

// Takes an opened file into the set when its header is the one expected.
Result<SlabId> SlabSet::adopt(FileId file, const SlabSpec& spec) {
  auto header = read_header(file);
  HC_TRY(header);
  const std::string name = file_name(spec);
  if (header->store_uuid != store_uuid_) {
    return make_error(Code::refused, "slab " + name + " belongs to another store");
  }
  SlabHeader expected = header_of(spec);
  expected.slot_count = header->slot_count;
  expected.slots_per_step = header->slots_per_step;
  seal_slab_header(expected);
  if (std::memcmp(&*header, &expected, sizeof expected) != 0) {
    return make_error(Code::refused, "slab " + name + " is of another space or volume than its "
                                                      "name says: clear the store");
  }
  const std::uint64_t bytes = header->first_slot_offset + header->slot_count * header->slot_bytes;
  if (disk_.size_bytes(file) < bytes) {
    return make_error(Code::corrupt, "slab " + name + " is shorter than its header says");
  }
  const SlabId id = add(file, *header);
  slab(id).set_born();
  return id;
}

Result<SlabId> SlabSet::create(const SlabSpec& spec) {
  const SlabHeader header = header_of(spec);
  const std::uint64_t bytes = header.first_slot_offset + header.slot_count * header.slot_bytes;
  auto file = disk_.open(FileSpec{file_name(spec), bytes, true, true, spec.volume, true});
  HC_TRY(file);
  HC_FAILPOINT(slab_file_created);
  return add(*file, header);
}

// What is left under this name: of an empty store, or of a creation that a crash cut short.
Result<void> SlabSet::clear_name(const SlabSpec& spec) {
  auto file = disk_.open(FileSpec{file_name(spec), 0, false, true, spec.volume});
  if (!file && file.error().code == Code::not_found) {
    return {};
  }
  HC_TRY(file);
  const auto header = read_header(*file);
  HC_TRY_VOID(disk_.close(*file));
  if (header && header->store_uuid != store_uuid_) {
    return make_error(Code::refused, "slab " + file_name(spec) + " belongs to another store");
  }
  if (!header && header.error().code == Code::io_error) {
    return header.error();
  }
  return disk_.remove(file_name(spec), spec.volume);
}

Result<SlabId> SlabSet::open_or_create(const SlabSpec& spec) {
  if (const auto known = find(spec)) {
    return *known;
  }
  HC_TRY_VOID(clear_name(spec));
  return create(spec);
}

Result<SlabId> SlabSet::open_existing(const SlabSpec& spec) {
  if (const auto known = find(spec)) {
    return *known;
  }
  for (int looks = 0; looks < 2; ++looks) {
    auto file = disk_.open(FileSpec{file_name(spec), 0, false, true, spec.volume});
    HC_TRY(file);
    auto header = read_header(*file);
    if (header && header->slot_count < spec.slot_count && looks == 0 &&
        header->store_uuid == store_uuid_) {
      HC_TRY_VOID(lengthen(*file, *header, spec));
      continue;
    }
    auto adopted = adopt(*file, spec);
    if (!adopted) {
      HC_TRY_VOID(disk_.close(*file));
    } else {
      slab(*adopted).set_slots_max(spec.slot_count);
    }
    return adopted;
  }
  HC_UNREACHABLE();
}

Result<void> SlabSet::settle(SlabId id, const std::vector<bool>& used) {
  const Slab& at = slab(id);
  HC_CHECK(used.size() == at.step_count());
  HC_TRY_VOID(keep_range(at, 0, at.header().first_slot_offset));
  for (std::uint32_t step = 0; step < at.step_count();) {
    const bool stays = used[step];
    const std::uint64_t offset = at.slot_offset(at.first_slot(step));
    std::uint64_t bytes = 0;
    while (step < at.step_count() && used[step] == stays) {
      bytes += at.step_bytes(step++);
    }
    HC_TRY_VOID(stays ? keep_range(at, offset, bytes)
                      : disk_.punch_now(at.file(), offset, bytes));
  }
  return {};
}

// A power loss may have undone a part of its allocation. Should the disk be full, a write there
// may fail, as on any full disk.
Result<void> SlabSet::keep_range(const Slab& slab, std::uint64_t offset_bytes,
                                 std::uint64_t length_bytes) {
  ledgers_[slab.volume()].charge_found(length_bytes);
  const auto allocated = disk_.allocate_now(slab.file(), offset_bytes, length_bytes);
  if (allocated || allocated.error().code == Code::io_error) {
    return allocated;
  }
  log_warn("slab.space_missing", {{"volume", std::uint32_t{slab.volume()}},
                                  {"reason", allocated.error().message()}});
  return {};
}

Result<void> SlabSet::remove_others() {
  for (std::uint16_t volume = 0; volume < volume_count(); ++volume) {
    auto files = disk_.list(volume);
    HC_TRY(files);
    for (const FileInfo& info : *files) {
      const bool known = std::any_of(slabs_.begin(), slabs_.end(), [&](const auto& entry) {
        const SlabHeader& header = entry->header();
        return header.volume == volume &&
               file_name({header.family, header.kind, header.shard, volume}) == info.name;
      });
      const bool goes = !known && !HC_MUTANT(slab_files_kept);
      if (goes && info.name.rfind(kSlabPrefix, 0) == 0) {
        HC_TRY_VOID(disk_.remove(info.name, volume));
      }
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
  for (StepLedger& ledger : ledgers_) {
    ledger.release(ledger.charged_bytes());
  }
  return outcome;
}

Result<void> SlabSet::remove_all() {
  const auto closed = close_all();
  HC_TRY_VOID(remove_others());
  return closed;
}

}  // namespace hc
