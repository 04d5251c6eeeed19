// SPDX-License-Identifier: Apache-2.0
// cuda_keeper_test: what is opened, how often, what is refused, and what comes after a free.
#include "daemon/gpu/cuda_keeper.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.h"
#include "unit/daemon/gpu/copier_bench.h"

namespace hc::test {
namespace {

constexpr std::uint64_t kKept = 1 << 20;

int expect_byte(CopierBench& bench, MappingId region, std::uint64_t offset, std::uint8_t wanted) {
  const std::vector<CopyRun> runs{{offset, 100}};
  const CopyJob job = bench.job(CopyKind::gather, region, runs);
  HC_EXPECT(bench.run(job).code == Code::ok);
  HC_EXPECT(std::all_of(job.frame, job.frame + 100,
                        [&](std::uint8_t byte) { return byte == wanted; }));
  return 0;
}

void paint(CopierBench& bench, std::uint64_t address, std::uint64_t bytes, std::uint8_t value) {
  std::fill_n(bench.exporter.host(), bytes, value);
  bench.exporter.push(address, bytes);
}

TEST_CASE("two regions of one allocation are one mapping, which the last one closes") {
  // close_unmaps: as drivers have been seen to do, the first close ends all.
  const auto* const plan = GENERATE("", "close_unmaps=1");
  INFO(plan);
  CHECK(holds_in_child([&] {
    CopierBench bench({plan, ""});
    const std::uint64_t memory = bench.exporter.alloc(kKept);
    paint(bench, memory, 4096, 0x21);
    paint(bench, memory + 4096, 4096, 0x42);
    const MappingId one = bench.open_region(memory, 4096);
    const MappingId two = bench.open_region(memory + 4096, 4096);
    HC_EXPECT(cuda_count("cuIpcOpenMemHandle") == 1);
    HC_EXPECT(bench.copier->open_allocations() == 1);
    HC_EXPECT(expect_byte(bench, one, 0, 0x21) == 0);

    bench.copier->close(one, 0);

    const MappingId three = bench.open_region(memory + 4096, 100);  // behind the close
    HC_EXPECT(expect_byte(bench, two, 3000, 0x42) == 0);
    HC_EXPECT(expect_byte(bench, three, 0, 0x42) == 0);
    HC_EXPECT(cuda_count("cuIpcCloseMemHandle") == 0);
    bench.copier->close(two, 0);
    bench.copier->close(three, 0);
    HC_EXPECT(bench.until([&] { return bench.copier->open_allocations() == 0; }));
    HC_EXPECT(cuda_count("cuIpcOpenMemHandle") == 1);
    HC_EXPECT(cuda_count("cuIpcCloseMemHandle") == 1);
    HC_EXPECT(cuda_count("opened_events") == 0);
    return bench.leave();
  }));
}

TEST_CASE("what the context takes of the device is told from what its owner saw before") {
  CHECK(holds_in_child([] {
    CopierBench bench({"memory_bytes=1073741824,context_bytes=300000000", ""});
    const std::uint64_t memory = bench.exporter.alloc(kKept);
    DeviceExport first = bench.exporter.region(memory, 4096);
    first.device_free_bytes = 1'000'000'000;
    HC_EXPECT(bench.open(std::move(first)).code == Code::ok);
    const std::uint64_t taken = bench.copier->devices().at(0).context_bytes;
    HC_EXPECT(taken == 1'000'000'000 - (1'073'741'824 - 300'000'000));

    DeviceExport second = bench.exporter.region(memory + 4096, 4096);
    second.device_free_bytes = 1'073'741'824;  // its context has been there

    HC_EXPECT(bench.open(std::move(second)).code == Code::ok);
    HC_EXPECT(bench.copier->devices().at(0).context_bytes == taken);
    return bench.leave();
  }));
}

TEST_CASE("a session that comes again while its old mapping is in use shares it") {
  CHECK(holds_in_child([] {
    CopierBench bench({"close_unmaps=1", ""});
    const std::uint64_t memory = bench.exporter.alloc(kKept);
    paint(bench, memory, kKept, 0x17);
    const MappingId old = bench.open_region(memory, kKept);
    DeviceExport again = bench.exporter.region(memory, kKept);
    again.owner = 2;
    const DeviceOpened opened = bench.open(std::move(again));
    HC_EXPECT(opened.code == Code::ok);
    HC_EXPECT(opened.has_events);

    bench.copier->close(old, 0);

    HC_EXPECT(bench.until([] { return cuda_count("opened_events") == 2; }));
    HC_EXPECT(expect_byte(bench, opened.mapping, 77, 0x17) == 0);
    bench.copier->close(opened.mapping, 0);
    return bench.leave();
  }));
}

TEST_CASE("other memory behind the same handle is opened anew, not served from the old mapping") {
  CHECK(holds_in_child([] {
    CopierBench bench({"", "same_handle=1"});
    const std::uint64_t first = bench.exporter.alloc(kKept);
    paint(bench, first, kKept, 0x33);
    DeviceExport before = bench.exporter.region(first, kKept);
    const IpcHandle handle_before = before.handle;
    const std::uint64_t buffer_before = before.buffer;
    const MappingId old = bench.open(std::move(before)).mapping;
    HC_EXPECT(expect_byte(bench, old, 0, 0x33) == 0);
    bench.copier->close(old, 0);
    HC_EXPECT(bench.until([] { return cuda_count("mappings") == 0; }));
    bench.exporter.release(first);
    const std::uint64_t second = bench.exporter.alloc(kKept);
    HC_EXPECT(second == first);
    paint(bench, second, kKept, 0x44);
    DeviceExport after = bench.exporter.region(second, kKept);
    HC_EXPECT(after.handle == handle_before);
    HC_EXPECT(after.buffer != buffer_before);

    const MappingId region = bench.open(std::move(after)).mapping;

    HC_EXPECT(expect_byte(bench, region, 500, 0x44) == 0);
    bench.copier->close(region, 0);
    return bench.leave();
  }));
}

TEST_CASE("a handle that is still open for other memory is refused until that is closed") {
  CHECK(holds_in_child([] {
    CopierBench bench({"", "same_handle=1"});
    const std::uint64_t memory = bench.exporter.alloc(kKept);
    paint(bench, memory, kKept, 0x33);
    const MappingId old = bench.open_region(memory, kKept);
    bench.exporter.release(memory);
    HC_EXPECT(bench.exporter.alloc(kKept) == memory);
    paint(bench, memory, kKept, 0x44);

    const DeviceOpened early = bench.open(bench.exporter.region(memory, kKept));

    HC_EXPECT(early.code == Code::busy);
    HC_EXPECT(early.text == "ipc_handle: memory that had it before is registered still");
    HC_EXPECT(expect_byte(bench, old, 0, 0x33) == 0);
    bench.copier->close(old, 0);
    HC_EXPECT(expect_byte(bench, bench.open_region(memory, kKept), 0, 0x44) == 0);
    return bench.leave();
  }));
}

TEST_CASE("a close is on its way to the driver before the next open, whatever the lanes do") {
  CHECK(holds_in_child([] {
    CopierBench bench({"", "same_handle=1"});
    for (std::uint8_t round = 1; round <= 60; ++round) {
      const std::uint64_t memory = bench.exporter.alloc(kKept);
      paint(bench, memory, 4096, round);
      const MappingId region = bench.open_region(memory, kKept);
      HC_EXPECT(expect_byte(bench, region, 0, round) == 0);
      bench.copier->close(region, 0);
      bench.exporter.release(memory);
    }
    return bench.leave();
  }));
}

struct WrongExport {
  std::string name;
  std::function<void(DeviceExport&)> spoil;
  Code code;
  std::string says;
};

std::vector<WrongExport> wrong_exports() {
  return {
      {"a larger allocation", [](DeviceExport& e) { e.allocation_bytes += 512; },
       Code::bad_argument, "allocation_bytes = 1049088: the device says 1048576"},
      {"a smaller allocation", [](DeviceExport& e) { e.allocation_bytes -= 1; },
       Code::bad_argument, "allocation_bytes = 1048575: the device says 1048576"},
      {"an offset behind the end", [](DeviceExport& e) { e.offset_bytes = kKept + 1; },
       Code::bad_argument, "region offset_bytes = 1048577: must be 0..1048576"},
      {"an offset that wraps", [](DeviceExport& e) { e.offset_bytes = ~std::uint64_t{0} - 4095; },
       Code::bad_argument, "region offset_bytes = 18446744073709547520: must be 0..1048576"},
      {"a size over the end", [](DeviceExport& e) { e.offset_bytes = 4096; },
       Code::bad_argument, "region size_bytes = 1048576: must be 0..1044480"},
      {"a size that wraps", [](DeviceExport& e) { e.size_bytes = ~std::uint64_t{0}; },
       Code::bad_argument, "region size_bytes = 18446744073709551615: must be 0..1048576"},
      {"another device", [](DeviceExport& e) { e.device[3] ^= 1; }, Code::refused,
       ": the daemon sees 1 devices, and not this one"},
      {"no handle", [](DeviceExport& e) { e.handle = {}; }, Code::io_error, "cuIpcOpenMemHandle"},
      {"noise for a handle", [](DeviceExport& e) { e.handle.fill(0xD7); }, Code::io_error,
       "cuIpcOpenMemHandle"},
      {"noise for an event", [](DeviceExport& e) { e.events[1].fill(0x9B); }, Code::io_error,
       "cuIpcOpenEventHandle"},
  };
}

TEST_CASE("an export that is not so is refused with one line, and leaves nothing open") {
  for (const WrongExport& wrong : wrong_exports()) {
    INFO(wrong.name);
    CHECK(holds_in_child([&] {
      CopierBench bench;
      const std::uint64_t memory = bench.exporter.alloc(kKept);
      DeviceExport named = bench.exporter.region(memory, kKept);
      wrong.spoil(named);

      const DeviceOpened opened = bench.open(std::move(named));

      std::fprintf(stderr, "%s\n", opened.text.c_str());
      HC_EXPECT(opened.code == wrong.code);
      HC_EXPECT(opened.mapping == kHostMapping);
      HC_EXPECT(opened.text.find(wrong.says) != std::string::npos);
      HC_EXPECT(opened.text.find('\n') == std::string::npos);
      HC_EXPECT(cuda_count("mappings") == 0);
      HC_EXPECT(cuda_count("opened_events") == 0);
      HC_EXPECT(bench.copier->open_allocations() == 0);
      // What is right is opened after that.
      const MappingId region = bench.open_region(memory, kKept);
      bench.copier->close(region, 0);
      return bench.leave();
    }));
  }
}

TEST_CASE("the memory of the dead is refused, and what was mapped before is copied and closed") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    const std::uint64_t memory = bench.exporter.alloc(kKept);
    paint(bench, memory, kKept, 0x61);
    const MappingId region = bench.open_region(memory, kKept);
    DeviceExport late = bench.exporter.region(memory, kKept);
    const std::uint64_t other = bench.exporter.alloc(kKept);
    DeviceExport never = bench.exporter.region(other, kKept);

