// SPDX-License-Identifier: Apache-2.0
// fake_plan: reads the plan and counts calls.
#include "fake_plan.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace hc::fake {

FakePlan::FakePlan(const char* variable) {
  const char* const text = std::getenv(variable);
  std::istringstream list(text == nullptr ? "" : text);
  std::string item;
  while (std::getline(list, item, ',')) {
    const std::size_t equals = item.find('=');
    char* end = nullptr;
    const long value =
        equals == std::string::npos ? 0 : std::strtol(item.c_str() + equals + 1, &end, 10);
    if (end == nullptr || *end != '\0' || end == item.c_str() + equals + 1 || equals == 0) {
      std::fprintf(stderr, "%s: can't read \"%s\"\n", variable, item.c_str());
      std::abort();
    }
    items_[item.substr(0, equals)] = value;
  }
}

int FakePlan::on_call(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const long count = ++calls_[name];
  for (const std::string& key : {name + "@" + std::to_string(count), name, std::string("*")}) {
    const auto found = items_.find(key);
    if (found != items_.end()) {
      return static_cast<int>(found->second);
    }
  }
  return 0;
}

long FakePlan::setting(const std::string& name, long otherwise) const {
  const auto found = items_.find(name);
  return found == items_.end() ? otherwise : found->second;
}

long FakePlan::calls(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(name);
  return found == calls_.end() ? 0 : found->second;
}

}  // namespace hc::fake
