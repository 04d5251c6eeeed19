// SPDX-License-Identifier: Apache-2.0
// group_plan: field by field, in the order of hicache_group.h.
#include "client/group/group_plan.h"

#include <algorithm>
#include <string>

#include "client/argument_error.h"
#include "proto/budget.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::int64_t kNsPerUs = 1000;
constexpr std::int64_t kMsInNs = 1'000'000;
constexpr std::size_t kNcclIdBytes = 128;

struct NumberField {
  const char* field;
  std::uint32_t value;
  std::uint32_t standard;  // what zero means
  Bounds allowed;
};

Result<std::uint32_t> number(const NumberField& at) {
  if (at.value == 0) {
    return at.standard;
  }
  HC_TRY_VOID(check_bounds((std::string("options.") + at.field).c_str(), at.value, at.allowed));
  return at.value;
}

Result<void> copy_controller(const hicache_group_options& from, ControllerOptions& to) {
  struct Target {
    NumberField from;
    std::uint32_t* to;
  };
  const Target targets[] = {
      {{"ttl_ms", from.ttl_ms, to.ttl_ms, {1, kDeadlineMsMax}}, &to.ttl_ms},
      {{"ops_max", from.ops_max, to.ops_max, {1, kAgreedOpsMax}}, &to.ops_max},
      {{"op_pages_max", from.op_pages_max, to.op_pages_max, {1, kPagesPerOpMax}},
       &to.op_pages_max},
      {{"inflight_pages_max", from.inflight_pages_max, to.inflight_pages_max, {1, 1U << 20}},
       &to.inflight_pages_max},
      {{"waiting_max", from.waiting_max, to.waiting_max, {1, 1U << 16}}, &to.waiting_max},
      {{"stores_max", from.stores_max, to.stores_max, {1, 1U << 16}}, &to.stores_max},
  };
  for (const Target& target : targets) {
    const auto value = number(target.from);
    HC_TRY(value);
    *target.to = *value;
  }
  const auto least = number({"pages_min", from.pages_min, 1, {1, to.op_pages_max}});
  HC_TRY(least);
  to.pages_min = *least;
  return {};
}

Result<void> copy_agreement(const hicache_group_options& from, const OpenPlan& client,
                            GroupPlan& to) {
  HC_TRY_VOID(check_bounds("options.agreement", from.agreement, {0, HICACHE_AGREE_HOOK}));
  to.agreement = static_cast<AgreementKind>(from.agreement);
  if (to.agreement == AgreementKind::hook) {
    HC_TRY_VOID(check_given("options.reduce", reinterpret_cast<const void*>(from.reduce)));
  }
  to.reduce = from.reduce;
  to.reduce_context = from.reduce_context;
  const auto shards = client.space.world.shards();
  to.is_apart = client.shards_on_node != 0 && client.shards_on_node < shards;
  if (to.agreement == AgreementKind::shm && to.is_apart) {
    return make_error(Code::bad_argument,
                      "options.agreement = SHM: must be NCCL or HOOK, because " +
                          std::to_string(client.shards_on_node) + " of " +
                          std::to_string(shards) + " shards are on this node");
  }
  if (from.nccl_id != nullptr) {
    std::copy_n(from.nccl_id, kNcclIdBytes, to.nccl_id.emplace().begin());
  }
  HC_TRY_VOID(check_bounds("options.cuda_device", static_cast<std::uint32_t>(from.cuda_device),
                           {0, 0x7FFFFFFF}));
  to.cuda_device = from.cuda_device;
  const auto timeout =
      number({"reduce_timeout_ms", from.reduce_timeout_ms, 1000, {1, kDeadlineMsMax}});
  HC_TRY(timeout);
  to.limits.timeout_ns = *timeout * kMsInNs;
  const auto spin = number({"spin_us", from.spin_us, 20, {1, 1'000'000}});
  HC_TRY(spin);
  to.limits.spin_ns = *spin * kNsPerUs;
  return {};
}

Result<hicache_tree> check_tree(const hicache_tree& tree) {
  const bool is_whole = tree.look != nullptr && tree.make_room != nullptr &&
                        tree.insert != nullptr && tree.adopt_stored != nullptr &&
                        tree.drop_l2 != nullptr && tree.fingerprint != nullptr &&
                        tree.restart_fingerprint != nullptr && tree.l1_digest != nullptr &&
                        tree.clear != nullptr;
  if (!is_whole) {
    return make_error(Code::bad_argument, "options.tree: every call of it must be given");
  }
  return tree;
}

}  // namespace

Result<GroupPlan> check_group(const hicache_group_options* options, const OpenPlan& client) {
  HC_TRY_VOID(check_given("options", options));
  HC_TRY_VOID(check_equal("options.struct_bytes", options->struct_bytes, sizeof *options));
  HC_TRY_VOID(check_equal("options.reserved", options->reserved, 0));
  GroupPlan plan;
  HC_TRY_VOID(copy_agreement(*options, client, plan));
  HC_TRY_VOID(copy_controller(*options, plan.controller));
  const auto nodes = number({"nodes_max", options->nodes_max, plan.tree.nodes_max, {2, 1U << 24}});
  HC_TRY(nodes);
  plan.tree.nodes_max = *nodes;
  if (options->tree != nullptr) {
    const auto tree = check_tree(*options->tree);
    HC_TRY(tree);
    plan.engine_tree = *tree;
  }
  plan.worth = options->worth;
  plan.worth_context = options->worth_context;
  if (options->seed != nullptr) {
    std::copy_n(options->seed, sizeof(PageHash), plan.tree.seed.emplace().bytes.begin());
  }
  // Only a chain that this library can compute is checked at its anchor.
  const SpaceDescriptor& space = client.space;
  plan.controller.hash = {space.page_tokens, space.bigram};
  plan.controller.trailing_kinds =
      std::any_of(space.kinds.begin(), space.kinds.end(),
                  [](const KindSpec& kind) { return kind.policy == HitPolicy::trailing; });
  if (client.quota_bytes == 0) {
    return make_error(Code::bad_argument,
                      "options.quota_bytes of hicache_open = 0: a group needs at least " +
                          std::to_string(quota_page_bytes(space)) +
                          " bytes, which is one page of its space");
  }
  const auto pages = quota_pages(space, "options.quota_bytes", client.quota_bytes);
  HC_TRY(pages);
  plan.quota_pages = *pages;
  plan.owners = quota_owners(space);
  return plan;
}

}  // namespace hc
