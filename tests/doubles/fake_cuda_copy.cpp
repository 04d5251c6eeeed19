// SPDX-License-Identifier: Apache-2.0
// fake_cuda_copy: entry points that queue copies, fills and values.
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "fake_device.h"
#include "fake_private.h"

using hc::fake::FakeDevice;
using hc::fake::FakeHost;
using hc::fake::FakePiece;
using hc::fake::FakeStream;
using hc::fake::FakeWork;

namespace {

FakeDevice& device() {
  return FakeDevice::instance();
}

// One end of a copy. Memory of the device and pinned memory stay where they are until the copy has
// its turn; other memory of the host is read, or waited for, before the call returns.
struct Operand {
  int answer = 0;
  void* memory = nullptr;
  bool is_pinned = true;
  bool is_misused = false;  // a host pointer that this device may not follow
};

Operand locate(std::uint64_t address, std::size_t bytes) {
  Operand found;
  if ((address & hc::fake::kDeviceBit) != 0) {
    found.memory = device().memory.host_of(address, bytes);
    found.answer = found.memory == nullptr ? hc::fake::kInvalidValue : 0;
    return found;
  }
  const bool is_alias = (address & hc::fake::kAliasBit) != 0;
  const std::uint64_t host = address & ~hc::fake::kAliasBit;
  const FakeHost::Cover cover = device().host.cover(host, bytes);
  found.memory = reinterpret_cast<void*>(host);
  found.is_pinned = cover == FakeHost::Cover::whole;
  if (host == 0 || cover == FakeHost::Cover::broken || (is_alias && !found.is_pinned)) {
    found.answer = hc::fake::kInvalidValue;
  } else if (found.is_pinned) {
    const auto pinned = device().host.find(host);
    found.is_misused = pinned && device().host.device_view(*pinned, host) != address;
  }
  return found;
}

struct Batch {
  std::vector<FakePiece> pieces;
  std::list<std::vector<char>> staged;
  bool is_synchronous = false;

  void add(const Operand& to, const Operand& from, std::size_t bytes, bool reads_now) {
    const void* source = from.memory;
    if (reads_now || !from.is_pinned) {
      const auto* const begin = static_cast<const char*>(source);
      source = staged.emplace_back(begin, begin + bytes).data();
    }
    pieces.push_back({to.memory, source, bytes});
    is_synchronous = is_synchronous || !to.is_pinned;
  }
};

void launch(FakeStream& stream, std::shared_ptr<Batch> batch) {
  const bool waits = batch->is_synchronous;
  FakeWork work;
  work.kind = FakeWork::kCopy;
  work.pieces = batch->pieces.data();
  work.piece_count = batch->pieces.size();
  work.hold = std::move(batch);
  stream.push(std::move(work));
  if (waits) {
    stream.wait_idle();
  }
}

// The end that is an address of the device, or one that the device may follow.
enum class Side { target, source };

int copy(const char* name, Side side, std::uint64_t to, std::uint64_t from, std::size_t bytes,
         void* stream) {
  const int answer = device().enter_context(name);
  if (answer != 0) return answer;
  const auto found = device().streams.find(stream);
  if (found == nullptr) return hc::fake::kInvalidHandle;
  const Operand target = locate(to, bytes);
  const Operand source = locate(from, bytes);
  const bool is_device = side == Side::target ? target.is_pinned : source.is_pinned;
  if (target.answer != 0 || source.answer != 0 || !is_device) return hc::fake::kInvalidValue;
  auto batch = std::make_shared<Batch>();
  batch->add(target, source, bytes, false);
  launch(*found, std::move(batch));
  return 0;
}

// CUmemcpyAttributes
struct Attributes {
  int source_order;
  int hints[4];
  unsigned flags;
};

// What the caller of cuMemcpyBatchAsync gave.
struct BatchCall {
  const unsigned long long* to;
  const unsigned long long* from;
  const std::size_t* sizes;
  std::size_t count;
  const Attributes* attributes;
  const std::size_t* firsts;
  std::size_t attribute_count;
};

bool is_valid(const BatchCall& call) {
  const auto most = static_cast<std::size_t>(device().plan.setting("batch_max", 1L << 40));
  if (call.to == nullptr || call.from == nullptr || call.sizes == nullptr || call.count == 0 ||
      call.count > most || call.attributes == nullptr || call.firsts == nullptr ||
      call.attribute_count == 0 || call.attribute_count > call.count || call.firsts[0] != 0) {
    return false;
  }
  for (std::size_t index = 0; index < call.attribute_count; ++index) {
    const int order = call.attributes[index].source_order;
    const std::size_t first = call.firsts[index];
    if (order < 1 || order > 3 || first >= call.count ||
        (index > 0 && first <= call.firsts[index - 1])) {
      return false;
    }
  }
  return true;
}

// A source that may be read at any time is read at once, when the caller least expects it.
int batch_copy(const BatchCall& call, std::size_t* failed, void* stream) {
  *failed = SIZE_MAX;
  const int answer = device().enter_context("cuMemcpyBatchAsync");
  if (answer != 0) return answer;
  const auto found = device().streams.find(stream);
  const bool is_legacy = reinterpret_cast<std::uintptr_t>(stream) <= 1;
  if (is_legacy || !is_valid(call)) return hc::fake::kInvalidValue;
  if (found == nullptr) return hc::fake::kInvalidHandle;
  auto batch = std::make_shared<Batch>();
  bool is_misused = false;
  std::size_t kind = 0;
  for (std::size_t index = 0; index < call.count; ++index) {
    if (kind + 1 < call.attribute_count && call.firsts[kind + 1] == index) ++kind;
    const Operand target = locate(call.to[index], call.sizes[index]);
    const Operand source = locate(call.from[index], call.sizes[index]);
    if (call.sizes[index] == 0 || target.answer != 0 || source.answer != 0) {
      *failed = index;
      return hc::fake::kInvalidValue;
    }
    is_misused = is_misused || target.is_misused || source.is_misused;
    batch->add(target, source, call.sizes[index], call.attributes[kind].source_order != 1);
  }
  if (is_misused) {
    device().fail(hc::fake::kIllegalAddress);
    return 0;
  }
  device().report.add(hc::fake::Count::batches, 1);
  launch(*found, std::move(batch));
  return 0;
}

int queue_value(const char* name, FakeWork::Kind kind, void* stream, std::uint64_t address,
                std::uint64_t value, unsigned flags, unsigned known_flags) {
  const int answer = device().enter_context(name);
  if (answer != 0) return answer;
  const auto found = device().streams.find(stream);
  if (found == nullptr) return hc::fake::kInvalidHandle;
  const Operand word = locate(address, sizeof value);
  if (word.answer != 0 || !word.is_pinned || word.is_misused || address % sizeof value != 0 ||
      (flags & ~known_flags) != 0) {
    return hc::fake::kInvalidValue;
  }
  FakeWork work;
  work.kind = kind;
  work.address = word.memory;
  work.value = value;
  work.flags = flags;
  found->push(work);
  return 0;
}

}  // namespace

