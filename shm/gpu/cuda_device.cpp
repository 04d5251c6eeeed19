// SPDX-License-Identifier: Apache-2.0
// cuda_device: finds a device by its UUID and retains its context.
#include "shm/gpu/cuda_device.h"

#include <array>
#include <cstring>
#include <utility>

namespace hc {

namespace {

constexpr int kTextBytes = 128;

// Nothing: the driver does not answer for this one.
bool read_uuid(const CudaDriver& driver, int ordinal, Uuid& uuid, CuDevice& device) {
  CuUuid raw{};
  if (driver->device_get(&device, ordinal) != kCuSuccess ||
      driver->device_uuid(&raw, device) != kCuSuccess) {
    return false;
  }
  static_assert(sizeof raw == sizeof uuid);
  std::memcpy(uuid.data(), &raw, sizeof raw);
  return true;
}

// What only people read may be missing.
CudaDevice::Facts facts_of(const CudaDriver& driver, CuDevice device, int ordinal,
                           const Uuid& uuid) {
  std::array<char, kTextBytes> name{};
  std::array<char, kTextBytes> pci{};
  static_cast<void>(driver->device_name(name.data(), kTextBytes - 1, device));
  static_cast<void>(driver->device_pci(pci.data(), kTextBytes - 1, device));
  int usable = 0;
  const CuResult asked = driver->device_attribute(&usable, kCuDeviceHostPointerUsable, device);
  return {uuid, name.data(), pci.data(), ordinal, asked == kCuSuccess && usable != 0};
}

}  // namespace

std::string uuid_text(const Uuid& uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

Result<std::shared_ptr<CudaDevice>> CudaDevice::open(const CudaDriver& driver, const Uuid& uuid) {
  for (int ordinal = 0; ordinal < driver.device_count(); ++ordinal) {
    Uuid found{};
    CuDevice device = 0;
    if (!read_uuid(driver, ordinal, found, device) || found != uuid) {
      continue;
    }
    auto context = PrimaryContext::retain(driver, ordinal);
    HC_TRY(context);
    return std::make_shared<CudaDevice>(std::move(*context),
                                        facts_of(driver, device, ordinal, uuid));
  }
  return make_error(Code::refused,
                    "device = " + uuid_text(uuid) + ": the daemon sees " +
                        std::to_string(driver.device_count()) + " devices, and not this one");
}

CudaDevice::CudaDevice(PrimaryContext context, Facts facts)
    : context_(std::move(context)), facts_(std::move(facts)) {}

void CudaDevice::note_free_before(std::uint64_t free_bytes) {
  const CurrentContext current(context_);
  std::size_t free_now = 0;
  std::size_t total = 0;
  if (current.result() == kCuSuccess && driver()->mem_info(&free_now, &total) == kCuSuccess &&
      free_bytes <= total && free_bytes > free_now) {
    context_bytes_.store(free_bytes - free_now, std::memory_order_relaxed);
  }
}

}  // namespace hc
