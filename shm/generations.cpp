// SPDX-License-Identifier: Apache-2.0
// generations: writer and reader of the words that guard frames.
#include "shm/generations.h"

#include <string>
#include <utility>

#include "proto/check.h"
#include "shm/shared_word.h"

namespace hc {
namespace {

constexpr std::uint64_t kOutside = 1;
constexpr std::uint64_t kCountMax = 1ULL << 40;  // Keeps the size in bytes far from overflow.

Result<std::uint64_t> bytes_for(std::uint64_t count) {
  if (count == 0 || count > kCountMax) {
    return make_error(Code::bad_argument,
                      "generations: count is " + std::to_string(count) + ", allowed 1 .. 2^40");
  }
  return count * sizeof(std::uint64_t);
}

Result<Region> map_words(int fd, std::uint64_t bytes, bool read_only) {
  return Region::map(fd, {.offset_bytes = 0,
                          .size_bytes = bytes,
                          .read_only = read_only,
                          .keep_from_fork = true,
                          .keep_from_dump = true,
                          .hint_huge_pages = false});
}

}  // namespace

GenerationsWriter::GenerationsWriter(MemoryFile file, Region region, std::uint64_t count)
    : file_(std::move(file)),
      region_(std::move(region)),
      shared_(region_.writable_at<std::uint64_t>(0)),
      private_(count) {
  for (std::uint64_t index = 0; index < count; ++index) {
    const std::uint64_t found = load_acquire(shared_[index]);
    private_[index] = found + (found & 1);
    if (private_[index] != found) {
      store_release(shared_[index], private_[index]);
    }
  }
}

Result<GenerationsWriter> GenerationsWriter::over(MemoryFile file, std::uint64_t count) {
  auto region = map_words(file.fd(), count * sizeof(std::uint64_t), false);
  HC_TRY(region);
  return GenerationsWriter(std::move(file), std::move(*region), count);
}

Result<GenerationsWriter> GenerationsWriter::create(std::uint64_t count) {
  auto bytes = bytes_for(count);
  HC_TRY(bytes);
  auto file = MemoryFile::create("hicache-generations", *bytes,
                                 {.try_huge_pages = false, .commit_memory = true});
  HC_TRY(file);
  // Not sealed against new writers: a successor daemon has to map it writable.
  HC_TRY_VOID(file->finish_seals(false));
  return over(std::move(*file), count);
}

Result<GenerationsWriter> GenerationsWriter::adopt(UniqueFd fd, std::uint64_t count) {
  auto bytes = bytes_for(count);
  HC_TRY(bytes);
  auto file = MemoryFile::from_fd(
      std::move(fd), {.size_bytes = *bytes, .require_sealed = true, .allow_huge_pages = false});
  HC_TRY(file);
  return over(std::move(*file), count);
}

void GenerationsWriter::begin_change(std::uint64_t index) {
  HC_CHECK(index < private_.size());
  HC_CHECK(generation_is_whole(private_[index]));
  store_relaxed(shared_[index], ++private_[index]);
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

void GenerationsWriter::end_change(std::uint64_t index) {
  HC_CHECK(index < private_.size());
  HC_CHECK(!generation_is_whole(private_[index]));
  store_release(shared_[index], ++private_[index]);
}

std::uint64_t GenerationsWriter::current(std::uint64_t index) const {
  HC_CHECK(index < private_.size());
  return private_[index];
}

GenerationsReader::GenerationsReader(Region region, std::uint64_t count)
    : region_(std::move(region)), shared_(region_.at<std::uint64_t>(0)), count_(count) {}

Result<GenerationsReader> GenerationsReader::attach(UniqueFd fd, std::uint64_t count) {
  auto bytes = bytes_for(count);
  HC_TRY(bytes);
  auto file = MemoryFile::from_fd(
      std::move(fd), {.size_bytes = *bytes, .require_sealed = true, .allow_huge_pages = true});
  HC_TRY(file);
  auto region = map_words(file->fd(), *bytes, true);
  HC_TRY(region);
  return GenerationsReader(std::move(*region), count);
}

std::uint64_t GenerationsReader::read(std::uint64_t index) const {
  return index < count_ ? load_acquire(shared_[index]) : kOutside;
}

bool GenerationsReader::unchanged(std::uint64_t index, std::uint64_t seen) const {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return index < count_ && generation_is_whole(seen) && load_relaxed(shared_[index]) == seen;
}

}  // namespace hc
