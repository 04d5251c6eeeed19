// SPDX-License-Identifier: Apache-2.0
// ipc_test: memory of one process in another, as the daemon opens it.
#include <cstring>

#include "gpu/gpu_bench.h"
#include "support/catch.h"

namespace hc {
namespace {

using test::FakeLine;
using test::GpuBench;

// Whole blocks of the driver: smaller allocations may share one.
constexpr std::size_t kExported = std::size_t{4} << 20;
constexpr std::size_t kOffset = 12'345;

struct Exported {
  CuIpcMemHandle handle;
  CuIpcMemHandle of_inside;
  CuResult inside;  // what asking for it answered
};

// Allocates, fills with 0x11, exports; says whether the other process wrote 0x22 at the offset.
int export_memory(FakeLine& line) {
  line.be_child();
  const auto bench = GpuBench::make();
  const CuAddress memory = bench->new_memory(kExported);
  HC_EXPECT(bench->fill(memory, 0x11, kExported));
  Exported out = {};
  HC_EXPECT(bench->driver->ipc_get_mem(&out.handle, memory) == 0);
  out.inside = bench->driver->ipc_get_mem(&out.of_inside, memory + kOffset);
  line.send(out);
  HC_EXPECT(line.wait());
  HC_EXPECT(bench->byte_at(memory + kOffset) == 0x22);
  HC_EXPECT(bench->byte_at(memory + kOffset - 1) == 0x11);
  return 0;
}

TEST_CASE("a handle leads to the base of the allocation, its size and its bytes") {
  CHECK(test::on_gpu([] {
    FakeLine line;
    test::Child exporter([&] { return export_memory(line); });
    line.be_parent();
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    Exported out = {};
    HC_EXPECT(line.receive(out));
    HC_EXPECT(bench->observe("handle of an inner address answers", out.inside, 0));
    HC_EXPECT(bench->observe("handle of an inner address is that of the base",
                             std::memcmp(&out.handle, &out.of_inside, sizeof out.handle) == 0, 1));
    CuAddress memory = 0;
    HC_EXPECT(driver->ipc_open_mem(&memory, out.handle, kCuIpcLazyPeerAccess) == 0);
    CuAddress base = 0;
    std::size_t bytes = 0;
    HC_EXPECT(driver->mem_range(&base, &bytes, memory) == 0);
    HC_EXPECT(base == memory && bytes == kExported);
    HC_EXPECT(bench->byte_at(memory + kOffset) == 0x11);
    HC_EXPECT(bench->byte_at(memory + kExported - 1) == 0x11);
    HC_EXPECT(bench->fill(memory + kOffset, 0x22, 7));
    HC_EXPECT(bench->observe("cuMemFree of foreign memory answers", driver->mem_free(memory),
                             kCuInvalidValue));
    line.go();
    HC_EXPECT(exporter.wait() == 0);
    return 0;
  }));
}

TEST_CASE("a process does not open what is its own, nor a handle that nobody made") {
  CHECK(test::on_gpu([] {
    const auto bench = GpuBench::make();
    CuIpcMemHandle handle = {};
    CuAddress opened = 0;
    HC_EXPECT(bench->driver->ipc_get_mem(&handle, bench->new_memory(kExported)) == 0);
    const CuResult own = bench->driver->ipc_open_mem(&opened, handle, 1);
    HC_EXPECT(own != kCuSuccess);
    HC_EXPECT(bench->observe("own handle answers", own, kCuInvalidContext));
    const CuIpcMemHandle nothing = {};
    const CuResult none = bench->driver->ipc_open_mem(&opened, nothing, 1);
    HC_EXPECT(none != kCuSuccess);
    HC_EXPECT(bench->observe("handle of zeros answers", none, kCuInvalidHandle));
    HC_EXPECT(bench->byte_at(bench->new_memory(kExported)) >= 0);  // the context is well
    return 0;
  }));
}

TEST_CASE("opening takes one flag and a current context") {
  CHECK(test::on_gpu([] {
    FakeLine line;
    test::Child exporter([&] { return export_memory(line); });
    line.be_parent();
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    Exported out = {};
    HC_EXPECT(line.receive(out));
    CuAddress memory = 0;
    HC_EXPECT(bench->observe("open with flags 0 answers",
                             driver->ipc_open_mem(&memory, out.handle, 0), kCuInvalidValue));
    HC_EXPECT(bench->observe("open with flags 2 answers",
                             driver->ipc_open_mem(&memory, out.handle, 2), kCuInvalidValue));
    CuContext context = nullptr;
    HC_EXPECT(driver->ctx_pop(&context) == 0 && context == bench->context.get());
    HC_EXPECT(bench->observe("open without a context answers",
                             driver->ipc_open_mem(&memory, out.handle, 1), kCuInvalidContext));
    HC_EXPECT(driver->ctx_push(context) == 0);
    HC_EXPECT(driver->ipc_open_mem(&memory, out.handle, 1) == 0);
    HC_EXPECT(driver->ipc_close_mem(memory) == 0);
    return 0;
  }));
}

TEST_CASE("what is opened again has the same address, and needs as many closes") {
  CHECK(test::on_gpu([] {
    FakeLine line;
    test::Child exporter([&] { return export_memory(line); });
    line.be_parent();
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    Exported out = {};
    HC_EXPECT(line.receive(out));
    CuAddress first = 0;
    CuAddress second = 0;
    HC_EXPECT(driver->ipc_open_mem(&first, out.handle, 1) == 0);
    HC_EXPECT(bench->observe("a second open answers",
                             driver->ipc_open_mem(&second, out.handle, 1), 0));
    HC_EXPECT(bench->observe("a second open has the same address", first == second, 1));
    HC_EXPECT(driver->ipc_close_mem(first) == 0);
    // The product opens once and closes once: drivers differ here.
    HC_EXPECT(bench->observe("byte after one close of two", bench->byte_at(first), 0x11));
    HC_EXPECT(bench->observe("the second close answers", driver->ipc_close_mem(first), 0));
    HC_EXPECT(bench->observe("a third close answers", driver->ipc_close_mem(first),
                             kCuInvalidValue));
    return 0;
  }));
}

// Bytes that the device has; 0: it does not say.
std::size_t free_bytes(const GpuBench& bench) {
  std::size_t free = 0;
  std::size_t total = 0;
  return bench.driver->mem_info(&free, &total) == kCuSuccess ? free : 0;
}

TEST_CASE("memory outlives its process where it is open, until it is closed") {
  CHECK(test::on_gpu([] {
    FakeLine line;
    test::Child exporter([&] { return export_memory(line); });
    line.be_parent();
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    Exported out = {};
    HC_EXPECT(line.receive(out));
    CuAddress memory = 0;
    HC_EXPECT(driver->ipc_open_mem(&memory, out.handle, 1) == 0);
    exporter.kill_now();
    HC_EXPECT(bench->byte_at(memory + kOffset) == 0x11);
    HC_EXPECT(bench->fill(memory, 0x33, kExported));
    HC_EXPECT(bench->byte_at(memory + kExported - 1) == 0x33);
    const std::size_t before = free_bytes(*bench);
    HC_EXPECT(driver->ipc_close_mem(memory) == 0);
    HC_EXPECT(bench->observe("closing memory of the dead frees it",
                             free_bytes(*bench) >= before + kExported, 0));
    HC_EXPECT(bench->observe("handle of the dead answers",
                             driver->ipc_open_mem(&memory, out.handle, 1), kCuInvalidHandle));
    return 0;
  }));
}

struct Reused {
  CuIpcMemHandle handle;
  CuAddress address;
  std::uint64_t buffer;
};

Reused new_export(const GpuBench& bench, unsigned char value) {
  Reused made = {};
  made.address = bench.new_memory(kExported);
  HC_CHECK(bench.fill(made.address, value, kExported));
  HC_CHECK(bench.driver->ipc_get_mem(&made.handle, made.address) == kCuSuccess);
  HC_CHECK(bench.driver->pointer_attribute(&made.buffer, kCuPointerBufferId, made.address) ==
           kCuSuccess);
  return made;
}

TEST_CASE("memory that was freed and allocated anew is reached by its own handle") {
  CHECK(test::on_gpu([] {
    FakeLine line;
    test::Child exporter([&] {
      line.be_child();
      const auto bench = GpuBench::make();
      const Reused first = new_export(*bench, 0x11);
      line.send(first);
      HC_EXPECT(line.wait());
      HC_EXPECT(bench->driver->mem_free(first.address) == 0);
      line.send(new_export(*bench, 0x22));
      line.wait();
      return 0;
    });
    line.be_parent();
    const auto bench = GpuBench::make();
    const auto& driver = bench->driver;
    Reused before = {};
    Reused after = {};
    CuAddress memory = 0;
    HC_EXPECT(line.receive(before));
    HC_EXPECT(driver->ipc_open_mem(&memory, before.handle, 1) == 0);
    HC_EXPECT(bench->byte_at(memory) == 0x11);
    HC_EXPECT(driver->ipc_close_mem(memory) == 0);
    line.go();
    HC_EXPECT(line.receive(after));
    HC_EXPECT(before.buffer != after.buffer);
    HC_EXPECT(bench->observe("new memory has the old address", before.address == after.address, 1));
    HC_EXPECT(bench->observe(
        "new memory has the old handle, byte by byte",
        std::memcmp(&before.handle, &after.handle, sizeof before.handle) == 0, 0));
    HC_EXPECT(driver->ipc_open_mem(&memory, after.handle, 1) == 0);
    HC_EXPECT(bench->byte_at(memory) == 0x22 && bench->byte_at(memory + kExported - 1) == 0x22);
    line.go();
    HC_EXPECT(exporter.wait() == 0);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