    bench.exporter.kill_now();

    HC_EXPECT(expect_byte(bench, region, 9, 0x61) == 0);
    HC_EXPECT(bench.open(std::move(never)).code == Code::io_error);
    bench.copier->close(region, 0);
    HC_EXPECT(bench.until([] { return cuda_count("mappings") == 0; }));
    HC_EXPECT(bench.open(std::move(late)).code == Code::io_error);
    return bench.leave();
  }));
}

TEST_CASE("without a driver every export is refused with the one reason") {
  const auto* const plan = GENERATE("*=34", "cuInit=100", "cuDeviceGetCount=999");
  INFO(plan);
  CHECK(holds_in_child([&] {
    CopierBench bench({plan, ""});
    const std::uint64_t memory = bench.exporter.alloc(kKept);
    for (int again = 0; again < 2; ++again) {
      const DeviceOpened opened = bench.open(bench.exporter.region(memory, kKept));
      HC_EXPECT(opened.code == Code::unsupported);
      HC_EXPECT(opened.text.find("no GPU: ") == 0);
    }
    bench.register_frames();
    bench.copier->drop_memory(bench.arena);
    bench.copier.reset();
    return 0;
  }));
  CHECK(holds_in_child([] {
    auto copier = CudaCopier::create("/nowhere/libcuda.so.1");
    HC_EXPECT(copier);
    (*copier)->open(1, {});
    std::vector<DeviceOpened> opened;
    std::vector<CopyCompletion> none;
    while (opened.empty()) {
      (*copier)->wait();
      (*copier)->poll(none);
      (*copier)->poll_opened(opened);
    }
    HC_EXPECT(opened[0].code == Code::unsupported);
    return 0;
  }));
}

TEST_CASE("nobody's export starts no driver") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    bench.register_frames();
    bench.copier->drop_memory(bench.arena);
    bench.copier.reset();
    HC_EXPECT(cuda_count("cuInit") == -1);
    return 0;
  }));
}

}  // namespace
}  // namespace hc::test
