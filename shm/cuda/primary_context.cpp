// SPDX-License-Identifier: Apache-2.0
// primary_context: retain and release, push and pop.
#include "shm/cuda/primary_context.h"

#include <string>

namespace hc {

Result<PrimaryContext> PrimaryContext::retain(const CudaDriver& driver, int ordinal) {
  if (ordinal < 0 || ordinal >= driver.device_count()) {
    return make_error(Code::bad_argument,
                      "device = " + std::to_string(ordinal) + ": must be 0.." +
                          std::to_string(driver.device_count() - 1));
  }
  CuDevice device = 0;
  if (const CuResult result = driver->device_get(&device, ordinal); result != kCuSuccess) {
    return driver.error("cuDeviceGet", result);
  }
  CuContext context = nullptr;
  if (const CuResult result = driver->primary_retain(&context, device); result != kCuSuccess) {
    return driver.error("cuDevicePrimaryCtxRetain", result);
  }
  return PrimaryContext(driver, device, context);
}

PrimaryContext::~PrimaryContext() {
  if (context_ != nullptr) {
    static_cast<void>(driver_->primary_release(device_));
  }
}

CurrentContext::~CurrentContext() {
  if (result_ == kCuSuccess) {
    CuContext popped = nullptr;
    static_cast<void>(driver_->ctx_pop(&popped));
  }
}

}  // namespace hc
