// SPDX-License-Identifier: Apache-2.0
// region_arguments: numbers first, then the file, then every run of every layout.
#include "client/region_arguments.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "client/argument_error.h"
#include "proto/limits.h"

namespace hc {

namespace {

template <typename Record>
void append(std::vector<std::uint8_t>& out, const Record* records, std::size_t count) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(records);
  out.insert(out.end(), bytes, bytes + count * sizeof(Record));
}

Result<void> check_file(const hicache_region& region) {
  struct stat info {};
  if (region.fd < 0 || ::fstat(region.fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return make_error(Code::bad_argument, "region.fd = " + std::to_string(region.fd) +
                                              ": must be a memory file (memfd)");
  }
  if ((::fcntl(region.fd, F_GETFL) & O_ACCMODE) != O_RDWR) {
    return make_error(Code::bad_argument, "region.fd = " + std::to_string(region.fd) +
                                              ": must be open for reading and writing");
  }
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  if (region.offset_bytes > file_bytes) {
    return out_of_range("region.offset_bytes", region.offset_bytes, {0, file_bytes});
  }
  return check_bounds("region.size_bytes", region.size_bytes,
                      {1, file_bytes - region.offset_bytes});
}

// Whether the last byte of the last row lies inside; a number too large for 64 bits does not.
bool run_is_inside(const hicache_run& run, const hicache_region& region) {
  std::uint64_t end = 0;
  return !__builtin_mul_overflow(std::uint64_t{region.rows} - 1, run.stride_bytes, &end) &&
         !__builtin_add_overflow(end, run.offset_bytes, &end) &&
         !__builtin_add_overflow(end, run.length_bytes, &end) && end <= region.size_bytes;
}

Result<void> check_runs(const std::string& field, const hicache_layout& layout,
                        const hicache_region& region, std::uint32_t payload_bytes) {
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < layout.run_count; ++i) {
    const std::string run = field + ".runs[" + std::to_string(i) + "]";
    HC_TRY_VOID(check_bounds((run + ".length_bytes").c_str(), layout.runs[i].length_bytes,
                             {1, payload_bytes}));
    if (!run_is_inside(layout.runs[i], region)) {
      return make_error(Code::bad_argument,
                        run + ".offset_bytes = " + std::to_string(layout.runs[i].offset_bytes) +
                            ", stride_bytes = " + std::to_string(layout.runs[i].stride_bytes) +
                            ": the last of " + std::to_string(region.rows) +
                            " rows must end within 0.." + std::to_string(region.size_bytes));
    }
    total += layout.runs[i].length_bytes;
  }
  return check_equal((field + ": sum of length_bytes").c_str(), total, payload_bytes);
}

Result<void> add_layout(std::uint32_t index, const hicache_region& region,
                        const SpaceDescriptor& space, RegionPlan& plan) {
  const hicache_layout& layout = region.layouts[index];
  const std::string field = "region.layouts[" + std::to_string(index) + "]";
  HC_TRY_VOID(check_bounds((field + ".kind").c_str(), layout.kind, {0, space.kinds.size() - 1}));
  HC_TRY_VOID(
      check_bounds((field + ".run_count").c_str(), layout.run_count, {1, kRunsPerLayoutMax}));
  HC_TRY_VOID(check_given((field + ".runs").c_str(), layout.runs));
  if (((plan.shape.kind_mask >> layout.kind) & 1U) != 0) {
    return make_error(Code::bad_argument,
                      field + ".kind = " + std::to_string(layout.kind) + ": must not stand twice");
  }
  HC_TRY_VOID(check_runs(field, layout, region, space.kinds[layout.kind].payload_bytes));
  plan.shape.kind_mask = static_cast<std::uint8_t>(plan.shape.kind_mask | (1U << layout.kind));
  plan.layouts.push_back(
      {static_cast<std::uint16_t>(layout.kind), static_cast<std::uint16_t>(layout.run_count), 0});
  for (std::uint32_t i = 0; i < layout.run_count; ++i) {
    plan.runs.push_back(
        {layout.runs[i].offset_bytes, layout.runs[i].stride_bytes, layout.runs[i].length_bytes});
  }
  return {};
}

Result<void> check_numbers(const hicache_region& region, const SpaceDescriptor& space) {
  HC_TRY_VOID(check_bounds("region.region", region.region, {0, kRegionsPerSession - 1U}));
  HC_TRY_VOID(check_bounds("region.rows", region.rows, {1, 0xFFFFFFFFULL}));
  HC_TRY_VOID(check_bounds("region.layout_count", region.layout_count, {1, space.kinds.size()}));
  return check_given("region.layouts", region.layouts);
}

// Of the region's kind and place nothing is said yet.
Result<RegionPlan> plan_layouts(const hicache_region& region, const SpaceDescriptor& space) {
  RegionPlan plan;
  plan.shape.rows = region.rows;
  for (std::uint32_t i = 0; i < region.layout_count; ++i) {
    HC_TRY_VOID(add_layout(i, region, space, plan));
  }
  plan.request.region = region.region;
  plan.request.layout_count = static_cast<std::uint16_t>(plan.layouts.size());
  plan.request.size_bytes = region.size_bytes;
  plan.request.rows = region.rows;
  return plan;
}

}  // namespace

std::vector<std::uint8_t> RegionPlan::encode() const {
  std::vector<std::uint8_t> body;
  append(body, &request, 1);
  append(body, layouts.data(), layouts.size());
  append(body, runs.data(), runs.size());
  append(body, events.data(), events.size());
  append(body, chunks.data(), chunks.size());
  body.insert(body.end(), reason.begin(), reason.end());
  return body;
}

Result<RegionPlan> check_region(const hicache_region* region, const SpaceDescriptor& space) {
  HC_TRY_VOID(check_given("region", region));
  HC_TRY_VOID(check_numbers(*region, space));
  if (region->offset_bytes % kBlockBytes != 0) {
    return make_error(Code::bad_argument,
                      "region.offset_bytes = " + std::to_string(region->offset_bytes) +
                          ": must be a multiple of " + std::to_string(kBlockBytes));
  }
  HC_TRY_VOID(check_file(*region));
  auto plan = plan_layouts(*region, space);
  HC_TRY(plan);
  plan->request.region_kind = static_cast<std::uint16_t>(RegionKind::host);
  plan->request.offset_bytes = region->offset_bytes;
  return plan;
}

Result<RegionPlan> check_cuda_region(const hicache_cuda_region* region,
                                     const SpaceDescriptor& space) {
  HC_TRY_VOID(check_given("region", region));
  HC_TRY_VOID(check_bounds("region.transfer", region->transfer, {0, HICACHE_TRANSFER_RANK}));
  HC_TRY_VOID(check_bounds("region.size_bytes", region->size_bytes, {1, 1ULL << 48}));
  hicache_region shape{};
  shape.region = region->region;
  shape.size_bytes = region->size_bytes;
  shape.rows = region->rows;
  shape.layout_count = region->layout_count;
  shape.layouts = region->layouts;
  HC_TRY_VOID(check_numbers(shape, space));
  return plan_layouts(shape, space);
}

}  // namespace hc
