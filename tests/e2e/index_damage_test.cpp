// SPDX-License-Identifier: Apache-2.0
// index_damage_test: the index truncated, zeroed, misdirected, old, foreign, missing: found before
// it harms, completed from the slots, and nothing that was forgotten comes back.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "daemon/index/lmdb_pages.h"
#include "e2e/weights.h"

namespace hc::test {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::uint32_t kDamagedPages = 300;  // rows of several leaves under a branch
constexpr Keys kFirst{1, 50, 0};

void store_many(const DaemonProcess& daemon) {
  for (std::uint64_t first = 1; first <= kDamagedPages; first += 50) {
    store_durably(daemon, {first, 50, 0});
  }
}

std::string index_of(const DaemonProcess& daemon) { return daemon.volume() + "/index.lmdb"; }

void wait_rebuilt(const DaemonProcess& daemon) {
  REQUIRE(eventually([&] { return daemon.ask("status").at("load").at("rebuilding") == false; }));
}

// Every page, byte for byte.
void expect_many(const DaemonProcess& daemon) {
  Rank rank(rank_of(daemon));
  REQUIRE(rank.open() == HICACHE_OK);
  for (std::uint64_t first = 1; first <= kDamagedPages; first += 50) {
    const Keys keys{first, 50, 0};
    CHECK(rank.present(keys) == keys.count);
    CHECK(rank.load(keys).code == HICACHE_OK);
    CHECK(rank.wrong_bytes(keys) == 0);
  }
}

std::uint32_t pages_there(const DaemonProcess& daemon, const Keys& keys,
                          const std::string& weights = "1") {
  Rank rank(rank_of(daemon, weights));
  REQUIRE(rank.open() == HICACHE_OK);
  std::uint32_t there = 0;
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    there += rank.load({keys.first + i, 1, 0}).code == HICACHE_OK ? 1U : 0U;
  }
  return there;
}

struct IndexFile {
  explicit IndexFile(const std::string& path) : fd(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    REQUIRE(fd.get() >= 0);
    const auto first = read_lmdb_meta(fd.get(), 0);
    const auto second = read_lmdb_meta(fd.get(), kPageBytes);
    REQUIRE(first.has_value());
    REQUIRE(second.has_value());
    meta = first->transaction > second->transaction ? *first : *second;
  }
  std::string read(std::uint64_t page) const {
    std::string bytes(kPageBytes, '\0');
    REQUIRE(::pread(fd.get(), bytes.data(), bytes.size(),
                    static_cast<off_t>(page * kPageBytes)) == static_cast<ssize_t>(kPageBytes));
    return bytes;
  }
  void write(std::uint64_t page, const std::string& bytes) const {
    REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(),
                     static_cast<off_t>(page * kPageBytes)) ==
            static_cast<ssize_t>(bytes.size()));
  }
  // Pages below the tree of rows of this kind, by the tree itself.
  std::vector<std::uint64_t> rows_pages(std::uint16_t kind) const {
    const std::string names = read(meta.trees[1].root);
    std::vector<std::uint64_t> found;
    const auto at = names.find("pages");
    REQUIRE(at != std::string::npos);
    LmdbTree tree{};
    std::memcpy(&tree, names.data() + at + 5, sizeof tree);
    walk(tree.root, kind, found);
    return found;
  }
  void walk(std::uint64_t page, std::uint16_t kind, std::vector<std::uint64_t>& found) const {
    const std::string bytes = read(page);
    const std::span<const std::uint8_t> view{reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                             bytes.size()};
    const auto header = lmdb_struct_at<LmdbPageHeader>(view, 0);
    if (header.flags == kind) {
      found.push_back(page);
    }
    for (std::size_t at = sizeof header; header.flags == kLmdbBranch && at < header.lower;
         at += 2) {
      const auto node = lmdb_struct_at<LmdbNode>(view, lmdb_struct_at<std::uint16_t>(view, at));
      walk(node.low | std::uint64_t{node.high} << 16, kind, found);
    }
  }

  UniqueFd fd;
  LmdbMeta meta{};
};

