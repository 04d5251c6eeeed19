// SPDX-License-Identifier: Apache-2.0
// sample: options, spaces, regions and pages of a small engine, and a client attached to a fake.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "client/hicache.h"
#include "proto/check.h"
#include "proto/ids.h"
#include "shm/unique_fd.h"
#include "support/catch.h"
#include "unit/client/fake_daemon.h"

namespace hc::test {

inline constexpr std::uint32_t kCallMs = 30'000;  // Far more than any call here needs.
inline constexpr std::uint32_t kKvBytes = 8192;
inline constexpr std::uint32_t kDraftBytes = 1000;
inline constexpr std::uint32_t kRows = 16;

// A folder of its own that goes with the object. Socket paths are short, so it lies in /tmp.
class SocketFolder {
 public:
  SocketFolder() {
    std::string name = "/tmp/hc-client-XXXXXX";
    HC_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~SocketFolder() { std::filesystem::remove_all(path_); }
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;
  std::filesystem::path socket() const { return path_ / "s"; }

 private:
  std::filesystem::path path_;
};

// One kind sharded for every page, one owned; two shards, this rank is shard 1.
struct SampleSpace {
  std::array<hicache_kind, 2> kinds{
      {{"kv", kKvBytes, HICACHE_SHARDED, HICACHE_ALL_PAGES, 0, 0},
       {"draft", kDraftBytes, HICACHE_OWNED, HICACHE_TRAILING, 0, 2}}};
  hicache_space space{};

  SampleSpace() {
    space.model = "sample";
    space.weight_version = "v1";
    space.page_tokens = 64;
    space.tensor_size = 2;
    space.pipeline_size = 1;
    space.context_size = 1;
    space.kinds = kinds.data();
    space.kind_count = 2;
  }
  SampleSpace(const SampleSpace&) = delete;
  SampleSpace& operator=(const SampleSpace&) = delete;
};

// The options point at `socket`, so it has to outlive them.
hicache_options sample_options(std::string&& socket) = delete;
inline hicache_options sample_options(const std::string& socket) {
  hicache_options options{};
  options.struct_bytes = sizeof options;
  options.abi_version = HICACHE_ABI_VERSION;
  options.socket_path = socket.c_str();
  options.group = "g";
  options.rank = 1;
  options.world = 2;
  options.tensor_rank = 1;
  options.attach_timeout_ms = kCallMs;
  return options;
}

inline UniqueFd sample_memory(std::uint64_t bytes) {
  UniqueFd fd(::memfd_create("sample", MFD_CLOEXEC));
  HC_CHECK(fd.valid() && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  return fd;
}

// kv in two halves that lie apart, draft behind.
struct SampleRegion {
  std::array<hicache_run, 2> kv{
      {{0, kKvBytes / 2, kKvBytes / 2}, {kRows * kKvBytes / 2, kKvBytes / 2, kKvBytes / 2}}};
  std::array<hicache_run, 1> draft{{{kRows * kKvBytes, 1024, kDraftBytes}}};
  std::array<hicache_layout, 2> layouts{{{0, 2, kv.data()}, {1, 1, draft.data()}}};
  UniqueFd memory = sample_memory(kRows * kKvBytes + kRows * 1024 + 4096);
  hicache_region region{};

  SampleRegion() {
    region.region = 3;
    region.fd = memory.get();
    region.offset_bytes = 4096;
    region.size_bytes = kRows * kKvBytes + kRows * 1024;
    region.rows = kRows;
    region.layout_count = 2;
    region.layouts = layouts.data();
  }
  SampleRegion(const SampleRegion&) = delete;
  SampleRegion& operator=(const SampleRegion&) = delete;
};

// Pages with keys of 32 bytes: the number, then zeros.
struct SamplePages {
  std::vector<std::array<std::uint8_t, 32>> keys;
  std::vector<hicache_page> pages;

  explicit SamplePages(std::size_t count, std::uint16_t owner = 1) : keys(count), pages(count) {
    for (std::size_t i = 0; i < count; ++i) {
      keys[i] = {};
      keys[i][0] = static_cast<std::uint8_t>(i + 1);
      pages[i] = hicache_page{keys[i].data(), 32, static_cast<std::uint32_t>(i), owner, 0, nullptr};
    }
  }
  PageHash hash(std::size_t page) const { return PageHash{keys[page]}; }
};

inline hicache_op sample_op(std::uint64_t user_data = 0) {
  hicache_op op{};
  op.deadline_ms = kCallMs;
  op.region = 3;
  op.user_data = user_data;
  return op;
}

// A fake daemon and a client attached to it, with region 3 registered.
struct Rig {
  SocketFolder folder;
  std::unique_ptr<FakeDaemon> daemon;
  std::string socket = folder.socket();
  SampleSpace space;
  SampleRegion region;
  hicache_client* client = nullptr;

  explicit Rig(FakeOptions options = {})
      : daemon(std::make_unique<FakeDaemon>(folder.socket(), std::move(options))) {
    const hicache_options open = sample_options(socket);
    REQUIRE(hicache_open(&open, &space.space, &client) == HICACHE_OK);
    REQUIRE(hicache_register_region(client, &region.region, kCallMs) == HICACHE_OK);
  }
  ~Rig() { hicache_close(client, kCallMs); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  // The next completion, whichever it is.
  hicache_completion next() {
    hicache_completion out{};
    std::size_t count = 0;
    REQUIRE(hicache_wait(client, &out, 1, kCallMs, &count) == HICACHE_OK);
    REQUIRE(count == 1);
    return out;
  }

  // Waits, as an engine would by asking again, until the client is attached for the n-th time.
  void await_state(hicache_code code) {
    while (hicache_state(client) != code) {
      ::usleep(1000);  // waits: the state has no event of its own in the C interface
    }
  }
};

}  // namespace hc::test
