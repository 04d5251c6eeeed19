// SPDX-License-Identifier: Apache-2.0
// lmdb_file: read both meta pages of an LMDB 0.9 file, compare them with its length, and look at
// the roots of its trees.
#include "daemon/index/lmdb_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/index/lmdb_pages.h"
#include "daemon/os/local_dir.h"

namespace hc {

namespace {

// The root page of a tree that is not empty, if it can be one.
std::optional<std::vector<std::uint8_t>> read_root(int fd, const LmdbMeta& meta,
                                                   std::uint64_t root) {
  std::vector<std::uint8_t> page(meta.trees[0].page_bytes);
  if (root > meta.last_page || ::pread(fd, page.data(), page.size(),
                                       static_cast<off_t>(root * page.size())) !=
                                   static_cast<ssize_t>(page.size())) {
    return std::nullopt;
  }
  const auto header = lmdb_struct_at<LmdbPageHeader>(page, 0);
  // One node for a leaf, two for a branch: LMDB keeps no root that has fewer.
  const std::size_t lower_min = sizeof header + (header.flags == kLmdbBranch ? 4 : 2);
  const bool is_tree_page = header.flags == kLmdbBranch || header.flags == kLmdbLeaf;
  const bool is_one = header.number == root && is_tree_page && header.lower >= lower_min &&
                      header.lower <= header.upper && header.upper <= page.size();
  return is_one ? std::optional(std::move(page)) : std::nullopt;
}

// A row of the tree of names is a database, and its value the record of that database's tree.
bool named_roots_are_pages(int fd, const LmdbMeta& meta, const std::vector<std::uint8_t>& names) {
  const auto header = lmdb_struct_at<LmdbPageHeader>(names, 0);
  for (std::size_t at = sizeof header; header.flags == kLmdbLeaf && at < header.lower; at += 2) {
    const std::size_t node_at = lmdb_struct_at<std::uint16_t>(names, at);
    const auto node = lmdb_struct_at<LmdbNode>(names, node_at);
    const auto tree = lmdb_struct_at<LmdbTree>(names, node_at + sizeof node + node.key_bytes);
    if (node.flags != kLmdbNodeIsTree ||
        (tree.root != kLmdbNoPage && !read_root(fd, meta, tree.root))) {
      return false;
    }
  }
  return true;
}

bool roots_are_pages(int fd, const LmdbMeta& meta) {
  if (meta.trees[0].root != kLmdbNoPage && !read_root(fd, meta, meta.trees[0].root)) {
    return false;
  }
  if (meta.trees[1].root == kLmdbNoPage) {
    return true;
  }
  const auto names = read_root(fd, meta, meta.trees[1].root);
  return names && named_roots_are_pages(fd, meta, *names);
}

}  // namespace

std::optional<LmdbMeta> read_lmdb_meta(int fd, std::uint64_t offset) {
  LmdbMeta meta{};
  if (::pread(fd, &meta, sizeof meta, static_cast<off_t>(offset)) != sizeof meta) {
    return std::nullopt;
  }
  const std::uint32_t page_bytes = meta.trees[0].page_bytes;
  const bool page_size_ok =
      page_bytes >= 512 && page_bytes <= 65536 && (page_bytes & (page_bytes - 1)) == 0;
  if (meta.magic != kLmdbMagic || meta.version != kLmdbVersion || !page_size_ok) {
    return std::nullopt;
  }
  return meta;
}

Result<void> check_lmdb_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    return make_error(code_of_errno(errno), path, errno);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return make_error(Code::io_error, path, errno);
  }
  const auto first = read_lmdb_meta(fd.get(), 0);
  if (!first) {
    return make_error(Code::corrupt, path + " is no LMDB file");
  }
  // LMDB reads the page size from the first and then needs both.
  const auto second = read_lmdb_meta(fd.get(), first->trees[0].page_bytes);
  if (!second || second->trees[0].page_bytes != first->trees[0].page_bytes) {
    return make_error(Code::corrupt, path + " has a damaged second header");
  }
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  for (const LmdbMeta& meta : {*first, *second}) {
    if (meta.map_bytes > bytes || meta.last_page >= bytes / meta.trees[0].page_bytes) {
      return make_error(Code::corrupt, path + " is cut short: " + std::to_string(bytes) +
                                           " bytes, its header names " +
                                           std::to_string(meta.map_bytes) + " and page " +
                                           std::to_string(meta.last_page));
    }
  }
  // As LMDB does: the last transaction's.
  if (!roots_are_pages(fd.get(), first->transaction > second->transaction ? *first : *second)) {
    return make_error(Code::corrupt, path + " has a damaged root page");
  }
  return {};
}

}  // namespace hc
