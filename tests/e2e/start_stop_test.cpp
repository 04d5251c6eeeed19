// SPDX-License-Identifier: Apache-2.0
// start_stop_test: how a daemon starts, refuses to start, and stops.
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/daemon_process.h"
#include "e2e/process.h"
#include "e2e/rank.h"
#include "proto/versions.h"
#include "support/catch.h"

namespace hc::test {
namespace {

constexpr int kExitConfig = 78;
constexpr int kExitColdStart = 3;
constexpr int kExitInUse = 4;

std::string only_line(const std::string& err) {
  const std::vector<std::string> lines = complaints(err);
  INFO(err);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].rfind("hicached: ", 0) == 0);
  return lines[0];
}

std::string program_path() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "hicached").string();
}

// It finished what was in flight, instead of giving up on it after a while.
bool stopped_in_order(const DaemonProcess& daemon) {
  return daemon.log().find("daemon.stopped\n") != std::string::npos;
}

TEST_CASE("SIGTERM ends the daemon with status 0, and every page that it took is on disk") {
  DaemonOptions options;
  options.commit_interval_ms = 600'000;  // only the stop commits
  DaemonProcess daemon(options);
  daemon.start();
  const Keys keys{1, 40, 0};
  {
    Rank rank({daemon.client_socket()});
    REQUIRE(rank.open() == HICACHE_OK);
    REQUIRE(rank.store(keys).code == HICACHE_OK);
  }

  REQUIRE(daemon.stop() == 0);

  CHECK(stopped_in_order(daemon));
  CHECK(complaints(daemon.log()).empty());
  CHECK_FALSE(std::filesystem::exists(daemon.client_socket()));
  CHECK_FALSE(std::filesystem::exists(daemon.admin_socket()));
  daemon.start("load");
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  CHECK(rank.present(keys) == keys.count);
  const hicache_completion loaded = rank.load(keys);
  CHECK(loaded.code == HICACHE_OK);
  CHECK(loaded.pages_from_l3 == keys.count);
  CHECK(rank.wrong_bytes(keys) == 0);
}

