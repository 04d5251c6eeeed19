// SPDX-License-Identifier: Apache-2.0
// gpu_bench_test: `bench replay --device cuda` on the stand-in driver, copied by the daemon and by
// the ranks: every byte of every load is compared, through restarts and under chaos.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "e2e/process.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace hc::test {
namespace {

using Words = std::vector<std::string>;

struct Driver {
  const char* transfer;
  const char* plan;
  const char* device = "cuda";
};

nlohmann::json report_of(Words words, const Driver& driver) {
  const TempDir folder;
  const Words own{"--device", driver.device, "--transfer", driver.transfer,
                  "--json",   "--dir",       folder.str()};
  words.insert(words.end(), own.begin(), own.end());
  const Outcome outcome = run_program(
      "cachectl", words,
      {"LD_LIBRARY_PATH=" + double_library("").parent_path().string(),
       std::string("HC_FAKE_CUDA=") + driver.plan});
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(report.is_object());
  return report;
}

TEST_CASE("a replay from device memory loads the right bytes, before and after a restart") {
  const Driver driver = GENERATE(Driver{"ipc", "version=13000"}, Driver{"auto", "devices=2"},
                                 Driver{"rank", "version=13000"},
                                 Driver{"rank", "version=12010,no_ipc=1,no_vmm=1"},
                                 Driver{"ipc", "version=13000", "cuda-chunks"},
                                 Driver{"auto", "devices=2", "cuda-sealed"});
  INFO(driver.device << " " << driver.transfer << " " << driver.plan);

  const nlohmann::json report = report_of(
      {"bench", "replay", "--synthetic", "users=20,turns=5", "--ranks", "2", "--runs", "7",
       "--l2", "200blocks", "--l3", "2000blocks", "--restart-at", "50"},
      driver);

  INFO(report.dump());
  CHECK(report.at("wrong_bytes") == 0);
}

TEST_CASE("ranks that reload into device memory under chaos agree, and no byte is wrong") {
  const char* const transfer = GENERATE("ipc", "rank");
  INFO(transfer);
  const nlohmann::json report = report_of(
      {"bench", "replay", "--reload", "--synthetic",
       "users=20,turns=4,active=10,tokens=2048,seed=3", "--kinds", "kv=16384", "--l2", "64blocks",
       "--l3", "2000blocks", "--l1", "48", "--commit-interval", "20", "--ranks", "4", "--placement",
       "owned", "--agreement", "hook", "--quota", "10", "--chaos", "all", "--seed", "5"},
      {transfer, "version=13000"});

  INFO(report.dump());
  CHECK(report.at("wrong_bytes") == 0);
  CHECK(report.at("faults").empty());
  CHECK(report.at("divergences") == 0);
}

}  // namespace
}  // namespace hc::test
