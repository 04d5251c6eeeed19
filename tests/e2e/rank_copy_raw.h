// SPDX-License-Identifier: Apache-2.0
// rank_copy_raw: a client without a library that copies itself, or says so.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "e2e/raw_client.h"
#include "proto/check.h"

namespace hc::test {

// A client that may write L2, with region 0 of two rows that it copies itself: none, in truth.
class RawRank : public RawClient {
 public:
  static constexpr std::uint64_t kPayload = 24'000;  // as RankOptions says

  explicit RawRank(const RankOptions& options) : RawClient(options) {}

  [[nodiscard]] bool open() {
    AttachTry attempt = make_attach();
    attempt.request.flags = kAttachWritable;
    return attach(std::move(attempt)) && register_rank_region(RegionKind::rank);
  }
  [[nodiscard]] bool register_rank_region(RegionKind kind) {
    RegionRequest request{};
    request.region_kind = static_cast<std::uint16_t>(kind);
    request.layout_count = 1;
    request.size_bytes = 2 * kPayload;
    request.rows = 2;
    const LayoutRequest layout{0, 1, 0};
    const LayoutRun run{0, kPayload, kPayload};
    std::vector<std::uint8_t> body(sizeof request + sizeof layout + sizeof run);
    std::memcpy(body.data(), &request, sizeof request);
    std::memcpy(body.data() + sizeof request, &layout, sizeof layout);
    std::memcpy(body.data() + sizeof request + sizeof layout, &run, sizeof run);
    return call(MessageType::register_region, body).has_value();
  }
  // A store of one page that no other process stores.
  RequestEntry store(std::uint16_t slot) {
    PageEntry page{};
    const auto key = page_key(std::uint64_t{100} * static_cast<std::uint64_t>(::getpid()) + slot);
    std::memcpy(&page.hash, key.data(), key.size());
    page_at(slot, 0) = page;
    return good_entry(Verb::store, slot, 1);
  }
  static RequestEntry copied(const RequestEntry& of) {
    RequestEntry word{};
    word.verb = static_cast<std::uint8_t>(Verb::copied);
    word.op_slot = of.op_slot;
    word.op_sequence = of.op_sequence;
    return word;
  }
  // Stores, and has been told of a frame.
  RequestEntry begin(std::uint16_t slot) {
    const RequestEntry entry = store(slot);
    push(entry);
    const auto told = next_completion();
    HC_CHECK(told && told->ack == static_cast<std::uint8_t>(Ack::prepared));
    return entry;
  }
};

}  // namespace hc::test
