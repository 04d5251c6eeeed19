// SPDX-License-Identifier: Apache-2.0
// failpoint_scenario: three lives of a daemon of two families on two volumes, in one of which a
// failpoint ends or disturbs it, and the successor that must have everything that was promised.
//
// Owner thread: the test's main thread. A phase answers false once the daemon has been killed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/failpoint_plan.h"
#include "e2e/ledger.h"
#include "e2e/rank.h"

namespace hc::test {

class FailpointScenario {
 public:
  explicit FailpointScenario(const FailpointPlan& plan);

  void run();
  bool was_reached() const { return killed_ || failed_; }

 private:
  static DaemonOptions options_of(const FailpointPlan& plan);
  bool start(const std::string& mode);
  bool dead();
  bool lives(hicache_code code);
  bool stop();

  // The weights say which family it is.
  std::unique_ptr<Rank> open(const std::string& weights, hicache_code& code);
  hicache_code store(Rank& rank, const Keys& keys, bool may_go = false);
  hicache_code forget(Rank& rank, const Keys& keys);
  hicache_code read(Rank& rank, const Keys& keys);
  bool churn(Rank& rank);
  bool order(std::vector<std::string> arguments);

  bool first_life();
  std::unique_ptr<Rank> first_attach();
  bool other_family(std::unique_ptr<Rank>& rank);
  bool second_life();
  bool eventually_scanned();
  bool clear_space(const std::string& weights);
  bool clear_store();
  bool after_clear();
  bool third_life();

  void after();
  void expect_ledger();
  void serve_again();
  void expect_audit(bool stopped);
  std::vector<std::string> volumes() const;

  FailpointPlan plan_;
  DaemonProcess daemon_;
  Ledger ledger_;
  std::uint64_t wrong_bytes_ = 0;
  std::uint64_t durable_parts_ = 0;
  bool killed_ = false;
  bool failed_ = false;
};

}  // namespace hc::test
