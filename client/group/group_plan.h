// SPDX-License-Identifier: Apache-2.0
// group_plan: judges what hicache_group_open is given and turns it into what a group needs.
//
// Owner thread: any. Pure. Invariant: a plan has passed every check that needs no other rank.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "client/agree/agreement.h"
#include "client/hicache_group.h"
#include "client/open_arguments.h"
#include "client/reload/controller.h"
#include "client/reload/prefix_tree.h"

namespace hc {

enum class AgreementKind : std::uint8_t { automatic = 0, shm = 1, nccl = 2, hook = 3 };

struct GroupPlan {
  AgreementKind agreement = AgreementKind::automatic;
  hicache_reduce reduce = nullptr;
  void* reduce_context = nullptr;
  hicache_worth worth = nullptr;
  void* worth_context = nullptr;
  std::optional<std::array<std::uint8_t, 128>> nccl_id;
  std::int32_t cuda_device = 0;
  bool is_apart = false;  // ranks of the group are on several nodes
  AgreementLimits limits;
  ControllerOptions controller;
  std::optional<hicache_tree> engine_tree;
  PrefixTreeOptions tree;
  std::uint32_t owners = 1;
  std::uint32_t quota_pages = 0;  // of each owner
};

Result<GroupPlan> check_group(const hicache_group_options* options, const OpenPlan& client);

}  // namespace hc
