// SPDX-License-Identifier: Apache-2.0
// load_test: reading configuration files, good and bad. daemon/config/load.cpp
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "daemon/config/config.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace hc::test {

namespace {

struct File {
  TempDir dir;
  std::string path = dir.file("c.toml");
  explicit File(const std::string& text) { std::ofstream(path) << text; }
};

bool equal_but_for_cold_start(Config a, const Config& b) {
  a.cold_start = b.cold_start;
  return render_config(a) == render_config(b);
}

// A file, and how its one line of complaint goes on after the path.
const std::vector<std::pair<std::string, std::string>> kBadFiles = {
    {"[l2]\nl2_byte = 1\n",
     ":2: unknown key 'l2.l2_byte'; nearest are l2.l2_bytes, l2.arena_bytes, l2.family_bytes"},
    {"[l4]\n", ":1: unknown table 'l4'; tables are daemon, l2, l3, cold_start, gpu, limits"},
    {"l2 = 5\n", ":1: l2: must be a table; write [l2] and its keys below"},
    {"[[l2]]\n", ":1: l2: must be a table; write [l2] and its keys below"},
    {"l3_bytes = 5\n", ":1: key 'l3_bytes' stands in no table; it belongs below [l3]"},
    {"l4 = 5\n", ":1: unknown table 'l4'; tables are daemon, l2, l3, cold_start, gpu, limits"},
    {"[l2]\nl2_bytes = 12\n", ":2: l2.l2_bytes = 12: must be 1MiB..64TiB"},
    {"[l2]\nl2_bytes = -1\n", ":2: l2.l2_bytes = -1: must not be negative"},
    {"[l2]\nl2_bytes = 1.5\n",
     ":2: l2.l2_bytes: must be a number of bytes or a size such as \"64GiB\""},
    {"[l2]\nl2_bytes = \"64GiBs\"\n",
     ":2: l2.l2_bytes: '64GiBs' has no known unit: B, KiB, MiB, GiB, TiB, PiB, KB, MB, GB, TB "
     "or PB"},
    {"[l2]\nl2_bytes = \"lots\"\n",
     ":2: l2.l2_bytes: 'lots' is no size: write a whole number and a unit, such as 64GiB"},
    {"[l2]\nl2_bytes = \"99999999999TiB\"\n", ":2: l2.l2_bytes: '99999999999TiB' is too large"},
    {"[l2]\narena_bytes = 1\n", ":2: l2.arena_bytes = 1: must be 0 or 64KiB..1TiB"},
    {"[l2]\nl2_bytes = \"1MiB\"\narena_bytes = \"2MiB\"\n",
     ": l2.arena_bytes = 2MiB: must be at most l2.l2_bytes = 1MiB"},
    {"[l2]\nhuge_pages = 1\n", ":2: l2.huge_pages: must be true or false"},
    {"[l2]\ncopier_threads = 65\n", ":2: l2.copier_threads = 65: must be 0..64"},
    {"[l2]\ncopier_threads = \"4\"\n", ":2: l2.copier_threads: must be a whole number"},
    {"[daemon]\nruntime_dir = \"run\"\n",
     ":2: daemon.runtime_dir = 'run': must be an absolute path"},
    {"[daemon]\nruntime_dir = \"\"\n", ":2: daemon.runtime_dir = '': has 0 bytes: must be 1..93"},
    {"[daemon]\nruntime_dir = 5\n", ":2: daemon.runtime_dir: must be a text in quotes"},
    {"[daemon]\nlog_level = \"loud\"\n",
     ":2: daemon.log_level = 'loud': must be debug, info, warn or error"},
    {"[daemon]\ntenant = \"\"\n", ":2: daemon.tenant = '': has 0 bytes: must be 1..256"},
    {"[daemon]\ntenant = \"a\\u0001\"\n",
     ":2: daemon.tenant = 'a?': holds a control character"},
    {"[daemon]\nsocket_mode = \"0680\"\n",
     ":2: daemon.socket_mode = '0680': must be octal permissions, 000..777, such as \"0660\""},
    {"[daemon]\nsocket_mode = \"1777\"\n",
     ":2: daemon.socket_mode = '1777': must be octal permissions, 000..777, such as \"0660\""},
    {"[l3]\nvolume_dir = \"data\"\n", ":2: l3.volume_dir = 'data': must be an absolute path"},
    {"[l3]\nindex_dir = \"data\"\n", ":2: l3.index_dir = 'data': must be an absolute path"},
    {"[l3]\nl3_bytes = \"2PiB\"\n", ":2: l3.l3_bytes = 2PiB: must be 1MiB..1PiB"},
    {"[l3]\nl3_bytes = \"2000TiB\"\n", ":2: l3.l3_bytes = 2000TiB: must be 1MiB..1PiB"},
    {"[l3]\nreserve_slots = 9999999999\n",
     ":2: l3.reserve_slots = 9999999999: must be 0..1048576"},
    {"[l3]\nreserve_slots = -1\n", ":2: l3.reserve_slots = -1: must be 0..1048576"},
    {"[l3]\ndisk_backend = \"aio\"\n",
     ":2: l3.disk_backend = 'aio': must be automatic, uring_fixed, uring or threads"},
    {"[l3]\nio_threads = 0\n", ":2: l3.io_threads = 0: must be 1..64"},
    {"[l3]\nio_inflight_bytes = 0\n", ":2: l3.io_inflight_bytes = 0: must be 1MiB..1TiB"},
    {"[l3]\ncommit_interval_ms = 0\n", ":2: l3.commit_interval_ms = 0: must be 1..600000"},
    {"[l3]\ncommit_pages = 16385\n", ":2: l3.commit_pages = 16385: must be 1..16384"},
    {"[l3]\nlock_wait_ms = 600001\n", ":2: l3.lock_wait_ms = 600001: must be 0..600000"},
    {"[l3]\nspill_policy = \"lazy\"\n",
     ":2: l3.spill_policy = 'lazy': must be write_through, write_through_selective or write_back"},
    {"[l3]\nspill_min_uses = 0\n", ":2: l3.spill_min_uses = 0: must be 1..255"},
    {"[l3]\ndirty_percent = 101\n", ":2: l3.dirty_percent = 101: must be 1..100"},
    {"[l2]\nfamily_bytes = 5\n", ":2: l2.family_bytes = 5: must be 0 or 1MiB..64TiB"},
    {"[l3]\nmissing_volume = \"ask\"\n",
     ":2: l3.missing_volume = 'ask': must be refuse or drop"},
    {"[l3]\nl3_bytes = \"1GiB\"\n[[l3.volume]]\ndir = \"/a\"\nbytes = \"1GiB\"\n",
     ": l3.l3_bytes and [[l3.volume]] are given: the volumes stand in one form or the other"},
    {"[l3]\nvolume = 5\n",
     ":2: l3.volume: must be a list of tables; write [[l3.volume]] for each volume"},
    {"[l3]\nvolume = []\n",
     ":2: l3.volume: must be a list of tables; write [[l3.volume]] for each volume"},
    {"[[l3.volume]]\nbytes = \"1GiB\"\n",
     ":1: l3.volume[0].dir = '': has 0 bytes: must be 1..3072"},
    {"[[l3.volume]]\ndir = \"/a\"\n",
     ":1: l3.volume[0].bytes = 0: must be 1MiB..1PiB"},
    {"[[l3.volume]]\ndir = 5\n", ":2: l3.volume[0].dir: must be a text in quotes"},
    {"[[l3.volume]]\nsize = 5\n",
     ":2: l3.volume[0].size: unknown key; keys are dir, bytes, inflight_bytes"},
    {"[[l3.volume]]\nbytes = true\n",
     ":2: l3.volume[0].bytes: must be a number of bytes or a size such as \"64GiB\""},
    {"[[l3.volume]]\ndir = \"/a\"\nbytes = \"1GiB\"\ninflight_bytes = 5\n",
     ":1: l3.volume[0].inflight_bytes = 5: must be 1MiB..1TiB"},
    {"[[l3.volume]]\ndir = \"/a\"\nbytes = \"1GiB\"\n[[l3.volume]]\ndir = \"/a\"\n"
     "bytes = \"1GiB\"\n",
     ": l3.volume[1].dir = '/a': is volume 0 already"},
    {"[cold_start]\nmode = \"warm\"\n",
     ":2: cold_start.mode = 'warm': must be clear, load or hold"},
    {"[cold_start]\nmode = true\n", ":2: cold_start.mode: must be a word in quotes"},
    {"[cold_start]\nload_verify = \"later\"\n",
     ":2: cold_start.load_verify = 'later': must be before or lazy"},
    {"[l2]\n\"a\\nb\" = 1\n",
     ":2: unknown key 'l2.a?b'; nearest are l2.l2_bytes, l2.arena_bytes, l2.huge_pages"},
    {"[limits]\nsessions_max = 257\n", ":2: limits.sessions_max = 257: must be 1..256"},
};

}  // namespace

