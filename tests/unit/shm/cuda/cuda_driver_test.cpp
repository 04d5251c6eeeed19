// SPDX-License-Identifier: Apache-2.0
// cuda_driver_test: every way not to have a GPU is one line; the table is filled by both ways.
#include "shm/cuda/cuda_driver.h"

#include "support/catch.h"
#include "support/doubles.h"

namespace hc {
namespace {

using test::double_library;
using test::holds_in_child;
using test::plan_double;

// The reason of a load that must fail, or "loaded".
std::string reason_of(const std::string& library) {
  const auto driver = CudaDriver::load(library);
  if (driver) {
    return "loaded";
  }
  if (driver.error().code != Code::unsupported || driver.error().sys_errno != 0) {
    return "wrong code";
  }
  return driver.error().message();
}

// A load of the stand-in with a plan, in a process of its own, gives this line.
bool gives(const char* plan, const std::string& line) {
  return holds_in_child([&] {
    plan_double("HC_FAKE_CUDA", plan);
    const std::string reason = reason_of(double_library("libcuda.so.1"));
    if (reason != line) {
      std::fprintf(stderr, "%s: \"%s\"\n", plan, reason.c_str());
    }
    return reason == line ? 0 : 1;
  });
}

TEST_CASE("a machine without libcuda has no GPU, and one line says so") {
  CHECK(reason_of("/nowhere/libcuda.so.1") ==
        "no GPU: /nowhere/libcuda.so.1: cannot open shared object file: No such file or directory");
}

TEST_CASE("a library that is no driver is named with the entry it lacks") {
  CHECK(reason_of("libm.so.6") == "no GPU: libm.so.6 has no cuInit");
}

TEST_CASE("a driver that does not start is no GPU, and the line says why") {
  CHECK(gives("cuInit=34",
              "no GPU: the library is the stub of the toolkit, not a driver (cuInit answers 34)"));
  CHECK(gives("*=34",
              "no GPU: the library is the stub of the toolkit, not a driver (cuInit answers 34)"));
  CHECK(gives("cuInit=100", "no GPU: the driver sees no device (cuInit answers 100)"));
  CHECK(gives("cuInit=803",
              "no GPU: the library and the kernel module differ in version (cuInit answers 803)"));
  CHECK(gives("cuInit=999",
              "no GPU: the driver does not start, for a reason it does not know "
              "(cuInit answers 999)"));
  CHECK(gives("cuInit=5", "no GPU: the driver does not start (cuInit answers 5)"));
}

TEST_CASE("a driver that starts but has nothing to offer is no GPU") {
  CHECK(gives("devices=0", "no GPU: the driver sees no device (it counts 0)"));
  CHECK(gives("cuDeviceGetCount=201",
              "no GPU: cuDeviceGetCount: CUDA_ERROR_INVALID_CONTEXT (201)"));
  CHECK(gives("cuDriverGetVersion=1",
              "no GPU: cuDriverGetVersion: CUDA_ERROR_INVALID_VALUE (1)"));
}

TEST_CASE("a driver with devices is loaded, and says which version it is") {
  CHECK(holds_in_child([] {
    plan_double("HC_FAKE_CUDA", "devices=3");
    const auto driver = CudaDriver::load(double_library("libcuda.so.1"));
    HC_EXPECT(driver);
    HC_EXPECT(driver->version() == 12999);
    HC_EXPECT(driver->device_count() == 3);
    HC_EXPECT(test::cuda_count("cuGetProcAddress") >= 20);
    return 0;
  }));
}

TEST_CASE("a driver without lookup by version is used by the names of its entries") {
  CHECK(gives("cuGetProcAddress=500", "loaded"));
}

// Which of the batch copies a driver of that version has.
bool has_batches(const char* plan, bool has_v1, bool has_v2) {
  return holds_in_child([&] {
    plan_double("HC_FAKE_CUDA", plan);
    const auto driver = CudaDriver::load(double_library("libcuda.so.1"));
    HC_EXPECT(driver);
    HC_EXPECT(((*driver)->copy_batch_v1 != nullptr) == has_v1);
    HC_EXPECT(((*driver)->copy_batch_v2 != nullptr) == has_v2);
    return 0;
  });
}

TEST_CASE("what newer drivers have may be missing; each ABI of the batch copy has its version") {
  CHECK(has_batches("version=11040", false, false));
  CHECK(has_batches("version=12070", false, false));
  CHECK(has_batches("version=12080", true, false));
  CHECK(has_batches("", true, false));
  CHECK(has_batches("version=13000", true, true));
  CHECK(has_batches("cuGetProcAddress=500", true, true));  // by name: both symbols are there
}

TEST_CASE("both ABIs of the batch copy take what they declare") {
  CHECK(holds_in_child([] {
    plan_double("HC_FAKE_CUDA", "version=13000");
    const auto driver = CudaDriver::load(double_library("libcuda.so.1"));
    HC_EXPECT(driver);
    std::size_t failed = 0;
    // No context: 201 is the answer of both; only the older one tells which copy it was.
    HC_EXPECT((*driver)->copy_batch_v1(nullptr, nullptr, nullptr, 1, nullptr, nullptr, 1, &failed,
                                       nullptr) == kCuInvalidContext);
    HC_EXPECT(failed == SIZE_MAX);
    HC_EXPECT((*driver)->copy_batch_v2(nullptr, nullptr, nullptr, 1, nullptr, nullptr, 1,
                                       nullptr) == kCuInvalidContext);
    return 0;
  }));
}

TEST_CASE("a process that was forked after the driver started has no GPU") {
  CHECK(holds_in_child([] {
    HC_EXPECT(reason_of(double_library("libcuda.so.1")) == "loaded");
    return test::Child([] {
             HC_EXPECT(reason_of(double_library("libcuda.so.1")) ==
                       "no GPU: the driver was started before this process was forked "
                       "(cuInit answers 3)");
             return 0;
           }).wait();
  }));
}

TEST_CASE("an error names the call, the driver's word for it and the number") {
  CHECK(holds_in_child([] {
    const auto driver = CudaDriver::load(double_library("libcuda.so.1"));
    HC_EXPECT(driver);
    const Error known = driver->error("cuMemAlloc", 2);
    HC_EXPECT(known.code == Code::io_error);
    HC_EXPECT(known.text == "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)");
    HC_EXPECT(driver->error("cuMemAlloc", 4711).text ==
              "cuMemAlloc: an error without a name (4711)");
    return 0;
  }));
}

}  // namespace
}  // namespace hc
