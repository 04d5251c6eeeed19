// SPDX-License-Identifier: Apache-2.0
// lmdb_file: read both meta pages of an LMDB 0.9 file, compare them with its length, and look at
// the roots of its trees.
#include "daemon/index/lmdb_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/os/local_dir.h"
#include "proto/wire_struct.h"

namespace hc {

namespace {

// What LMDB records of one tree.
struct TreeRecord {
  std::uint32_t page_bytes;  // in the header's first one
  std::uint16_t flags;
  std::uint16_t depth;
  std::array<std::uint64_t, 4> counts;
  std::uint64_t root;
};
static_assert(WireStruct<TreeRecord> && sizeof(TreeRecord) == 48);

struct PageHeader {
  std::uint64_t number;
  std::uint16_t pad;
  std::uint16_t flags;
  std::uint16_t lower;  // end of the offsets of nodes
  std::uint16_t upper;  // start of the nodes
};
static_assert(WireStruct<PageHeader> && sizeof(PageHeader) == 16);

// A row of a leaf; its key and then its value follow.
struct NodeHeader {
  std::array<std::uint16_t, 2> value_bytes;
  std::uint16_t flags;
  std::uint16_t key_bytes;
};
static_assert(WireStruct<NodeHeader> && sizeof(NodeHeader) == 8);

constexpr std::uint16_t kBranch = 1;
constexpr std::uint16_t kLeaf = 2;
constexpr std::uint16_t kNodeIsTree = 2;
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};  // root of an empty tree

// A meta page of data format 1 on a 64-bit machine, as LMDB 0.9 writes it: 16 bytes of page
// header, then this. Only what is judged here has a name.
struct MetaPage {
  std::array<std::uint8_t, 16> page_header;
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t address;
  std::uint64_t map_bytes;
  std::array<TreeRecord, 2> trees;  // free pages; the databases by name
  std::uint64_t last_page;
  std::uint64_t transaction;
};
static_assert(WireStruct<MetaPage> && sizeof(MetaPage) == 152);
static_assert(offsetof(MetaPage, trees) == 40 && offsetof(MetaPage, last_page) == 136);

constexpr std::uint32_t kMetaMagic = 0xBEEFC0DE;
constexpr std::uint32_t kMetaVersion = 1;

std::optional<MetaPage> read_meta(int fd, std::uint64_t offset) {
  MetaPage meta{};
  if (::pread(fd, &meta, sizeof meta, static_cast<off_t>(offset)) != sizeof meta) {
    return std::nullopt;
  }
  const std::uint32_t page_bytes = meta.trees[0].page_bytes;
  const bool page_size_ok =
      page_bytes >= 512 && page_bytes <= 65536 && (page_bytes & (page_bytes - 1)) == 0;
  if (meta.magic != kMetaMagic || meta.version != kMetaVersion || !page_size_ok) {
    return std::nullopt;
  }
  return meta;
}

// A copy out of the page; all zero where the page ends before it.
template <typename Struct>
Struct struct_at(const std::vector<std::uint8_t>& page, std::size_t offset) {
  Struct out{};
  if (offset + sizeof out <= page.size()) {
    std::memcpy(&out, page.data() + offset, sizeof out);
  }
  return out;
}

// The root page of a tree that is not empty, if it can be one.
std::optional<std::vector<std::uint8_t>> read_root(int fd, const MetaPage& meta,
                                                   std::uint64_t root) {
  std::vector<std::uint8_t> page(meta.trees[0].page_bytes);
  if (root > meta.last_page || ::pread(fd, page.data(), page.size(),
                                       static_cast<off_t>(root * page.size())) !=
                                   static_cast<ssize_t>(page.size())) {
    return std::nullopt;
  }
  const auto header = struct_at<PageHeader>(page, 0);
  // One node for a leaf, two for a branch: LMDB keeps no root that has fewer.
  const std::size_t lower_min = sizeof header + (header.flags == kBranch ? 4 : 2);
  const bool is_one = header.number == root && (header.flags == kBranch || header.flags == kLeaf) &&
                      header.lower >= lower_min && header.lower <= header.upper &&
                      header.upper <= page.size();
  return is_one ? std::optional(std::move(page)) : std::nullopt;
}

// A row of the tree of names is a database, and its value the record of that database's tree.
bool named_roots_are_pages(int fd, const MetaPage& meta, const std::vector<std::uint8_t>& names) {
  const auto header = struct_at<PageHeader>(names, 0);
  for (std::size_t at = sizeof header; header.flags == kLeaf && at < header.lower; at += 2) {
    const std::size_t node_at = struct_at<std::uint16_t>(names, at);
    const auto node = struct_at<NodeHeader>(names, node_at);
    const auto tree = struct_at<TreeRecord>(names, node_at + sizeof node + node.key_bytes);
    if (node.flags != kNodeIsTree || (tree.root != kNoPage && !read_root(fd, meta, tree.root))) {
      return false;
    }
  }
  return true;
}

bool roots_are_pages(int fd, const MetaPage& meta) {
  if (meta.trees[0].root != kNoPage && !read_root(fd, meta, meta.trees[0].root)) {
    return false;
  }
  if (meta.trees[1].root == kNoPage) {
    return true;
  }
  const auto names = read_root(fd, meta, meta.trees[1].root);
  return names && named_roots_are_pages(fd, meta, *names);
}

}  // namespace

Result<void> check_lmdb_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    return make_error(code_of_errno(errno), path, errno);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return make_error(Code::io_error, path, errno);
  }
  const auto first = read_meta(fd.get(), 0);
  if (!first) {
    return make_error(Code::corrupt, path + " is no LMDB file");
  }
  // LMDB reads the page size from the first and then needs both.
  const auto second = read_meta(fd.get(), first->trees[0].page_bytes);
  if (!second || second->trees[0].page_bytes != first->trees[0].page_bytes) {
    return make_error(Code::corrupt, path + " has a damaged second header");
  }
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  for (const MetaPage& meta : {*first, *second}) {
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