TEST_CASE("SIGTERM ends the daemon in order while a client stores") {
  DaemonProcess daemon;
  daemon.start();
  Rank rank({daemon.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  std::vector<std::uint64_t> operations(12);
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    REQUIRE(rank.submit(HICACHE_VERB_STORE, {i * 5U, 5, i * 5U}, operations[i],
                        HICACHE_ACK_DURABLE) == HICACHE_OK);
  }

  REQUIRE(daemon.stop() == 0);

  CHECK(stopped_in_order(daemon));  // the clients that attach again at once do not hold it up
  for (const std::uint64_t operation : operations) {
    CHECK(rank.finish(operation).code != Rank::kNeverEnded);
  }
  CHECK(hicache_state(rank.client()) == HICACHE_DISCONNECTED);
}

TEST_CASE("A second daemon on the same volume or the same sockets is refused in one line") {
  DaemonOptions first_options;
  DaemonProcess first(first_options);
  first.start();
  DaemonProcess second;
  std::string text = second.config_text();
  std::string in_use;
  SECTION("the same volume") {
    in_use = first.volume();
    text.replace(text.find(second.volume()), second.volume().size(), first.volume());
  }
  SECTION("the same sockets") {
    in_use = first.client_socket();
    text.replace(text.find(second.folder()), second.folder().size(), first.folder());
  }
  const std::string wait = "lock_wait_ms = 20000";
  text.replace(text.find(wait), wait.size(), "lock_wait_ms = 50");
  write_text(second.config_path(), text);

  const Outcome outcome = run_program("hicached", {"--config", second.config_path()});

  CHECK(outcome.status == kExitInUse);
  const std::string line = only_line(outcome.err);
  CHECK(missing(line, {in_use}) == "");
  CHECK(missing(line, {"another daemon"}) == "");
  Rank rank({first.client_socket()});
  REQUIRE(rank.open() == HICACHE_OK);
  CHECK(rank.store({1, 4, 0}, HICACHE_ACK_DURABLE).code == HICACHE_OK);
}

TEST_CASE("A daemon waits for a predecessor that still holds the volume") {
  DaemonProcess first;
  first.start();
  DaemonProcess second;
  std::string text = second.config_text();
  text.replace(text.find(second.volume()), second.volume().size(), first.volume());
  write_text(second.config_path(), text);
  const std::string log = first.folder() + "/second.log";
  Process successor({{program_path(), "--config", second.config_path()}, {}, "", log});
  REQUIRE(eventually([&log] { return read_text(log).find("lock.wait") != std::string::npos; }));

  first.kill_now();

  CHECK(eventually([&log] { return read_text(log).find("daemon.ready") != std::string::npos; }));
  successor.signal(SIGTERM);
  CHECK(successor.wait() == 0);
}

TEST_CASE("SIGTERM ends a daemon that waits for the volume, with status 0") {
  DaemonProcess first;
  first.start();
  DaemonProcess second;
  std::string text = second.config_text();
  text.replace(text.find(second.volume()), second.volume().size(), first.volume());
  write_text(second.config_path(), text);
  const std::string log = first.folder() + "/second.log";
  Process successor({{program_path(), "--config", second.config_path()}, {}, "", log});
  REQUIRE(eventually([&log] { return read_text(log).find("lock.wait") != std::string::npos; }));

  successor.signal(SIGTERM);

  CHECK(successor.wait() == 0);
  CHECK(missing(read_text(log), {"daemon.stopped reason="}) == "");
  CHECK(complaints(read_text(log)).empty());
  CHECK(first.stop() == 0);
}

// The kernel answers a file beyond RLIMIT_FSIZE with a signal, which kills unless it is ignored.
TEST_CASE("A limit on the size of files is an error and not the end of the daemon") {
  DaemonProcess daemon;
  write_text(daemon.config_path(), daemon.config_text());
  const std::string log = daemon.folder() + "/limited.log";
  Process limited({{"/bin/sh", "-c", "ulimit -f 64; exec \"$0\" --config \"$1\"", program_path(),
                    daemon.config_path()},
                   {}, "", log});

  REQUIRE(eventually([&] {
    return read_text(log).find("daemon.ready") != std::string::npos ||
           !complaints(read_text(log)).empty();
  }));
  if (complaints(read_text(log)).empty()) {
    Rank rank({daemon.client_socket()});
    CHECK(rank.open() != HICACHE_OK);  // its arenas are files, too
    limited.signal(SIGTERM);
    CHECK(limited.wait() == 0);
  } else {
    const int status = limited.wait();
    CHECK(status > 0);
    CHECK(status < 128);
    CHECK(missing(read_text(log), {"File too large"}) == "");
  }
}

TEST_CASE("An unknown cold start mode has its own exit code and one line") {
  DaemonProcess daemon;

  SECTION("on the command line") {
    write_text(daemon.config_path(), daemon.config_text());
    const Outcome outcome =
        run_program("hicached", {"--config", daemon.config_path(), "--cold-start", "warm"});
    CHECK(outcome.status == kExitColdStart);
    CHECK(lines_of(outcome.err).size() == 1);
    CHECK(missing(only_line(outcome.err), {"warm", "clear, load or hold"}) == "");
  }
  SECTION("in the file") {
    daemon.options().cold_start = "warm";
    CHECK(daemon.start_refused() == kExitColdStart);
    CHECK(lines_of(daemon.log()).size() == 1);
    CHECK(missing(only_line(daemon.log()),
                  {"cold_start.mode", "warm", "clear, load or hold"}) == "");
  }
  CHECK_FALSE(std::filesystem::exists(daemon.volume()));
}

struct BadConfig {
  std::string table;
  std::string line;
  std::vector<std::string> parts;  // of the one line that is expected
};

const std::vector<BadConfig>& bad_configs() {
  static const std::vector<BadConfig> table{
      {"l2", "l2_bytes = 5", {"l2.l2_bytes", "= 5", "1MiB..64TiB"}},
      {"l2", "l2_bytes = \"12 parsecs\"", {"l2.l2_bytes", "12 parsecs", "unit"}},
      {"l2", "l2_bytes = -1", {"l2.l2_bytes", "-1", "negative"}},
      {"l2", "arena_bytes = 100", {"l2.arena_bytes", "= 100", "0 or 64KiB..1TiB"}},
      {"l2", "huge_pages = 1", {"l2.huge_pages", "true or false"}},
      {"l2", "copier_threads = 65", {"l2.copier_threads", "= 65", "0..64"}},
      {"l3", "l3_bytes = \"1KiB\"", {"l3.l3_bytes", "1KiB", "1MiB..1PiB"}},
      {"l3", "volume_dir = \"relative\"", {"l3.volume_dir", "relative", "absolute"}},
      {"l3", "index_dir = \"relative\"", {"l3.index_dir", "relative", "absolute"}},
      {"l3", "reserve_slots = 1048577", {"l3.reserve_slots", "1048577", "0..1048576"}},
      {"l3", "disk_backend = \"tape\"", {"l3.disk_backend", "tape", "uring or threads"}},
      {"l3", "io_threads = 0", {"l3.io_threads", "= 0", "1..64"}},
      {"l3", "io_inflight_bytes = 1", {"l3.io_inflight_bytes", "= 1", "1MiB..1TiB"}},
      {"l3", "commit_interval_ms = 0", {"l3.commit_interval_ms", "= 0", "1..600000"}},
      {"l3", "commit_pages = 99999", {"l3.commit_pages", "99999", "1..16384"}},
      {"l3", "lock_wait_ms = 600001", {"l3.lock_wait_ms", "600001", "0..600000"}},
      {"l3", "lock_wait_ms = 1.5", {"l3.lock_wait_ms", "whole number"}},
      {"cold_start", "load_verify = \"later\"", {"cold_start.load_verify", "later", "before"}},
      {"limits", "sessions_max = 257", {"limits.sessions_max", "257", "1..256"}},
      {"daemon", "runtime_dir = \"run\"", {"daemon.runtime_dir", "'run'", "absolute"}},
      {"daemon", "log_level = \"loud\"", {"daemon.log_level", "loud", "debug, info, warn"}},
      {"daemon", "tenant = \"\"", {"daemon.tenant", "''", "1..256"}},
      {"daemon", "socket_mode = \"0999\"", {"daemon.socket_mode", "0999", "octal"}},
      {"daemon", "log_levle = \"info\"", {"daemon.log_levle", "unknown", "daemon.log_level"}},
      {"deamon", "log_level = \"info\"", {"deamon", "unknown", "daemon"}},
      {"daemon", "log_level = ", {":2"}},
  };
  return table;
}

TEST_CASE("Each bad value of the configuration is one line with key, value and range") {
  const TempDir folder;
  const std::string path = folder.file("bad.toml");
  for (const BadConfig& bad : bad_configs()) {
    write_text(path, "[" + bad.table + "]\n" + bad.line + "\n");

    const Outcome outcome = run_program("hicached", {"--config", path});

    INFO(bad.table << ": " << bad.line << " -> " << outcome.err);
    CHECK(outcome.status == kExitConfig);
    CHECK(lines_of(outcome.err).size() == 1);
    CHECK(missing(outcome.err, {"hicached: ", path}) == "");
    for (const std::string& part : bad.parts) {
      CHECK(missing(outcome.err, {part}) == "");
    }
  }
}

// Every other test starts with a folder that is missing and is created.
TEST_CASE("A folder of sockets that can't be created is named in one line") {
  const TempDir folder;
  const std::string path = folder.file("sockets.toml");
  const std::string deep = folder.file("missing/too");
  write_text(path, "[daemon]\nruntime_dir = \"" + deep + "\"\n[l3]\nvolume_dir = \"" +
                       folder.file("volume") + "\"\n");

  const Outcome outcome = run_program("hicached", {"--config", path});

  CHECK(outcome.status == kExitInUse);
  CHECK(missing(only_line(outcome.err), {"daemon.runtime_dir", deep}) == "");
}

TEST_CASE("A configuration file that can't be read is one line with its name") {
  const Outcome outcome = run_program("hicached", {"--config", "/nowhere/hicached.toml"});

  CHECK(outcome.status == kExitConfig);
  CHECK(lines_of(outcome.err).size() == 1);
  CHECK(missing(outcome.err, {"/nowhere/hicached.toml"}) == "");
}

TEST_CASE("Without a configuration nothing is started: the built-in mode would clear a store") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, std::vector<std::string>{"--cold-start", "load"}}) {
    const Outcome outcome = run_program("hicached", arguments);

    CHECK(outcome.status == kExitUsage);
    CHECK(lines_of(outcome.err).size() == 1);
    CHECK(missing(outcome.err, {"hicached: ", "--config FILE"}) == "");
  }
}

