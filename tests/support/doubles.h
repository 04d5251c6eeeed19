// SPDX-License-Identifier: Apache-2.0
// doubles: what a forked process of a test does with the stand-in libraries.
//
// Only in a forked process: a library that was loaded stays loaded, and its plan is read once.
#pragma once

#include <dlfcn.h>
#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "support/child.h"
#include "support/paths.h"

// In a forked process: says what did not hold, and ends with 1. Checks of Catch2 are of no use
// there, because they report to the copy of a runner.
#define HC_EXPECT(expression)                                                       \
  do {                                                                              \
    if (!(expression)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #expression); \
      return 1;                                                                     \
    }                                                                               \
  } while (false)

namespace hc::test {

inline void plan_double(const char* variable, const std::string& plan) {
  ::setenv(variable, plan.c_str(), 1);
}

// What a double that this process has loaded counts (tests/doubles/README.md); -1: not loaded.
[[nodiscard]] inline long double_count(const char* library, const char* counter,
                                       const char* what) {
  void* const handle = ::dlopen(double_library(library).c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) {
    return -1;
  }
  const auto count = reinterpret_cast<long (*)(const char*)>(::dlsym(handle, counter));
  return count == nullptr ? -1 : count(what);
}
[[nodiscard]] inline long cuda_count(const char* what) {
  return double_count("libcuda.so.1", "hc_fake_cuda_count", what);
}
[[nodiscard]] inline long nccl_count(const char* what) {
  return double_count("libnccl.so.2", "hc_fake_nccl_count", what);
}

// What the stand-in driver of another process counts, alive or dead, if that process was given
// HC_FAKE_CUDA_REPORT=`folder`; -1: it has not started the driver, or counts no such thing.
[[nodiscard]] inline long cuda_report(const std::string& folder, pid_t pid,
                                      const std::string& what) {
  struct {
    char name[24];
    std::int64_t value;
  } record = {};
  std::ifstream file(folder + "/" + std::to_string(pid), std::ios::binary);
  while (file.read(reinterpret_cast<char*>(&record), sizeof record)) {
    if (what == record.name) {
      return static_cast<long>(record.value);
    }
  }
  return -1;
}

// True if `code` ran to its end in a forked process and all that it expects is so.
template <typename Code>
[[nodiscard]] bool holds_in_child(Code&& code) {
  return Child(code).wait() == 0;
}

}  // namespace hc::test
