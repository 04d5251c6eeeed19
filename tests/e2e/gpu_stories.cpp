// SPDX-License-Identifier: Apache-2.0
// gpu_stories: the ranks, in forked processes.
#include "e2e/gpu_stories.h"

#include <utility>

#include "e2e/process.h"
#include "shm/cuda/primary_context.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {

namespace {

int load_and_compare(Rank& rank, const Keys& keys) {
  HC_EXPECT(rank.load(keys).code == HICACHE_OK);
  HC_EXPECT(rank.wrong_bytes(keys) == 0);
  return 0;
}

// Fills and stores without waiting for the fills, twice at once.
int store_behind_fills(const GpuScene& /*scene*/, RankOptions options) {
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  std::uint64_t one = 0;
  std::uint64_t two = 0;
  HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {10, 2, 0}, one, HICACHE_ACK_RESIDENT) == HICACHE_OK);
  HC_EXPECT(rank.submit(HICACHE_VERB_STORE, {20, 2, 2}, two, HICACHE_ACK_RESIDENT) == HICACHE_OK);
  HC_EXPECT(rank.finish(two).code == HICACHE_OK);
  HC_EXPECT(rank.finish(one).code == HICACHE_OK);
  HC_EXPECT(load_and_compare(rank, {10, 2, 8}) == 0);
  HC_EXPECT(load_and_compare(rank, {20, 2, 0}) == 0);
  return 0;
}

