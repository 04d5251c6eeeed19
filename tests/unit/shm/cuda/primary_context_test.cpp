// SPDX-License-Identifier: Apache-2.0
// primary_context_test: who retains releases, who pushes pops, and failures hold nothing.
#include "shm/cuda/primary_context.h"

#include "support/catch.h"
#include "support/doubles.h"

namespace hc {
namespace {

using test::cuda_count;

Result<CudaDriver> context_driver(const char* plan) {
  test::plan_double("HC_FAKE_CUDA", plan);
  return CudaDriver::load(test::double_library("libcuda.so.1"));
}

TEST_CASE("a share in a context is given back, even after it moved") {
  CHECK(test::holds_in_child([] {
    const auto driver = context_driver("");
    HC_EXPECT(driver);
    {
      auto context = PrimaryContext::retain(*driver, 0);
      HC_EXPECT(context);
      const PrimaryContext moved(std::move(*context));
      HC_EXPECT(cuda_count("retains") == 1);
    }
    HC_EXPECT(cuda_count("retains") == 0);
    HC_EXPECT(cuda_count("cuDevicePrimaryCtxRelease") == 1);
    return 0;
  }));
}

TEST_CASE("a share that is kept for good is not given back") {
  CHECK(test::holds_in_child([] {
    const auto driver = context_driver("");
    HC_EXPECT(driver);
    {
      auto context = PrimaryContext::retain(*driver, 0);
      HC_EXPECT(context);
      context->keep_for_good();
    }
    HC_EXPECT(cuda_count("retains") == 1);
    return 0;
  }));
}

TEST_CASE("a context is current within its scope only, and what was current comes back") {
  CHECK(test::holds_in_child([] {
    const auto driver = context_driver("");
    HC_EXPECT(driver);
    const auto context = PrimaryContext::retain(*driver, 0);
    HC_EXPECT(context);
    CuStream stream = nullptr;
    HC_EXPECT((*driver)->stream_create(&stream, kCuStreamNonBlocking, 0) == 201);
    {
      const CurrentContext outer(*context);
      {
        const CurrentContext inner(*context);
        HC_EXPECT(inner.result() == kCuSuccess);
      }
      HC_EXPECT((*driver)->stream_create(&stream, kCuStreamNonBlocking, 0) == kCuSuccess);
      HC_EXPECT((*driver)->stream_destroy(stream) == kCuSuccess);
    }
    HC_EXPECT((*driver)->stream_query(stream) == 201);
    return 0;
  }));
}

TEST_CASE("a push that failed says so and pops nothing") {
  CHECK(test::holds_in_child([] {
    const auto driver = context_driver("cuCtxPushCurrent=700");
    HC_EXPECT(driver);
    const auto context = PrimaryContext::retain(*driver, 0);
    HC_EXPECT(context);
    {
      const CurrentContext current(*context);
      HC_EXPECT(current.result() == 700);
    }
    HC_EXPECT(cuda_count("cuCtxPopCurrent") == 0);
    return 0;
  }));
}

TEST_CASE("a device that is not there, and one that refuses, is an error with a line") {
  CHECK(test::holds_in_child([] {
    const auto driver = context_driver("devices=2,cuDevicePrimaryCtxRetain=2,cuDeviceGet@2=1");
    HC_EXPECT(driver);
    const auto beyond = PrimaryContext::retain(*driver, 2);
    HC_EXPECT(!beyond && beyond.error().code == Code::bad_argument);
    HC_EXPECT(beyond.error().text == "device = 2: must be 0..1");
    HC_EXPECT(!PrimaryContext::retain(*driver, -1));
    const auto refused = PrimaryContext::retain(*driver, 1);
    HC_EXPECT(!refused && refused.error().code == Code::io_error);
    HC_EXPECT(refused.error().text == "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2)");
    const auto lost = PrimaryContext::retain(*driver, 1);
    HC_EXPECT(!lost && lost.error().text == "cuDeviceGet: CUDA_ERROR_INVALID_VALUE (1)");
    HC_EXPECT(cuda_count("retains") == 0);
    return 0;
  }));
}

}  // namespace
}  // namespace hc
