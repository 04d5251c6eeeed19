// SPDX-License-Identifier: Apache-2.0
// region_map_test: registrations of client memory, sound and not.
#include "daemon/session/region_map.h"

#include <unistd.h>

#include <cstring>
#include <functional>

#include "proto/limits.h"
#include "shm/memory_file.h"
#include "support/catch.h"

namespace {

using namespace hc;

constexpr std::uint32_t kPayload = 6000;

SpaceDescriptor one_kind() {
  SpaceDescriptor space;
  space.model = "m";
  space.page_tokens = 64;
  space.kinds = {{"kv", kPayload, Placement::sharded, HitPolicy::all_pages, 0}};
  return space;
}

// Ten rows of 6,000 bytes in two runs of 3,000 bytes each.
RegionBody sound() {
  RegionBody body;
  body.request.region = 2;
  body.request.region_kind = static_cast<std::uint16_t>(RegionKind::host);
  body.request.layout_count = 1;
  body.request.size_bytes = 60'000;
  body.request.rows = 10;
  body.layouts = {{0, 2, 0}};
  body.runs = {{0, 3000, 3000}, {30'000, 3000, 3000}};
  return body;
}

std::vector<std::uint8_t> encode(const RegionBody& body) {
  std::vector<std::uint8_t> out(sizeof body.request + body.layouts.size() * sizeof(LayoutRequest) +
                                body.runs.size() * sizeof(LayoutRun) +
                                body.events.size() * sizeof(IpcHandle) +
                                body.chunks.size() * sizeof(RegionChunk));
  std::uint8_t* at = out.data();
  std::memcpy(at, &body.request, sizeof body.request);
  at += sizeof body.request;
  std::memcpy(at, body.layouts.data(), body.layouts.size() * sizeof(LayoutRequest));
  at += body.layouts.size() * sizeof(LayoutRequest);
  std::memcpy(at, body.runs.data(), body.runs.size() * sizeof(LayoutRun));
  at += body.runs.size() * sizeof(LayoutRun);
  at = std::copy_n(reinterpret_cast<const std::uint8_t*>(body.events.data()),
                   body.events.size() * sizeof(IpcHandle), at);
  std::copy_n(reinterpret_cast<const std::uint8_t*>(body.chunks.data()),
              body.chunks.size() * sizeof(RegionChunk), at);
  return out;
}

TEST_CASE("region_map: a sound registration is accepted run by run") {
  const auto parsed = parse_region(encode(sound()));
  REQUIRE(parsed);

  const auto region = judge_region(*parsed, one_kind());

  REQUIRE(region);
  CHECK(region->rows == 10);
  REQUIRE(region->layouts[0].runs.size() == 2);
  CHECK(region->layouts[0].runs[1].offset_bytes == 30'000);
}

TEST_CASE("region_map: memory of a GPU may begin anywhere, and brings an event for each slot") {
  RegionBody body = sound();
  body.request.region_kind = static_cast<std::uint16_t>(RegionKind::cuda);
  body.request.export_kind = static_cast<std::uint16_t>(ExportKind::legacy);
  body.request.offset_bytes = 100;
  body.request.event_count = kOpSlotsPerSession;
  body.events.resize(kOpSlotsPerSession);
  body.events[63][63] = 9;

  const auto parsed = parse_region(encode(body));

  REQUIRE(parsed);
  CHECK(parsed->is_cuda());
  CHECK(parsed->events == body.events);
  CHECK(judge_region(*parsed, one_kind()));
}

constexpr std::uint64_t kMiB = 1U << 20;

// Three chunks; the region begins in the first.
RegionBody in_chunks() {
  RegionBody body = sound();
  body.request.region_kind = static_cast<std::uint16_t>(RegionKind::cuda);
  body.request.export_kind = static_cast<std::uint16_t>(ExportKind::vmm);
  body.request.offset_bytes = 100;
  body.request.allocation_bytes = 8 * kMiB;
  body.request.chunk_count = 3;
  body.chunks = {{0, 2 * kMiB}, {2 * kMiB, 4 * kMiB}, {6 * kMiB, 2 * kMiB}};
  return body;
}

TEST_CASE("region_map: memory without a handle names its chunks, and brings a descriptor of each") {
  const auto parsed = parse_region(encode(in_chunks()));

  REQUIRE(parsed);
  CHECK(parsed->is_cuda());
  CHECK(parsed->fd_count() == 3);
  REQUIRE(parsed->chunks.size() == 3);
  CHECK(parsed->chunks[2].offset_bytes == 6 * kMiB);
  CHECK(parsed->chunks[2].size_bytes == 2 * kMiB);
  CHECK(judge_region(*parsed, one_kind()));
  CHECK(parse_region(encode(sound()))->fd_count() == 1);
}

TEST_CASE("region_map: chunks that leave a gap, overlap or don't add up are refused by number") {
  struct Case {
    const char* says;
    std::function<void(RegionBody&)> change;
  };
  const Case cases[] = {
      {"export_kind = 0: must be 1 (legacy) or 2 (vmm)",
       [](RegionBody& b) { b.request.export_kind = 0; }},
      {"export_kind = 3", [](RegionBody& b) { b.request.export_kind = 3; }},
      {"chunk_count = 3: must be 0", [](RegionBody& b) { b.request.export_kind = 1; }},
      {"chunk_count = 0: must be 1..64",
       [](RegionBody& b) {
         b.request.chunk_count = 0;
         b.chunks.clear();
       }},
      {"chunk_count = 65: must be 1..64",
       [](RegionBody& b) {
         b.request.chunk_count = 65;
         b.chunks.resize(65);
       }},
      {"ipc_handle, buffer", [](RegionBody& b) { b.request.ipc_handle[7] = 1; }},
      {"ipc_handle, buffer", [](RegionBody& b) { b.request.buffer = 1; }},
      {"chunks[0].offset_bytes = 4096: must be 0",
       [](RegionBody& b) { b.chunks[0].offset_bytes = 4096; }},
      {"chunks[1].offset_bytes = 1048576: must be 2097152",
       [](RegionBody& b) { b.chunks[1].offset_bytes = kMiB; }},
      {"chunks[2].offset_bytes = 7340032: must be 6291456",
       [](RegionBody& b) { b.chunks[2].offset_bytes = 7 * kMiB; }},
      {"chunks[1].size_bytes = 0: must be 1..6291456",
       [](RegionBody& b) { b.chunks[1].size_bytes = 0; }},
      {"chunks[1].size_bytes = 18446744073709551615: must be 1..6291456",
       [](RegionBody& b) { b.chunks[1].size_bytes = UINT64_MAX; }},
      {"chunks[2].size_bytes = 4194304: must be 1..2097152",
       [](RegionBody& b) { b.chunks[2].size_bytes = 4 * kMiB; }},
      {"allocation_bytes = 9437184: must be 8388608, the sum of the chunks",
       [](RegionBody& b) { b.request.allocation_bytes = 9 * kMiB; }},
      {"runs announced", [](RegionBody& b) { b.chunks.pop_back(); }},
      {"runs announced", [](RegionBody& b) { b.request.chunk_count = 2; }},
      {"export_kind = 2: must be 0", [](RegionBody& b) { b.request.region_kind = 1; }},
      {"export_kind = 2: must be 0", [](RegionBody& b) { b.request.region_kind = 3; }},
      {"chunk_count = 3: must be 0",
       [](RegionBody& b) {
         b.request.region_kind = 3;
         b.request.export_kind = 0;
       }},
  };
  for (const Case& at : cases) {
    INFO(at.says);
    RegionBody body = in_chunks();
    at.change(body);

    const auto parsed = parse_region(encode(body));

    REQUIRE_FALSE(parsed);
    INFO(parsed.error().text);
    CHECK(parsed.error().code == Code::bad_argument);
    CHECK(parsed.error().text.find(at.says) != std::string::npos);
  }
}

TEST_CASE("region_map: a message cut short at any byte is refused") {
  for (const auto& whole : {encode(sound()), encode(in_chunks())}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      CHECK_FALSE(parse_region(std::span(whole).first(size)));
    }
  }
}

TEST_CASE("region_map: every field out of range is refused with field and range") {
  struct Case {
    const char* names;
    std::function<void(RegionBody&)> change;
  };
  const Case cases[] = {
      {"region = 16", [](RegionBody& b) { b.request.region = kRegionsPerSession; }},
      {"region_kind = 4", [](RegionBody& b) { b.request.region_kind = 4; }},
      {"export_kind = 1", [](RegionBody& b) { b.request.export_kind = 1; }},
      {"chunk_count = 1", [](RegionBody& b) { b.request.chunk_count = 1; }},
      {"event_count = 64", [](RegionBody& b) { b.request.event_count = 64; }},
      {"event_count = 63",
       [](RegionBody& b) {
         b.request.region_kind = 2;
         b.request.event_count = 63;
       }},
      {"layout_count = 0", [](RegionBody& b) { b.request.layout_count = 0; }},
      {"layout_count = 9", [](RegionBody& b) { b.request.layout_count = 9; }},
      {"run_count = 0", [](RegionBody& b) { b.layouts[0].run_count = 0; }},
      {"run_count = 513", [](RegionBody& b) { b.layouts[0].run_count = 513; }},
      {"size_bytes = 0", [](RegionBody& b) { b.request.size_bytes = 0; }},
      {"offset_bytes = 100", [](RegionBody& b) { b.request.offset_bytes = 100; }},
      {"rows = 0", [](RegionBody& b) { b.request.rows = 0; }},
      {"rows = 11", [](RegionBody& b) { b.request.rows = 11; }},
      {"layout kind = 1", [](RegionBody& b) { b.layouts[0].kind = 1; }},
      {"length_bytes = 0", [](RegionBody& b) { b.runs[0].length_bytes = 0; }},
      {"length_bytes = 6001", [](RegionBody& b) { b.runs[0].length_bytes = 6001; }},
      {"sum of run lengths = 5999", [](RegionBody& b) { b.runs[0].length_bytes = 2999; }},
      {"rows = 10", [](RegionBody& b) { b.runs[1].offset_bytes = UINT64_MAX - 10; }},
      {"rows = 10", [](RegionBody& b) { b.runs[0].stride_bytes = UINT64_MAX / 4; }},
  };
  for (const Case& entry : cases) {
    RegionBody body = sound();
    entry.change(body);
    const auto parsed = parse_region(encode(body));
    std::string text;
    if (!parsed) {
      text = parsed.error().text;
    } else {
      const auto judged = judge_region(*parsed, one_kind());
      REQUIRE_FALSE(judged);
      text = judged.error().text;
    }
    INFO(text);
    CHECK(text.find(entry.names) != std::string::npos);
  }
}

TEST_CASE("region_map: a kind that stands twice is refused") {
  RegionBody body = sound();
  body.request.layout_count = 2;
  body.layouts = {{0, 2, 0}, {0, 2, 0}};
  body.runs.insert(body.runs.end(), body.runs.begin(), body.runs.end());
  const auto parsed = parse_region(encode(body));
  REQUIRE(parsed);

  CHECK_FALSE(judge_region(*parsed, one_kind()));
}

TEST_CASE("region_map: memory smaller than the region is refused, enough of it is mapped") {
  RegionRequest request = sound().request;
  auto small = MemoryFile::create("region-test", 4096);
  auto enough = MemoryFile::create("region-test", 61'440);
  REQUIRE(small);
  REQUIRE(enough);

  const auto refused = map_region(request, UniqueFd(::dup(small->fd())));
  auto mapped = map_region(request, UniqueFd(::dup(enough->fd())));

  CHECK_FALSE(refused);
  REQUIRE(mapped);
  CHECK(mapped->map->writable_bytes().size() == request.size_bytes);
}

TEST_CASE("region_map: size plus offset beyond 64 bits is refused") {
  RegionRequest request = sound().request;
  request.offset_bytes = UINT64_MAX & ~std::uint64_t{4095};
  auto file = MemoryFile::create("region-test", 61'440);

  CHECK_FALSE(map_region(request, UniqueFd(::dup(file->fd()))));
}

}  // namespace
