// SPDX-License-Identifier: Apache-2.0
// fake_ipc_test: memory of one process in another, by the rules of cuIpc.
#include <cstring>

#include "support/catch.h"
#include "unit/shm/cuda/fake_bench.h"

namespace hc {
namespace {

using test::FakeBench;
using test::FakeLine;

constexpr std::size_t kExported = std::size_t{1} << 20;

struct Export {
  CuIpcMemHandle handle;
  CuIpcMemHandle of_inside;
};

// A process that allocates, fills with 0x11, exports, and holds until it is told to end.
int run_exporter(FakeLine& line, const char* plan) {
  line.be_child();
  const auto bench = FakeBench::make(plan);
  const CuAddress memory = bench->new_memory(kExported);
  HC_EXPECT(bench->fill(memory, 0x11, kExported));
  Export out = {};
  HC_EXPECT(bench->driver->ipc_get_mem(&out.handle, memory) == 0);
  HC_EXPECT(bench->driver->ipc_get_mem(&out.of_inside, memory + 4096) == 0);
  CuAddress own = 0;
  HC_EXPECT(bench->driver->ipc_open_mem(&own, out.handle, 1) == kCuInvalidContext);
  line.send(out);
  line.wait();
  // What the other process has written is here.
  HC_EXPECT(bench->byte_at(memory + 5) == 0x22);
  return 0;
}

TEST_CASE("a handle leads another process to the base of the allocation, and to its bytes") {
  CHECK(test::holds_in_child([] {
    FakeLine line;
    test::Child exporter([&] { return run_exporter(line, ""); });
    line.be_parent();
    const auto bench = FakeBench::make("");
    Export out = {};
    HC_EXPECT(line.receive(out));
    HC_EXPECT(std::memcmp(&out.handle, &out.of_inside, sizeof out.handle) == 0);
    CuAddress memory = 0;
    HC_EXPECT(bench->driver->ipc_open_mem(&memory, out.handle, kCuIpcLazyPeerAccess) == 0);
    CuAddress base = 0;
    std::size_t bytes = 0;
    HC_EXPECT(bench->driver->mem_range(&base, &bytes, memory + 77) == 0);
    HC_EXPECT(base == memory && bytes == kExported);
    HC_EXPECT(bench->byte_at(memory + kExported - 1) == 0x11);
    HC_EXPECT(bench->fill(memory, 0x22, 4096));
    HC_EXPECT(test::cuda_count("mappings") == 1);
    HC_EXPECT(test::cuda_count("mapped_bytes") == kExported);
    HC_EXPECT(test::cuda_count("peer_opens") == 0);
    HC_EXPECT(bench->driver->mem_free(memory) == kCuInvalidValue);  // it is not ours
    CuIpcMemHandle again = {};
    HC_EXPECT(bench->driver->ipc_get_mem(&again, memory) == kCuInvalidValue);
    line.go();
    return exporter.wait();
  }));
}

TEST_CASE("what is opened again is counted, and each open needs its close") {
  CHECK(test::holds_in_child([] {
    FakeLine line;
    test::Child exporter([&] { return run_exporter(line, ""); });
    line.be_parent();
    const auto bench = FakeBench::make("");
    const auto& driver = bench->driver;
    Export out = {};
    HC_EXPECT(line.receive(out));
    CuAddress first = 0;
    CuAddress second = 0;
    HC_EXPECT(driver->ipc_open_mem(&first, out.handle, 0) == kCuInvalidValue);
    HC_EXPECT(driver->ipc_open_mem(&first, out.handle, 1) == 0);
    HC_EXPECT(driver->ipc_open_mem(&second, out.handle, 1) == 0);
    HC_EXPECT(first == second && test::cuda_count("mappings") == 1);
    HC_EXPECT(driver->ipc_close_mem(first + 4096) == kCuInvalidValue);
    HC_EXPECT(driver->ipc_close_mem(bench->device) == kCuInvalidValue);
    HC_EXPECT(driver->ipc_close_mem(first) == 0);
    HC_EXPECT(bench->byte_at(first) == 0x11);
    HC_EXPECT(driver->ipc_close_mem(first) == 0);
    HC_EXPECT(test::cuda_count("mappings") == 0 && test::cuda_count("mapped_bytes") == 0);
    HC_EXPECT(driver->ipc_close_mem(first) == kCuInvalidValue);
    HC_EXPECT(driver->copy_to_host(bench->pinned, first, 1, bench->stream) == kCuInvalidValue);
    return 0;
  }));
}

TEST_CASE("opening needs a current context, and a handle that some driver made") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("");
    const CuIpcMemHandle nothing = {};
    CuAddress opened = 0;
    HC_EXPECT(bench->driver->ipc_open_mem(&opened, nothing, 1) == kCuInvalidHandle);
    CuContext context = nullptr;
    HC_EXPECT(bench->driver->ctx_pop(&context) == 0);
    HC_EXPECT(bench->driver->ipc_open_mem(&opened, nothing, 1) == kCuInvalidContext);
    HC_EXPECT(bench->driver->ctx_push(context) == 0);
    return 0;
  }));
}

