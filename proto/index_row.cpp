// SPDX-License-Identifier: Apache-2.0
// index_row: encode and judge rows of the index.
#include "proto/index_row.h"

#include <cstring>

#include "proto/checksum.h"
#include "proto/versions.h"

namespace hc {

namespace {

std::uint32_t row_crc(std::span<const std::uint8_t> key, std::span<const std::uint8_t> value) {
  return crc32c(value.subspan(sizeof(std::uint32_t)), crc32c(key));
}

}  // namespace

std::array<std::uint8_t, kIndexKeyBytes> encode_index_key(SpaceNo space, const PageHash& page) {
  std::array<std::uint8_t, kIndexKeyBytes> key{};
  for (int i = 0; i < 4; ++i) {
    key[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(space.value >> (24 - 8 * i));
  }
  std::memcpy(key.data() + 4, page.bytes.data(), page.bytes.size());
  return key;
}

std::vector<std::uint8_t> encode_index_value(const IndexRow& row) {
  HC_CHECK(row.parts.size() <= kPartsMax);
  IndexRowHeader header{};
  header.version = kDiskVersion;
  header.part_count = static_cast<std::uint16_t>(row.parts.size());
  header.last_access = row.last_access;
  std::vector<std::uint8_t> value(sizeof header + row.parts.size() * sizeof(IndexRowPart));
  std::memcpy(value.data(), &header, sizeof header);
  if (!row.parts.empty()) {
    std::memcpy(value.data() + sizeof header, row.parts.data(),
                row.parts.size() * sizeof(IndexRowPart));
  }
  header.row_crc = row_crc(encode_index_key(row.space, row.page), value);
  std::memcpy(value.data(), &header, sizeof header);
  return value;
}

Result<IndexRow> decode_index_row(std::span<const std::uint8_t> key,
                                  std::span<const std::uint8_t> value) {
  if (key.size() != kIndexKeyBytes || value.size() < sizeof(IndexRowHeader)) {
    return make_error(Code::corrupt, "index row has a wrong size");
  }
  IndexRowHeader header;
  std::memcpy(&header, value.data(), sizeof header);
  if (header.row_crc != row_crc(key, value)) {
    return make_error(Code::corrupt, "index row does not match its checksum");
  }
  if (header.version != kDiskVersion || header.reserved != 0 || header.part_count > kPartsMax ||
      value.size() != sizeof header + header.part_count * sizeof(IndexRowPart)) {
    return make_error(Code::corrupt, "index row has an impossible shape");
  }
  IndexRow row;
  for (std::size_t i = 0; i < 4; ++i) {
    row.space.value = row.space.value << 8 | key[i];
  }
  std::memcpy(row.page.bytes.data(), key.data() + 4, row.page.bytes.size());
  row.last_access = header.last_access;
  row.parts.resize(header.part_count);
  if (header.part_count > 0) {
    std::memcpy(row.parts.data(), value.data() + sizeof header,
                row.parts.size() * sizeof(IndexRowPart));
  }
  return row;
}

}  // namespace hc
