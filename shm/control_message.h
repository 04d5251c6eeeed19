// SPDX-License-Identifier: Apache-2.0
// control_message: a header and a body as the bytes of one message of the control socket.
#pragma once

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "proto/handshake.h"

namespace hc {

inline MessageHeader header_for(MessageType type, std::uint64_t request_id = 0) {
  MessageHeader header{};
  header.magic = kMessageMagic;
  header.type = static_cast<std::uint16_t>(type);
  header.request_id = request_id;
  return header;
}

// Sets the size; the descriptors travel beside the bytes.
inline std::vector<std::uint8_t> message_bytes(MessageHeader header,
                                               std::span<const std::uint8_t> body,
                                               std::size_t fd_count) {
  header.fd_count = static_cast<std::uint16_t>(fd_count);
  header.bytes = static_cast<std::uint32_t>(sizeof header + body.size());
  std::vector<std::uint8_t> bytes(header.bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!body.empty()) {
    std::memcpy(bytes.data() + sizeof header, body.data(), body.size());
  }
  return bytes;
}

template <WireStruct T>
std::span<const std::uint8_t> struct_bytes(const T& object) {
  return {reinterpret_cast<const std::uint8_t*>(&object), sizeof object};
}

inline std::span<const std::uint8_t> text_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace hc