TEST_CASE("memory outlives its process where it is open, and nobody can open it any more") {
  CHECK(test::holds_in_child([] {
    FakeLine line;
    test::Child exporter([&] { return run_exporter(line, ""); });
    line.be_parent();
    const auto bench = FakeBench::make("dead_handle=205");
    Export out = {};
    HC_EXPECT(line.receive(out));
    CuAddress memory = 0;
    HC_EXPECT(bench->driver->ipc_open_mem(&memory, out.handle, 1) == 0);
    HC_EXPECT(test::cuda_count("orphaned") == 0);
    exporter.kill_now();
    HC_EXPECT(test::cuda_count("orphaned") == kExported);
    HC_EXPECT(bench->byte_at(memory + 4096) == 0x11);
    HC_EXPECT(bench->driver->ipc_close_mem(memory) == 0);
    HC_EXPECT(test::cuda_count("orphaned") == 0);
    HC_EXPECT(bench->driver->ipc_open_mem(&memory, out.handle, 1) == 205);
    return 0;
  }));
}

// Frees, allocates anew of the same size at the same address, and tells both handles.
int run_reallocator(FakeLine& line, const char* plan) {
  line.be_child();
  const auto bench = FakeBench::make(plan);
  const CuAddress first = bench->new_memory(kExported);
  HC_EXPECT(bench->fill(first, 0x11, kExported));
  CuIpcMemHandle handle = {};
  HC_EXPECT(bench->driver->ipc_get_mem(&handle, first) == 0);
  line.send(handle);
  HC_EXPECT(line.wait());
  HC_EXPECT(bench->driver->mem_free(first) == 0);
  const CuAddress second = bench->new_memory(kExported);
  HC_EXPECT(second == first && bench->fill(second, 0x22, kExported));
  HC_EXPECT(bench->driver->ipc_get_mem(&handle, second) == 0);
  line.send(handle);
  line.wait();
  return 0;
}

TEST_CASE("memory that was freed and allocated anew is other memory, behind a handle of its own") {
  CHECK(test::holds_in_child([] {
    FakeLine line;
    test::Child exporter([&] { return run_reallocator(line, ""); });
    line.be_parent();
    const auto bench = FakeBench::make("");
    CuIpcMemHandle before = {};
    CuIpcMemHandle after = {};
    CuAddress old = 0;
    CuAddress fresh = 0;
    HC_EXPECT(line.receive(before));
    HC_EXPECT(bench->driver->ipc_open_mem(&old, before, 1) == 0);
    line.go();
    HC_EXPECT(line.receive(after));
    HC_EXPECT(std::memcmp(&before, &after, sizeof before) != 0);
    HC_EXPECT(bench->driver->ipc_open_mem(&fresh, after, 1) == 0);
    HC_EXPECT(fresh != old);
    HC_EXPECT(bench->byte_at(old) == 0x11 && bench->byte_at(fresh) == 0x22);
    HC_EXPECT(test::cuda_count("orphaned") == kExported);  // the old one
    HC_EXPECT(bench->driver->ipc_close_mem(old) == 0);
    HC_EXPECT(bench->driver->ipc_open_mem(&old, before, 1) == kCuInvalidHandle);
    return 0;
  }));
}

