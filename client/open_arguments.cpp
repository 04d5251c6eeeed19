// SPDX-License-Identifier: Apache-2.0
// open_arguments: field by field, in the order of hicache.h.
#include "client/open_arguments.h"

#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <ctime>

#include "client/argument_error.h"
#include "proto/budget.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::uint32_t kKnownOpenFlags = HICACHE_OPEN_BACKGROUND | HICACHE_OPEN_RANK_COPIES;

// Reads at most one byte past the limit, so that an unterminated text is an error and not a crash
// far away.
Result<std::string> copy_text(const char* field, const char* text, Bounds bytes) {
  if (text == nullptr) {
    if (bytes.low == 0) {
      return std::string();
    }
    return make_error(Code::bad_argument, std::string(field) + " = NULL: must be a text of " +
                                              std::to_string(bytes.low) + ".." +
                                              std::to_string(bytes.high) + " bytes");
  }
  const std::size_t size = strnlen(text, bytes.high + 1);
  if (size < bytes.low || size > bytes.high) {
    return make_error(Code::bad_argument, std::string(field) + " has " + std::to_string(size) +
                                              (size > bytes.high ? " or more bytes" : " bytes") +
                                              ": must be " + std::to_string(bytes.low) + ".." +
                                              std::to_string(bytes.high));
  }
  return std::string(text, size);
}

Result<std::string> choose_socket_path(const char* option) {
  const char* path = option;
  if (path == nullptr) {
    path = std::getenv("HICACHE_SOCKET");  // NOLINT(concurrency-mt-unsafe): read only.
  }
  if (path == nullptr || *path == '\0') {
    path = option != nullptr ? option : kDefaultSocketPath;
  }
  return copy_text("options.socket_path", path, {1, sizeof(sockaddr_un::sun_path) - 1});
}

std::uint64_t start_token() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL +
         static_cast<std::uint64_t>(now.tv_nsec);
}

Result<KindSpec> copy_kind(const hicache_kind& kind, std::size_t index) {
  const std::string field = "space.kinds[" + std::to_string(index) + "]";
  KindSpec out;
  auto name = copy_text((field + ".name").c_str(), kind.name, {1, kNameBytesMax});
  HC_TRY(name);
  out.name = std::move(*name);
  HC_TRY_VOID(check_bounds((field + ".placement").c_str(), kind.placement, {0, HICACHE_OWNED}));
  HC_TRY_VOID(check_bounds((field + ".policy").c_str(), kind.policy, {0, HICACHE_TRAILING}));
  HC_TRY_VOID(check_equal((field + ".reserved").c_str(), kind.reserved, 0));
  out.payload_bytes = kind.payload_bytes;
  out.placement = static_cast<Placement>(kind.placement);
  out.policy = static_cast<HitPolicy>(kind.policy);
  out.trailing_pages = kind.trailing_pages;
  return out;
}

Result<void> copy_texts(const hicache_space& from, SpaceDescriptor& to) {
  struct Text {
    const char* field;
    const char* from;
    std::string* to;
  };
  const Text texts[] = {{"space.model", from.model, &to.model},
                        {"space.revision", from.revision, &to.revision},
                        {"space.weight_version", from.weight_version, &to.weight_version},
                        {"space.dtype", from.dtype, &to.dtype},
                        {"space.packing", from.packing, &to.packing},
                        {"space.layout", from.layout, &to.layout},
                        {"space.hash_scheme", from.hash_scheme, &to.hash_scheme}};
  for (const Text& text : texts) {
    const std::uint64_t low = text.to == &to.model ? 1 : 0;
    auto copied = copy_text(text.field, text.from, {low, kNameBytesMax});
    HC_TRY(copied);
    *text.to = std::move(*copied);
  }
  return {};
}

