// SPDX-License-Identifier: Apache-2.0
// gpu_chunks_hostile_test: whatever a client says of chunks, and whatever descriptors it sends with
// it, costs it a refusal in one line, and leaves no descriptor and no mapping in the daemon.
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "e2e/gpu_scene.h"
#include "e2e/holdings.h"
#include "e2e/process.h"
#include "e2e/raw_client.h"
#include "shm/socket_message.h"
#include "support/catch.h"
#include "support/child.h"
#include "unit/shm/cuda/chunk_area.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kRowBytes = 24'000;  // as RankOptions says
constexpr std::size_t kChunkCount = 3;
constexpr int kChunkTries = 30;

// A process whose chunks are exported to this one; it lives until the line is let go of.
class ChunkOwner {
 public:
  ChunkOwner() : child_([this] { return serve(); }) {
    line_.be_parent();
    REQUIRE(::close(fd_line_[1]) == 0);
    auto told = receive_message(fd_line_[0], {reinterpret_cast<std::uint8_t*>(&device_),
                                              sizeof device_}, SocketWait::until_done);
    REQUIRE(told.has_value());
    REQUIRE(told->fds.size() == kChunkCount);
    fds_ = std::move(told->fds);
  }
  ChunkOwner(const ChunkOwner&) = delete;
  ChunkOwner& operator=(const ChunkOwner&) = delete;
  ~ChunkOwner() {
    ::close(fd_line_[0]);
    line_.go();
    CHECK(child_.wait() == 0);
  }

  const Uuid& device() const { return device_; }
  std::vector<int> fds() const {
    std::vector<int> raw;
    for (const UniqueFd& fd : fds_) {
      raw.push_back(fd.get());
    }
    return raw;
  }

 private:
  struct Ends {
    int ends[2];
    Ends() { HC_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0); }
    int operator[](int end) const { return ends[end]; }
  };

  int serve() {
    line_.be_child();
    const auto bench = FakeBench::make("");
    const std::vector<std::size_t> sizes(kChunkCount, kChunkBytes);
    const CuAddress area = map_area(bench->driver, sizes, kCuHandlePosixFd);
    const std::vector<UniqueFd> fds = export_area(bench->driver, area, kChunkCount);
    const std::vector<int> raw{fds[0].get(), fds[1].get(), fds[2].get()};
    CuUuid uuid{};
    HC_EXPECT(bench->driver->device_uuid(&uuid, 0) == 0);
    HC_EXPECT(send_message(fd_line_[1], {reinterpret_cast<const std::uint8_t*>(&uuid), sizeof uuid},
                           raw, SocketWait::until_done));
    return line_.wait() ? 0 : 1;
  }

  Ends fd_line_;
  FakeLine line_;
  Uuid device_{};
  std::vector<UniqueFd> fds_;
  Child child_;
};

struct ChunkRegion {
  RegionRequest request{};
  std::vector<RegionChunk> chunks;
  std::vector<int> fds;

  std::vector<std::uint8_t> body() const {
    std::vector<std::uint8_t> bytes;
    const auto append = [&](const auto& object) {
      const auto* const begin = reinterpret_cast<const std::uint8_t*>(&object);
      bytes.insert(bytes.end(), begin, begin + sizeof object);
    };
    append(request);
    append(LayoutRequest{0, 1, 0});
    append(LayoutRun{0, kRowBytes, kRowBytes});
    for (const RegionChunk& chunk : chunks) {
      append(chunk);
    }
    return bytes;
  }
};

ChunkRegion sound_chunks(const ChunkOwner& owner, std::uint32_t number) {
  ChunkRegion region;
  region.request.region = number;
  region.request.region_kind = static_cast<std::uint16_t>(RegionKind::cuda);
  region.request.export_kind = static_cast<std::uint16_t>(ExportKind::vmm);
  region.request.layout_count = 1;
  region.request.offset_bytes = kChunkBytes - 100;
  region.request.size_bytes = 10 * kRowBytes;
  region.request.rows = 10;
  region.request.registration = 1;
  region.request.device = owner.device();
  region.request.allocation_bytes = kChunkCount * kChunkBytes;
  region.request.chunk_count = kChunkCount;
  for (std::size_t i = 0; i < kChunkCount; ++i) {
    region.chunks.push_back({i * kChunkBytes, kChunkBytes});
  }
  region.fds = owner.fds();
  return region;
}

