// SPDX-License-Identifier: Apache-2.0
// readme_tables_test: the tables of proto/README.md say what the structs are, field by field.
#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "proto/blob_header.h"
#include "proto/index_row.h"
#include "proto/slab_header.h"
#include "proto/store_notes.h"
#include "proto/superblock.h"
#include "proto/versions.h"
#include "support/catch.h"
#include "support/paths.h"

namespace hc::proto_test {
namespace {

struct Field {
  std::size_t offset;
  std::size_t size;
  std::string name;
  friend bool operator==(const Field&, const Field&) = default;
};

[[maybe_unused]] std::ostream& operator<<(std::ostream& out, const Field& field) {
  return out << field.offset << ' ' << field.size << ' ' << field.name;
}

struct Table {
  std::size_t size = 0;
  std::vector<Field> fields;
};

using Tables = std::map<std::string, Table>;

#define HC_FIELD(type, field)                          \
  Field {                                              \
    offsetof(type, field), sizeof(type::field), #field \
  }

Tables tables_of_notes() {
  return {
      {"CommitMark",
       {sizeof(CommitMark),
        {HC_FIELD(CommitMark, mark_crc), HC_FIELD(CommitMark, magic),
         HC_FIELD(CommitMark, version), HC_FIELD(CommitMark, reserved),
         HC_FIELD(CommitMark, reserved2), HC_FIELD(CommitMark, store_uuid),
         HC_FIELD(CommitMark, store_epoch), HC_FIELD(CommitMark, commit_sequence)}}},
      {"SpaceNote",
       {sizeof(SpaceNote),
        {HC_FIELD(SpaceNote, note_crc), HC_FIELD(SpaceNote, magic), HC_FIELD(SpaceNote, version),
         HC_FIELD(SpaceNote, shards_on_node), HC_FIELD(SpaceNote, descriptor_bytes)}}},
      {"ForgottenBlock",
       {sizeof(ForgottenBlock),
        {HC_FIELD(ForgottenBlock, block_crc), HC_FIELD(ForgottenBlock, magic),
         HC_FIELD(ForgottenBlock, version), HC_FIELD(ForgottenBlock, page_count),
         HC_FIELD(ForgottenBlock, floor), HC_FIELD(ForgottenBlock, store_uuid),
         HC_FIELD(ForgottenBlock, store_epoch), HC_FIELD(ForgottenBlock, sequence),
         HC_FIELD(ForgottenBlock, has_floor), HC_FIELD(ForgottenBlock, reserved)}}},
      {"ForgottenPage",
       {sizeof(ForgottenPage),
        {HC_FIELD(ForgottenPage, page), HC_FIELD(ForgottenPage, space),
         HC_FIELD(ForgottenPage, generation)}}},
  };
}

const Tables& tables_of_code() {
  static Tables tables = {
      {"BlobHeader",
       {sizeof(BlobHeader),
        {HC_FIELD(BlobHeader, header_crc), HC_FIELD(BlobHeader, magic),
         HC_FIELD(BlobHeader, version), HC_FIELD(BlobHeader, kind),
         HC_FIELD(BlobHeader, payload_bytes), HC_FIELD(BlobHeader, page_hash),
         HC_FIELD(BlobHeader, payload_crc), HC_FIELD(BlobHeader, space_tag),
         HC_FIELD(BlobHeader, slot), HC_FIELD(BlobHeader, generation)}}},
      {"BlobSeed",
       {sizeof(BlobSeed),
        {HC_FIELD(BlobSeed, store_uuid), HC_FIELD(BlobSeed, store_epoch),
         HC_FIELD(BlobSeed, space_epoch)}}},
      {"BlobMetadata",
       {sizeof(BlobMetadata),
        {HC_FIELD(BlobMetadata, metadata_crc), HC_FIELD(BlobMetadata, metadata_bytes)}}},
      {"SlabHeader",
       {sizeof(SlabHeader),
        {HC_FIELD(SlabHeader, header_crc), HC_FIELD(SlabHeader, magic),
         HC_FIELD(SlabHeader, version), HC_FIELD(SlabHeader, kind), HC_FIELD(SlabHeader, shard),
         HC_FIELD(SlabHeader, volume), HC_FIELD(SlabHeader, store_uuid),
         HC_FIELD(SlabHeader, family), HC_FIELD(SlabHeader, slot_bytes),
         HC_FIELD(SlabHeader, first_slot_offset), HC_FIELD(SlabHeader, slot_count),
         HC_FIELD(SlabHeader, slots_per_step), HC_FIELD(SlabHeader, payload_bytes),
         HC_FIELD(SlabHeader, reserved)}}},
      {"Superblock",
       {sizeof(Superblock),
        {HC_FIELD(Superblock, superblock_crc), HC_FIELD(Superblock, magic),
         HC_FIELD(Superblock, version), HC_FIELD(Superblock, volumes),
         HC_FIELD(Superblock, space_count), HC_FIELD(Superblock, sequence),
         HC_FIELD(Superblock, epoch), HC_FIELD(Superblock, store_uuid),
         HC_FIELD(Superblock, generation_high), HC_FIELD(Superblock, reserved2),
         HC_FIELD(Superblock, spaces)}}},
      {"SpaceEpoch",
       {sizeof(SpaceEpoch), {HC_FIELD(SpaceEpoch, space), HC_FIELD(SpaceEpoch, epoch)}}},
      {"IndexRowHeader",
       {sizeof(IndexRowHeader),
        {HC_FIELD(IndexRowHeader, row_crc), HC_FIELD(IndexRowHeader, version),
         HC_FIELD(IndexRowHeader, part_count), HC_FIELD(IndexRowHeader, last_access),
         HC_FIELD(IndexRowHeader, reserved)}}},
      {"IndexRowPart",
       {sizeof(IndexRowPart),
        {HC_FIELD(IndexRowPart, kind), HC_FIELD(IndexRowPart, shard), HC_FIELD(IndexRowPart, owner),
         HC_FIELD(IndexRowPart, volume), HC_FIELD(IndexRowPart, slot),
         HC_FIELD(IndexRowPart, generation)}}},
  };
  tables.merge(tables_of_notes());
  return tables;
}

const std::map<std::string, std::uint64_t>& constants_of_code() {
  static const std::map<std::string, std::uint64_t> constants = {
      {"kDiskVersion", kDiskVersion},
      {"kBlockBytes", kBlockBytes},
      {"kBlobMagic", kBlobMagic},
      {"kSlabMagic", kSlabMagic},
      {"kSuperblockMagic", kSuperblockMagic},
      {"kMetadataBytesMax", kMetadataBytesMax},
      {"kFirstSlotOffset", kFirstSlotOffset},
      {"kSlabHeaderCopies", kSlabHeaderCopies},
      {"kSuperblockCopies", kSuperblockCopies},
      {"kSuperblockCopyBytes", kSuperblockCopyBytes},
      {"kIndexKeyBytes", kIndexKeyBytes},
      {"kShardReplicated", kShardReplicated},
  };
  return constants;
}

std::string between_backquotes(const std::string& text) {
  const std::size_t begin = text.find('`');
  const std::size_t end = text.find('`', begin + 1);
  return end == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    cells.push_back(cell);
  }
  return cells;
}

struct Readme {
  Tables tables;
  std::map<std::string, std::uint64_t> constants;
};

void read_row(const std::string& line, const std::string& section, Readme& readme) {
  const std::vector<std::string> cells = cells_of(line);
  if (cells.size() < 3 || cells[0].rfind("--", 0) == 0) {
    return;
  }
  if (cells[0].rfind(" `k", 0) == 0) {
    readme.constants[between_backquotes(cells[0])] = std::stoull(cells[1]);
  } else if (!section.empty() && cells.size() == 4 && cells[0] != " offset ") {
    readme.tables[section].fields.push_back(
        {std::stoul(cells[0]), std::stoul(cells[1]), between_backquotes(cells[2])});
  }
}

// Reads "### `Struct` (N bytes)" headings and the rows below each.
Readme read_readme() {
  std::ifstream file(test::source_dir() / "proto/README.md");
  REQUIRE(file);
  Readme readme;
  std::string section;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("### `", 0) == 0) {
      section = between_backquotes(line);
      readme.tables[section].size = std::stoul(line.substr(line.find('(') + 1));
    } else if (line.rfind("## ", 0) == 0) {
      section.clear();
    } else if (line.rfind('|', 0) == 0 && line.rfind("|-", 0) != 0) {
      read_row(line, section, readme);
    }
  }
  return readme;
}

}  // namespace

TEST_CASE("The format tables in proto/README.md equal the structs") {
  const Readme readme = read_readme();
  CHECK(readme.tables.size() == tables_of_code().size());
  for (const auto& [name, expected] : tables_of_code()) {
    CAPTURE(name);
    REQUIRE(readme.tables.count(name) == 1);
    const Table& found = readme.tables.at(name);
    CHECK(found.size == expected.size);
    CHECK(found.fields == expected.fields);
  }
}

TEST_CASE("The format tables name every byte of every struct") {
  for (const auto& [name, table] : read_readme().tables) {
    CAPTURE(name);
    std::size_t next = 0;
    for (const Field& field : table.fields) {
      CHECK(field.offset == next);
      next = field.offset + field.size;
    }
    CHECK(next == table.size);
  }
}

TEST_CASE("The constants in proto/README.md equal those of the code") {
  CHECK(read_readme().constants == constants_of_code());
}

}  // namespace hc::proto_test