TEST_CASE("an empty file gives the defaults") {
  const File file("# nothing\n");

  const auto config = load_config(file.path);

  REQUIRE(config);
  CHECK(render_config(*config) == render_config(Config{}));
  CHECK(config->cold_start == ColdStart::clear);
}

TEST_CASE("the shipped file is the defaults, but loads at a cold start") {
  const auto config = load_config((source_dir() / "configs/hicached.toml").string());

  REQUIRE(config);
  CHECK(config->cold_start == ColdStart::load);
  CHECK(equal_but_for_cold_start(*config, Config{}));
}

TEST_CASE("several volumes are read in their order, and rendered so that they are read again") {
  const File file("[l3]\ncommit_pages = 5\n[[l3.volume]]\ndir = \"/mnt/a\"\nbytes = \"2TiB\"\n"
                  "[[l3.volume]]\ndir = \"/mnt/b\"\nbytes = 5000000\n"
                  "inflight_bytes = \"768MiB\"\n");

  const auto config = load_config(file.path);

  REQUIRE(config);
  CHECK(volume_dirs(*config) == std::vector<std::string>{"/mnt/a", "/mnt/b"});
  CHECK(volume_bytes(*config) == std::vector<std::uint64_t>{2ULL << 40, 5'000'000});
  CHECK(volume_inflight(*config) ==
        std::vector<std::uint64_t>{config->io_inflight_bytes, 768ULL << 20});
  CHECK(total_l3_bytes(*config) == (2ULL << 40) + 5'000'000);
  const File again(render_config(*config));
  const auto reread = load_config(again.path);
  REQUIRE(reread);
  CHECK(render_config(*reread) == render_config(*config));
}

