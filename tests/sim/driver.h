// SPDX-License-Identifier: Apache-2.0
// driver: one seed from the first start to the last audit. Draws what the clients and the operator
// do, moves time, kills the daemon and starts it again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/sim/clients.h"
#include "tests/sim/quota_ranks.h"
#include "tests/sim/watch.h"

namespace hc::sim {

struct DriverOptions {
  std::uint64_t seed = 1;
  std::uint32_t operations = 2000;
  bool big_payloads = false;
  bool gpus = false;          // sessions with memory of GPUs: the daemon copies, or the rank
  bool quotas = false;        // two ranks have a guaranteed quota
  bool reattaches = false;    // sessions break, and their clients come back with their leases
  bool lies = false;          // a fifth of the writes are acknowledged and land nowhere
  bool weak_flushes = false;  // a third of the flushes fail, and reads run across them
};

class Driver {
 public:
  Driver(World& world, const DriverOptions& options);
  void run();

 private:
  // driver.cpp: time
  void advance(std::int64_t delta_ns);
  void turn();
  void turn_twice();
  Instant next_event();
  // Runs until it is quiet, or breaks law 5.
  void come_to_rest();
  void finish_order();

  // boot.cpp
  void new_family(bool same_space);
  void boot(ColdStartMode mode);
  bool try_boot(ColdStartMode& mode, bool may_change);
  bool leave_hold(ColdStartMode& mode, bool may_change);
  bool finish_loading();
  void lose_index();
  void finish_rebuild();
  void kill();
  void crash_and_boot();
  void check_budget();
  void lower_budget();

  // actions.cpp
  void act();
  void act_session();
  void act_reattach();
  void act_operator();
  void submit_random(std::uint32_t number);
  void draft_store(Clients::Draft& draft);
  void draft_load(Clients::Draft& draft);
  void act_rivals();
  void draft_release(std::uint32_t number, Clients::Draft& draft);
  void draft_cancel(std::uint32_t number, Clients::Draft& draft);
  std::vector<std::uint32_t> draw_pages();
  std::uint32_t draw_deadline_ms();
  std::optional<std::uint32_t> draw_open_session();
  std::uint16_t draw_shard();
  std::uint32_t draw_version();
  void attach_some();

  // audit.cpp
  void audit(std::uint32_t pages_max);
  void audit_pages(std::uint32_t number, std::uint32_t pages_max);
  void close_sessions();

  struct Order {
    bool store = false;
    std::uint32_t version = 0;
    std::uint64_t sequence = 0;
  };

  World& world_;
  DriverOptions options_;
  Clients clients_;
  Watch watch_;
  std::optional<QuotaRanks> quota_ranks_;
  std::optional<Prng> reattach_prng_;
  std::optional<Order> order_;
  std::uint32_t family_ = 0;
  std::uint32_t next_crash_ = 0;
  std::uint32_t turns_ = 0;
  // By volume, at the last look; a start may find any number.
  std::vector<std::uint64_t> charged_ = std::vector<std::uint64_t>(kVolumesMax, UINT64_MAX);
};

}  // namespace hc::sim