// The daemon starts, says why, has every page, and goes on as if nothing had been.
void expect_completed(DaemonProcess& daemon, const std::string& reason) {
  daemon.start("load");
  CHECK(daemon.log().find("warn index.incomplete") != std::string::npos);
  CHECK(daemon.log().find(reason) != std::string::npos);
  wait_rebuilt(daemon);
  expect_many(daemon);
  CHECK(daemon.ask("stats").at("index_rebuilds") == 1);
  CHECK(daemon.log().find(" index.rebuilt ") != std::string::npos);
  CHECK(daemon.stop() == 0);
  daemon.start("load");
  CHECK(daemon.log().find("index.incomplete") == std::string::npos);
  expect_many(daemon);
}

TEST_CASE("index: truncated, it is set aside and completed from the slots") {
  DaemonProcess daemon;
  daemon.start();
  store_many(daemon);
  daemon.kill_now();
  const auto bytes = std::filesystem::file_size(index_of(daemon));
  std::filesystem::resize_file(index_of(daemon), GENERATE(0U, 1U, 4096U, 100'000U) % bytes);

  expect_completed(daemon, "warn index.damaged");
  CHECK(std::filesystem::exists(index_of(daemon) + ".damaged"));
}

TEST_CASE("index: with a zeroed leaf, branch, root or header it is completed from the slots") {
  DaemonProcess daemon;
  daemon.start();
  store_many(daemon);
  daemon.kill_now();
  const auto what = GENERATE(0, 1, 2, 3);
  {
    const IndexFile file(index_of(daemon));
    const auto leaves = file.rows_pages(kLmdbLeaf);
    REQUIRE(leaves.size() > 2);
    const std::uint64_t page = what == 0   ? leaves[1]
                               : what == 1 ? file.rows_pages(kLmdbBranch).at(0)
                               : what == 2 ? file.meta.trees[1].root
                                           : file.meta.page.number;
    file.write(page, std::string(kPageBytes, '\0'));
  }

  expect_completed(daemon, "warn index.damaged");
}

TEST_CASE("index: with one page written over another it is completed from the slots") {
  DaemonProcess daemon;
  daemon.start();
  store_many(daemon);
  daemon.kill_now();
  const bool number_too = GENERATE(false, true);
  {
    const IndexFile file(index_of(daemon));
    const auto leaves = file.rows_pages(kLmdbLeaf);
    std::string other = file.read(leaves[0]);
    if (number_too) {
      std::memcpy(other.data(), &leaves[1], sizeof leaves[1]);  // even with the right number
    }
    file.write(leaves[1], other);
  }

  expect_completed(daemon, "warn index.damaged");
}

TEST_CASE("index: an old copy is found out, and what it does not know is found in the slots") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, kFirst);
  daemon.kill_now();
  const std::string copy = daemon.folder() + "/old.lmdb";
  std::filesystem::copy_file(index_of(daemon), copy);
  daemon.start("load");
  store_many(daemon);
  daemon.kill_now();
  std::filesystem::copy_file(copy, index_of(daemon),
                             std::filesystem::copy_options::overwrite_existing);

  expect_completed(daemon, "older than the slabs");
}

TEST_CASE("index: a foreign file, or that of another store, is completed from the slots") {
  DaemonProcess daemon;
  daemon.start();
  store_many(daemon);
  daemon.kill_now();
  if (GENERATE(false, true)) {
    DaemonProcess other;
    other.start();
    store_durably(other, kFirst);
    other.kill_now();
    std::filesystem::copy_file(index_of(other), index_of(daemon),
                               std::filesystem::copy_options::overwrite_existing);
  } else {
    std::string noise(300'000, '\0');
    std::uint64_t state = 1;
    for (char& byte : noise) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      byte = static_cast<char>(state >> 56);
    }
    std::ofstream(index_of(daemon), std::ios::binary) << noise;
  }

  expect_completed(daemon, "warn index.incomplete");
}

