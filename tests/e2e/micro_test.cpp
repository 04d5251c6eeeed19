// SPDX-License-Identifier: Apache-2.0
// micro_test: `bench micro` from the command line to its report, over real daemons.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "e2e/process.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace hc::test {
namespace {

TEST_CASE("bench micro measures each figure it was asked for beside its limit, and cleans up") {
  const TempDir folder;
  const Outcome outcome =
      run_program("cachectl", {"bench", "micro", "--quick", "--pairs", "1", "--only", "ring_sleep",
                               "--only", "l2_load", "--only", "agree_sleep", "--json", "--dir",
                               folder.str()});

  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(report.is_array());
  REQUIRE(report.size() == 3);
  CHECK(report[0].at("name") == "ring_sleep");
  CHECK(report[1].at("name") == "l2_load");
  CHECK(report[2].at("name") == "agree_sleep");
  for (const nlohmann::json& figure : report) {
    CHECK(figure.at("runs") == 1);
    CHECK(figure.at("value").get<double>() > 0);
    CHECK(figure.at("limit").get<double>() > 0);
    CHECK(figure.at("ratio").get<double>() > 0);
    CHECK(figure.at("met").is_boolean());
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("Without fio the disk is measured all the same, and the figure says what is missing") {
  const TempDir folder;
  const Outcome outcome =
      run_program("cachectl", {"bench", "micro", "--quick", "--pairs", "1", "--only", "commit",
                               "--fio", "no-such-fio", "--json", "--dir", folder.str()});

  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(report.size() == 3);
  CHECK(report[0].at("runs") == 0);
  CHECK(report[0].at("met").is_null());
  CHECK(report[0].at("note").get<std::string>().find("no-such-fio") != std::string::npos);
}

TEST_CASE("copies of GPU memory are measured in both transfer modes beside a plain copy") {
  const TempDir folder;
  const Outcome outcome = run_program(
      "cachectl", {"bench", "micro", "--quick", "--pairs", "1", "--only", "gpu", "--json", "--dir",
                   folder.str()},
      {"LD_LIBRARY_PATH=" + double_library("").parent_path().string()});

  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(report.is_array());
  std::set<std::string> measured;
  for (const nlohmann::json& figure : report) {
    CHECK(figure.at("runs") == 1);
    CHECK(figure.at("value").get<double>() > 0);
    CHECK(figure.at("limit").get<double>() > 0);
    measured.insert(figure.at("name").get<std::string>() + " " +
                    figure.at("params").get<std::string>());
  }
  CHECK(measured.size() == report.size());
  CHECK(report[0].at("note").get<std::string>().find("test double") != std::string::npos);
  for (const char* name : {"gpu_load transfer=ipc run=64KiB", "gpu_store transfer=ipc run=8MiB",
                           "gpu_load transfer=rank run=1MiB",
                           "gpu_store transfer=rank run=64KiB"}) {
    INFO(name);
    CHECK(std::any_of(measured.begin(), measured.end(),
                      [&](const std::string& at) { return at.rfind(name, 0) == 0; }));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("without a GPU its figures have no value, and a line says why") {
  const TempDir folder;
  const Outcome outcome =
      run_program("cachectl", {"bench", "micro", "--quick", "--pairs", "1", "--only", "gpu",
                               "--json", "--dir", folder.str()},
                  {"HC_FAKE_CUDA=devices=0",
                   "LD_LIBRARY_PATH=" + double_library("").parent_path().string()});

  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(report.size() == 2);
  for (const nlohmann::json& figure : report) {
    CHECK(figure.at("runs") == 0);
    CHECK(figure.at("note").get<std::string>().find("device") != std::string::npos);
  }
}

TEST_CASE("on a device without IPC the copies of the rank are measured, and a line says why") {
  const TempDir folder;
  const Outcome outcome =
      run_program("cachectl", {"bench", "micro", "--quick", "--pairs", "1", "--only", "gpu_load",
                               "--json", "--dir", folder.str()},
                  {"HC_FAKE_CUDA=no_ipc=1",
                   "LD_LIBRARY_PATH=" + double_library("").parent_path().string()});

  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(report.size() == 6);
  for (const nlohmann::json& figure : report) {
    const bool is_rank = figure.at("params").get<std::string>().find("transfer=rank") == 0;
    CHECK(figure.at("runs") == (is_rank ? 1 : 0));
    CHECK((is_rank || figure.at("note").get<std::string>().find("hicache_") != std::string::npos));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("A wrong option of bench micro is one line that names it") {
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> named;
    int status;
  };
  const Case at = GENERATE(
      Case{{"--only", "splil"}, {"--only", "splil", "spill"}, kExitUsage},
      Case{{"--pairs", "1001"}, {"--pairs", "1001", "1..1000"}, kExitUsage},
      Case{{"--pairs", "some"}, {"--pairs", "some"}, kExitUsage},
      Case{{"--disk-backend", "tape"}, {"--disk-backend", "tape"}, kExitUsage},
      Case{{"--quick=no"}, {"quick"}, kExitUsage},
      Case{{"--dir", "/nowhere"}, {"/nowhere"}, kExitUsage});
  std::vector<std::string> arguments{"bench", "micro"};
  arguments.insert(arguments.end(), at.arguments.begin(), at.arguments.end());

  const Outcome outcome = run_program("cachectl", arguments);

  INFO(outcome.err);
  CHECK(outcome.status == at.status);
  CHECK(lines_of(outcome.err).size() == 1);
  CHECK(missing(outcome.err, at.named) == "");
}

}  // namespace
}  // namespace hc::test
