// SPDX-License-Identifier: Apache-2.0
// region_map: parse, judge and map a region of client memory.
#include "daemon/session/region_map.h"

#include <cstring>
#include <string>

#include "proto/check.h"
#include "proto/limits.h"
#include "shm/memory_file.h"

namespace hc {

namespace {

Error out_of_range(const std::string& field, std::uint64_t value, const std::string& allowed) {
  return make_error(Code::bad_argument,
                    field + " = " + std::to_string(value) + ": must be " + allowed);
}

template <typename T>
bool take(std::span<const std::uint8_t>& body, T& out) {
  if (body.size() < sizeof out) {
    return false;
  }
  std::memcpy(&out, body.data(), sizeof out);
  body = body.subspan(sizeof out);
  return true;
}

// offset + (rows - 1) * stride + length <= size, without overflow: every factor is bounded by
// the size first.
bool run_fits(const LayoutRun& run, std::uint32_t rows, std::uint64_t size_bytes) {
  if (run.length_bytes > size_bytes || run.offset_bytes > size_bytes - run.length_bytes) {
    return false;
  }
  const std::uint64_t room = size_bytes - run.length_bytes - run.offset_bytes;
  return rows == 1 || run.stride_bytes <= room / (rows - 1);
}

Result<void> judge_layout(const LayoutRequest& layout, std::span<const LayoutRun> runs,
                          const RegionRequest& request, const KindSpec& kind) {
  const std::string field = "layout of kind '" + kind.name + "'";
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string run = field + ".runs[" + std::to_string(i) + "]";
    if (runs[i].length_bytes == 0 || runs[i].length_bytes > kind.payload_bytes) {
      return out_of_range(run + ".length_bytes", runs[i].length_bytes,
                          "1.." + std::to_string(kind.payload_bytes));
    }
    if (!run_fits(runs[i], request.rows, request.size_bytes)) {
      return out_of_range(run + " with rows", request.rows,
                          "few enough that every row lies in the region's " +
                              std::to_string(request.size_bytes) + " bytes");
    }
    bytes += runs[i].length_bytes;
  }
  if (bytes != kind.payload_bytes) {
    return out_of_range(field + ": sum of run lengths", bytes,
                        std::to_string(kind.payload_bytes) + ", the payload bytes of the kind");
  }
  HC_CHECK(layout.run_count == runs.size());
  return {};
}

// What of its memory a cuda region names, and no other region.
Result<void> judge_export(const RegionBody& body) {
  const RegionRequest& request = body.request;
  const auto kind = static_cast<ExportKind>(request.export_kind);
  const bool is_vmm = body.is_cuda() && kind == ExportKind::vmm;
  if (body.is_cuda() && !is_vmm && kind != ExportKind::legacy) {
    return out_of_range("export_kind", request.export_kind, "1 (legacy) or 2 (vmm)");
  }
  if (!body.is_cuda() && kind != ExportKind::none) {
    return out_of_range("export_kind", request.export_kind, "0 of a region that is not cuda");
  }
  if (is_vmm ? request.chunk_count == 0 || request.chunk_count > kChunksPerRegionMax
             : request.chunk_count != 0) {
    return out_of_range("chunk_count", request.chunk_count,
                        is_vmm ? "1.." + std::to_string(kChunksPerRegionMax)
                               : "0 of a region without chunks");
  }
  if (!body.is_cuda() && request.device_free_bytes != 0) {
    return out_of_range("device_free_bytes", request.device_free_bytes,
                        "0 of a region that is not cuda");
  }
  if (is_vmm && (request.ipc_handle != IpcHandle{} || request.buffer != 0)) {
    return make_error(Code::bad_argument, "ipc_handle, buffer: must be zero of a vmm region");
  }
  return {};
}

Result<void> judge_head(const RegionBody& body) {
  const RegionRequest& request = body.request;
  if (request.region >= kRegionsPerSession) {
    return out_of_range("region", request.region, "0.." + std::to_string(kRegionsPerSession - 1));
  }
  const bool is_host = request.region_kind == static_cast<std::uint16_t>(RegionKind::host);
  if (!is_host && !body.is_cuda() && !body.is_rank()) {
    return out_of_range("region_kind", request.region_kind, "1 (host), 2 (cuda) or 3 (rank)");
  }
  const bool has_events = body.is_cuda() && request.event_count == kOpSlotsPerSession;
  if (request.event_count != 0 && !has_events) {
    return out_of_range("event_count", request.event_count,
                        "0 or, of a cuda region, " + std::to_string(kOpSlotsPerSession));
  }
  HC_TRY_VOID(judge_export(body));
  if (request.layout_count == 0 || request.layout_count > kKindsMax) {
    return out_of_range("layout_count", request.layout_count, "1.." + std::to_string(kKindsMax));
  }
  return {};
}

// Returns how many runs they announce.
Result<std::size_t> take_layouts(std::span<const std::uint8_t>& body, RegionBody& out) {
  std::size_t runs = 0;
  for (std::uint16_t i = 0; i < out.request.layout_count; ++i) {
    LayoutRequest layout{};
    if (!take(body, layout)) {
      return make_error(Code::bad_argument, "register_region: the layouts are cut short");
    }
    const std::string field = "layouts[" + std::to_string(i) + "].";
    if (layout.run_count == 0 || layout.run_count > kRunsPerLayoutMax) {
      return out_of_range(field + "run_count", layout.run_count,
                          "1.." + std::to_string(kRunsPerLayoutMax));
    }
    if (layout.reserved != 0) {
      return out_of_range(field + "reserved", layout.reserved, "0");
    }
    runs += layout.run_count;
    out.layouts.push_back(layout);
  }
  return runs;
}

template <typename T>
void take_array(std::span<const std::uint8_t>& body, std::size_t count, std::vector<T>& out) {
  out.resize(count);
  if (count > 0) {
    std::memcpy(out.data(), body.data(), count * sizeof(T));
    body = body.subspan(count * sizeof(T));
  }
}

// Without a gap or an overlap, and nothing left over: what is mapped is what the sizes say.
Result<void> judge_chunks(const RegionBody& body) {
  const std::uint64_t all = body.request.allocation_bytes;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < body.chunks.size(); ++i) {
    const RegionChunk& chunk = body.chunks[i];
    const std::string field = "chunks[" + std::to_string(i) + "].";
    if (chunk.offset_bytes != end) {
      return out_of_range(field + "offset_bytes", chunk.offset_bytes,
                          std::to_string(end) + ", the end of the chunks before it");
    }
    if (chunk.size_bytes == 0 || chunk.size_bytes > all - end) {
      return out_of_range(field + "size_bytes", chunk.size_bytes,
                          "1.." + std::to_string(all - end) + ", within allocation_bytes");
    }
    end += chunk.size_bytes;
  }
  if (!body.chunks.empty() && end != all) {
    return out_of_range("allocation_bytes", all, std::to_string(end) + ", the sum of the chunks");
  }
  return {};
}

}  // namespace