struct WrongChunkRegion {
  std::string name;
  std::function<void(ChunkRegion&)> spoil;
  std::string says;
};

// Of numbers: chunks, sizes, places.
std::vector<WrongChunkRegion> wrong_numbers() {
  return {
      {"a chunk too few", [](ChunkRegion& r) { r.chunks.pop_back(); }, "1 runs announced"},
      {"no chunk",
       [](ChunkRegion& r) {
         r.request.chunk_count = 0;
         r.chunks.clear();
         r.fds.clear();
       },
       "chunk_count = 0: must be 1..64"},
      {"more chunks than there may be",
       [](ChunkRegion& r) {
         r.request.chunk_count = 65;
         r.chunks.resize(65);
       },
       "chunk_count = 65: must be 1..64"},
      {"chunks that overlap", [](ChunkRegion& r) { r.chunks[2].offset_bytes = kChunkBytes; },
       "chunks[2].offset_bytes = 2097152: must be 4194304"},
      {"a gap", [](ChunkRegion& r) { r.chunks[1].offset_bytes += 4096; },
       "chunks[1].offset_bytes = 2101248: must be 2097152"},
      {"a sum that wraps", [](ChunkRegion& r) { r.chunks[0].size_bytes = ~std::uint64_t{0}; },
       "chunks[0].size_bytes"},
      {"sizes that don't add up", [](ChunkRegion& r) { r.request.allocation_bytes += 4096; },
       "allocation_bytes = 6295552: must be 6291456, the sum of the chunks"},
      {"sizes that no device maps",
       [](ChunkRegion& r) {
         r.chunks[1].size_bytes += 4096;
         r.chunks[2] = {2 * kChunkBytes + 4096, kChunkBytes - 4096};
       },
       "chunks[1].size_bytes = 2101248: must be a multiple of 2097152"},
      {"chunks that are larger than their memory",
       [](ChunkRegion& r) {
         r.chunks[2].size_bytes = 3 * kChunkBytes;
         r.request.allocation_bytes += 2 * kChunkBytes;
       },
       "chunks[2]: cuMemMap of 6291456 bytes"},
      {"more than there are addresses",
       [](ChunkRegion& r) {
         r.chunks[2].size_bytes = std::uint64_t{1} << 62;
         r.request.allocation_bytes = 2 * kChunkBytes + r.chunks[2].size_bytes;
       },
       "cuMemAddressReserve of 4611686018431582208 bytes"},
      {"an offset behind the end", [](ChunkRegion& r) { r.request.offset_bytes = 1ULL << 40; },
       "region offset_bytes"},
      {"an offset that leaves no room",
       [](ChunkRegion& r) { r.request.offset_bytes = kChunkCount * kChunkBytes - 5; },
       "region size_bytes"},
  };
}

// Of what came with them: descriptors that are none of memory, fields of other kinds.
std::vector<WrongChunkRegion> wrong_company(int no_memory, int no_export, int socket) {
  return {
      {"a descriptor too few", [](ChunkRegion& r) { r.fds.pop_back(); },
       "came with 2 descriptors, needs 3, one for each chunk"},
      {"a descriptor too many", [](ChunkRegion& r) { r.fds.push_back(r.fds[0]); },
       "came with 4 descriptors, needs 3"},
      {"no descriptor", [](ChunkRegion& r) { r.fds.clear(); }, "came with 0 descriptors"},
      {"memory that no device has", [=](ChunkRegion& r) { r.fds[1] = no_memory; },
       "chunks[1]: cuMemImportFromShareableHandle: CUDA_ERROR_UNKNOWN (999)"},
      {"no memory at all", [=](ChunkRegion& r) { r.fds[0] = no_export; },
       "chunks[0]: cuMemImportFromShareableHandle: CUDA_ERROR_UNKNOWN (999)"},
      {"a socket", [=](ChunkRegion& r) { r.fds[2] = socket; },
       "chunks[2]: cuMemImportFromShareableHandle: CUDA_ERROR_UNKNOWN (999)"},
      {"noise for a device", [](ChunkRegion& r) { r.request.device.fill(0x5E); },
       "and not this one"},
      {"a handle beside the chunks", [](ChunkRegion& r) { r.request.ipc_handle.fill(0xA7); },
       "ipc_handle, buffer"},
      {"chunks of an allocation", [](ChunkRegion& r) { r.request.export_kind = 1; },
       "chunk_count = 3"},
      {"chunks of host memory", [](ChunkRegion& r) { r.request.region_kind = 1; },
       "export_kind = 2"},
  };
}

