// SPDX-License-Identifier: Apache-2.0
// fake_group: how the ranks of a stand-in communicator exchange bytes: a memory file of the process
// that made the id, which the others open through its process folder.
//
// Owner thread: each rank writes its own member. A vector is told by its round, and written over
// only two rounds later, when everybody has read it. Nothing here notices that a member is dead.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace hc::fake {

constexpr int kWorldMax = 16;
constexpr std::size_t kVectorBytesMax = 16'384;

// What the 128 bytes of an id hold.
struct FakeId {
  std::uint64_t magic;
  std::int32_t pid;
  std::int32_t fd;
  char spare[112];
};
static_assert(sizeof(FakeId) == 128);

struct FakeMember {
  std::atomic<std::uint64_t> joined;
  std::atomic<std::uint64_t> round;
  // Count, type and operation: ranks that do not call the same never complete, as the real ones.
  std::atomic<std::uint64_t> signature[2];
  alignas(64) char vector[2][kVectorBytesMax];
};

struct FakeBoard {
  std::atomic<std::uint64_t> world;
  FakeMember members[kWorldMax];
};

// Makes an id; its file lives as long as this process, or until a group of the id is closed in it.
bool make_fake_id(FakeId* id);

class FakeGroup {
 public:
  // Null if the id is none, its maker is gone, the world differs or the rank is taken.
  static std::unique_ptr<FakeGroup> join(const FakeId& id, int world, int rank);
  FakeGroup(const FakeGroup&) = delete;
  FakeGroup& operator=(const FakeGroup&) = delete;
  ~FakeGroup();

  bool all_have_joined() const;
  void tell(std::uint64_t round, std::uint64_t signature, const void* vector, std::size_t bytes);
  bool all_have_told(std::uint64_t round, std::uint64_t signature) const;
  const char* vector_of(int rank, std::uint64_t round) const;
  int world() const { return world_; }

  // Mappings and descriptors of this process that are not given back yet.
  static long mappings();
  static long descriptors();

 private:
  FakeGroup(FakeBoard* board, const FakeId& id, int world, int rank)
      : board_(board), id_(id), world_(world), rank_(rank) {}

  FakeBoard* board_;
  FakeId id_;
  int world_;
  int rank_;
};

}  // namespace hc::fake
