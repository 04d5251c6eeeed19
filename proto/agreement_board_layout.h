// SPDX-License-Identifier: Apache-2.0
// agreement_board_layout: the memory file in which the ranks of a group on one node reduce their
// vectors. The daemon makes it and gives it to each rank; it writes nothing in it but who is dead.
//
// Header, then one member for each rank: its header and two vectors, for even and for odd rounds.
// A rank writes only its own member, the bell, the doubt and the verdict. A rank that breaks the
// rules harms its own group.
//
// A vector is cut into lines of 8 words. What is 2^63 - 1, the neutral word of a minimum, need not
// be written: `lines` says which lines of a vector count, all others are neutral.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/wire_struct.h"

namespace hc {

inline constexpr std::uint32_t kBoardMagic = 0x42434948;  // "HICB"
inline constexpr std::uint32_t kBoardWorldMax = 64;
inline constexpr std::uint32_t kBoardWordsMax = 256;
inline constexpr std::size_t kBoardLineWords = 8;
static_assert(kBoardWordsMax / kBoardLineWords <= 32, "one bit for each line");

struct BoardHeader {
  std::uint32_t magic;
  std::uint32_t protocol;
  std::uint32_t world;      // members
  std::uint32_t words;      // of one vector
  std::uint8_t pad1[48];
  std::uint32_t bell;       // raised by whoever has something to tell; sleepers wait on it
  std::uint8_t pad2[60];
  std::uint64_t verdict;    // 2 * round, + 1 if it has failed: of the last round that was doubted
  std::uint64_t doubt;      // the last round that a rank wanted to give up; 0: none
  std::uint8_t pad3[48];
};
static_assert(WireStruct<BoardHeader> && sizeof(BoardHeader) == 192);
static_assert(offsetof(BoardHeader, bell) == 64 && offsetof(BoardHeader, verdict) == 128);

struct BoardMember {
  std::uint64_t round;      // the last one whose vector is complete; 0: none
  std::uint32_t left;       // the rank has given up: nobody need wait for it
  std::uint32_t sleeping;   // it waits on the bell
  std::uint32_t lines[2];   // of its vectors of even and of odd rounds: which count
  std::uint8_t pad1[40];
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