void give_back(RawClient& client, std::uint32_t number) {
  RegionRequest gone{};
  gone.region = number;
  std::vector<std::uint8_t> body(sizeof gone);
  std::memcpy(body.data(), &gone, sizeof gone);
  REQUIRE(client.call(MessageType::unregister_region, body));
}

TEST_CASE("Chunks that are not so are refused with one line, and no descriptor of them stays") {
  GpuScene scene;
  const ChunkOwner owner;
  const UniqueFd file = plain_memory_file(kChunkBytes);
  const UniqueFd counter(::eventfd(0, EFD_CLOEXEC));
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const UniqueFd one(pair[0]);
  const UniqueFd other(pair[1]);
  RawClient client(scene.rank_options("hostile"));
  REQUIRE(client.attach());
  const ChunkRegion good = sound_chunks(owner, 3);
  REQUIRE(client.call(MessageType::register_region, good.body(), good.fds));
  give_back(client, 3);  // by now the daemon has its driver
  Watch watch(scene.daemon());
  std::size_t before = 0;
  REQUIRE(eventually([&] { return scene.is_clean(); }));
  before = watch.look().descriptors;
  std::vector<WrongChunkRegion> all = wrong_company(file.get(), counter.get(), one.get());
  for (WrongChunkRegion& wrong : wrong_numbers()) {
    all.push_back(std::move(wrong));
  }
  for (const WrongChunkRegion& wrong : all) {
    INFO(wrong.name);
    ChunkRegion region = good;
    wrong.spoil(region);

    const auto answer = client.call(MessageType::register_region, region.body(), region.fds);

    REQUIRE_FALSE(answer);
    CHECK(missing(answer.error().message(), {wrong.says}) == "");
    CHECK(answer.error().message().find('\n') == std::string::npos);
    CHECK(eventually([&] { return scene.is_clean() && watch.look().descriptors == before; }));
  }
  CHECK(client.call(MessageType::register_region, good.body(), good.fds));
  CHECK(scene.count("maps") == kChunkCount);
  client.hang_up();
  CHECK(eventually([&] { return scene.is_clean(); }));
  INFO(scene.daemon().log());
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A session has descriptors of one message in the daemon, and none once it ends") {
  GpuScene scene;
  const ChunkOwner owner;
  warm_up(scene);
  Watch watch(scene.daemon());
  const Holdings baseline = watch.settled();
  std::uint32_t busy = 0;
  for (int i = 0; i < kChunkTries; ++i) {
    RawClient client(scene.rank_options("hostile"));
    REQUIRE(client.attach());
    for (std::uint32_t number = 0; number + 1 < kRegionsPerSession; ++number) {
      const ChunkRegion region = sound_chunks(owner, number);
      REQUIRE(client.send(MessageType::register_region, region.body(), region.fds));
    }
    const ChunkRegion last = sound_chunks(owner, kRegionsPerSession - 1);
    const auto answer = client.call(MessageType::register_region, last.body(), last.fds);
    const bool is_busy = !answer && answer.error().code == Code::busy;
    CHECK((answer || is_busy));
    busy += is_busy ? 1 : 0;
    client.hang_up();
  }

  CHECK(busy > 0);
  Holdings last;
  CHECK(eventually([&] { return (last = watch.look()) == baseline && scene.is_clean(); }));
  INFO(text_of(baseline) << "\n" << text_of(last) << "\n" << scene.daemon().log());
  CHECK(last == baseline);
  CHECK(scene.daemon().stop() == 0);
}

}  // namespace
}  // namespace hc::test
