// SPDX-License-Identifier: Apache-2.0
// lmdb_tree_check: walks the trees of an index file from its newer header.
#include "daemon/index/lmdb_tree_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "daemon/index/lmdb_pages.h"
#include "daemon/index/meta_rows.h"
#include "daemon/os/local_dir.h"
#include "proto/index_row.h"

namespace hc {

namespace {

using Bytes = std::span<const std::uint8_t>;
using Key = std::vector<std::uint8_t>;

constexpr std::uint16_t kDepthMax = 32;  // of LMDB's cursors

Error damaged(std::uint64_t page, const std::string& what) {
  return make_error(Code::corrupt, "page " + std::to_string(page) + ": " + what);
}

struct Row {
  Bytes key;
  Bytes value;
  std::uint16_t flags = 0;
};
using OnRow = std::function<Result<void>(const Row&)>;

// The keys that a page may hold: from `low` on, below `high`.
struct Bounds {
  std::optional<Key> low;
  std::optional<Key> high;
};

class TreeWalk {
 public:
  TreeWalk(int fd, const LmdbMeta& meta)
      : fd_(fd),
        page_bytes_(meta.trees[0].page_bytes),
        last_page_(meta.last_page),
        used_(meta.last_page + 1) {}

  // Every row in key order. `numbers`: keys are numbers of the machine, not texts.
  Result<void> walk(const LmdbTree& tree, bool numbers, const OnRow& on_row);
  // Freed pages: in the file, in no tree, and named once.
  Result<void> take_free(Bytes list);

 private:
  struct Level {
    std::uint64_t page = 0;
    std::uint16_t depth = 0;  // levels from here down, this one included
    Bounds bounds;
  };
  Result<void> read_page(std::uint64_t number, std::vector<std::uint8_t>& out);
  Result<void> walk_page(const Level& level, const OnRow& on_row);
  Result<void> walk_branch(const Level& level, Bytes page, const OnRow& on_row);
  Result<void> walk_leaf(const Level& level, Bytes page, const OnRow& on_row);
  Result<std::vector<std::size_t>> nodes_of(std::uint64_t number, Bytes page) const;
  Result<void> check_key(std::uint64_t page, Bytes key, const Bounds& bounds) const;
  Result<std::vector<std::uint8_t>> read_big(std::uint64_t from, Bytes value, std::size_t bytes);
  bool before(Bytes a, Bytes b) const;

