// SPDX-License-Identifier: Apache-2.0
// golden_wire_test: today's structs have exactly the bytes that another program wrote, for the
// files of a session and the status table.
//
// These structs have no padding, so equal bytes mean that every field is both written and read
// where the other program has it.
#include <array>
#include <cstring>

#include "proto/agreement_board_layout.h"
#include "proto/handshake.h"
#include "proto/messages.h"
#include "proto/ring_layout.h"
#include "proto/status.h"
#include "proto/status_table_layout.h"
#include "support/catch.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

PageHash page_with_home(int number, std::uint64_t word) {
  PageHash page = sample_page(number);
  std::memcpy(page.bytes.data(), &word, sizeof word);
  return page;
}

StatusEntry status_entry(const PageHash& page, std::array<std::uint64_t, 3> masks) {
  StatusEntry entry{};
  entry.sequence = 2;
  entry.remote = kStatusInUse;
  entry.hash = page;
  entry.resident = masks[0];
  entry.stored = masks[1];
  entry.durable = masks[2];
  return entry;
}

// The reader of the documented table: probes from the home place until an unused entry.
const StatusEntry* find_page(const Bytes& table, const PageHash& page, StatusEntry& entry) {
  StatusTableHeader header;
  std::memcpy(&header, table.data(), sizeof header);
  for (std::uint64_t i = 0; i < header.capacity; ++i) {
    const std::uint64_t place = (page.word(0) + i) % header.capacity;
    std::memcpy(&entry, table.data() + kStatusEntriesOffset + place * sizeof entry, sizeof entry);
    if ((entry.remote & kStatusInUse) == 0) {
      return nullptr;
    }
    if (entry.hash == page) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace

TEST_CASE("Golden bytes: a request entry") {
  RequestEntry entry{};
  entry.verb = static_cast<std::uint8_t>(Verb::store);
  entry.flags = kFlagKeepLease | kFlagEveryAck;
  entry.ack = static_cast<std::uint8_t>(Ack::durable);
  entry.hint = kHintMayContinue;
  entry.priority = 9;
  entry.kind_mask = 5;
  entry.op_slot = kOpSlotsPerSession - 1;
  entry.op_sequence = 0x01020304;
  entry.deadline_ms = kDeadlineMsMax;
  entry.page_count = kPagesPerOpMax;
  entry.region = kRegionsPerSession - 1;
  entry.lease = 0x0000000700000123;
  entry.target_slot = 17;
  entry.target_sequence = 0x0A0B0C0D;
  entry.owner_base = 3;
  entry.owner_stride = 16;
  entry.client_data = 0x1122334455667788;
  CHECK(struct_bytes(entry) == golden("request_entry"));
}

TEST_CASE("Golden bytes: a page entry") {
  PageEntry entry{};
  entry.hash = sample_page(1);
  entry.row = 70001;
  entry.owner = 5;
  entry.metadata_bytes = kMetadataBytesMax;
  entry.metadata_offset = 65536;
  CHECK(struct_bytes(entry) == golden("page_entry"));
}

TEST_CASE("Golden bytes: a completion entry") {
  CompletionEntry entry{};
  entry.verb = static_cast<std::uint8_t>(Verb::store);
  entry.ack = static_cast<std::uint8_t>(Ack::durable);
  entry.op_slot = kOpSlotsPerSession - 1;
  entry.op_sequence = 0x01020304;
  entry.code = static_cast<std::int32_t>(Code::retry);
  entry.terminal = 1;
  entry.client_data = 0x1122334455667788;
  entry.lease = 0x0000000700000123;
  entry.page_count = 512;
  entry.pages_from_l2 = 1;
  entry.pages_from_l3 = 2;
  entry.pages_stored = 509;
  entry.bytes = 0x0000000123456789;
  entry.store_sequence = 77;
  CHECK(struct_bytes(entry) == golden("completion_entry"));
}

TEST_CASE("Golden bytes: a frame reference") {
  FrameRef ref{};
  ref.frame = 70002;
  ref.kind = 2;
  ref.generation = 0x8877665544332211;
  CHECK(struct_bytes(ref) == golden("frame_ref"));
}

TEST_CASE("Golden bytes: the header of a client's file") {
  ClientHeader header{};
  header.magic = kClientFileMagic;
  header.protocol = kProtocolVersion;
  header.fingerprint = layout_fingerprint();
  header.request_tail = 0xFFFFFFFE;
  header.completion_head = 0x01020304;
  header.client_waiting = kWaitPacket;
  CHECK(struct_bytes(header) == golden("client_header"));
}

TEST_CASE("Golden bytes: the header of a server's file") {
  ServerHeader header{};
  header.magic = kServerFileMagic;
  header.protocol = kProtocolVersion;
  header.fingerprint = layout_fingerprint();
  header.request_head = 0xFFFFFFFD;
  header.completion_tail = 0x01020305;
  header.wake_word = 77;
  header.daemon_sleeping = 1;
  header.state = static_cast<std::uint32_t>(SessionState::ended);
  header.end_code = static_cast<std::int32_t>(Code::superseded);
  header.quiet = 1;
  CHECK(struct_bytes(header) == golden("server_header"));
}

TEST_CASE("Golden bytes: a status table of three pages, one of which wraps around") {
  constexpr std::uint64_t kCapacity = 8;
  const PageHash first = page_with_home(0, 6 + 8 * kCapacity);
  const PageHash second = page_with_home(1, 6 + 8 * kCapacity);
  const PageHash third = page_with_home(2, 7 + 8 * kCapacity);
  StatusTableHeader header{};
  header.magic = kStatusTableMagic;
  header.protocol = kProtocolVersion;
  header.fingerprint = layout_fingerprint();
  header.capacity = kCapacity;
  header.space = make_space_id(sample_space());
  header.pages = 3;
  std::array<StatusEntry, kCapacity> entries{};
  entries[6] = status_entry(first, {0x1FFFF, 0x1FFFF, 0x1FFFF});
  entries[7] = status_entry(second, {0x00101, 0x00001, 0});
  entries[0] = status_entry(third, {0, 1ULL << 63, 1ULL << 63});
  Bytes table(status_table_bytes(kCapacity));
  std::memcpy(table.data(), &header, sizeof header);
  std::memcpy(table.data() + kStatusEntriesOffset, entries.data(), sizeof entries);

  const Bytes expected = golden("status_table");
  CHECK(table == expected);

  StatusEntry entry;
  for (const PageHash& page : {first, second, third}) {
    CHECK(find_page(expected, page, entry) != nullptr);
  }
  CHECK(entry.durable == 1ULL << 63);
  CHECK(find_page(expected, page_with_home(3, 6), entry) == nullptr);
}

TEST_CASE("Golden bytes: an agreement board of two ranks, one of them dead") {
  constexpr std::uint32_t kWords = 9;
  Bytes board(board_bytes(2, kWords));
  BoardHeader header{};
  header.magic = kBoardMagic;
  header.protocol = kProtocolVersion;
  header.world = 2;
  header.words = kWords;
  header.bell = 0x01020304;
  header.verdict = 9;
  header.doubt = 4;
  std::memcpy(board.data(), &header, sizeof header);
  BoardMember first{};
  first.round = 4;
  first.left = 1;
  first.sleeping = 1;
  first.lines[0] = 3;
  first.lines[1] = 1;
  std::memcpy(board.data() + board_member_offset(0, kWords), &first, sizeof first);
  for (std::int64_t word = 0; word < kWords; ++word) {
    const std::int64_t value = -word;
    std::memcpy(board.data() + board_member_offset(0, kWords) + sizeof first +
                    static_cast<std::size_t>(word) * sizeof value,
                &value, sizeof value);
  }
  BoardMember second{};
  second.round = 3;
  second.dead = 1;
  std::memcpy(board.data() + board_member_offset(1, kWords), &second, sizeof second);
  CHECK(board == golden("agreement_board"));
}

}  // namespace hc::proto_test
