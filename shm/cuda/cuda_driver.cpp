// SPDX-License-Identifier: Apache-2.0
// cuda_driver: finds the library and its entries, and asks it whether there is a device.
#include "shm/cuda/cuda_driver.h"

#include <dlfcn.h>

#include <cstdint>

namespace hc {

namespace {

using InitEntry = CuResult (*)(unsigned);
// The last argument tells a missing symbol from one that is too new; we only ask for both.
using AddressEntry = CuResult (*)(const char*, void**, int, std::uint64_t, int*);

Error no_gpu(const std::string& why) {
  return make_error(Code::unsupported, "no GPU: " + why);
}

// Own words, because a library that can't start can't name its errors either.
std::string init_reason(CuResult result) {
  const std::string number = " (cuInit answers " + std::to_string(result) + ")";
  switch (result) {
    case 3: return "the driver was started before this process was forked" + number;
    case kCuStubLibrary: return "the library is the stub of the toolkit, not a driver" + number;
    case 46: return "the device is in use or not available" + number;
    case kCuNoDevice: return "the driver sees no device" + number;
    case 803: return "the library and the kernel module differ in version" + number;
    case 804: return "the forward-compatible library does not fit this device" + number;
    case 999: return "the driver does not start, for a reason it does not know" + number;
    default: return "the driver does not start" + number;
  }
}

class EntryFinder {
 public:
  explicit EntryFinder(void* library)
      : library_(library),
        address_(reinterpret_cast<AddressEntry>(::dlsym(library, "cuGetProcAddress_v2"))) {
    knows_versions_ = by_version("cuDriverGetVersion", 2020) != nullptr;
  }

  // By version first. Drivers before 12.0 do not have that call, and a success may come with a null
  // pointer: then by the name with its suffix. A null pointer if neither knows it.
  void* find(const char* base, int version, const char* symbol) const {
    void* const found = by_version(base, version);
    return found != nullptr ? found : ::dlsym(library_, symbol);
  }

  // The word of a driver that looks up by version is final here: what it does not offer at that
  // version, it does not have. A symbol has one ABI for good, so dlsym can't give another one.
  void* find_optional(const char* base, int version, const char* symbol) const {
    return knows_versions_ ? by_version(base, version) : ::dlsym(library_, symbol);
  }

 private:
  void* by_version(const char* base, int version) const {
    void* found = nullptr;
    int status = 0;
    const bool answered = address_ != nullptr &&
                          address_(base, &found, version, 0, &status) == kCuSuccess && status == 0;
    return answered ? found : nullptr;
  }

  void* library_;
  AddressEntry address_;
  bool knows_versions_ = false;
};

// The name of the first required entry that is missing, or a null pointer.
const char* fill_entries(const EntryFinder& finder, CudaEntries& entries) {
#define HC_CUDA_FIND(member, base, version, symbol, ...)                                           \
  entries.member = reinterpret_cast<decltype(entries.member)>(finder.find(base, version, symbol)); \
  if (entries.member == nullptr) {                                                                 \
    return symbol;                                                                                 \
  }
  HC_CUDA_ENTRIES(HC_CUDA_FIND)
#undef HC_CUDA_FIND
#define HC_CUDA_FIND(member, base, version, symbol, ...) \
  entries.member =                                       \
      reinterpret_cast<decltype(entries.member)>(finder.find_optional(base, version, symbol));
  HC_CUDA_OPTIONAL_ENTRIES(HC_CUDA_FIND)
#undef HC_CUDA_FIND
  return nullptr;
}

}  // namespace

Result<CudaDriver> CudaDriver::load(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return no_gpu(why == nullptr ? library : std::string(why));
  }
  CudaDriver driver;
  const auto init = reinterpret_cast<InitEntry>(::dlsym(handle, "cuInit"));
  const char* const missing =
      init == nullptr ? "cuInit" : fill_entries(EntryFinder(handle), driver.entries_);
  if (missing != nullptr) {
    return no_gpu(library + " has no " + missing);
  }
  if (const CuResult result = init(0); result != kCuSuccess) {
    return no_gpu(init_reason(result));
  }
  CuResult result = driver->driver_get_version(&driver.version_);
  if (result != kCuSuccess) {
    return no_gpu(driver.error("cuDriverGetVersion", result).text);
  }
  result = driver->device_get_count(&driver.device_count_);
  if (result != kCuSuccess) {
    return no_gpu(driver.error("cuDeviceGetCount", result).text);
  }
  if (driver.device_count_ <= 0) {
    return no_gpu("the driver sees no device (it counts " +
                  std::to_string(driver.device_count_) + ")");
  }
  return driver;
}

Error CudaDriver::error(std::string_view call, CuResult result) const {
  const char* name = nullptr;
  std::string line(call);
  line += ": ";
  if (entries_.get_error_name(result, &name) == kCuSuccess && name != nullptr) {
    line += name;
  } else {
    line += "an error without a name";
  }
  line += " (" + std::to_string(result) + ")";
  return make_error(Code::io_error, std::move(line));
}

}  // namespace hc
