// SPDX-License-Identifier: Apache-2.0
// main: command line, configuration, exit codes of hicached.
//
// Exit codes: 0 stopped as asked; 64 command line; 78 configuration; 3 unknown cold-start mode;
// 4 the volume or the socket is in use by another daemon, or the system refuses it;
// 5 the store can't be read by this build;
// 6 memory or disk space; 1 anything else. Every failure is one line on standard error.
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/daemon.h"
#include "daemon/index/index_child.h"
#include "daemon/log/log.h"
#include "proto/page_hash.h"
#include "proto/thread_roles.h"
#include "proto/versions.h"

namespace {

constexpr int kExitUsage = 64;
constexpr int kExitConfig = 78;
constexpr int kExitColdStart = 3;

int exit_code_of(const hc::Error& error) {
  switch (error.code) {
    case hc::Code::refused: return 4;
    case hc::Code::corrupt:
    case hc::Code::unsupported: return 5;
    case hc::Code::no_space: return 6;
    case hc::Code::bad_argument: return kExitConfig;
    default: return 1;
  }
}

int fail(const hc::Error& error, int exit_code) {
  // A reader that stopped must not hold up the exit.
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, 0) > 0) {
    std::fprintf(stderr, "hicached: %s\n", error.message().c_str());
  }
  return exit_code;
}

struct Arguments {
  std::string config_path;
  std::string cold_start;
  bool check_config = false;
};

int run(const Arguments& arguments) {
  hc::Config config;
  if (!arguments.config_path.empty()) {
    auto loaded = hc::load_config(arguments.config_path);
    if (!loaded) {
      // The only word of the file with an exit code of its own.
      const bool unknown_mode = loaded.error().code == hc::Code::unsupported;
      return fail(loaded.error(), unknown_mode ? kExitColdStart : kExitConfig);
    }
    config = *loaded;
  }
  if (!arguments.cold_start.empty()) {
    auto mode = hc::parse_cold_start(arguments.cold_start);
    if (!mode) {
      return fail(mode.error(), kExitColdStart);
    }
    config.cold_start = *mode;
  }
  if (auto valid = hc::validate_config(config); !valid) {
    return fail(valid.error(), kExitConfig);
  }
  if (arguments.check_config) {
    std::fputs(hc::render_config(config).c_str(), stdout);
    return 0;
  }
  if (auto hashing = hc::check_sha256(); !hashing) {
    return fail(hashing.error(), 1);
  }
  hc::log_start(*hc::parse_log_level(config.log_level), std::getenv("INVOCATION_ID") != nullptr);
  const hc::RoleScope role(hc::kReactorRole);
  hc::Daemon daemon(config);
  if (auto started = daemon.start(); !started) {
    if (started.error().code == hc::Code::cancelled) {
      hc::log_info("daemon.stopped", {{"reason", started.error().message()}});
      return 0;
    }
    return fail(started.error(), exit_code_of(started.error()));
  }
  if (auto ran = daemon.run(); !ran) {
    // I/O may still run on the memory that the end of this scope would free.
    ::_exit(fail(ran.error(), exit_code_of(ran.error())));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // The daemon starts itself like this, see daemon/index/index_child.h; not for people.
  if (argc == 3 && std::string_view(argv[1]) == hc::kCheckIndexArgument) {
    return hc::run_index_check(argv[2]);
  }
  CLI::App app{"hicached: the KV-cache daemon of this node", "hicached"};
  app.set_version_flag("--version", std::string("hicached ") + hc::kProductVersion);
  Arguments arguments;
  const CLI::Option* config =
      app.add_option("--config", arguments.config_path,
                     "configuration file (TOML), such as configs/hicached.toml");
  const CLI::Option* cold_start =
      app.add_option("--cold-start", arguments.cold_start,
                     "clear, load or hold; overrides the file");
  app.add_flag("--check-config", arguments.check_config,
               "judge the configuration, print what would be used, and exit")
      ->disable_flag_override();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error);  // --help, --version
    }
    std::fprintf(stderr, "hicached: %s\n", error.what());
    return kExitUsage;
  }
  // An empty text is what an unset variable of a script leaves; it must not mean "defaults".
  for (const CLI::Option* option : {config, cold_start}) {
    if (option->count() != 0 && option->as<std::string>().empty()) {
      std::fprintf(stderr, "hicached: %s: must not be empty\n", option->get_name().c_str());
      return kExitUsage;
    }
  }
  // The built-in folders and the built-in mode, clear, would meet whatever store is there.
  if (config->count() == 0 && !arguments.check_config) {
    std::fputs("hicached: --config FILE is needed; configs/hicached.toml explains every key\n",
               stderr);
    return kExitUsage;
  }
  return run(arguments);
}
