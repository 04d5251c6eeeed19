// SPDX-License-Identifier: Apache-2.0
// fake_cuda_stream: entry points about streams and events.
#include <cstdint>
#include <utility>

#include "fake_device.h"
#include "fake_private.h"

using hc::fake::FakeDevice;
using hc::fake::FakeWork;

namespace {

FakeDevice& device() {
  return FakeDevice::instance();
}

FakeWork event_work(FakeWork::Kind kind, std::shared_ptr<hc::fake::FakeCell> cell,
                    std::uint32_t number) {
  FakeWork work;
  work.kind = kind;
  work.value = number;
  work.cell = cell.get();
  work.hold = std::move(cell);
  return work;
}

std::uint32_t latest_record(const hc::fake::FakeCell& cell) {
  return __atomic_load_n(&cell.recorded, __ATOMIC_SEQ_CST);
}

}  // namespace

// Any priority is taken: the real one clamps it too.
HC_FAKE_EXPORT int cuStreamCreateWithPriority(void** stream, unsigned flags, int /*priority*/) {
  const int answer = device().enter_context("cuStreamCreateWithPriority");
  if (answer != 0) return answer;
  if (stream == nullptr || flags > 1) return hc::fake::kInvalidValue;
  *stream = device().streams.open();
  return 0;
}

HC_FAKE_EXPORT int cuStreamDestroy_v2(void* stream) {
  const int answer = device().enter_context("cuStreamDestroy");
  if (answer != 0) return answer;
  return device().streams.close(stream) ? 0 : hc::fake::kInvalidHandle;
}

HC_FAKE_EXPORT int cuStreamQuery(void* stream) {
  const int answer = device().enter_context("cuStreamQuery");
  if (answer != 0) return answer;
  const auto found = device().streams.find(stream);
  if (found == nullptr) return hc::fake::kInvalidHandle;
  return found->is_idle() ? 0 : hc::fake::kNotReady;
}

// An event that was never recorded holds nothing up. A later record does not matter.
HC_FAKE_EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  const int answer = device().enter_context("cuStreamWaitEvent");
  if (answer != 0) return answer;
  const auto found = device().streams.find(stream);
  auto cell = device().events.find(event);
  if (found == nullptr || cell == nullptr) return hc::fake::kInvalidHandle;
  if (flags != 0) return hc::fake::kInvalidValue;
  const std::uint32_t number = latest_record(*cell);
  if (number != 0) found->push(event_work(FakeWork::kWaitEvent, std::move(cell), number));
  return 0;
}

HC_FAKE_EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  const int answer = device().enter_context("cuStreamIsCapturing");
  if (answer != 0) return answer;
  if (device().streams.find(stream) == nullptr) return hc::fake::kInvalidHandle;
  if (status == nullptr) return hc::fake::kInvalidValue;
  *status = static_cast<int>(device().plan.setting("capturing", 0));
  return 0;
}

HC_FAKE_EXPORT int cuEventCreate(void** event, unsigned flags) {
  const int answer = device().enter_context("cuEventCreate");
  return answer != 0 ? answer : device().events.create(flags, event);
}

HC_FAKE_EXPORT int cuEventDestroy_v2(void* event) {
  const int answer = device().enter_context("cuEventDestroy");
  return answer != 0 ? answer : device().events.destroy(event);
}

HC_FAKE_EXPORT int cuEventRecord(void* event, void* stream) {
  const int answer = device().enter_context("cuEventRecord");
  if (answer != 0) return answer;
  const auto found = device().streams.find(stream);
  auto cell = device().events.find(event);
  if (found == nullptr || cell == nullptr) return hc::fake::kInvalidHandle;
  const std::uint32_t number = __atomic_add_fetch(&cell->recorded, 1, __ATOMIC_SEQ_CST);
  found->push(event_work(FakeWork::kRecord, std::move(cell), number));
  return 0;
}

HC_FAKE_EXPORT int cuEventQuery(void* event) {
  const int answer = device().enter_context("cuEventQuery");
  if (answer != 0) return answer;
  const auto cell = device().events.find(event);
  if (cell == nullptr) return hc::fake::kInvalidHandle;
  const std::uint32_t number = latest_record(*cell);
  return number == 0 || is_reached(cell.get(), number) ? 0 : hc::fake::kNotReady;
}
