// SPDX-License-Identifier: Apache-2.0
// uring_tables: numbers in, numbers out; memory in chunks that the kernel takes.
#include "daemon/os/uring_tables.h"

#include <algorithm>

#include "proto/check.h"

namespace hc {

namespace {

std::vector<std::uint32_t> numbers_below(std::uint32_t end) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = end; i-- > 0;) {
    out.push_back(i);
  }
  return out;
}

}  // namespace

UringTables::UringTables()
    : free_buffers_(numbers_below(kBuffersMax)), free_files_(numbers_below(kFilesMax)) {}

Result<void> UringTables::add_memory(Uring& ring, std::span<std::uint8_t> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kBufferBytesMax) {
    const auto chunk = bytes.subspan(at, std::min(bytes.size() - at, kBufferBytesMax));
    const auto set =
        free_buffers_.empty()
            ? Result<void>(make_error(Code::no_space, "io_uring: all buffers are used"))
            : ring.set_buffer(free_buffers_.back(), {chunk.data(), chunk.size()});
    if (!set) {
      drop_memory(ring, bytes.first(at));
      return set;
    }
    const Buffer buffer{chunk.data(), chunk.size(), free_buffers_.back()};
    free_buffers_.pop_back();
    const auto place = std::upper_bound(
        buffers_.begin(), buffers_.end(), buffer.begin,
        [](const std::uint8_t* data, const Buffer& one) { return data < one.begin; });
    buffers_.insert(place, buffer);
  }
  return {};
}

// The kernel lets go of the pages when the last request on them has ended.
void UringTables::drop_memory(Uring& ring, std::span<std::uint8_t> bytes) {
  std::erase_if(buffers_, [&](const Buffer& one) {
    const bool inside = one.begin >= bytes.data() && one.begin < bytes.data() + bytes.size();
    if (inside) {
      HC_CHECK(ring.set_buffer(one.number, {nullptr, 0}).has_value());
      free_buffers_.push_back(one.number);
    }
    return inside;
  });
}

std::optional<std::uint32_t> UringTables::buffer_of(const void* data,
                                                    std::size_t size_bytes) const {
  const auto* begin = static_cast<const std::uint8_t*>(data);
  const auto above = std::upper_bound(
      buffers_.begin(), buffers_.end(), begin,
      [](const std::uint8_t* at, const Buffer& one) { return at < one.begin; });
  if (above == buffers_.begin()) {
    return std::nullopt;
  }
  const Buffer& found = *(above - 1);
  const auto offset = static_cast<std::size_t>(begin - found.begin);
  return offset + size_bytes <= found.size_bytes ? std::optional(found.number) : std::nullopt;
}

void UringTables::add_file(Uring& ring, FileId file, int fd) {
  if (free_files_.empty() || !ring.set_file(free_files_.back(), fd)) {
    return;
  }
  files_[file.value] = free_files_.back();
  free_files_.pop_back();
}

void UringTables::drop_file(Uring& ring, FileId file) {
  const auto found = files_.find(file.value);
  if (found == files_.end()) {
    return;
  }
  HC_CHECK(ring.set_file(found->second, -1).has_value());
  free_files_.push_back(found->second);
  files_.erase(found);
}

std::optional<std::uint32_t> UringTables::file_of(FileId file) const {
  const auto found = files_.find(file.value);
  return found == files_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace hc
