// SPDX-License-Identifier: Apache-2.0
// fake_copy_test: batches of copies, in both ABIs.
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;

CuAddress address_of(const void* memory) {
  return reinterpret_cast<CuAddress>(memory);
}

// Arguments of a batch copy; all copies have one set of attributes unless told otherwise.
struct Batch {
  std::vector<CuAddress> to;
  std::vector<CuAddress> from;
  std::vector<std::size_t> sizes;
  std::vector<CuMemcpyAttributes> attributes{{kCuSourceInStream, {}, {}, 0}};
  std::vector<std::size_t> firsts{0};
  std::size_t failed = 0;

  void add(CuAddress target, CuAddress source, std::size_t bytes) {
    to.push_back(target);
    from.push_back(source);
    sizes.push_back(bytes);
  }
  CuResult run_v2(const FakeBench& bench, CuStream stream) {
    return bench.driver->copy_batch_v2(to.data(), from.data(), sizes.data(), to.size(),
                                       attributes.data(), firsts.data(), firsts.size(), stream);
  }
  CuResult run_v1(const FakeBench& bench, CuStream stream) {
    return bench.driver->copy_batch_v1(to.data(), from.data(), sizes.data(), to.size(),
                                       attributes.data(), firsts.data(), firsts.size(), &failed,
                                       stream);
  }
};

TEST_CASE("a batch copies between host and device in any order, which is the last one first") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("version=13000");
    const CuAddress other = bench->new_memory(4096);
    HC_EXPECT(bench->fill(other, 5, 4096));
    std::memset(bench->pinned, 7, 64);
    Batch batch;
    batch.add(bench->device, address_of(bench->pinned), 64);
    batch.add(other + 64, bench->device, 64);  // depends on the one before: not to be done
    batch.add(address_of(bench->pinned + 128), other, 64);
    HC_EXPECT(bench->fill(bench->device, 1, 4096));
    HC_EXPECT(batch.run_v2(*bench, bench->stream) == 0);
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(bench->pinned[128] == 5 && bench->pinned[191] == 5);
    HC_EXPECT(bench->byte_at(bench->device + 63) == 7);
    HC_EXPECT(bench->byte_at(other + 64) == 1);
    HC_EXPECT(test::cuda_count("batches") == 1);
    HC_EXPECT(test::cuda_count("cuMemcpyBatchAsync") == 1);
    return 0;
  }));
}

TEST_CASE("copies and their bytes are counted when they are done") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    Batch batch;
    batch.add(bench->device, address_of(bench->pinned), 100);
    batch.add(bench->device + 100, address_of(bench->pinned), 50);
    HC_EXPECT(batch.run_v1(*bench, bench->stream) == 0);
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(test::cuda_count("copies") == 2 && test::cuda_count("bytes") == 150);
    return 0;
  }));
}

TEST_CASE("a batch is refused with an index if one of its copies is wrong, and does nothing") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    HC_EXPECT(bench->fill(bench->device, 1, 4096));
    std::memset(bench->pinned, 7, 64);
    Batch batch;
    batch.add(bench->device, address_of(bench->pinned), 64);
    batch.add(bench->device + 4000, address_of(bench->pinned), 97);
    HC_EXPECT(batch.run_v1(*bench, bench->stream) == kCuInvalidValue);
    HC_EXPECT(batch.failed == 1);
    batch.sizes[1] = 96;
    batch.sizes[0] = 0;
    HC_EXPECT(batch.run_v1(*bench, bench->stream) == kCuInvalidValue && batch.failed == 0);
    HC_EXPECT(bench->byte_at(bench->device) == 1);
    batch.sizes[0] = 1;
    HC_EXPECT(batch.run_v1(*bench, bench->stream) == 0 && batch.failed == SIZE_MAX);
    return 0;
  }));
}

TEST_CASE(
    "a batch is refused as a whole: no copies, the legacy stream, wrong attributes, too many") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("batch_max=3");
    Batch good;
    for (int copy = 0; copy < 3; ++copy) {
      good.add(bench->device, address_of(bench->pinned), 8);
    }
    good.attributes.push_back(good.attributes[0]);
    good.firsts = {0, 1};
    HC_EXPECT(good.run_v1(*bench, bench->stream) == 0);
    const auto refuses = [&](const auto& change) {
      Batch batch = good;
      change(batch);
      return batch.run_v1(*bench, bench->stream) == kCuInvalidValue && batch.failed == SIZE_MAX;
    };
    HC_EXPECT(good.run_v1(*bench, nullptr) == kCuInvalidValue);
    HC_EXPECT(good.run_v1(*bench, reinterpret_cast<CuStream>(1)) == kCuInvalidValue);
    HC_EXPECT(good.run_v1(*bench, reinterpret_cast<CuStream>(2)) == kCuInvalidHandle);
    HC_EXPECT(refuses([](Batch& batch) { batch.to.clear(); }));
    HC_EXPECT(refuses([](Batch& batch) { batch.firsts.clear(); }));
    HC_EXPECT(refuses([](Batch& batch) { batch.firsts = {1, 2}; }));
    HC_EXPECT(refuses([](Batch& batch) { batch.firsts = {0, 0}; }));
    HC_EXPECT(refuses([](Batch& batch) { batch.firsts = {0, 3}; }));
    HC_EXPECT(refuses([](Batch& batch) { batch.attributes[1].source_order = 0; }));
    HC_EXPECT(refuses([](Batch& batch) { batch.attributes[1].source_order = 4; }));
    HC_EXPECT(refuses([](Batch& batch) { batch.add(batch.to[0], batch.from[0], 8); }));
    return 0;
  }));
}