TEST_CASE("the short form is one volume, and at most 16 volumes are taken") {
  Config config;
  CHECK(volume_dirs(config) == std::vector<std::string>{config.volume_dir});
  CHECK(volume_bytes(config) == std::vector<std::uint64_t>{config.l3_bytes});
  for (int i = 0; i < 17; ++i) {
    config.volumes.push_back({"/mnt/" + std::to_string(i), 1ULL << 30, 0});
  }

  const auto refused = validate_config(config);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().text == "l3.volume: 17 volumes: must be at most 16");
}

TEST_CASE("the shipped file names every key") {
  std::ifstream in(source_dir() / "configs/hicached.toml");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::istringstream rendered(render_config(Config{}));

  for (std::string line; std::getline(rendered, line);) {
    const std::string key = line.substr(0, line.find(" = "));
    CAPTURE(key);
    CHECK((key.empty() || text.find("\n" + key) != std::string::npos));
  }
}

TEST_CASE("every key can be set") {
  const File file(R"(
[daemon]
runtime_dir = "/tmp/r"
log_level = "debug"
tenant = "Ä team"
socket_mode = "600"
[l2]
l2_bytes = "64GiB"
arena_bytes = 67108864
huge_pages = true
copier_threads = 2
[l3]
volume_dir = "/data/v"
index_dir = "/data/i"
l3_bytes = "2TB"
reserve_slots = 7
disk_backend = "threads"
io_threads = 3
io_inflight_bytes = "768 MiB"
commit_interval_ms = 100
commit_pages = 16
lock_wait_ms = 0
spill_policy = "write_through_selective"
spill_min_uses = 3
dirty_percent = 40
[cold_start]
mode = "hold"
load_verify = "before"
[limits]
sessions_max = 256
)");

  const auto config = load_config(file.path);

  REQUIRE(config);
  CHECK(config->runtime_dir == "/tmp/r");
  CHECK(config->log_level == "debug");
  CHECK(config->tenant == "Ä team");
  CHECK(config->socket_mode == "600");
  CHECK(config->l2_bytes == 64ULL << 30);
  CHECK(config->arena_bytes == 67108864);
  CHECK(config->huge_pages);
  CHECK(config->copier_threads == 2);
  CHECK(config->volume_dir == "/data/v");
  CHECK(config->index_dir == "/data/i");
  CHECK(config->l3_bytes == 2'000'000'000'000);
  CHECK(config->reserve_slots == 7);
  CHECK(config->disk_backend == DiskBackend::threads);
  CHECK(config->io_threads == 3);
  CHECK(config->io_inflight_bytes == 768ULL << 20);
  CHECK(config->commit_interval_ms == 100);
  CHECK(config->commit_pages == 16);
  CHECK(config->spill_policy == SpillPolicy::selective);
  CHECK(config->spill_min_uses == 3);
  CHECK(config->dirty_percent == 40);
  CHECK(config->lock_wait_ms == 0);
  CHECK(config->cold_start == ColdStart::hold);
  CHECK(config->sessions_max == 256);
}

