// SPDX-License-Identifier: Apache-2.0
// reload_bench_test: `bench replay --reload` from the command line to its report: ranks that are
// processes reload on a miss, over a daemon of their own, quietly and under every kind of chaos.
#include <csignal>
#include <filesystem>
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
using Number = std::uint64_t;

// L1, quota and L2 are small enough that conversations lose their pages between two turns.
struct Run {
  const char* ranks;
  const char* placement;
  const char* agreement;
  const char* quota;  // of each owner
};
constexpr Run kTwoShm{"2", "sharded", "shm", "40"};
constexpr Run kFourHook{"4", "owned", "hook", "10"};
constexpr Run kTwoReplicas{"2", "replicated", "auto", "40"};

Words words_of(const Run& run, const TempDir& folder, const Words& more) {
  Words words{"bench", "replay", "--reload", "--json", "--synthetic",
              "users=20,turns=4,active=10,tokens=2048,seed=3", "--kinds", "kv=16384", "--l2",
              "64blocks", "--l3", "2000blocks", "--l1", "48", "--commit-interval", "20"};
  const Words own{"--ranks",     run.ranks,     "--placement", run.placement,
                  "--agreement", run.agreement, "--quota",     run.quota,
                  "--dir",       folder.str()};
  words.insert(words.end(), own.begin(), own.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Number count(const nlohmann::json& report, const char* name) {
  return report.at(name).get<Number>();
}

// Runs to the end, finds no fault, and leaves nothing in the folder.
nlohmann::json report_of(const Run& run, const Words& more, const Words& environment = {}) {
  const TempDir folder;
  const Outcome outcome = run_program("cachectl", words_of(run, folder, more), environment);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(report.is_object());
  CHECK(report.at("faults").empty());
  CHECK(count(report, "requests") + count(report, "aborts") == 80);
  CHECK(count(report, "pages_l1") + count(report, "pages_l2") + count(report, "pages_reload") +
            count(report, "pages_computed") ==
        count(report, "pages_referenced"));
  CHECK(count(report, "divergences") == 0);
  CHECK(count(report, "wrong_bytes") == 0);
  CHECK(count(report, "leases_left") == 0);
  CHECK(count(report, "leased_frames_left") == 0);
  CHECK(std::filesystem::is_empty(folder.path()));
  return report;
}

TEST_CASE("bench replay --reload reads back what an LRU of its size would have") {
  const Run run = GENERATE(kTwoShm, kFourHook, kTwoReplicas);
  INFO(run.placement);

  const nlohmann::json report = report_of(run, {});

  CHECK(count(report, "pages_reload") > 0);
  CHECK(count(report, "bytes_reloaded") > 0);
  CHECK(count(report, "checked_bytes") > 0);
  CHECK(count(report, "loaded_bytes") >= count(report, "checked_bytes"));
  CHECK(count(report, "load_misses") == 0);
  CHECK(count(report, "admits_timed") > 0);
  CHECK(count(report, "stores_lost") == 0);
  CHECK(count(report, "reduces") < count(report, "ticks"));
  // One more call than reduces: the ranks met.
  const Number ranks = std::stoul(run.ranks);
  CHECK(count(report, "hook_calls") ==
        (std::string(run.agreement) == "hook" ? ranks * (count(report, "reduces") + 1) : 0));
}

TEST_CASE("under each kind of chaos the ranks agree and no byte is wrong") {
  struct Chaos {
    const char* word;
    const char* shows;  // what must have happened
  };
  const Chaos chaos =
      GENERATE(Chaos{"skew", "requests"}, Chaos{"aborts", "aborts"},
               Chaos{"slow_acks", "acks_delayed"}, Chaos{"failed_reads", "reads_failed_on_purpose"},
               Chaos{"restart", "restarts"}, Chaos{"all", "acks_delayed"});
  const Run run = GENERATE(kTwoShm, kFourHook);
  INFO(chaos.word << " " << run.placement);

  const nlohmann::json report = report_of(run, {"--chaos", chaos.word, "--seed", "5"});

  CHECK(count(report, chaos.shows) > 0);
  CHECK(count(report, "held") > 0);
  // Ranks may see a daemon go one after the other.
  CHECK((count(report, "l2_drops") > 0) == (count(report, "restarts") > 0));
}

TEST_CASE("a killed rank is noticed within a second, and the others compute what it takes") {
  const Run run = GENERATE(kTwoShm, kFourHook);
  INFO(run.placement);

  const nlohmann::json report = report_of(run, {"--chaos", "kill_rank=1@20"});

  const Number living = std::stoul(run.ranks) - 1;
  CHECK(count(report, "ranks_living") == living);
  CHECK(count(report, "survivors_told") == living);
  CHECK(report.at("learned_seconds_max").get<double>() > 0);
  CHECK(count(report, "joins_failed") == living);
  CHECK(report.at("declined").at("apart") > 0);
}

TEST_CASE("requests come at a rate, or at the times of the trace") {
  const auto arrivals = GENERATE(Words{"--rate", "200"}, Words{"--time-scale", "100"});
  INFO(arrivals[0]);

  const nlohmann::json report = report_of(kTwoShm, arrivals);

  // 80 requests at 200 a second; the trace lasts about 80 seconds.
  CHECK(report.at("seconds").get<double>() > 0.35);
  CHECK(report.at("setup").at("concurrency") == 0);
}

Words nccl_doubles() {
  return {"LD_LIBRARY_PATH=" +
          std::filesystem::path(double_library("libnccl.so.2")).parent_path().string()};
}

TEST_CASE("ranks that agree by NCCL go on without one that is killed") {
  const nlohmann::json report =
      report_of({"2", "sharded", "nccl", "40"}, {"--chaos", "kill_rank=1@20"}, nccl_doubles());

  CHECK(count(report, "survivors_told") == 1);
  CHECK(report.at("declined").at("apart") > 0);
}

TEST_CASE("ranks agree by NCCL where its libraries are") {
  const nlohmann::json report = report_of({"2", "sharded", "nccl", "40"}, {}, nccl_doubles());

  CHECK(report.at("setup").at("agreement") == "nccl");
  CHECK(count(report, "pages_reload") > 0);
}

TEST_CASE("a trace whose ids are not those of prefixes is refused in one line") {
  const TempDir folder;
  const std::string trace = folder.file("trace.jsonl");
  const std::string head = "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 1, ";
  write_text(trace, head + "\"hash_ids\": [1, 2]}\n" + head + "\"hash_ids\": [3, 2]}\n");

  const Outcome outcome = run_program("cachectl", {"bench", "replay", "--reload", "--trace", trace,
                                                   "--l2", "64blocks", "--l3", "100blocks"});

  CHECK(outcome.status == kExitUsage);
  CHECK(outcome.out.empty());
  CHECK(lines_of(outcome.err).size() == 1);
  CHECK(missing(outcome.err, {trace, "request 1", "block 2", "follows 3", "prefixes"}) == "");
}

TEST_CASE("options of a bench with reloads are refused in one line that names them") {
  struct Case {
    Words arguments;
    Words named;
  };
  const Case at = GENERATE(Case{{"--l1", "50"}, {"--l1", "--reload"}},
                           Case{{"--reload", "--agreement", "mpi"}, {"--agreement", "mpi"}},
                           Case{{"--reload", "--l1", "1"}, {"--l1", "longest"}},
                           Case{{"--reload", "--chaos", "noise"}, {"--chaos", "noise"}},
                           Case{{"--reload", "--socket", "/x"}, {"--socket", "--reload"}});
  Words words{"bench", "replay", "--synthetic", "users=2", "--l2", "64blocks", "--l3", "99blocks"};
  words.insert(words.end(), at.arguments.begin(), at.arguments.end());

  const Outcome outcome = run_program("cachectl", words);

  INFO(outcome.err);
  CHECK(outcome.status == kExitUsage);
  CHECK(outcome.out.empty());
  CHECK(lines_of(outcome.err).size() == 1);
  CHECK(missing(outcome.err, at.named) == "");
}

TEST_CASE("a quota that L2 can't guarantee is the daemon's refusal, in one line") {
  const TempDir folder;
  const Outcome outcome = run_program(
      "cachectl", words_of({"2", "sharded", "shm", "63"}, folder, {}));

  INFO(outcome.err);
  CHECK(outcome.status == 1);
  CHECK(outcome.out.empty());
  CHECK(lines_of(outcome.err).size() == 1);
  CHECK(missing(outcome.err, {"rank 0", "attach", "quota_bytes"}) == "");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("an interrupted bench with reloads leaves no process and no file") {
  const TempDir folder;
  const TempDir output;
  Words argv{program("cachectl").string()};
  const Words words = words_of(kTwoShm, folder, {"--rate", "1"});
  argv.insert(argv.end(), words.begin(), words.end());
  Command command{argv, {}, output.file("out"), output.file("err")};
  Process bench(command);
  // The ranks run when the daemon has made its socket, or soon.
  REQUIRE(eventually([&] {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
      if (entry.path().filename() == "admin.sock") {
        return true;
      }
    }
    return false;
  }));

  bench.signal(SIGINT);

  CHECK(bench.wait() == 130);
  CHECK(read_text(output.file("out")).empty());
  CHECK(missing(read_text(output.file("err")), {"interrupted"}) == "");
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace hc::test
