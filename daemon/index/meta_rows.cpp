// SPDX-License-Identifier: Apache-2.0
// meta_rows: encode and judge space rows and the identity.
#include "daemon/index/meta_rows.h"

#include <cstring>

#include "proto/checksum.h"
#include "proto/versions.h"

namespace hc {

std::array<std::uint8_t, kSpaceKeyBytes> encode_space_key(SpaceNo number) {
  std::array<std::uint8_t, kSpaceKeyBytes> key{};
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<std::uint8_t>(number.value >> (24 - 8 * i));
  }
  return key;
}

std::vector<std::uint8_t> encode_space_row(const IndexSpace& space) {
  const std::vector<std::uint8_t> descriptor = encode_space(space.descriptor);
  SpaceRowHeader header{0, kDiskVersion, space.shards_on_node};
  std::vector<std::uint8_t> value(sizeof header + descriptor.size());
  std::memcpy(value.data(), &header, sizeof header);
  std::memcpy(value.data() + sizeof header, descriptor.data(), descriptor.size());
  const auto covered = std::span(value).subspan(sizeof header.row_crc);
  header.row_crc = crc32c(covered, crc32c(encode_space_key(space.number)));
  std::memcpy(value.data(), &header, sizeof header);
  return value;
}

Result<IndexSpace> decode_space_row(std::span<const std::uint8_t> key,
                                    std::span<const std::uint8_t> value) {
  SpaceRowHeader header{};
  if (key.size() != kSpaceKeyBytes || value.size() < sizeof header) {
    return make_error(Code::corrupt, "space row has a wrong size");
  }
  std::memcpy(&header, value.data(), sizeof header);
  if (header.row_crc != crc32c(value.subspan(sizeof header.row_crc), crc32c(key))) {
    return make_error(Code::corrupt, "space row does not match its checksum");
  }
  if (header.version != kDiskVersion) {
    return make_error(Code::corrupt, "space row has an unknown version");
  }
  auto descriptor = decode_space(value.subspan(sizeof header));
  if (!descriptor) {
    return make_error(Code::corrupt, "space row: " + descriptor.error().text);
  }
  IndexSpace space;
  for (const std::uint8_t byte : key) {
    space.number.value = space.number.value << 8 | byte;
  }
  space.descriptor = std::move(*descriptor);
  space.shards_on_node = header.shards_on_node;
  return space;
}

std::array<std::uint8_t, sizeof(IdentityRow)> encode_identity(const IndexIdentity& identity) {
  IdentityRow row{0, kDiskVersion, 0, identity.store_epoch, identity.store_uuid};
  std::array<std::uint8_t, sizeof row> value{};
  std::memcpy(value.data(), &row, sizeof row);
  row.row_crc = crc32c(std::span(value).subspan(sizeof row.row_crc));
  std::memcpy(value.data(), &row, sizeof row);
  return value;
}

Result<IndexIdentity> decode_identity(std::span<const std::uint8_t> value) {
  IdentityRow row{};
  if (value.size() != sizeof row) {
    return make_error(Code::corrupt, "index identity has a wrong size");
  }
  std::memcpy(&row, value.data(), sizeof row);
  if (row.row_crc != crc32c(value.subspan(sizeof row.row_crc))) {
    return make_error(Code::corrupt, "index identity does not match its checksum");
  }
  if (row.version != kDiskVersion || row.reserved != 0) {
    return make_error(Code::corrupt, "index identity has an unknown version");
  }
  return IndexIdentity{row.store_uuid, row.store_epoch};
}

std::array<std::uint8_t, sizeof(StateRow)> encode_state(const IndexState& state) {
  StateRow row{0, kDiskVersion, state.rebuilding ? std::uint16_t{1} : std::uint16_t{0},
               state.commit_sequence};
  std::array<std::uint8_t, sizeof row> value{};
  std::memcpy(value.data(), &row, sizeof row);
  row.row_crc = crc32c(std::span(value).subspan(sizeof row.row_crc));
  std::memcpy(value.data(), &row, sizeof row);
  return value;
}

Result<IndexState> decode_state(std::span<const std::uint8_t> value) {
  StateRow row{};
  if (value.size() != sizeof row) {
    return make_error(Code::corrupt, "index state has a wrong size");
  }
  std::memcpy(&row, value.data(), sizeof row);
  if (row.row_crc != crc32c(value.subspan(sizeof row.row_crc))) {
    return make_error(Code::corrupt, "index state does not match its checksum");
  }
  if (row.version != kDiskVersion || row.rebuilding > 1) {
    return make_error(Code::corrupt, "index state has an unknown version");
  }
  return IndexState{row.commit_sequence, row.rebuilding == 1};
}

Result<void> judge_meta_row(std::span<const std::uint8_t> key,
                            std::span<const std::uint8_t> value) {
  const std::string_view name(reinterpret_cast<const char*>(key.data()), key.size());
  if (name == kIdentityKey) {
    const auto identity = decode_identity(value);
    return identity ? Result<void>() : Result<void>(identity.error());
  }
  if (name == kStateKey) {
    const auto state = decode_state(value);
    return state ? Result<void>() : Result<void>(state.error());
  }
  return make_error(Code::corrupt, "has a row that the index does not know");
}

}  // namespace hc
