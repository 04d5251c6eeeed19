// SPDX-License-Identifier: Apache-2.0
// main: the command line of cachectl.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/admin_client.h"
#include "client/ctl/commands.h"
#include "client/ctl/micro_run.h"
#include "client/hicache.h"

namespace {

struct Arguments {
  hc::CommandContext context;
  hc::ColdStartOptions cold_start;
  hc::ClearOptions clear;
  hc::BenchOptions bench;
  hc::BenchOptions demo;
  hc::MicroOptions micro;
};

void add_json(CLI::App& command, Arguments& arguments) {
  command.add_flag("--json", arguments.context.json, "print JSON")->disable_flag_override();
}

void add_read_commands(CLI::App& app, Arguments& arguments) {
  for (const auto& [name, help] :
       {std::pair{"version", "versions of cachectl and of the daemon"},
        std::pair{"status", "state, memory, disk and sessions"},
        std::pair{"stats", "every counter"},
        std::pair{"spaces", "the spaces (model, kinds, world) that have pages here"},
        std::pair{"flush", "wait until everything stored so far is durable"}}) {
    add_json(*app.add_subcommand(name, help), arguments);
  }
}

void add_orders(CLI::App& app, Arguments& arguments) {
  CLI::App* const cold = app.add_subcommand(
      "cold-start", "tell a daemon that holds its cold start what to do with its disk");
  cold->add_option("mode", arguments.cold_start.mode, "load: keep what is durable; clear: drop it")
      ->required()
      ->check(CLI::IsMember({"load", "clear"}));
  cold->add_flag("--wait", arguments.cold_start.wait, "show progress and return when it is over")
      ->disable_flag_override();
  add_json(*cold, arguments);
  CLI::App* const clear = app.add_subcommand("clear", "drop every page from memory and disk");
  clear->add_option("--space", arguments.clear.space,
                    "only the space whose id begins with these hex digits");
  clear->add_flag("--yes,-y", arguments.clear.yes, "do not ask")->disable_flag_override();
  add_json(*clear, arguments);
}

void add_bench_daemon(CLI::App& command, hc::BenchOptions& bench) {
  command.add_option("--hicached", bench.hicached,
                     "the daemon to start; default: beside cachectl, else in $PATH");
  command.add_option("--dir", bench.directory,
                     "where the temporary folder is made; default: $TMPDIR or /tmp");
  command.add_option("--disk-backend", bench.disk_backend, "automatic, uring or threads")
      ->check(CLI::IsMember({"automatic", "uring", "threads"}));
  command.add_flag("--keep", bench.keep_folder, "keep the temporary folder and the daemon's log")
      ->disable_flag_override();
}

void add_micro(CLI::App& group, Arguments& arguments) {
  CLI::App* const micro = group.add_subcommand(
      "micro", "measure single things beside what this machine gives without a cache");
  hc::MicroOptions& options = arguments.micro;
  micro->add_option("--only", options.only, "only this figure or group; may be repeated");
  micro->add_flag("--quick", options.quick, "small and few samples: shows that it works")
      ->disable_flag_override();
  micro->add_option("--pairs", options.pairs, "samples of each figure; 0: 20, or 3 with --quick");
  micro->add_option("--fio", options.fio, "the program that measures the disk alone")
      ->capture_default_str();
  micro->add_option("--hicached", options.hicached,
                    "the daemon to start; default: beside cachectl, else in $PATH");
  micro->add_option("--dir", options.directory,
                    "where the temporary folder is made, on the disk to measure; default: $TMPDIR");
  micro->add_option("--disk-backend", options.disk_backend, "automatic, uring or threads")
      ->check(CLI::IsMember({"automatic", "uring", "threads"}));
  micro->add_flag("--keep", options.keep_folder, "keep the temporary folder")
      ->disable_flag_override();
  add_json(*micro, arguments);
}

void add_reload(CLI::App& replay, hc::ReloadOptions& reload) {
  CLI::Option* const flag = replay.add_flag("--reload", reload.enabled,
                                            "ranks are a group that reloads on a miss");
  flag->disable_flag_override();
  const auto add = [&](const char* name, auto& value, const char* help) {
    return replay.add_option(name, value, help)->needs(flag);
  };
  add("--agreement", reload.agreement, "of the ranks: auto, shm, hook or nccl")
      ->capture_default_str();
  add("--l1", reload.l1_pages, "pages of each rank's own; 0: twice the longest request");
  add("--quota", reload.quota_pages,
      "pages of L2 that the group is guaranteed, for each owner; 0: most of L2");
  add("--concurrency", reload.concurrency,
      "requests at the same time: a new one comes when one has left; 0: 8");
  add("--rate", reload.rate, "requests a second, whatever becomes of them");
  add("--time-scale", reload.time_scale, "requests come at the trace's times, so much faster");
  add("--ttl-ms", reload.ttl_ms, "of a reload; 0: the library's default");
  add("--pages-min", reload.pages_min, "shorter reloads are not tried; 0: 1");
  add("--chaos", reload.chaos,
      "skew,aborts,slow_acks,failed_reads,restart,all,kill_rank=RANK@TICK");
  add("--seed", reload.seed, "of what chaos draws")->capture_default_str();
}

void add_bench(CLI::App& app, Arguments& arguments) {
  CLI::App* const group = app.add_subcommand("bench", "measure a cache");
  group->require_subcommand(1);
  CLI::App* const replay = group->add_subcommand(
      "replay", "replay a request trace with real rank processes, and check every byte");
  hc::BenchOptions& bench = arguments.bench;
  replay->add_option("--trace", bench.trace_path, "requests in the Mooncake format, JSON lines");
  replay->add_option("--synthetic", bench.synthetic,
                     "make conversations: users=,turns=,tokens=,answer=,system=,active=,seed=");
  replay->add_option("--write-trace", bench.write_trace_path, "also write the made trace here");
  replay->add_option("--ranks", bench.ranks, "rank processes")->capture_default_str();
  replay->add_option("--kinds", bench.kinds, "NAME=BYTES[:PLACEMENT],...")->capture_default_str();
  replay->add_option("--placement", bench.placement, "of kinds that name none: sharded, "
                     "replicated or owned")->capture_default_str();
  replay->add_option("--block-tokens", bench.block_tokens, "tokens of a block")
      ->capture_default_str();
  replay->add_option("--l2", bench.l2, "memory: a size, or pages such as 5000blocks")->required();
  replay->add_option("--l3", bench.l3, "disk: a size, or pages such as 50000blocks")->required();
  replay->add_option("--requests", bench.requests, "only the first so many; 0: all");
  replay->add_option("--restart-at", bench.restart_at,
                     "kill the daemon before this request (from 0) and start it with load");
  replay->add_option("--socket", bench.client_socket,
                     "client socket of a running daemon, in the place of a private one");
  replay->add_option("--reserve", bench.reserve,
                     "free slots on top of --l3 in each slab; 0: 2048, at most 2 GiB");
  replay->add_option("--commit-interval", bench.commit_interval_ms, "of the private daemon, in ms")
      ->capture_default_str();
  replay->add_option("--runs", bench.runs, "pieces of a payload in a rank's memory")
      ->capture_default_str();
  replay->add_option("--device", bench.device,
                     "where the ranks' pages lie: host, cuda, cuda-chunks or cuda-sealed")
      ->capture_default_str();
  replay->add_option("--transfer", bench.transfer, "who copies of cuda: auto, ipc or rank")
      ->capture_default_str();
  add_reload(*replay, bench.reload);
  add_bench_daemon(*replay, bench);
  add_json(*replay, arguments);
  add_micro(*group, arguments);
  CLI::App* const demo = app.add_subcommand(
      "demo", "show the cache at work: memory, disk, a killed daemon, and no wrong byte");
  add_bench_daemon(*demo, arguments.demo);
  add_json(*demo, arguments);
}

int dispatch(const CLI::App& app, const Arguments& arguments) {
  const hc::CommandContext& context = arguments.context;
  const auto chosen = [&](const char* name) { return app.got_subcommand(name); };
  if (chosen("version")) {
    return hc::run_version(context);
  }
  if (chosen("status")) {
    return hc::run_status(context);
  }
  if (chosen("stats")) {
    return hc::run_stats(context);
  }
  if (chosen("spaces")) {
    return hc::run_spaces(context);
  }
  if (chosen("flush")) {
    return hc::run_flush(context);
  }
  if (chosen("cold-start")) {
    return hc::run_cold_start(context, arguments.cold_start);
  }
  if (chosen("clear")) {
    return hc::run_clear(context, arguments.clear);
  }
  if (chosen("demo")) {
    return hc::run_demo(context, arguments.demo);
  }
  if (app.get_subcommand("bench")->got_subcommand("micro")) {
    return hc::print_micro(arguments.micro, nullptr, context.json);
  }
  return hc::run_bench_replay(context, arguments.bench);
}

// Help and --version are answers; everything else is one line of complaint.
int report_parse(CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    return app.exit(error);
  }
  // A word that is no command is reported as a missing one; the word is what helps.
  const std::vector<std::string> unknown = app.remaining(true);
  std::string line = error.what();
  if (!unknown.empty()) {
    line = "\"" + unknown.front() + "\" is no command or option here";
  }
  for (char& letter : line) {
    letter = letter == '\n' ? ' ' : letter;
  }
  std::fprintf(stderr, "cachectl: %s; see cachectl --help\n", line.c_str());
  return hc::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  arguments.context.socket = hc::admin_socket_path();
  CLI::App app{"cachectl: asks and orders a hicached daemon, and measures one", "cachectl"};
  app.set_version_flag("--version", std::string("cachectl ") + hicache_version());
  app.require_subcommand(1);
  app.add_option("--socket", arguments.context.socket,
                 "the daemon's admin socket; also $HICACHE_ADMIN_SOCKET")
      ->capture_default_str();
  app.add_option("--timeout", arguments.context.timeout_ms, "for an answer, in ms")
      ->check(CLI::Range(1, 600'000))
      ->capture_default_str();
  add_json(app, arguments);
  add_read_commands(app, arguments);
  add_orders(app, arguments);
  add_bench(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_parse(app, error);
  }
  return dispatch(app, arguments);
}