TEST_CASE(
    "handles of old and new memory may be the same bytes: who still has it open sees the old") {
  CHECK(test::holds_in_child([] {
    FakeLine line;
    test::Child exporter([&] { return run_reallocator(line, "same_handle=1"); });
    line.be_parent();
    const auto bench = FakeBench::make("");
    CuIpcMemHandle before = {};
    CuIpcMemHandle after = {};
    CuAddress old = 0;
    CuAddress fresh = 0;
    HC_EXPECT(line.receive(before));
    HC_EXPECT(bench->driver->ipc_open_mem(&old, before, 1) == 0);
    line.go();
    HC_EXPECT(line.receive(after));
    HC_EXPECT(std::memcmp(&before, &after, sizeof before) == 0);
    HC_EXPECT(bench->driver->ipc_open_mem(&fresh, after, 1) == 0);
    HC_EXPECT(fresh == old && bench->byte_at(fresh) == 0x11);
    HC_EXPECT(bench->driver->ipc_close_mem(old) == 0);
    HC_EXPECT(bench->driver->ipc_close_mem(old) == 0);
    HC_EXPECT(bench->driver->ipc_open_mem(&fresh, after, 1) == 0);
    HC_EXPECT(bench->byte_at(fresh) == 0x22);
    return 0;
  }));
}

TEST_CASE("a driver may unmap at the first close, whatever was counted") {
  CHECK(test::holds_in_child([] {
    FakeLine line;
    test::Child exporter([&] { return run_exporter(line, ""); });
    line.be_parent();
    const auto bench = FakeBench::make("close_unmaps=1");
    Export out = {};
    HC_EXPECT(line.receive(out));
    CuAddress memory = 0;
    HC_EXPECT(bench->driver->ipc_open_mem(&memory, out.handle, 1) == 0);
    HC_EXPECT(bench->driver->ipc_open_mem(&memory, out.handle, 1) == 0);
    HC_EXPECT(bench->driver->ipc_close_mem(memory) == 0);
    HC_EXPECT(test::cuda_count("mappings") == 0);
    return 0;
  }));
}

TEST_CASE("an import under the context of another device is counted as such") {
  CHECK(test::holds_in_child([] {
    FakeLine line;
    test::Child exporter([&] { return run_exporter(line, "first_device=1"); });
    line.be_parent();
    const auto bench = FakeBench::make("devices=2");
    Export out = {};
    HC_EXPECT(line.receive(out));
    CuAddress here = 0;
    HC_EXPECT(bench->driver->ipc_open_mem(&here, out.handle, 1) == 0);
    HC_EXPECT(test::cuda_count("peer_opens") == 1);
    auto other = PrimaryContext::retain(bench->driver, 1);
    HC_EXPECT(other);
    const CurrentContext current(*other);
    CuAddress there = 0;
    HC_EXPECT(bench->driver->ipc_open_mem(&there, out.handle, 1) == 0);
    HC_EXPECT(there != here && test::cuda_count("mappings") == 2);
    HC_EXPECT(test::cuda_count("peer_opens") == 1);
    return 0;
  }));
}

TEST_CASE("a device without IPC refuses all of it, and an interior handle may be refused") {
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("no_ipc=1");
    CuIpcMemHandle handle = {};
    CuIpcEventHandle event = {};
    CuAddress address = 0;
    CuEvent opened = nullptr;
    HC_EXPECT(bench->driver->ipc_get_mem(&handle, bench->device) == kCuNotSupported);
    HC_EXPECT(bench->driver->ipc_open_mem(&address, handle, 1) == kCuNotSupported);
    HC_EXPECT(bench->driver->ipc_close_mem(address) == kCuNotSupported);
    HC_EXPECT(bench->driver->ipc_get_event(&event, nullptr) == kCuNotSupported);
    HC_EXPECT(bench->driver->ipc_open_event(&opened, event) == kCuNotSupported);
    return 0;
  }));
  CHECK(test::holds_in_child([] {
    const auto bench = FakeBench::make("interior_handle=1");
    CuIpcMemHandle handle = {};
    HC_EXPECT(bench->driver->ipc_get_mem(&handle, bench->device + 8) == kCuInvalidValue);
    HC_EXPECT(bench->driver->ipc_get_mem(&handle, bench->device) == 0);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
