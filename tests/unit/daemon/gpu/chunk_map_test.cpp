// SPDX-License-Identifier: Apache-2.0
// chunk_map_test: memory of cuMemCreate of another process: opened by its descriptors, copied over
// the borders of its chunks, closed, refused.
#include "daemon/gpu/chunk_map.h"

#include <sys/eventfd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "support/catch.h"
#include "unit/daemon/gpu/copier_bench.h"

namespace hc::test {
namespace {

const std::vector<std::size_t> kChunkSizes = {kChunkBytes, 2 * kChunkBytes, kChunkBytes};
constexpr std::uint64_t kAllChunks = 4 * kChunkBytes;
constexpr std::uint64_t kInChunk = 700'001;  // in the first chunk

std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// A pattern that differs in every chunk, in the memory of the exporter.
void paint(CopierBench& bench, std::uint64_t area, std::uint32_t seed) {
  fill_bytes({bench.exporter.host(), kAllChunks}, seed);
  bench.exporter.push(area, kAllChunks);
}

bool no_chunks_left() {
  return cuda_count("maps") == 0 && cuda_count("reservations") == 0 && cuda_count("handles") == 0;
}

TEST_CASE("chunks are one region, from an offset in the first one over every border") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    const std::uint64_t area = bench.exporter.alloc_chunks(kChunkSizes);
    const DeviceOpened opened =
        bench.open(bench.exporter.chunk_region(kInChunk, kAllChunks - kInChunk));
    HC_EXPECT(opened.code == Code::ok && opened.has_events);
    HC_EXPECT(opened.spent.size() == 3);
    HC_EXPECT(cuda_count("maps") == 3 && cuda_count("reservations") == 1);
    HC_EXPECT(cuda_count("handles") == 0);  // the mappings alone keep the memory
    HC_EXPECT(cuda_count("cuIpcOpenMemHandle") < 1);
    paint(bench, area, 5);  // as seen by the daemon, not what was there when it opened
    const std::uint8_t* const host = bench.exporter.host();
    const std::vector<std::uint8_t> wanted(host, host + kAllChunks);
    for (const std::uint64_t border : {kChunkBytes, 3 * kChunkBytes}) {
      const std::vector<CopyRun> runs{{border - kInChunk - 60'000, 100'000},
                                      {border - kInChunk + 50'000, 3}};
      const CopyJob out = bench.job(CopyKind::gather, opened.mapping, runs);
      HC_EXPECT(bench.run(out).code == Code::ok);
      HC_EXPECT(std::equal(out.frame, out.frame + 100'000, &wanted[border - 60'000]));
      HC_EXPECT(std::equal(out.frame + 100'000, out.frame + 100'003, &wanted[border + 50'000]));
    }
    bench.copier->close(opened.mapping, 0);
    HC_EXPECT(bench.until([&] { return bench.copier->open_allocations() == 0; }));
    HC_EXPECT(no_chunks_left());
    return bench.leave();
  }));
}

TEST_CASE("what is loaded lands in the chunks of the client, at its offset and nowhere else") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    const std::uint64_t area = bench.exporter.alloc_chunks(kChunkSizes);
    paint(bench, area, 6);
    std::vector<std::uint8_t> wanted(bench.exporter.host(), bench.exporter.host() + kAllChunks);
    const MappingId region =
        bench.open(bench.exporter.chunk_region(kInChunk, kAllChunks - kInChunk)).mapping;
    const std::uint64_t at = 3 * kChunkBytes - 1'234'567;
    const std::vector<CopyRun> runs{{at - kInChunk, 2'000'001}};
    const CopyJob in = bench.job(CopyKind::scatter, region, runs);
    fill_bytes({in.frame, 2'000'001}, 7);
    std::copy_n(in.frame, 2'000'001, &wanted[at]);

    HC_EXPECT(bench.run(in).code == Code::ok);

    std::fill_n(bench.exporter.host(), kAllChunks, std::uint8_t{0});
    bench.exporter.pull(area, kAllChunks);
    HC_EXPECT(std::equal(wanted.begin(), wanted.end(), bench.exporter.host()));
    bench.copier->close(region, 0);
    return bench.leave();
  }));
}

TEST_CASE("two regions of the same chunks are two mappings, each closed by itself") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    const std::uint64_t area = bench.exporter.alloc_chunks(kChunkSizes);
    paint(bench, area, 8);
    const MappingId one = bench.open(bench.exporter.chunk_region(0, kAllChunks)).mapping;
    const MappingId two = bench.open(bench.exporter.chunk_region(kInChunk, 4096)).mapping;
    HC_EXPECT(bench.copier->open_allocations() == 2 && cuda_count("maps") == 6);

    bench.copier->close(one, 0);

    HC_EXPECT(bench.until([&] { return bench.copier->open_allocations() == 1; }));
    const std::vector<CopyRun> runs{{0, 4096}};
    const CopyJob out = bench.job(CopyKind::gather, two, runs);
    HC_EXPECT(bench.run(out).code == Code::ok);
    HC_EXPECT(std::equal(out.frame, out.frame + 4096, bench.exporter.host() + kInChunk));
    bench.copier->close(two, 0);
    return bench.leave();
  }));
}

