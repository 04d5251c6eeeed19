// SPDX-License-Identifier: Apache-2.0
// wire_layout_test: areas of the shared files lie apart, and the fingerprint sees every number.
#include <set>

#include "proto/handshake.h"
#include "proto/ring_layout.h"
#include "support/catch.h"

namespace hc::proto_test {

TEST_CASE("The areas of the client file follow each other without gap or overlap") {
  CHECK(kRequestsOffset >= sizeof(ClientHeader));
  CHECK(kOpAreaOffset == kRequestsOffset + kRingEntries * sizeof(RequestEntry));
  for (std::uint16_t slot = 0; slot < kOpSlotsPerSession; ++slot) {
    CAPTURE(slot);
    const std::uint64_t next = slot + 1 == kOpSlotsPerSession
                                   ? kClientFileBytes
                                   : op_pages_offset(static_cast<std::uint16_t>(slot + 1));
    CHECK(op_metadata_offset(slot) - op_pages_offset(slot) == kPagesPerOpMax * sizeof(PageEntry));
    CHECK(next - op_metadata_offset(slot) == kMetadataAreaBytes);
  }
  CHECK(op_pages_offset(0) == kOpAreaOffset);
}

TEST_CASE("The areas of the server file follow each other without gap or overlap") {
  CHECK(kCompletionsOffset >= sizeof(ServerHeader));
  CHECK(kResultAreaOffset == kCompletionsOffset + kCompletionEntries * sizeof(CompletionEntry));
  CHECK(result_area_offset(0) == kResultAreaOffset);
  const std::uint64_t end = result_area_offset(kOpSlotsPerSession - 1) +
                            std::uint64_t{kPagesPerOpMax} * kKindsMax * sizeof(FrameRef);
  CHECK(end == kServerFileBytes);
}

TEST_CASE("Entries that are copied as words lie at their alignment") {
  CHECK(kRequestsOffset % sizeof(RequestEntry) == 0);
  CHECK(kCompletionsOffset % sizeof(CompletionEntry) == 0);
  CHECK(kOpAreaOffset % 16 == 0);
  CHECK(kOpAreaBytes % 16 == 0);
  CHECK(kOpPagesBytes % 16 == 0);
  CHECK(kResultAreaBytes % sizeof(FrameRef) == 0);
  CHECK(kStatusEntriesOffset % sizeof(StatusEntry) == 0);
  CHECK(kStatusEntriesOffset >= sizeof(StatusTableHeader));
}

TEST_CASE("A full attach message with the largest descriptor fits into one message") {
  CHECK(sizeof(MessageHeader) + sizeof(AttachRequest) + kDescriptorBytesMax <= kMessageBytesMax);
  CHECK(sizeof(MessageHeader) + sizeof(RegionRequest) + kKindsMax * sizeof(LayoutRequest) +
            kKindsMax * kRunsPerLayoutMax * sizeof(LayoutRun) +
            kOpSlotsPerSession * sizeof(IpcHandle) + kChunksPerRegionMax * sizeof(RegionChunk) <=
        kMessageBytesMax);
  CHECK(sizeof(MessageHeader) + kMessageFdsMax * sizeof(ArenaInfo) <= kMessageBytesMax);
}

TEST_CASE("The fingerprint changes with each number, its place and its size") {
  const LayoutFingerprint none;
  const std::set<std::uint64_t> values = {
      none.value(),
      none.add(0).value(),
      none.add(1).value(),
      none.add(1ULL << 63).value(),
      none.add(1).add(2).value(),
      none.add(2).add(1).value(),
      none.add(1).add(2).add(0).value(),
  };
  CHECK(values.size() == 7);
}

}  // namespace hc::proto_test
