// SPDX-License-Identifier: Apache-2.0
// fake_plan: what a double is told to do wrong, and how often each of its calls was called.
//
// Owner thread: any; one mutex. A plan is a list, separated by commas:
//   NAME=CODE      each call of NAME answers CODE and does nothing else; `*` is every call
//   NAME@N=CODE    only the N-th call, counted from 1
//   SETTING=VALUE  a number that the double reads by name (README.md lists them)
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace hc::fake {

class FakePlan {
 public:
  // The plan of an environment variable, read once. A plan that can't be read ends the process:
  // a test that injects nothing by mistake would pass for the wrong reason.
  explicit FakePlan(const char* variable);

  // Counts the call. 0, or what this call is to answer instead of doing its work.
  int on_call(const std::string& name);
  long setting(const std::string& name, long otherwise) const;
  long calls(const std::string& name) const;

 private:
  std::map<std::string, long> items_;
  std::map<std::string, long> calls_;
  mutable std::mutex mutex_;
};

}  // namespace hc::fake

// What a double exports; everything else in it is hidden.
#define HC_FAKE_EXPORT extern "C" __attribute__((visibility("default")))