HC_FAKE_EXPORT int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t bytes,
                                        void* stream) {
  return copy("cuMemcpyHtoDAsync", Side::target, to, reinterpret_cast<std::uint64_t>(from), bytes,
              stream);
}

HC_FAKE_EXPORT int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes,
                                        void* stream) {
  return copy("cuMemcpyDtoHAsync", Side::source, reinterpret_cast<std::uint64_t>(to), from, bytes,
              stream);
}

HC_FAKE_EXPORT int cuMemsetD8Async(unsigned long long address, unsigned char value,
                                   std::size_t bytes, void* stream) {
  const int answer = device().enter_context("cuMemsetD8Async");
  if (answer != 0) return answer;
  const auto found = device().streams.find(stream);
  if (found == nullptr) return hc::fake::kInvalidHandle;
  void* const memory = device().memory.host_of(address, bytes);
  if (memory == nullptr) return hc::fake::kInvalidValue;
  FakeWork work;
  work.kind = FakeWork::kFill;
  work.address = memory;
  work.bytes = bytes;
  work.value = value;
  found->push(work);
  return 0;
}

// As of 12.8: nine arguments.
HC_FAKE_EXPORT int cuMemcpyBatchAsync(unsigned long long* to, unsigned long long* from,
                                      std::size_t* sizes, std::size_t count, Attributes* attributes,
                                      std::size_t* firsts, std::size_t attribute_count,
                                      std::size_t* failed, void* stream) {
  std::size_t unused = 0;
  return batch_copy({to, from, sizes, count, attributes, firsts, attribute_count},
                    failed == nullptr ? &unused : failed, stream);
}

// As of 13.0: eight.
HC_FAKE_EXPORT int cuMemcpyBatchAsync_v2(unsigned long long* to, unsigned long long* from,
                                         std::size_t* sizes, std::size_t count,
                                         Attributes* attributes, std::size_t* firsts,
                                         std::size_t attribute_count, void* stream) {
  std::size_t unused = 0;
  return batch_copy({to, from, sizes, count, attributes, firsts, attribute_count}, &unused, stream);
}

HC_FAKE_EXPORT int cuStreamWriteValue64_v2(void* stream, unsigned long long address,
                                           std::uint64_t value, unsigned flags) {
  return queue_value("cuStreamWriteValue64", FakeWork::kWriteValue, stream, address, value, flags,
                     1U);
}

HC_FAKE_EXPORT int cuStreamWaitValue64_v2(void* stream, unsigned long long address,
                                          std::uint64_t value, unsigned flags) {
  return queue_value("cuStreamWaitValue64", FakeWork::kWaitValue, stream, address, value, flags,
                     3U | (1U << 30));
}
