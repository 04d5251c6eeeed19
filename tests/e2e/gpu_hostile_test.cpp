// SPDX-License-Identifier: Apache-2.0
// gpu_hostile_test: what a client can say of device memory costs it a refusal, or its session, and
// nobody else anything.
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "e2e/gpu_scene.h"
#include "e2e/holdings.h"
#include "e2e/process.h"
#include "e2e/raw_client.h"
#include "support/catch.h"
#include "support/child.h"

namespace hc::test {
namespace {

constexpr std::uint32_t kPayloadBytes = 24'000;  // as RankOptions says
constexpr int kDeviceTries = 40;

struct DeviceRegion {
  RegionRequest request{};
  std::vector<IpcHandle> events{};

  std::vector<std::uint8_t> body() const {
    std::vector<std::uint8_t> bytes;
    const auto append = [&](const auto& object) {
      const auto* const begin = reinterpret_cast<const std::uint8_t*>(&object);
      bytes.insert(bytes.end(), begin, begin + sizeof object);
    };
    append(request);
    append(LayoutRequest{0, 1, 0});
    append(LayoutRun{0, kPayloadBytes, kPayloadBytes});
    for (const IpcHandle& event : events) {
      append(event);
    }
    return bytes;
  }
};

// Right in every field that can be judged without a driver.
DeviceRegion plausible(std::uint32_t number) {
  DeviceRegion region;
  region.request.region = number;
  region.request.region_kind = static_cast<std::uint16_t>(RegionKind::cuda);
  region.request.layout_count = 1;
  region.request.size_bytes = kPayloadBytes;
  region.request.rows = 1;
  region.request.registration = 1;
  region.request.allocation_bytes = kPayloadBytes;
  region.request.buffer = 1;
  region.request.event_count = kOpSlotsPerSession;
  region.request.export_kind = static_cast<std::uint16_t>(ExportKind::legacy);
  region.events.resize(kOpSlotsPerSession);
  return region;
}

// What a real export says, without a region: its process lives as long as the line.
struct Exported {
  RegionRequest request{};
  IpcHandle event{};
};

int export_and_stay(FakeLine& line) {
  line.be_child();
  const auto bench = FakeBench::make("");
  const auto& driver = bench->driver;
  const CuAddress memory = bench->new_memory(kPayloadBytes);
  Exported out;
  HC_EXPECT(driver->ipc_get_mem(
                reinterpret_cast<CuIpcMemHandle*>(out.request.ipc_handle.data()), memory) == 0);
  HC_EXPECT(driver->pointer_attribute(&out.request.buffer, kCuPointerBufferId, memory) == 0);
  HC_EXPECT(driver->device_uuid(reinterpret_cast<CuUuid*>(out.request.device.data()), 0) == 0);
  const CuEvent event = bench->new_event(kCuEventInterprocess | kCuEventNoTiming);
  HC_EXPECT(driver->ipc_get_event(reinterpret_cast<CuIpcEventHandle*>(out.event.data()), event) ==
            0);
  line.send(out);
  return line.wait() ? 0 : 1;
}

struct WrongRegion {
  std::string name;
  std::function<void(DeviceRegion&)> spoil;
  std::string says;
};

std::vector<WrongRegion> wrong_regions() {
  return {
      {"noise for a handle", [](DeviceRegion& r) { r.request.ipc_handle.fill(0xA7); },
       "cuIpcOpenMemHandle"},
      {"no handle", [](DeviceRegion& r) { r.request.ipc_handle = {}; }, "cuIpcOpenMemHandle"},
      {"noise for a device", [](DeviceRegion& r) { r.request.device.fill(0x5E); },
       "and not this one"},
      {"noise for an event", [](DeviceRegion& r) { r.events[63].fill(0x3C); },
       "cuIpcOpenEventHandle"},
      {"an allocation of another size", [](DeviceRegion& r) { r.request.allocation_bytes *= 2; },
       "allocation_bytes = 48000: the device says 24000"},
      {"an offset behind the end", [](DeviceRegion& r) { r.request.offset_bytes = 1ULL << 62; },
       "region offset_bytes"},
      {"an offset that leaves no room", [](DeviceRegion& r) { r.request.offset_bytes = 1; },
       "region size_bytes"},
      {"an event too few",
       [](DeviceRegion& r) {
         r.request.event_count = 63;
         r.events.resize(63);
       },
       "event_count = 63"},
      {"fewer events than it says", [](DeviceRegion& r) { r.events.resize(62); },
       "1 runs announced"},
      {"a region of no number", [](DeviceRegion& r) { r.request.region = 16; }, "region = 16"},
      {"a kind of memory that there is not", [](DeviceRegion& r) { r.request.region_kind = 4; },
       "region_kind = 4"},
      {"an export of no kind", [](DeviceRegion& r) { r.request.export_kind = 0; },
       "export_kind = 0"},
      {"chunks of an allocation", [](DeviceRegion& r) { r.request.chunk_count = 1; },
       "chunk_count = 1"},
      {"host memory with events", [](DeviceRegion& r) { r.request.region_kind = 1; },
       "event_count = 64"},
      {"rows that are not there", [](DeviceRegion& r) { r.request.rows = 1000; }, ""},
  };
}

TEST_CASE("A region that is not so is refused with one line, and the session goes on") {
  GpuScene scene;
  FakeLine line;
  Child owner([&] { return export_and_stay(line); });
  line.be_parent();
  Exported real;
  REQUIRE(line.receive(real));
  DeviceRegion good = plausible(3);
  good.request.ipc_handle = real.request.ipc_handle;
  good.request.buffer = real.request.buffer;
  good.request.device = real.request.device;
  std::fill(good.events.begin(), good.events.end(), real.event);
  RawClient client(scene.rank_options("hostile"));
  REQUIRE(client.attach());
  for (const WrongRegion& wrong : wrong_regions()) {
    INFO(wrong.name);
    DeviceRegion region = good;
    wrong.spoil(region);

    const auto answer = client.call(MessageType::register_region, region.body());

    REQUIRE_FALSE(answer);
    CHECK(missing(answer.error().message(), {wrong.says}) == "");
    CHECK(answer.error().message().find('\n') == std::string::npos);
    CHECK(eventually([&] { return scene.count("mappings") <= 0; }));
  }
  const UniqueFd file = plain_memory_file(kPayloadBytes);
  CHECK_FALSE(client.call(MessageType::register_region, good.body(), {file.get()}));
  CHECK(client.call(MessageType::register_region, good.body()));
  CHECK(scene.count("mappings") == 1);
  CHECK(scene.count("opened_events") == kOpSlotsPerSession);
  client.hang_up();
  CHECK(eventually([&] { return scene.is_clean(); }));
  line.go();
  CHECK(owner.wait() == 0);
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("A number that is being opened is busy, for device and host memory") {
  GpuScene scene;
  RawClient client(scene.rank_options("hostile"));
  REQUIRE(client.attach());
  const UniqueFd file = plain_memory_file(kPayloadBytes);
  for (int i = 0; i < kDeviceTries; ++i) {
    // The answer to the first comes when it may: the others are judged before or after it.
    REQUIRE(client.send(MessageType::register_region, plausible(2).body(), {}));
    const auto again = client.call(MessageType::register_region, plausible(2).body());
    REQUIRE_FALSE(again);
    CHECK((again.error().code == Code::busy || again.error().code == Code::refused));
    REQUIRE(client.send(MessageType::register_region, plausible(2).body(), {}));
    const auto host = client.register_region(2, file.get(), kPayloadBytes, 1);
    CHECK((host || host.error().code == Code::busy));
    if (host) {
      RegionRequest gone{};
      gone.region = 2;
      std::vector<std::uint8_t> body(sizeof gone);
      std::memcpy(body.data(), &gone, sizeof gone);
      CHECK(client.call(MessageType::unregister_region, body));
    }
  }
  Rank honest({.socket = scene.daemon().client_socket(), .group = "honest"});
  REQUIRE(honest.open() == HICACHE_OK);
  CHECK(honest.store({10, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
  CHECK(honest.load({10, 4, 4}).code == HICACHE_OK);
  CHECK(honest.wrong_bytes({10, 4, 4}) == 0);
  honest.close();
  CHECK(scene.daemon().stop() == 0);
}

TEST_CASE("Sessions that end while their memory is being opened leave nothing open") {
  GpuScene scene;
  FakeLine line;
  Child owner([&] { return export_and_stay(line); });
  line.be_parent();
  Exported real;
  REQUIRE(line.receive(real));
  DeviceRegion region = plausible(0);
  region.request.ipc_handle = real.request.ipc_handle;
  region.request.buffer = real.request.buffer;
  region.request.device = real.request.device;
  std::fill(region.events.begin(), region.events.end(), real.event);
  Watch watch(scene.daemon());
  const std::size_t sessions = watch.look().sessions;

  for (int i = 0; i < kDeviceTries; ++i) {
    RawClient client(scene.rank_options("hostile"));
    REQUIRE(client.attach());
    for (std::uint32_t number = 0; number < kRegionsPerSession; ++number) {
      region.request.region = number;
      REQUIRE(client.send(MessageType::register_region, region.body(), {}));
    }
    // What was sent has been read, but not all of it answered; or it meets the end.
    CHECK((i % 4 == 0 || client.call(MessageType::stats, {})));
    client.hang_up();
  }

  CHECK(eventually([&] { return watch.look().sessions == sessions && scene.is_clean(); }));
  line.go();
  CHECK(owner.wait() == 0);
  CHECK(scene.daemon().stop() == 0);
  INFO(scene.daemon().log());
}

TEST_CASE("An await of an event that the session never gave fails its operation") {
  GpuScene scene;
  FakeLine line;
  Child owner([&] { return export_and_stay(line); });
  line.be_parent();
  Exported real;
  REQUIRE(line.receive(real));
  DeviceRegion region = plausible(0);
  region.request.ipc_handle = real.request.ipc_handle;
  region.request.buffer = real.request.buffer;
  region.request.device = real.request.device;
  region.request.event_count = 0;
  region.events.clear();
  RawClient client(scene.rank_options("hostile"));
  REQUIRE(client.attach());
  REQUIRE(client.call(MessageType::register_region, region.body()));
  PageEntry page{};
  const auto key = page_key(77);
  std::memcpy(&page.hash, key.data(), key.size());
  client.page_at(0, 0) = page;
  RequestEntry entry = good_entry(Verb::store, 0, 1);
  entry.flags |= kFlagAwaitEvent;

  client.push(entry);

  const auto done = client.next_completion();
  REQUIRE(done);
  CHECK(done->code != static_cast<std::int32_t>(Code::ok));
  client.hang_up();
  CHECK(eventually([&] { return scene.is_clean(); }));
  line.go();
  CHECK(owner.wait() == 0);
  CHECK(scene.daemon().stop() == 0);
}

}  // namespace
}  // namespace hc::test