TEST_CASE("chunks of a client that dies are copied and closed by who has them open") {
  CHECK(holds_in_child([] {
    CopierBench bench;
    const std::uint64_t area = bench.exporter.alloc_chunks(kChunkSizes);
    paint(bench, area, 9);
    const MappingId region = bench.open(bench.exporter.chunk_region(0, kAllChunks)).mapping;
    DeviceExport late = bench.exporter.chunk_region(0, kAllChunks);

    bench.exporter.kill_now();

    const std::vector<CopyRun> runs{{kChunkBytes - 9, 100}};
    const CopyJob out = bench.job(CopyKind::gather, region, runs);
    HC_EXPECT(bench.run(out).code == Code::ok);
    HC_EXPECT(std::equal(out.frame, out.frame + 100, bench.exporter.host() + kChunkBytes - 9));
    bench.copier->close(region, 0);
    HC_EXPECT(bench.until([] { return no_chunks_left(); }));
    late.events.clear();  // whose process is gone, unlike the memory of its descriptors
    const DeviceOpened opened = bench.open(std::move(late));
    HC_EXPECT(opened.code == Code::ok);
    bench.copier->close(opened.mapping, 0);
    return bench.leave();
  }));
}

struct WrongChunks {
  std::string name;
  std::string plan;
  std::function<void(DeviceExport&)> spoil;
  Code code;
  std::string says;
};

std::vector<WrongChunks> wrong_chunks() {
  const auto as_it_is = [](DeviceExport&) {};
  return {
      {"a descriptor that is no export", "",
       [](DeviceExport& e) { e.fds[1] = UniqueFd(::eventfd(0, 0)); }, Code::io_error,
       "chunks[1]: cuMemImportFromShareableHandle: CUDA_ERROR_UNKNOWN (999)"},
      {"a chunk that is smaller than it says", "",
       [](DeviceExport& e) { std::swap(e.fds[0], e.fds[1]); }, Code::io_error,
       "chunks[1]: cuMemMap of 4194304 bytes: CUDA_ERROR_INVALID_VALUE (1)"},
      {"sizes that no device maps", "",
       [](DeviceExport& e) {
         e.chunks[0].size_bytes -= 4096;
         e.chunks[1] = {e.chunks[1].offset_bytes - 4096, e.chunks[1].size_bytes + 4096};
       },
       Code::bad_argument, "chunks[0].size_bytes = 2093056: must be a multiple of 2097152"},
      {"an offset behind the end", "", [](DeviceExport& e) { e.offset_bytes = kAllChunks + 1; },
       Code::bad_argument, "region offset_bytes = 8388609: must be 0..8388608"},
      {"a size over the end", "", [](DeviceExport& e) { e.offset_bytes = 1; },
       Code::bad_argument, "region size_bytes = 8388608: must be 0..8388607"},
      {"noise for an event", "", [](DeviceExport& e) { e.events[1].fill(0x9B); }, Code::io_error,
       "cuIpcOpenEventHandle"},
      {"another device", "", [](DeviceExport& e) { e.device[3] ^= 1; }, Code::refused,
       "and not this one"},
      {"a driver without chunks", "version=10010", as_it_is, Code::unsupported,
       "the daemon's driver maps no chunks of cuMemCreate"},
      {"a device without chunks", "no_vmm=1", as_it_is, Code::io_error,
       "cuMemGetAllocationGranularity: CUDA_ERROR_NOT_SUPPORTED (801)"},
      {"no addresses", "cuMemAddressReserve=2", as_it_is, Code::io_error,
       "cuMemAddressReserve of 8388608 bytes: CUDA_ERROR_OUT_OF_MEMORY (2)"},
      {"the last import fails", "cuMemImportFromShareableHandle@3=999", as_it_is, Code::io_error,
       "chunks[2]: cuMemImportFromShareableHandle"},
      {"no word of a chunk", "cuMemGetAllocationPropertiesFromHandle@2=1", as_it_is,
       Code::io_error, "chunks[1]: cuMemGetAllocationPropertiesFromHandle"},
      {"the second map fails", "cuMemMap@2=2", as_it_is, Code::io_error, "chunks[1]: cuMemMap"},
      {"no access", "cuMemSetAccess=1", as_it_is, Code::io_error, "cuMemSetAccess"},
  };
}

TEST_CASE("chunks that are not so are refused with one line, and leave nothing open") {
  for (const WrongChunks& wrong : wrong_chunks()) {
    INFO(wrong.name);
    CHECK(holds_in_child([&] {
      CopierBench bench({wrong.plan, ""});
      bench.copier->close(bench.open_region(bench.exporter.alloc(4096), 4096), 0);
      HC_EXPECT(bench.until([&] { return bench.copier->open_allocations() == 0; }));
      bench.exporter.alloc_chunks(kChunkSizes);
      const std::size_t before = open_files();  // the driver has its own by now
      DeviceExport named = bench.exporter.chunk_region(0, kAllChunks);
      wrong.spoil(named);

      DeviceOpened opened = bench.open(std::move(named));

      std::fprintf(stderr, "%s\n", opened.text.c_str());
      HC_EXPECT(opened.code == wrong.code);
      HC_EXPECT(opened.mapping == kHostMapping);
      HC_EXPECT(opened.text.find(wrong.says) != std::string::npos);
      HC_EXPECT(opened.text.find('\n') == std::string::npos);
      HC_EXPECT(no_chunks_left() && cuda_count("opened_events") == 0);
      HC_EXPECT(bench.copier->open_allocations() == 0);
      HC_EXPECT(opened.spent.size() == 3);
      opened.spent.clear();
      HC_EXPECT(bench.until([&] { return open_files() <= before; }));
      return bench.leave();
    }));
  }
}

TEST_CASE("a chunk of another device than the region's is refused") {
  CHECK(holds_in_child([] {
    CopierBench bench({"devices=2", "devices=2"});
    bench.exporter.alloc_chunks(kChunkSizes, 1);
    const DeviceOpened opened = bench.open(bench.exporter.chunk_region(0, kAllChunks));
    HC_EXPECT(opened.code == Code::refused);
    HC_EXPECT(opened.text.find("chunks[0]: is memory of another device than GPU-") == 0);
    HC_EXPECT(no_chunks_left());
    return bench.leave();
  }));
}

}  // namespace
}  // namespace hc::test
