// SPDX-License-Identifier: Apache-2.0
// agreement_board_layout: the memory file in which the ranks of a group on one node reduce their
// vectors. The daemon makes it and gives it to each rank; it writes nothing in it but who is dead.
//
// Header, then one member for each rank: its header and two vectors, for even and for odd rounds.
// A rank writes only its own member and the bell. A rank that breaks the rules harms its own group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::uint32_t kBoardMagic = 0x42434948;  // "HICB"
inline constexpr std::uint32_t kBoardWorldMax = 64;
inline constexpr std::uint32_t kBoardWordsMax = 256;

struct BoardHeader {
  std::uint32_t magic;
  std::uint32_t protocol;
  std::uint32_t world;      // members
  std::uint32_t words;      // of one vector
  std::uint8_t pad1[48];
  std::uint32_t bell;       // raised by whoever has something to tell; sleepers wait on it
  std::uint8_t pad2[60];
};
static_assert(WireStruct<BoardHeader> && sizeof(BoardHeader) == 128);
static_assert(offsetof(BoardHeader, bell) == 64);

struct BoardMember {
  std::uint64_t round;      // the last one whose vector is complete; 0: none
  std::uint32_t left;       // the rank has given up: nobody need wait for it
  std::uint32_t sleeping;   // it waits on the bell
  std::uint8_t pad1[48];
  std::uint32_t dead;       // written by the daemon
  std::uint8_t pad2[60];
};
static_assert(WireStruct<BoardMember> && sizeof(BoardMember) == 128);
static_assert(offsetof(BoardMember, dead) == 64);

constexpr std::uint64_t board_vector_bytes(std::uint32_t words) {
  return (std::uint64_t{words} * sizeof(std::int64_t) + 63) / 64 * 64;
}
constexpr std::uint64_t board_member_offset(std::uint32_t rank, std::uint32_t words) {
  return sizeof(BoardHeader) + rank * (sizeof(BoardMember) + 2 * board_vector_bytes(words));
}
constexpr std::uint64_t board_bytes(std::uint32_t world, std::uint32_t words) {
  return board_member_offset(world, words);
}

}  // namespace hc