Result<SpaceDescriptor> copy_space(const hicache_space& from) {
  SpaceDescriptor to;
  HC_TRY_VOID(copy_texts(from, to));
  HC_TRY_VOID(check_bounds("space.bigram", from.bigram, {0, 1}));
  HC_TRY_VOID(check_equal("space.reserved", from.reserved, 0));
  HC_TRY_VOID(check_bounds("space.kind_count", from.kind_count, {1, kKindsMax}));
  HC_TRY_VOID(check_given("space.kinds", from.kinds));
  to.page_tokens = from.page_tokens;
  to.bigram = from.bigram == 1;
  to.world = {from.tensor_size, from.pipeline_size, from.context_size};
  HC_TRY_VOID(check_bounds("space.tensor_size", from.tensor_size, {1, kWorldMax}));
  HC_TRY_VOID(check_bounds("space.pipeline_size", from.pipeline_size, {1, kWorldMax}));
  HC_TRY_VOID(check_bounds("space.context_size", from.context_size, {1, kWorldMax}));
  for (std::uint32_t i = 0; i < from.kind_count; ++i) {
    auto kind = copy_kind(from.kinds[i], i);
    HC_TRY(kind);
    to.kinds.push_back(std::move(*kind));
  }
  // What is left: page_tokens, payload sizes, trailing pages, names that stand twice, part count.
  if (auto valid = validate_space(to); !valid) {
    return make_error(valid.error().code, "space." + valid.error().text);
  }
  return to;
}

Result<void> check_coordinates(const hicache_options& options, const hicache_space& space) {
  HC_TRY_VOID(
      check_bounds("options.tensor_rank", options.tensor_rank, {0, space.tensor_size - 1ULL}));
  HC_TRY_VOID(check_bounds("options.pipeline_rank", options.pipeline_rank,
                           {0, space.pipeline_size - 1ULL}));
  return check_bounds("options.context_rank", options.context_rank, {0, space.context_size - 1ULL});
}

Result<void> check_numbers(const hicache_options& options) {
  HC_TRY_VOID(check_bounds("options.world", options.world, {1, 0xFFFF}));
  HC_TRY_VOID(check_bounds("options.rank", options.rank, {0, options.world - 1ULL}));
  HC_TRY_VOID(
      check_bounds("options.attach_timeout_ms", options.attach_timeout_ms, {1, kDeadlineMsMax}));
  if ((options.flags & ~kKnownOpenFlags) != 0) {
    return make_error(Code::bad_argument, "options.flags = " + std::to_string(options.flags) +
                                              ": must be HICACHE_OPEN_* flags (0..3)");
  }
  return check_equal("options.reserved", options.reserved, 0);
}

}  // namespace

Result<OpenPlan> check_open(const hicache_options* options, const hicache_space* space) {
  HC_TRY_VOID(check_given("options", options));
  HC_TRY_VOID(check_given("space", space));
  HC_TRY_VOID(check_equal("options.struct_bytes", options->struct_bytes, sizeof *options));
  HC_TRY_VOID(check_equal("options.abi_version", options->abi_version, HICACHE_ABI_VERSION));
  HC_TRY_VOID(check_numbers(*options));
  OpenPlan plan;
  auto path = choose_socket_path(options->socket_path);
  HC_TRY(path);
  plan.socket_path = std::move(*path);
  auto group = copy_text("options.group", options->group, {1, kGroupBytesMax - 1});
  HC_TRY(group);
  plan.group = std::move(*group);
  auto descriptor = copy_space(*space);
  HC_TRY(descriptor);
  plan.space = std::move(*descriptor);
  HC_TRY_VOID(check_coordinates(*options, *space));
  HC_TRY_VOID(check_bounds("options.shards_on_node", options->shards_on_node,
                           {0, plan.space.world.shards()}));
  plan.at = {options->tensor_rank, options->pipeline_rank, options->context_rank};
  auto shard = shard_of(plan.space.world, plan.at);
  HC_TRY(shard);
  plan.shard = *shard;
  plan.rank = options->rank;
  plan.world = options->world;
  plan.shards_on_node = options->shards_on_node;
  plan.attach_timeout_ms = options->attach_timeout_ms;
  plan.incarnation = options->incarnation != 0 ? options->incarnation : start_token();
  const auto pages = quota_pages(plan.space, "options.quota_bytes", options->quota_bytes);
  HC_TRY(pages);
  plan.quota_bytes = options->quota_bytes;
  plan.background = (options->flags & HICACHE_OPEN_BACKGROUND) != 0;
  plan.rank_copies = (options->flags & HICACHE_OPEN_RANK_COPIES) != 0;
  return plan;
}

Result<std::string> check_weight_version(const char* weight_version) {
  if (weight_version == nullptr) {
    return make_error(Code::bad_argument, "weight_version = NULL: must be a text of 0..256 bytes");
  }
  auto text = copy_text("weight_version", weight_version, {0, kNameBytesMax});
  HC_TRY(text);
  for (const char c : *text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return make_error(Code::bad_argument, "weight_version holds a control character");
    }
  }
  return text;
}

}  // namespace hc
