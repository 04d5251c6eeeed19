// SPDX-License-Identifier: Apache-2.0
// reload_bench: a few ranks in step, for tests of the controller: the test says what each rank
// finds and when its reloads end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/reload/controller.h"
#include "client/reload/prefix_tree.h"
#include "support/catch.h"

namespace hc {

// `count` pages of a chain that begins with `branch`; chains of one branch share their beginning.
inline std::vector<std::uint64_t> bench_tokens(std::uint64_t branch, std::size_t count) {
  std::vector<std::uint64_t> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(branch * 1000 + i);
  }
  return out;
}

struct BenchPath {
  std::vector<std::uint64_t> tokens;
  std::vector<PageHash> hashes;
  std::vector<std::uint16_t> owners;

  PageRun run() const { return {hashes, owners}; }
};

inline BenchPath bench_path(std::uint64_t branch, std::size_t pages, std::uint16_t owners = 1) {
  BenchPath out;
  out.tokens = bench_tokens(branch, pages);
  REQUIRE(hash_pages(std::nullopt, std::span<const std::uint64_t>(out.tokens), {1, false, false},
                     out.hashes));
  for (std::size_t page = 0; page < pages; ++page) {
    out.owners.push_back(static_cast<std::uint16_t>(page % owners));
  }
  return out;
}

struct BenchRank {
  BenchRank(const ControllerOptions& options, std::uint32_t owners, std::uint32_t pages_max)
      : quota(owners, pages_max), tree({}, quota), controller(options, tree, quota) {}
  PageQuota quota;
  PrefixTree tree;
  Controller controller;
  ReloadDecisions decisions;
};

class ReloadBench {
 public:
  explicit ReloadBench(std::uint32_t ranks = 2, std::uint32_t pages_max = 16,
                       ControllerOptions options = {}, std::uint32_t owners = 1) {
    options.hash.page_tokens = 1;
    for (std::uint32_t i = 0; i < ranks; ++i) {
      ranks_.push_back(std::make_unique<BenchRank>(options, owners, pages_max));
    }
  }

  BenchRank& rank(std::size_t i) { return *ranks_[i]; }
  std::size_t size() const { return ranks_.size(); }
  template <typename Fn>
  void each(Fn&& fn) {
    for (const auto& at : ranks_) {
      fn(*at);
    }
  }

  Suffix suffix(const BenchPath& path, std::size_t from, AnchorId anchor) const {
    Suffix out;
    const auto skip = static_cast<std::ptrdiff_t>(from);
    out.anchor = anchor;
    out.hashes.assign(path.hashes.begin() + skip, path.hashes.end());
    out.owners.assign(path.owners.begin() + skip, path.owners.end());
    out.first_tokens = {path.tokens[from]};
    if (from > 0) {
      out.anchor_hash = path.hashes[from - 1];
    }
    return out;
  }
  // On all ranks; the answer must be the same everywhere.
  Decline offer(std::uint64_t request, const BenchPath& path) {
    Decline out{};
    each([&](BenchRank& at) {
      const PrefixMatch match = at.tree.match(path.hashes);
      out = at.controller.offer(RequestId{request}, suffix(path, match.pages(), match.anchor));
    });
    return out;
  }
  void release(std::uint64_t request) {
    each([&](BenchRank& at) { at.controller.release(RequestId{request}); });
  }
  // Every candidate on this rank has this many pages.
  void find(std::size_t i, std::uint32_t pages) {
    for (const Candidate& candidate : rank(i).controller.candidates()) {
      rank(i).controller.set_count(candidate.id, pages);
    }
  }
  void find_all(std::uint32_t pages) {
    for (std::size_t i = 0; i < size(); ++i) {
      find(i, pages);
    }
  }
  AgreementVector encode() {
    AgreementVector reduced;
    each([&](BenchRank& at) { reduced.reduce(at.controller.encode(now_ms)); });
    return reduced;
  }
  const ReloadDecisions& apply(const AgreementVector& reduced) {
    each([&](BenchRank& at) {
      at.controller.apply(reduced, at.decisions);
      CHECK(at.decisions.admits.size() == rank(0).decisions.admits.size());
      CHECK(at.controller.digest() == rank(0).controller.digest());
    });
    return rank(0).decisions;
  }
  const ReloadDecisions& tick() { return apply(encode()); }
  // Offers the path, lets every rank find it, and gives the operation that was started.
  ReloadOpId start(std::uint64_t request, const BenchPath& path) {
    REQUIRE(offer(request, path) == Decline::none);
    find_all(static_cast<std::uint32_t>(path.hashes.size()));
    const ReloadDecisions& decisions = tick();
    REQUIRE(decisions.starts.size() == 1);
    return decisions.starts[0].op;
  }
  bool land(std::size_t i, ReloadOpId op) {
    return rank(i).controller.reload_ended(op, true, ++next_lease_);
  }
  void land_all(ReloadOpId op) {
    for (std::size_t i = 0; i < size(); ++i) {
      REQUIRE(land(i, op));
    }
  }

  std::uint64_t now_ms = 1000;

 private:
  std::vector<std::unique_ptr<BenchRank>> ranks_;
  LeaseHandle next_lease_ = 100;
};

}  // namespace hc
