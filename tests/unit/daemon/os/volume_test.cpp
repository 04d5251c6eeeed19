// SPDX-License-Identifier: Apache-2.0
// volume_test: files of a volume: allocation, locks, names.
#include "daemon/os/volume.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "daemon/os/local_dir.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/dies.h"
#include "support/temp_dir.h"

namespace hc::test {

namespace {

Volume open_volume(const std::string& dir, std::uint32_t lock_retry_ms = 0) {
  auto volume = Volume::open_dir({dir, lock_retry_ms});
  REQUIRE(volume);
  return std::move(*volume);
}

}  // namespace

TEST_CASE("a new file is allocated in full, never sparse") {
  const TempDir dir;
  Volume volume = open_volume(dir.str());

  const auto file = volume.open({"slab-0001", 8 << 20, true, false});

  REQUIRE(file);
  struct stat info {};
  REQUIRE(::stat(dir.file("slab-0001").c_str(), &info) == 0);
  CHECK(info.st_size == 8 << 20);
  CHECK(info.st_blocks * 512 >= 8 << 20);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(volume.size_bytes(*file) == 8 << 20);
}

TEST_CASE("a sparse file is filled up when it is opened with its size") {
  const TempDir dir;
  std::ofstream(dir.file("slab")).close();
  REQUIRE(::truncate(dir.file("slab").c_str(), 1 << 20) == 0);
  Volume volume = open_volume(dir.str());

  REQUIRE(volume.open({"slab", 1 << 20, false, false}));

  struct stat info {};
  REQUIRE(::stat(dir.file("slab").c_str(), &info) == 0);
  CHECK(info.st_blocks * 512 >= 1 << 20);
}

TEST_CASE("size 0 leaves a file as it is, and a larger file is never cut") {
  const TempDir dir;
  Volume volume = open_volume(dir.str());
  const auto made = volume.open({"slab", 64 << 10, true, false});
  REQUIRE(made);
  REQUIRE(volume.close(*made));

  SECTION("size 0") {
    const auto again = volume.open({"slab", 0, false, false});
    REQUIRE(again);
    CHECK(volume.size_bytes(*again) == 64 << 10);
  }
  SECTION("a smaller size") {
    const auto again = volume.open({"slab", 4096, false, false});
    REQUIRE(again);
    CHECK(volume.size_bytes(*again) == 64 << 10);
  }
}

TEST_CASE("an absent file is not found unless it shall be created") {
  const TempDir dir;
  Volume volume = open_volume(dir.str());

  const auto file = volume.open({"slab", 4096, false, false});

  REQUIRE_FALSE(file);
  CHECK(file.error().code == Code::not_found);
  CHECK(file.error().message() ==
        "volume " + dir.str() + ": slab: No such file or directory");
}

TEST_CASE("a file that doesn't fit is refused with its size and leaves nothing behind") {
  const TempDir dir;
  const auto result = Child([&] {
    // The limit on file size stands for a full disk: fallocate fails in the same way.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto volume = Volume::open_dir({dir.str(), 0});
    const auto file = volume->open({"slab", 8 << 20, true, false});
    const bool named = !file && file.error().text.find("8388608 bytes") != std::string::npos;
    const auto files = volume->list();
    return named && files && files->empty() ? 0 : 1;
  }).wait();

  CHECK(result == 0);
}

TEST_CASE("a file locked by another process is refused with one line that names it") {
  const TempDir dir;
  Volume volume = open_volume(dir.str());
  REQUIRE(volume.open({"slab", 4096, true, true}));

  const auto result = Child([&] {
    auto second = Volume::open_dir({dir.str(), 30});
    const auto file = second->open({"slab", 4096, true, true});
    return !file && file.error().code == Code::refused &&
                   file.error().message() ==
                       "volume " + dir.str() + ": slab is locked by another daemon"
               ? 0
               : 1;
  }).wait();

  CHECK(result == 0);
}

TEST_CASE("the lock of a process that dies is taken over") {
  const TempDir dir;
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  Child holder([&] {
    auto volume = Volume::open_dir({dir.str(), 0});
    const auto file = volume->open({"slab", 4096, true, true});
    if (!file || ::write(ready[1], "x", 1) != 1) {
      return 1;
    }
    ::pause();
    return 0;
  });
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  Volume volume = open_volume(dir.str(), 60'000);
  // The child keeps the lock until it is killed by another child, while this process waits.
  Child killer([&] {
    ::kill(holder.pid(), SIGKILL);
    return 0;
  });

  const auto file = volume.open({"slab", 4096, true, true});

  CHECK(file.has_value());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("one name is open at most once") {
  const TempDir dir;
  Volume volume = open_volume(dir.str());
  REQUIRE(volume.open({"slab", 4096, true, false}));

  const auto second = volume.open({"slab", 4096, true, false});

  REQUIRE_FALSE(second);
  CHECK(second.error().code == Code::refused);
}

TEST_CASE("list shows regular files with their sizes, in the order of names") {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() / "folder");
  std::filesystem::create_symlink("b", dir.path() / "link");
  Volume volume = open_volume(dir.str());
  REQUIRE(volume.open({"b", 8192, true, false}));
  REQUIRE(volume.open({"a", 4096, true, false}));

  const auto files = volume.list();

  REQUIRE(files);
  REQUIRE(files->size() == 2);
  CHECK(files->at(0).name == "a");
  CHECK(files->at(0).size_bytes == 4096);
  CHECK(files->at(1).name == "b");
  CHECK(files->at(1).size_bytes == 8192);
}

TEST_CASE("a removed file is gone, and removing an absent one is fine") {
  const TempDir dir;
  Volume volume = open_volume(dir.str());
  const auto file = volume.open({"slab", 4096, true, false});
  REQUIRE(file);
  REQUIRE(volume.close(*file));

  CHECK(volume.remove("slab"));
  CHECK(volume.remove("slab"));
  CHECK(volume.list()->empty());
}

TEST_CASE("a symbolic link is not followed") {
  const TempDir dir;
  std::ofstream(dir.file("target")).close();
  std::filesystem::create_symlink("target", dir.path() / "slab");
  Volume volume = open_volume(dir.str());

  const auto file = volume.open({"slab", 4096, true, false});

  REQUIRE_FALSE(file);
  CHECK(file.error().code == Code::refused);
}

TEST_CASE("misuse of names and ids is our bug") {
  const TempDir dir;
  Volume volume = open_volume(dir.str());
  const auto file = volume.open({"slab", 4096, true, false});
  REQUIRE(file);

  CHECK(dies_by_check([&] { static_cast<void>(volume.open({"a/b", 4096, true, false})); }));
  CHECK(dies_by_check([&] { static_cast<void>(volume.open({"..", 4096, true, false})); }));
  CHECK(dies_by_check([&] { static_cast<void>(volume.remove("slab")); }));
  CHECK(dies_by_check([&] {
    volume.begin_io(*file);
    static_cast<void>(volume.close(*file));
  }));
  // The slot of a closed file is used again; the old id does not open the new file.
  REQUIRE(volume.close(*file));
  REQUIRE(volume.open({"other", 4096, true, false}));
  CHECK(dies_by_check([&] { static_cast<void>(volume.size_bytes(*file)); }));
}

TEST_CASE("a volume makes its folder but not the folders above") {
  const TempDir dir;

  CHECK(Volume::open_dir({dir.file("volume"), 0}).has_value());
  CHECK(std::filesystem::is_directory(dir.path() / "volume"));
  const auto deep = Volume::open_dir({dir.file("a/b"), 0});
  REQUIRE_FALSE(deep);
  CHECK(deep.error().code == Code::not_found);
  std::ofstream(dir.file("plain")).close();
  CHECK_FALSE(Volume::open_dir({dir.file("plain"), 0}).has_value());
}

}  // namespace hc::test
