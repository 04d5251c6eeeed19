// SPDX-License-Identifier: Apache-2.0
// control_message_test: the bytes of a message, field by field.
#include "shm/control_message.h"

#include <cstring>

#include "support/catch.h"

namespace hc::test {

TEST_CASE("A message is its header, with its size and descriptors, and the body behind it") {
  const auto bytes =
      message_bytes(header_for(MessageType::admin, 77), text_bytes("question"), 3);

  MessageHeader header{};
  REQUIRE(bytes.size() == sizeof header + 8);
  std::memcpy(&header, bytes.data(), sizeof header);
  CHECK(header.magic == kMessageMagic);
  CHECK(header.type == static_cast<std::uint16_t>(MessageType::admin));
  CHECK(header.fd_count == 3);
  CHECK(header.bytes == bytes.size());
  CHECK(header.status == 0);
  CHECK(header.request_id == 77);
  CHECK(std::memcmp(bytes.data() + sizeof header, "question", 8) == 0);
}

TEST_CASE("A message may have no body") {
  CHECK(message_bytes(header_for(MessageType::wake), {}, 0).size() == sizeof(MessageHeader));
}

}  // namespace hc::test