Result<RegionBody> parse_region(std::span<const std::uint8_t> body) {
  RegionBody out;
  if (!take(body, out.request)) {
    return make_error(Code::bad_argument, "register_region: the message is too short");
  }
  HC_TRY_VOID(judge_head(out));
  const auto runs = take_layouts(body, out);
  HC_TRY(runs);
  const RegionRequest& request = out.request;
  const std::size_t fixed_bytes = *runs * sizeof(LayoutRun) +
                                  request.event_count * sizeof(IpcHandle) +
                                  request.chunk_count * sizeof(RegionChunk);
  const std::size_t text_bytes = out.is_rank() ? kReasonBytesMax : 0;
  if (body.size() < fixed_bytes || body.size() > fixed_bytes + text_bytes) {
    return make_error(Code::bad_argument, "register_region: " + std::to_string(*runs) +
                                              " runs announced, " + std::to_string(body.size()) +
                                              " bytes sent");
  }
  take_array(body, *runs, out.runs);
  take_array(body, request.event_count, out.events);
  take_array(body, request.chunk_count, out.chunks);
  out.reason.assign(body.begin(), body.end());
  HC_TRY_VOID(judge_chunks(out));
  return out;
}

Result<EngineRegion> judge_region(const RegionBody& body, const SpaceDescriptor& space) {
  const RegionRequest& request = body.request;
  if (request.size_bytes == 0 ||
      (!body.is_cuda() && !body.is_rank() && request.offset_bytes % kBlockBytes != 0)) {
    return make_error(Code::bad_argument,
                      "region: size_bytes = " + std::to_string(request.size_bytes) +
                          ", offset_bytes = " + std::to_string(request.offset_bytes) +
                          ": the size must be at least 1, the offset a multiple of 4096");
  }
  if (request.rows == 0) {
    return out_of_range("rows", request.rows, "at least 1");
  }
  EngineRegion region;
  region.present = true;
  region.size_bytes = request.size_bytes;
  region.rows = request.rows;
  std::size_t first = 0;
  for (const LayoutRequest& layout : body.layouts) {
    if (layout.kind >= space.kinds.size() || region.layouts[layout.kind].present) {
      return out_of_range("layout kind", layout.kind,
                          "0.." + std::to_string(space.kinds.size() - 1) + ", each once");
    }
    const std::span runs = std::span(body.runs).subspan(first, layout.run_count);
    HC_TRY_VOID(judge_layout(layout, runs, request, space.kinds[layout.kind]));
    region.layouts[layout.kind].present = true;
    region.layouts[layout.kind].runs.assign(runs.begin(), runs.end());
    first += layout.run_count;
  }
  return region;
}

Result<ClientRegion> map_region(const RegionRequest& request, const UniqueFd& file) {
  WantedFile wanted;
  if (request.size_bytes > UINT64_MAX - request.offset_bytes) {
    return out_of_range("region size_bytes", request.size_bytes, "inside its memory file");
  }
  wanted.size_bytes = request.offset_bytes + request.size_bytes;
  wanted.require_sealed = false;
  // Before the duplicate is made: closing one can block too if the file is no memory.
  if (!is_memory_file(file.get())) {
    return make_error(Code::refused, "region file: is no memory file (memfd, /dev/shm, hugetlbfs)");
  }
  auto copy = file.duplicate();
  HC_TRY(copy);
  auto memory = MemoryFile::from_fd(std::move(*copy), wanted);
  HC_TRY(memory);
  RegionOptions options;
  options.offset_bytes = request.offset_bytes;
  options.size_bytes = request.size_bytes;
  options.read_only = false;
  auto map = Region::map(memory->fd(), options);
  HC_TRY(map);
  return ClientRegion{std::move(*map), kHostMapping};
}

}  // namespace hc