// What a copy reads if its source changes between the call and its turn.
int source_seen(const FakeBench& bench, int order) {
  auto* const gate = reinterpret_cast<std::uint64_t*>(bench.pinned);
  unsigned char* const source = bench.pinned + 64;
  *gate = 0;
  *source = 1;
  Batch batch;
  batch.add(bench.device, address_of(source), 1);
  batch.attributes[0].source_order = order;
  HC_CHECK(bench.driver->stream_wait_value64(bench.stream, address_of(gate), 1, 0) == 0);
  HC_CHECK(batch.run_v1(bench, bench.stream) == 0);
  *source = 2;
  __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
  HC_CHECK(bench.settled() == kCuSuccess);
  return bench.byte_at(bench.device);
}

TEST_CASE("a source is read in stream order only if that is asked for") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    HC_EXPECT(source_seen(*bench, kCuSourceInStream) == 2);
    HC_EXPECT(source_seen(*bench, kCuSourceDuringCall) == 1);
    HC_EXPECT(source_seen(*bench, kCuSourceAnyTime) == 1);
    return 0;
  }));
}

TEST_CASE("each set of attributes holds from its first copy to the next set") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    std::memset(bench->pinned, 0, 64);
    Batch batch;
    for (unsigned copy = 0; copy < 4; ++copy) {
      batch.add(bench->device + copy, address_of(bench->pinned + 8 + copy), 1);
    }
    batch.attributes = {{kCuSourceInStream, {}, {}, 0}, {kCuSourceAnyTime, {}, {}, 0}};
    batch.firsts = {0, 2};
    HC_EXPECT(bench->driver->stream_wait_value64(bench->stream, address_of(bench->pinned), 1, 0) ==
              0);
    HC_EXPECT(batch.run_v1(*bench, bench->stream) == 0);
    std::memset(bench->pinned + 8, 9, 8);
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(bench->pinned), 1, __ATOMIC_RELEASE);
    HC_EXPECT(bench->settled() == kCuSuccess);
    HC_EXPECT(bench->byte_at(bench->device) == 9 && bench->byte_at(bench->device + 1) == 9);
    HC_EXPECT(bench->byte_at(bench->device + 2) == 0 && bench->byte_at(bench->device + 3) == 0);
    return 0;
  }));
}

TEST_CASE(
    "memory of the host that is not pinned makes a batch wait, or is read before it returns") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("stream_delay_us=10000");
    std::vector<unsigned char> pageable(64, 3);
    Batch store;
    store.add(bench->device, address_of(pageable.data()), 64);
    HC_EXPECT(store.run_v1(*bench, bench->stream) == 0);
    pageable.assign(64, 4);
    Batch load;
    load.add(address_of(pageable.data()), bench->device, 64);
    HC_EXPECT(load.run_v1(*bench, bench->stream) == 0);
    HC_EXPECT(pageable[0] == 3 && pageable[63] == 3);
    return 0;
  }));
}

TEST_CASE("a copy may end in the middle, and its process with it") {
  CHECK(test::holds_in_child([] {
    unsigned char* const target = test::shared_memory(64);
    test::Child torn([&] {
      const auto bench = FakeBench::make("torn_copy=2");
      HC_EXPECT(bench->driver->host_register(target, 64, kCuHostPortable) == 0);
      HC_EXPECT(bench->fill(bench->device, 6, 64));
      HC_EXPECT(bench->driver->copy_to_host(target + 63, bench->device, 1, bench->stream) == 0);
      HC_EXPECT(bench->driver->copy_to_host(target, bench->device, 64, bench->stream) == 0);
      return static_cast<int>(bench->settled());
    });
    HC_EXPECT(torn.wait() == -SIGKILL);
    HC_EXPECT(target[63] == 6 && target[31] == 6 && target[32] == 0);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
