// SPDX-License-Identifier: Apache-2.0
// rank_rig: a client with memory of the stand-in's device that it copies itself, and a fake daemon
// whose frames it is told of.
//
// Owner thread: the one that made it; in a forked process (support/doubles.h), so without checks of
// Catch2.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

#include "proto/check.h"
#include "unit/client/sample.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc::test {

struct RankRig {
  SocketFolder folder;
  std::string socket = folder.socket();
  FakeDaemon daemon;
  std::unique_ptr<FakeBench> bench;
  SampleSpace space;
  CuAddress memory = 0;  // kRows pages of kind 0, in two halves that lie apart
  hicache_client* client = nullptr;

  explicit RankRig(const std::string& plan, FakeOptions fake = {})
      : daemon(folder.socket(), std::move(fake)), bench(FakeBench::make(plan)) {
    memory = bench->new_memory(std::size_t{kRows} * kKvBytes);
    hicache_options open = sample_options(socket);
    open.flags = HICACHE_OPEN_RANK_COPIES;
    HC_CHECK(hicache_open(&open, &space.space, &client) == HICACHE_OK);
    const hicache_run runs[] = {{0, kKvBytes / 2, kKvBytes / 2},
                                {kRows * kKvBytes / 2, kKvBytes / 2, kKvBytes / 2}};
    const hicache_layout layout{0, 2, runs};
    hicache_cuda_region region{};
    region.region = 3;
    region.rows = kRows;
    region.address = memory;
    region.size_bytes = std::uint64_t{kRows} * kKvBytes;
    region.transfer = HICACHE_TRANSFER_RANK;
    region.layout_count = 1;
    region.layouts = &layout;
    HC_CHECK(hicache_register_cuda_region(client, &region, kCallMs) == HICACHE_OK);
  }
  RankRig(const RankRig&) = delete;
  RankRig& operator=(const RankRig&) = delete;
  ~RankRig() { hicache_close(client, kCallMs); }

  void close(std::uint32_t timeout_ms, hicache_code wanted) {
    HC_CHECK(hicache_close(std::exchange(client, nullptr), timeout_ms) == wanted);
  }
  bool fill_device(unsigned char value) const {
    return bench->fill(memory, value, std::size_t{kRows} * kKvBytes);
  }
  bool device_row_holds(std::uint32_t row, int value) const {
    const CuAddress first = memory + row * CuAddress{kKvBytes / 2};
    const CuAddress second = first + kRows * CuAddress{kKvBytes / 2};
    return bench->byte_at(first) == value && bench->byte_at(first + kKvBytes / 2 - 1) == value &&
           bench->byte_at(second) == value && bench->byte_at(second + kKvBytes / 2 - 1) == value;
  }
  bool frame_holds(std::uint32_t frame, std::uint8_t value) {
    for (const std::uint8_t byte : daemon.frame_payload(0, frame)) {
      if (byte != value) {
        return false;
      }
    }
    return true;
  }

  // Pages 0 .. count - 1, in the rows of their numbers. Answers what the daemon reads of it.
  RequestEntry submit(std::uint8_t verb, std::size_t count) {
    const SamplePages pages(count);
    hicache_op op = sample_op();
    op.kind_mask = 1;
    std::uint64_t op_id = 0;
    const auto call = verb == HICACHE_VERB_STORE ? hicache_store : hicache_load;
    HC_CHECK(call(client, &op, pages.pages.data(), count, &op_id) == HICACHE_OK);
    return daemon.next_request();
  }
  // Page i lies in frame `first` + i.
  void prepare(const RequestEntry& request, std::uint32_t first) {
    for (std::uint32_t page = 0; page < request.page_count; ++page) {
      for (std::uint16_t kind = 0; kind < 2; ++kind) {
        const std::uint32_t frame = kind == 0 ? first + page : kNone32;
        daemon.write_frame_ref(request.op_slot, page, kind, FrameRef{frame, kind, 0, 2});
      }
    }
    tell(request);
  }
  void tell(const RequestEntry& request) {
    CompletionEntry told = FakeDaemon::answer(request, Code::ok, Ack::prepared);
    told.terminal = 0;
    daemon.complete(told);
  }
  // The next entry is the word about `request`.
  bool hears_of(const RequestEntry& request, Code code) {
    const RequestEntry word = daemon.next_request();
    return word.verb == static_cast<std::uint8_t>(Verb::copied) &&
           word.op_slot == request.op_slot && word.op_sequence == request.op_sequence &&
           word.target_sequence == static_cast<std::uint32_t>(code) && word.page_count == 0;
  }
  void end(const RequestEntry& request) {
    daemon.complete(FakeDaemon::answer(request, Code::ok, Ack::done));
  }
  hicache_completion next() {
    hicache_completion out{};
    std::size_t count = 0;
    HC_CHECK(hicache_wait(client, &out, 1, kCallMs, &count) == HICACHE_OK && count == 1);
    return out;
  }
};

}  // namespace hc::test
