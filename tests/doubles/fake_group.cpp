// SPDX-License-Identifier: Apache-2.0
// fake_group: the shared file.
#include "fake_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace hc::fake {

namespace {

constexpr std::uint64_t kIdMagic = 0x6c63636e656b6166;
std::atomic<long> live_mappings{0};
std::atomic<long> live_descriptors{0};

int open_board(const FakeId& id) {
  if (id.pid == ::getpid()) {
    return ::dup(id.fd);
  }
  const std::string path =
      "/proc/" + std::to_string(id.pid) + "/fd/" + std::to_string(id.fd);
  return ::open(path.c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace

bool make_fake_id(FakeId* id) {
  *id = FakeId{};
  id->magic = kIdMagic;
  id->pid = ::getpid();
  id->fd = ::memfd_create("fake-nccl", MFD_CLOEXEC);
  if (id->fd < 0 || ::ftruncate(id->fd, sizeof(FakeBoard)) != 0) {
    return false;
  }
  ++live_descriptors;
  return true;
}

std::unique_ptr<FakeGroup> FakeGroup::join(const FakeId& id, int world, int rank) {
  if (id.magic != kIdMagic || world < 1 || world > kWorldMax || rank < 0 || rank >= world) {
    return nullptr;
  }
  const int fd = open_board(id);
  if (fd < 0) {
    return nullptr;
  }
  void* const bytes =
      ::mmap(nullptr, sizeof(FakeBoard), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (bytes == MAP_FAILED) {
    return nullptr;
  }
  ++live_mappings;
  std::unique_ptr<FakeGroup> group(
      new FakeGroup(static_cast<FakeBoard*>(bytes), id, world, rank));
  std::uint64_t nobody = 0;
  const auto wanted = static_cast<std::uint64_t>(world);
  if (!group->board_->world.compare_exchange_strong(nobody, wanted) && nobody != wanted) {
    return nullptr;
  }
  return group->board_->members[rank].joined.exchange(1) == 0 ? std::move(group) : nullptr;
}

FakeGroup::~FakeGroup() {
  ::munmap(board_, sizeof(FakeBoard));
  --live_mappings;
  if (id_.pid == ::getpid()) {
    ::close(id_.fd);
    --live_descriptors;
  }
}

bool FakeGroup::all_have_joined() const {
  for (int rank = 0; rank < world_; ++rank) {
    if (board_->members[rank].joined.load() == 0) {
      return false;
    }
  }
  return true;
}

void FakeGroup::tell(std::uint64_t round, std::uint64_t signature, const void* vector,
                     std::size_t bytes) {
  FakeMember& own = board_->members[rank_];
  std::memcpy(own.vector[round % 2], vector, bytes);
  own.signature[round % 2].store(signature);
  own.round.store(round);
}

bool FakeGroup::all_have_told(std::uint64_t round, std::uint64_t signature) const {
  for (int rank = 0; rank < world_; ++rank) {
    const FakeMember& member = board_->members[rank];
    if (member.round.load() < round || member.signature[round % 2].load() != signature) {
      return false;
    }
  }
  return true;
}

const char* FakeGroup::vector_of(int rank, std::uint64_t round) const {
  return board_->members[rank].vector[round % 2];
}

long FakeGroup::mappings() { return live_mappings.load(); }
long FakeGroup::descriptors() { return live_descriptors.load(); }

}  // namespace hc::fake