TEST_CASE("index: missing, it is completed from the slots, and engines attach at once") {
  DaemonProcess daemon;
  daemon.start();
  store_many(daemon);
  daemon.kill_now();
  std::filesystem::remove(index_of(daemon));

  expect_completed(daemon, "it is missing");
}

TEST_CASE("index: killed in the middle of a rebuild, the next start does it anew") {
  DaemonProcess daemon;
  daemon.start();
  store_many(daemon);
  for (int round = 0; round < 5; ++round) {
    daemon.kill_now();
    if (round == 0) {
      std::filesystem::remove(index_of(daemon));
    }
    daemon.start("load");
  }
  wait_rebuilt(daemon);
  expect_many(daemon);
}

TEST_CASE("index: lost, the weights of another version, freed pages and cleared spaces stay away") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, {1, 50, 0}, "1");
  store_durably(daemon, {1, 50, 0}, "2");
  store_durably(daemon, {101, 20, 0}, "3");
  {
    Rank rank(rank_of(daemon, "1"));
    REQUIRE(rank.open() == HICACHE_OK);
    REQUIRE(rank.free_pages({1, 10, 0}).code == HICACHE_OK);
    REQUIRE(rank.free_pages({900, 5, 0}).code == HICACHE_OK);  // that nobody has
  }
  const nlohmann::json spaces = daemon.ask("spaces").at("spaces");
  for (const auto& space : spaces) {
    if (space.at("weight_version") == "2") {
      const std::string id = space.at("space_id");
      REQUIRE(daemon.cachectl({"clear", "--space", id.substr(0, 12), "--yes"}).status == 0);
    }
  }
  daemon.kill_now();
  std::filesystem::remove(index_of(daemon));

  daemon.start("load");
  wait_rebuilt(daemon);

  CHECK(pages_there(daemon, {1, 10, 0}, "1") == 0);
  CHECK(pages_there(daemon, {11, 40, 0}, "1") == 40);
  CHECK(pages_there(daemon, {1, 50, 0}, "2") == 0);
  CHECK(pages_there(daemon, {101, 20, 0}, "3") == 20);
  CHECK(pages_there(daemon, {101, 20, 0}, "1") == 0);
}

TEST_CASE("index: lost after a clear of the store, nothing from before it comes back") {
  DaemonProcess daemon;
  daemon.start();
  store_durably(daemon, {1, 50, 0});
  REQUIRE(daemon.cachectl({"clear", "--yes"}).status == 0);
  store_durably(daemon, {101, 20, 0});
  daemon.kill_now();
  std::filesystem::remove(index_of(daemon));

  daemon.start("load");
  wait_rebuilt(daemon);

  CHECK(pages_there(daemon, {1, 50, 0}) == 0);
  CHECK(pages_there(daemon, {101, 20, 0}) == 20);
}

TEST_CASE("index: cut while the daemon serves, it is written anew, and nobody loses a page") {
  DaemonProcess daemon;
  daemon.start();
  store_many(daemon);
  std::filesystem::resize_file(index_of(daemon), 2 * kPageBytes);
  const pid_t pid = daemon.pid();

  store_durably(daemon, {1001, 50, 0});

  CHECK(daemon.pid() == pid);
  CHECK(daemon.ask("stats").at("index_repairs") == 1);
  CHECK(daemon.ask("status").at("l3").at("index_failed") == false);
  CHECK(daemon.stop() == 0);
  daemon.start("load");
  CHECK(daemon.log().find("index.incomplete") == std::string::npos);
  expect_many(daemon);
  CHECK(pages_there(daemon, {1001, 50, 0}) == 50);
}

}  // namespace
}  // namespace hc::test