  int fd_;
  std::uint32_t page_bytes_;
  std::uint64_t last_page_;
  std::vector<bool> used_;
  bool numbers_ = false;
  LmdbTree counted_{};
  std::optional<Key> last_key_;
};

bool TreeWalk::before(Bytes a, Bytes b) const {
  if (numbers_) {
    return lmdb_struct_at<std::uint64_t>(a, 0) < lmdb_struct_at<std::uint64_t>(b, 0);
  }
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

Result<void> TreeWalk::read_page(std::uint64_t number, std::vector<std::uint8_t>& out) {
  if (number < kLmdbMetaPages || number > last_page_) {
    return damaged(number, "is named by a tree and lies outside the file");
  }
  if (used_[number]) {
    return damaged(number, "is used twice");
  }
  used_[number] = true;
  out.resize(page_bytes_);
  const ssize_t got =
      ::pread(fd_, out.data(), out.size(), static_cast<off_t>(number * page_bytes_));
  if (got != static_cast<ssize_t>(out.size())) {
    return got < 0 ? make_error(Code::io_error, "index: read of page " + std::to_string(number),
                                errno)
                   : damaged(number, "is not in the file");
  }
  const auto header = lmdb_struct_at<LmdbPageHeader>(out, 0);
  if (header.number != number) {
    return damaged(number, "holds page " + std::to_string(header.number));
  }
  return {};
}

// Where the nodes of a page begin, each with its key inside of the page.
Result<std::vector<std::size_t>> TreeWalk::nodes_of(std::uint64_t number, Bytes page) const {
  const auto header = lmdb_struct_at<LmdbPageHeader>(page, 0);
  const bool fits = header.lower >= sizeof header && header.lower <= header.upper &&
                    header.upper <= page.size() && (header.lower - sizeof header) % 2 == 0;
  if (!fits) {
    return damaged(number, "has impossible bounds");
  }
  std::vector<std::size_t> nodes;
  for (std::size_t at = sizeof header; at < header.lower; at += 2) {
    const std::size_t node_at = lmdb_struct_at<std::uint16_t>(page, at);
    const auto node = lmdb_struct_at<LmdbNode>(page, node_at);
    if (node_at < header.upper || node_at + sizeof node + node.key_bytes > page.size()) {
      return damaged(number, "has a node outside of itself");
    }
    nodes.push_back(node_at);
  }
  return nodes;
}

Result<void> TreeWalk::check_key(std::uint64_t page, Bytes key, const Bounds& bounds) const {
  const bool fits = (!bounds.low || !before(key, *bounds.low)) &&
                    (!bounds.high || before(key, *bounds.high));
  return fits ? Result<void>() : Result<void>(damaged(page, "has a key of another page"));
}

Result<void> TreeWalk::walk_page(const Level& level, const OnRow& on_row) {
  std::vector<std::uint8_t> page;
  HC_TRY_VOID(read_page(level.page, page));
  const auto header = lmdb_struct_at<LmdbPageHeader>(page, 0);
  if (level.depth == 1 && header.flags == kLmdbLeaf) {
    ++counted_.leaf_pages;
    return walk_leaf(level, page, on_row);
  }
  if (level.depth > 1 && header.flags == kLmdbBranch) {
    ++counted_.branch_pages;
    return walk_branch(level, page, on_row);
  }
  return damaged(level.page, "is of another kind than its place in the tree");
}

Result<void> TreeWalk::walk_branch(const Level& level, Bytes page, const OnRow& on_row) {
  const auto nodes = nodes_of(level.page, page);
  HC_TRY(nodes);
  if (nodes->size() < 2) {
    return damaged(level.page, "is a branch with fewer than two ways");
  }
  Bounds bounds = level.bounds;
  for (std::size_t i = 0; i < nodes->size(); ++i) {
    const auto node = lmdb_struct_at<LmdbNode>(page, (*nodes)[i]);
    // The key of the first way stands for everything below the second; what it says is nothing.
    if (i + 1 < nodes->size()) {
      const auto next = lmdb_struct_at<LmdbNode>(page, (*nodes)[i + 1]);
      const Bytes key = page.subspan((*nodes)[i + 1] + sizeof next, next.key_bytes);
      HC_TRY_VOID(check_key(level.page, key, {bounds.low, level.bounds.high}));
      bounds.high = Key(key.begin(), key.end());
    } else {
      bounds.high = level.bounds.high;
    }
    const std::uint64_t below =
        node.low | std::uint64_t{node.high} << 16 | std::uint64_t{node.flags} << 32;
    const auto depth = static_cast<std::uint16_t>(level.depth - 1);
    HC_TRY_VOID(walk_page({below, depth, bounds}, on_row));
    bounds.low = bounds.high;
  }
  return {};
}

Result<void> TreeWalk::walk_leaf(const Level& level, Bytes page, const OnRow& on_row) {
  const auto nodes = nodes_of(level.page, page);
  HC_TRY(nodes);
  for (const std::size_t at : *nodes) {
    const auto node = lmdb_struct_at<LmdbNode>(page, at);
    const Bytes key = page.subspan(at + sizeof node, node.key_bytes);
    HC_TRY_VOID(check_key(level.page, key, level.bounds));
    if (last_key_ && !before(*last_key_, key)) {
      return damaged(level.page, "has keys out of order");
    }
    last_key_ = Key(key.begin(), key.end());
    ++counted_.entries;
    const std::size_t bytes = node.low | std::size_t{node.high} << 16;
    const bool big = (node.flags & kLmdbNodeIsBig) != 0;
    const std::size_t stored = big ? sizeof(std::uint64_t) : bytes;
    const std::size_t value_at = at + sizeof node + node.key_bytes;
    if (value_at + stored > page.size()) {
      return damaged(level.page, "has a value outside of itself");
    }
    Bytes value = page.subspan(value_at, stored);
    std::vector<std::uint8_t> gathered;
    if (big) {
      auto read = read_big(level.page, value, bytes);
      HC_TRY(read);
      gathered = std::move(*read);
      value = gathered;
    }
    if (auto judged = on_row({key, value, node.flags}); !judged) {
      return damaged(level.page, judged.error().text);
    }
  }
  return {};
}

// A value that lies in pages of its own.
Result<std::vector<std::uint8_t>> TreeWalk::read_big(std::uint64_t from, Bytes value,
                                                     std::size_t bytes) {
  const auto first = lmdb_struct_at<std::uint64_t>(value, 0);
  const std::uint64_t pages = (sizeof(LmdbPageHeader) - 1 + bytes) / page_bytes_ + 1;
  std::vector<std::uint8_t> out;
  HC_TRY_VOID(read_page(first, out));
  const auto header = lmdb_struct_at<LmdbPageHeader>(out, 0);
  const std::uint64_t recorded = header.lower | std::uint64_t{header.upper} << 16;
  // A shorter value that took the place of a longer one keeps its pages.
  if (header.flags != kLmdbOverflow || recorded < pages || recorded > last_page_ - first + 1) {
    return damaged(first, "is not the long value that page " + std::to_string(from) + " names");
  }
  counted_.overflow_pages += recorded;
  for (std::uint64_t page = first + 1; page < first + recorded; ++page) {
    if (used_[page]) {
      return damaged(page, "is used twice");
    }
    used_[page] = true;
  }
  out.resize(sizeof header + bytes);
  const ssize_t got =
      ::pread(fd_, out.data(), out.size(), static_cast<off_t>(first * page_bytes_));
  if (got != static_cast<ssize_t>(out.size())) {
    return make_error(Code::io_error, "index: read of page " + std::to_string(first), errno);
  }
  out.erase(out.begin(), out.begin() + sizeof header);
  return out;
}

Result<void> TreeWalk::walk(const LmdbTree& tree, bool numbers, const OnRow& on_row) {
  numbers_ = numbers;
  counted_ = LmdbTree{};
  last_key_.reset();
  if (tree.root != kLmdbNoPage) {
    if (tree.depth == 0 || tree.depth > kDepthMax) {
      return damaged(tree.root, "is the root of a tree of impossible depth");
    }
    HC_TRY_VOID(walk_page({tree.root, tree.depth, {}}, on_row));
  }
  const bool complete =
      counted_.branch_pages == tree.branch_pages && counted_.leaf_pages == tree.leaf_pages &&
      counted_.overflow_pages == tree.overflow_pages && counted_.entries == tree.entries;
  return complete ? Result<void>()
                  : Result<void>(damaged(tree.root, "is the root of a tree that holds " +
                                                        std::to_string(counted_.entries) +
                                                        " rows and records " +
                                                        std::to_string(tree.entries)));
}

Result<void> TreeWalk::take_free(Bytes list) {
  const auto count = lmdb_struct_at<std::uint64_t>(list, 0);
  // LMDB may reserve a longer list than it then needs.
  if (list.size() < 8 || list.size() % 8 != 0 || count > list.size() / 8 - 1) {
    return make_error(Code::corrupt, "has a list of free pages of a wrong length");
  }
  std::uint64_t last = last_page_ + 1;
  for (std::size_t at = 8; at < 8 * (count + 1); at += 8) {
    const auto page = lmdb_struct_at<std::uint64_t>(list, at);
    if (page < kLmdbMetaPages || page >= last || used_[page]) {
      return make_error(Code::corrupt,
                        "calls page " + std::to_string(page) + " free, which it is not");
    }
    used_[page] = true;
    last = page;
  }
  return {};
}

Result<void> judge_row(const std::string& database, const Row& row) {
  if (row.flags != 0 && row.flags != kLmdbNodeIsBig) {
    return make_error(Code::corrupt, "has a row of another kind in " + database);
  }
  if (database == "pages") {
    const auto page = decode_index_row(row.key, row.value);
    return page ? Result<void>() : Result<void>(page.error());
  }
  if (database == "spaces") {
    const auto space = decode_space_row(row.key, row.value);
    return space ? Result<void>() : Result<void>(space.error());
  }
  return judge_meta_row(row.key, row.value);
}

// The databases by name.
Result<std::map<std::string, LmdbTree>> read_names(TreeWalk& walk, const LmdbMeta& meta) {
  std::map<std::string, LmdbTree> trees;
  const auto names = walk.walk(meta.trees[1], false, [&](const Row& row) -> Result<void> {
    if (row.flags != kLmdbNodeIsTree || row.value.size() != sizeof(LmdbTree)) {
      return make_error(Code::corrupt, "has a row that is no database");
    }
    trees[std::string(row.key.begin(), row.key.end())] = lmdb_struct_at<LmdbTree>(row.value, 0);
    return {};
  });
  HC_TRY_VOID(names);
  for (const char* name : {"meta", "pages", "spaces"}) {
    if (trees.count(name) == 0) {
      return make_error(Code::corrupt, "lacks the database " + std::string(name));
    }
  }
  return trees.size() == 3 ? Result<std::map<std::string, LmdbTree>>(std::move(trees))
                           : make_error(Code::corrupt, "has a database too many");
}

// LMDB writes header 0 and 1 in turn, by the parity of the transaction.
std::optional<LmdbMeta> newer_meta(int fd) {
  const auto first = read_lmdb_meta(fd, 0);
  const auto second = first ? read_lmdb_meta(fd, first->trees[0].page_bytes) : std::nullopt;
  if (!second) {
    return std::nullopt;
  }
  return first->transaction > second->transaction ? first : second;
}

Result<void> check_metas(int fd) {
  std::uint64_t number = 0;
  const auto first = read_lmdb_meta(fd, 0);
  for (const auto& meta : {first, first ? read_lmdb_meta(fd, first->trees[0].page_bytes)
                                        : std::optional<LmdbMeta>()}) {
    const bool fits = meta && meta->page.number == number && meta->page.flags == kLmdbMeta &&
                      (meta->transaction == 0 || meta->transaction % 2 == number);
    if (!fits) {
      return damaged(number, "is no header, or that of another place");
    }
    ++number;
  }
  return {};
}

}  // namespace

std::uint64_t lmdb_used_bytes(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const auto meta = fd ? newer_meta(fd.get()) : std::nullopt;
  return meta ? (meta->last_page + 1) * meta->trees[0].page_bytes : 0;
}

Result<LmdbTreeFacts> check_lmdb_trees(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    return make_error(code_of_errno(errno), path, errno);
  }
  HC_TRY_VOID(check_metas(fd.get()));
  const LmdbMeta meta = *newer_meta(fd.get());
  LmdbTreeFacts facts;
  facts.used_bytes = (meta.last_page + 1) * meta.trees[0].page_bytes;
  (void)::posix_fadvise(fd.get(), 0, static_cast<off_t>(facts.used_bytes), POSIX_FADV_WILLNEED);
  TreeWalk walk(fd.get(), meta);
  auto trees = read_names(walk, meta);
  HC_TRY(trees);
  for (const auto& tree : *trees) {
    HC_TRY_VOID(walk.walk(tree.second, false,
                          [&](const Row& row) { return judge_row(tree.first, row); }));
  }
  // Last, when every page of the other trees is known.
  HC_TRY_VOID(walk.walk(meta.trees[0], true,
                        [&](const Row& row) { return walk.take_free(row.value); }));
  facts.rows = (*trees)["pages"].entries;
  facts.spaces = (*trees)["spaces"].entries;
  return facts;
}

}  // namespace hc