int store_and_load(const GpuScene& scene, RankOptions options) {
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  HC_EXPECT(eventually([&] { return scene.count("registered") > 0; }));
  HC_EXPECT(rank.store({10, 4, 0}).code == HICACHE_OK);
  HC_EXPECT(load_and_compare(rank, {10, 4, 0}) == 0);
  HC_EXPECT(rank.store({20, 2, 5}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  HC_EXPECT(load_and_compare(rank, {10, 4, 7}) == 0);
  HC_EXPECT(load_and_compare(rank, {20, 2, 60}) == 0);
  return 0;
}

// Other weights, without new regions; pages of the old ones are there when they are back.
int switch_weights(const GpuScene& scene, RankOptions options) {
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  HC_EXPECT(rank.store({10, 4, 0}).code == HICACHE_OK);
  HC_EXPECT(rank.switch_to("2") == HICACHE_OK);
  HC_EXPECT(rank.load({10, 4, 0}).code == HICACHE_NOT_FOUND);
  HC_EXPECT(rank.store({10, 4, 8}).code == HICACHE_OK);
  HC_EXPECT(load_and_compare(rank, {10, 4, 20}) == 0);
  HC_EXPECT(rank.switch_to("1") == HICACHE_OK);
  HC_EXPECT(load_and_compare(rank, {10, 4, 20}) == 0);
  HC_EXPECT(scene.count("mappings") == 1);
  return 0;
}

// Pages of which one is more than a batch.
int store_large(const GpuScene& /*scene*/, RankOptions options) {
  options.payload_bytes = 10'000'001;
  options.rows = 3;
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  HC_EXPECT(rank.store({10, 2, 0}).code == HICACHE_OK);
  HC_EXPECT(load_and_compare(rank, {10, 2, 1}) == 0);
  return 0;
}

// The context is lost while copies of a load are queued: it must not be said to have worked. The
// fifth piece is of the second load, however the two get into batches.
int load_while_lost(const GpuScene& scene, RankOptions options) {
  options.payload_bytes = 6U << 20;
  options.rows = 4;
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  HC_EXPECT(rank.store({10, 2, 0}).code == HICACHE_OK);
  std::uint64_t one = 0;
  std::uint64_t two = 0;
  HC_EXPECT(rank.submit(HICACHE_VERB_LOAD, {10, 1, 2}, one) == HICACHE_OK);
  HC_EXPECT(rank.submit(HICACHE_VERB_LOAD, {11, 1, 3}, two) == HICACHE_OK);
  HC_EXPECT(rank.finish(one).code != HICACHE_OK || rank.wrong_bytes({10, 1, 2}) == 0);
  HC_EXPECT(rank.finish(two).code != HICACHE_OK);
  // Unlike a device, the stand-in goes on with what it was given: six pieces out, four in.
  HC_EXPECT(eventually([&] { return scene.count("copies") == 10; }));
  return 0;
}

// Rows in five chunks of memory that has no handle, and runs that go over their borders.
int store_from_chunks(const GpuScene& scene, RankOptions options) {
  options.device = BenchDevice::cuda_chunks;
  options.transfer = HICACHE_TRANSFER_IPC;
  options.rows = 400;
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  HC_EXPECT(scene.count("mappings") == 0 && scene.count("maps") == 5);
  HC_EXPECT(rank.store({10, 150, 0}).code == HICACHE_OK);
  HC_EXPECT(rank.store({500, 100, 300}).code == HICACHE_OK);
  HC_EXPECT(load_and_compare(rank, {10, 150, 190}) == 0);
  HC_EXPECT(load_and_compare(rank, {500, 100, 0}) == 0);
  return 0;
}

// A region by hand, at a place in an allocation that another one shares.
hicache_code register_part(hicache_client* client, std::uint32_t number, CuAddress address,
                           std::uint32_t payload_bytes) {
  const hicache_run run{0, payload_bytes, payload_bytes};
  const hicache_layout layout{0, 1, &run};
  hicache_cuda_region region{};
  region.region = number;
  region.rows = 2;
  region.address = address;
  region.size_bytes = 2 * std::uint64_t{payload_bytes};
  region.layout_count = 1;
  region.layouts = &layout;
  return hicache_register_cuda_region(client, &region, Rank::kDeadlineMs);
}

// Of two regions in one allocation one goes; the other's bytes go on.
int share_an_allocation(const GpuScene& scene, RankOptions options) {
  options.device = BenchDevice::host;
  const std::uint32_t payload = options.payload_bytes;
  Rank rank(std::move(options));
  HC_EXPECT(rank.open() == HICACHE_OK);
  const auto bench = FakeBench::make("");
  const auto& driver = bench->driver;
  const CuAddress memory = bench->new_memory(1 << 20);
  HC_EXPECT(register_part(rank.client(), 1, memory + 512, payload) == HICACHE_OK);
  HC_EXPECT(register_part(rank.client(), 2, memory + 300'001, payload) == HICACHE_OK);
  HC_EXPECT(scene.count("mappings") == 1);
  HC_EXPECT(hicache_unregister_region(rank.client(), 1, Rank::kDeadlineMs) == HICACHE_OK);
  // Behind the close, in the thread that opens and closes.
  HC_EXPECT(register_part(rank.client(), 1, memory + 512, payload) == HICACHE_OK);
  HC_EXPECT(bench->fill(memory, 0x77, 1 << 20));
  const std::vector<hicache_page> pages = rank.pages_of({30, 1, 0});
  hicache_op op{};
  op.deadline_ms = Rank::kDeadlineMs;
  op.region = 2;
  op.flags = HICACHE_AFTER_STREAM;
  op.stream = bench->stream;
  std::uint64_t op_id = 0;
  op.ack = HICACHE_ACK_RESIDENT;
  HC_EXPECT(hicache_store(rank.client(), &op, pages.data(), 1, &op_id) == HICACHE_OK);
  HC_EXPECT(rank.finish(op_id).code == HICACHE_OK);
  HC_EXPECT(driver->memset_async(memory, 0x11, 1 << 20, bench->stream) == 0);
  op.ack = 0;
  HC_EXPECT(hicache_load(rank.client(), &op, pages.data(), 1, &op_id) == HICACHE_OK);
  HC_EXPECT(rank.finish(op_id).code == HICACHE_OK);
  for (const std::uint32_t at : {0U, 1U, payload / 2, payload - 1}) {
    HC_EXPECT(bench->byte_at(memory + 300'001 + at) == 0x77);
  }
  HC_EXPECT(bench->byte_at(memory + 300'001 + payload) == 0x11);
  HC_EXPECT(bench->byte_at(memory + 300'000) == 0x11);
  return 0;
}

}  // namespace

const std::vector<Story>& gpu_stories() {
  static const std::vector<Story> table{
      {"stores behind slow fills", "", "stream_delay_us=25000", store_behind_fills,
       {"copies_before_event", "event_of_slot_zero"}},
      {"copies that are slow", "version=13000,stream_delay_us=60000", "", store_and_load,
       {"copy_done_when_issued"}},
      {"rows inside an allocation", "", "", store_and_load, {"region_offset_dropped"}},
      {"rows in several chunks", "", "", store_from_chunks,
       {"chunks_swapped", "region_offset_dropped"}, 16U << 20},
      {"weights that change", "version=13000,stream_delay_us=2000", "stream_delay_us=2000",
       switch_weights, {}},
      {"batches that are refused", "version=13000,cuMemcpyBatchAsync=1", "", store_and_load,
       {"refused_batch_believed"}},
      {"pages larger than a batch", "version=13000", "", store_large, {"later_batches_dropped"},
       64U << 20},
      {"two regions of one allocation", "close_unmaps=1", "", share_an_allocation,
       {"shared_mapping_closed"}},
      {"a context that is lost", "version=12010,stream_delay_us=100000,cuMemcpyHtoDAsync@5=700",
       "", load_while_lost, {"lost_copies_believed"}, 64U << 20},
  };
  return table;
}

int told(const Story& story, const std::string& mutant) {
  GpuScene scene({.daemon = story.daemon, .mutant = mutant, .l2_bytes = story.l2_bytes});
  const int result = Child([&] {
    use_stand_in(story.rank);
    return story.tell(scene, scene.rank_options());
  }).wait();
  INFO(scene.daemon().log());
  CHECK((!mutant.empty() || scene.daemon().stop() == 0));
  return result;
}

}  // namespace hc::test
