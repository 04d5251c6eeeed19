// SPDX-License-Identifier: Apache-2.0
// lmdb_pages: how LMDB 0.9 lays its file out (data format 1 on a 64-bit machine), and reading one
// page of it without mapping anything. Only what is judged here has a name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "proto/wire_struct.h"

namespace hc {

// What LMDB records of one tree.
struct LmdbTree {
  std::uint32_t page_bytes;  // in the header's first one
  std::uint16_t flags;
  std::uint16_t depth;
  std::uint64_t branch_pages;
  std::uint64_t leaf_pages;
  std::uint64_t overflow_pages;
  std::uint64_t entries;
  std::uint64_t root;
};
static_assert(WireStruct<LmdbTree> && sizeof(LmdbTree) == 48);

struct LmdbPageHeader {
  std::uint64_t number;
  std::uint16_t pad;
  std::uint16_t flags;
  std::uint16_t lower;  // end of the offsets of nodes; of an overflow page: pages, with `upper`
  std::uint16_t upper;  // start of the nodes
};
static_assert(WireStruct<LmdbPageHeader> && sizeof(LmdbPageHeader) == 16);

// A row of a leaf, or a way down from a branch; its key and then its value follow.
struct LmdbNode {
  std::uint16_t low;    // of the value's length, or of the page below
  std::uint16_t high;
  std::uint16_t flags;  // of a branch: the rest of the number of the page below
  std::uint16_t key_bytes;
};
static_assert(WireStruct<LmdbNode> && sizeof(LmdbNode) == 8);

inline constexpr std::uint16_t kLmdbBranch = 1;
inline constexpr std::uint16_t kLmdbLeaf = 2;
inline constexpr std::uint16_t kLmdbOverflow = 4;
inline constexpr std::uint16_t kLmdbMeta = 8;
inline constexpr std::uint16_t kLmdbNodeIsBig = 1;   // the value is the number of overflow pages
inline constexpr std::uint16_t kLmdbNodeIsTree = 2;
inline constexpr std::uint64_t kLmdbNoPage = ~std::uint64_t{0};  // root of an empty tree
inline constexpr std::uint32_t kLmdbMetaPages = 2;

// A meta page, after its page header.
struct LmdbMeta {
  LmdbPageHeader page;
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t address;
  std::uint64_t map_bytes;
  std::array<LmdbTree, 2> trees;  // free pages; the databases by name
  std::uint64_t last_page;
  std::uint64_t transaction;
};
static_assert(WireStruct<LmdbMeta> && sizeof(LmdbMeta) == 152);
static_assert(offsetof(LmdbMeta, trees) == 40 && offsetof(LmdbMeta, last_page) == 136);

inline constexpr std::uint32_t kLmdbMagic = 0xBEEFC0DE;
inline constexpr std::uint32_t kLmdbVersion = 1;

// A copy out of the page; all zero where the page ends before it.
template <typename Struct>
Struct lmdb_struct_at(std::span<const std::uint8_t> page, std::size_t offset) {
  Struct out{};
  if (offset + sizeof out <= page.size()) {
    std::memcpy(&out, page.data() + offset, sizeof out);
  }
  return out;
}

// One of the two headers, if there is one that LMDB would take.
std::optional<LmdbMeta> read_lmdb_meta(int fd, std::uint64_t offset);

}  // namespace hc
