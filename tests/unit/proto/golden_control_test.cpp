// SPDX-License-Identifier: Apache-2.0
// golden_control_test: today's structs have exactly the bytes that another program wrote, for the
// messages on the control socket.
//
// As in golden_wire_test, the structs have no padding: equal bytes mean that every field is both
// written and read where the other program has it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "proto/handshake.h"
#include "proto/status.h"
#include "support/catch.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

// A message of the given type; what is appended becomes its body.
class Message {
 public:
  explicit Message(MessageType type, std::uint16_t fd_count = 0) {
    header_.magic = kMessageMagic;
    header_.type = static_cast<std::uint16_t>(type);
    header_.fd_count = fd_count;
    header_.request_id = 42;
  }

  MessageHeader& header() { return header_; }
  template <WireStruct T>
  Message& add(const T& object) {
    append(body_, object);
    return *this;
  }
  Message& add_text(std::string_view text) {
    const auto bytes = bytes_of(text);
    body_.insert(body_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes bytes() {
    header_.bytes = static_cast<std::uint32_t>(sizeof header_ + body_.size());
    Bytes out;
    append(out, header_);
    out.insert(out.end(), body_.begin(), body_.end());
    return out;
  }

 private:
  MessageHeader header_{};
  Bytes body_;
};

template <std::size_t kSize>
std::array<std::uint8_t, kSize> counting_from(std::uint8_t first) {
  std::array<std::uint8_t, kSize> out{};
  for (std::size_t i = 0; i < kSize; ++i) {
    out[i] = static_cast<std::uint8_t>(first + i);
  }
  return out;
}

}  // namespace

TEST_CASE("Golden bytes: an attach request with its descriptor and layout fingerprint") {
  const Bytes descriptor = encode_space(sample_space());
  AttachRequest body{};
  body.protocol = kProtocolVersion;
  body.fingerprint = layout_fingerprint();
  body.incarnation = 0x0102030405060708;
  std::memcpy(body.group.data(), "engine-0", 8);
  body.rank = 3;
  body.world = 8;
  body.shards_on_node = 8;
  body.tensor = 3;
  body.descriptor_bytes = static_cast<std::uint32_t>(descriptor.size());
  body.quota_bytes = 64ULL << 30;
  body.previous_daemon = counting_from<16>(0x40);
  body.previous_session = 0x1122334455667788;
  body.lease_count = 70002;
  const std::string_view text(reinterpret_cast<const char*>(descriptor.data()), descriptor.size());

  CHECK(Message(MessageType::attach, 3).add(body).add_text(text).bytes() ==
        golden("attach_request"));
}

TEST_CASE("Golden bytes: an attach reply") {
  AttachReply body{};
  body.protocol = kProtocolVersion;
  body.session = 0x00030007;
  body.fingerprint = layout_fingerprint();
  body.daemon_instance = counting_from<16>(0x40);
  body.store_uuid = sample_uuid();
  body.space = make_space_id(sample_space());
  body.family = make_family_id(sample_space());
  body.shard = 3;
  body.part_count = 17;
  body.arena_count = 2;
  body.status_table_bytes = 0x0000000123456000;
  body.generation_count = 70003;
  body.quota_bytes = 64ULL << 30;
  body.session_serial = 0x1122334455667789;
  body.leases_kept = 1;

  CHECK(Message(MessageType::attach_reply, 5).add(body).bytes() == golden("attach_reply"));
}

TEST_CASE("Golden bytes: the arenas of a session") {
  ArenaInfo first{};
  first.frame_count = 415;
  first.frame_bytes = 2568192;
  ArenaInfo second{};
  second.kind = 2;
  second.first_frame = 0x01020304;
  second.frame_count = 23301;
  second.frame_bytes = 45056;
  second.generation_index = 0x1122334455667788;

  CHECK(Message(MessageType::arenas, 2).add(first).add(second).bytes() == golden("arenas"));
}

TEST_CASE("Golden bytes: a region with a layout of one run and one of two") {
  RegionRequest region{};
  region.region = kRegionsPerSession - 1;
  region.region_kind = static_cast<std::uint16_t>(RegionKind::host);
  region.layout_count = 2;
  region.offset_bytes = 0x0000000100001000;
  region.size_bytes = 0x0000000200000000;
  region.rows = 70001;
  region.registration = 6;
  region.device = counting_from<16>(0x60);
  region.ipc_handle = counting_from<64>(0x80);
  region.allocation_bytes = 0x0000000300000000;
  region.buffer = 0x1020304050607080;
  Message message(MessageType::register_region, 1);
  message.add(region).add(LayoutRequest{0, 1, 0}).add(LayoutRequest{2, 2, 0});
  message.add(LayoutRun{0, 2561024, 2561024});
  message.add(LayoutRun{0x0000000123456000, 20480, 20480});
  message.add(LayoutRun{0x1122334455667788, 40960, 20480});

  CHECK(message.bytes() == golden("register_region"));
}

TEST_CASE("Golden bytes: a region of a GPU, with its events") {
  RegionRequest region{};
  region.region = 3;
  region.region_kind = static_cast<std::uint16_t>(RegionKind::cuda);
  region.layout_count = 1;
  region.offset_bytes = 0x0000000012345600;
  region.size_bytes = 0x0000000200000000;
  region.rows = 4096;
  region.registration = 7;
  region.device = counting_from<16>(0x60);
  region.ipc_handle = counting_from<64>(0x80);
  region.allocation_bytes = 0x0000000300000000;
  region.buffer = 0x1020304050607080;
  region.event_count = kOpSlotsPerSession;
  region.export_kind = static_cast<std::uint16_t>(ExportKind::legacy);
  region.device_free_bytes = 0x0000000A00000000;
  Message message(MessageType::register_region);
  message.add(region).add(LayoutRequest{0, 1, 0}).add(LayoutRun{0, 2561024, 2561024});
  for (std::uint32_t slot = 0; slot < kOpSlotsPerSession; ++slot) {
    message.add(counting_from<64>(0x40));
  }

  CHECK(message.bytes() == golden("register_cuda_region"));
}

TEST_CASE("Golden bytes: a region in two chunks of memory that has no handle") {
  RegionRequest region{};
  region.region = 4;
  region.region_kind = static_cast<std::uint16_t>(RegionKind::cuda);
  region.layout_count = 1;
  region.offset_bytes = 0x0000000000012340;
  region.size_bytes = 0x0000000001400000;
  region.rows = 8;
  region.registration = 9;
  region.device = counting_from<16>(0x60);
  region.allocation_bytes = 0x0000000001600000;
  region.export_kind = static_cast<std::uint16_t>(ExportKind::vmm);
  region.chunk_count = 2;
  Message message(MessageType::register_region, 2);
  message.add(region).add(LayoutRequest{0, 1, 0}).add(LayoutRun{0, 2561024, 2561024});
  message.add(RegionChunk{0, 0x0000000001400000});
  message.add(RegionChunk{0x0000000001400000, 0x0000000000200000});

  CHECK(message.bytes() == golden("register_vmm_region"));
}

TEST_CASE("Golden bytes: a space switch and its reply") {
  SpaceDescriptor space = sample_space();
  space.weight_version = "weights-8";
  SpaceSwitchRequest request{};
  request.weight_version_bytes = static_cast<std::uint32_t>(space.weight_version.size());
  SpaceSwitchReply reply{};
  reply.space = make_space_id(space);
  reply.status_table_bytes = 0x0000000123456000;

  CHECK(Message(MessageType::space_switch).add(request).add_text(space.weight_version).bytes() ==
        golden("space_switch"));
  CHECK(Message(MessageType::space_switch_reply, 1).add(reply).bytes() ==
        golden("space_switch_reply"));
}

TEST_CASE("Golden bytes: a stats reply") {
  constexpr std::uint64_t kBase = 0x0101010100000000;
  StatsReply body{};
  body.pages = kBase + 1;
  body.resident_parts = kBase + 2;
  body.written_parts = kBase + 3;
  body.durable_parts = kBase + 4;
  body.frames_total = kBase + 5;
  body.frames_free = kBase + 6;
  body.frames_leased = kBase + 7;
  body.slots_total = kBase + 8;
  body.slots_free = kBase + 9;
  body.oldest_undurable_ms = kBase + 10;
  body.hits_l2 = kBase + 11;
  body.hits_l3 = kBase + 12;
  body.misses = kBase + 13;
  body.stored = kBase + 14;
  body.evicted_l2 = kBase + 15;
  body.evicted_l3 = kBase + 16;
  body.verify_failures = kBase + 17;
  body.commits = kBase + 18;

  CHECK(Message(MessageType::stats_reply).add(body).bytes() == golden("stats_reply"));
}

TEST_CASE("Golden bytes: a notice with its text, which answers no request") {
  Notice body{};
  body.kind = static_cast<std::uint32_t>(NoticeKind::session_ended);
  body.code = static_cast<std::int32_t>(Code::superseded);
  Message message(MessageType::notice);
  message.header().request_id = 0;

  CHECK(message.add(body).add_text("superseded by a newer process").bytes() == golden("notice"));
}

TEST_CASE("Golden bytes: a post to the blackboard of a group") {
  BlackboardRequest body{};
  body.key = 0x01020304;
  body.value_bytes = 5;

  CHECK(Message(MessageType::blackboard_post).add(body).add_text("value").bytes() ==
        golden("blackboard_post"));
}

TEST_CASE("Golden bytes: a request for a place on the agreement board, and its answer") {
  BoardRequest request{};
  request.words = 141;
  BoardReply reply{};
  reply.number = 0x0102030405060708;
  reply.world = 8;
  reply.words = 141;
  Message answer(MessageType::board_reply, 1);

  CHECK(Message(MessageType::board_join).add(request).bytes() == golden("board_join"));
  CHECK(answer.add(reply).bytes() == golden("board_reply"));
}

TEST_CASE("Golden bytes: a reply that says no carries its code and one line of text") {
  Message message(MessageType::reply);
  message.header().status = static_cast<std::int32_t>(Code::refused);

  CHECK(message.add_text("space: belongs to another family").bytes() == golden("error_reply"));
}

}  // namespace hc::proto_test