TEST_CASE("A wrong command line is one line and its own exit code") {
  const std::vector<std::vector<std::string>> wrong{
      {"--bogus"}, {"word"}, {"--config"}, {"--cold-start"}, {"--check-config=7"},
      {"--config", ""}, {"--config="}, {"--cold-start", ""}};
  for (const auto& arguments : wrong) {
    const Outcome outcome = run_program("hicached", arguments);

    INFO(arguments[0] << " -> " << outcome.err);
    CHECK(outcome.status == kExitUsage);
    CHECK(lines_of(outcome.err).size() == 1);
    std::string word = arguments[0].substr(0, arguments[0].find('='));
    word.erase(0, word.find_first_not_of('-'));
    CHECK(missing(outcome.err, {"hicached: ", word}) == "");
  }
}

TEST_CASE("A folder that is missing ends the start with one line that names it") {
  DaemonProcess daemon;
  std::string text = daemon.config_text();
  const std::string nowhere = daemon.folder() + "/no/folder";
  SECTION("the parent of the volume") {
    text.replace(text.find(daemon.volume()), daemon.volume().size(), nowhere);
  }
  SECTION("the folder of the sockets") {
    text.replace(text.find(daemon.folder()), daemon.folder().size(), nowhere);
  }
  write_text(daemon.config_path(), text);

  const Outcome outcome = run_program("hicached", {"--config", daemon.config_path()});

  CHECK(outcome.status != 0);
  CHECK(outcome.status < 128);
  CHECK(missing(only_line(outcome.err), {nowhere}) == "");
}

TEST_CASE("--check-config judges, prints what is in effect, and starts nothing") {
  DaemonProcess daemon;
  write_text(daemon.config_path(), daemon.config_text());

  const Outcome outcome =
      run_program("hicached", {"--config", daemon.config_path(), "--check-config"});

  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  CHECK(missing(outcome.out, {daemon.volume(), "sessions_max = 16"}) == "");
  CHECK_FALSE(std::filesystem::exists(daemon.volume()));
  const std::string printed = daemon.folder() + "/printed.toml";
  write_text(printed, outcome.out);
  const Outcome again = run_program("hicached", {"--config", printed, "--check-config"});
  CHECK(again.status == 0);
  CHECK(again.out == outcome.out);
}

TEST_CASE("--version prints one line") {
  const Outcome outcome = run_program("hicached", {"--version"});

  CHECK(outcome.status == 0);
  CHECK(outcome.out == std::string("hicached ") + kProductVersion + "\n");
}

}  // namespace
}  // namespace hc::test