TEST_CASE("what is rendered is read back as the same") {
  Config config;
  config.l2_bytes = 3'000'001;
  config.tenant = "a \"quoted\" \\ name";
  config.huge_pages = true;
  config.cold_start = ColdStart::hold;
  const File file(render_config(config));

  const auto loaded = load_config(file.path);

  REQUIRE(loaded);
  CHECK(render_config(*loaded) == render_config(config));
  CHECK(loaded->tenant == config.tenant);
}

TEST_CASE("a bad file ends in one line that names the place, the key and what is allowed") {
  const auto& [text, line] = GENERATE(from_range(kBadFiles));
  const File file(text);

  const auto config = load_config(file.path);

  REQUIRE_FALSE(config);
  // An unknown mode has a code of its own, because it has an exit code of its own.
  const bool unknown_mode = line.find("cold_start.mode = ") != std::string::npos;
  CHECK(config.error().code == (unknown_mode ? Code::unsupported : Code::bad_argument));
  CHECK(config.error().message() == file.path + line);
}

TEST_CASE("text that is no TOML is refused with its line") {
  const auto [text, line] = GENERATE(table<std::string, std::string>({
      {"[l2\n", ":1: "},
      {"\n\nl2_bytes 5\n", ":3: "},
      {"[l2]\nl2_bytes = 1\nl2_bytes = 2\n", ":3: "},
  }));
  const File file(text);

  const auto config = load_config(file.path);

  REQUIRE_FALSE(config);
  CHECK(config.error().code == Code::bad_argument);
  CHECK(config.error().message().find(file.path + line) == 0);
  CHECK(config.error().message().find('\n') == std::string::npos);
}

TEST_CASE("a file that can't be read says so") {
  const TempDir dir;

  const auto absent = load_config(dir.file("absent.toml"));
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == Code::not_found);
  CHECK(absent.error().message() ==
        "configuration file " + dir.file("absent.toml") + ": No such file or directory");

  const auto folder = load_config(dir.str());
  REQUIRE_FALSE(folder);
  CHECK(folder.error().code == Code::io_error);

  std::ofstream(dir.file("large.toml")) << std::string((1 << 20) + 1, '#');
  const auto large = load_config(dir.file("large.toml"));
  REQUIRE_FALSE(large);
  CHECK(large.error().message() == dir.file("large.toml") + ": is larger than 1 MiB");
}

}  // namespace hc::test
