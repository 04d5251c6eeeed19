// SPDX-License-Identifier: Apache-2.0
// refusals: a table of calls with one bad argument each, and what the line of each has to name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/hicache.h"
#include "support/catch.h"

namespace hc::test {

struct Refusal {
  const char* name;
  std::function<hicache_code(hicache_client*)> call;
  std::vector<std::string> words;  // field, value, what is allowed
};

inline void check_refusals(hicache_client* client, const std::vector<Refusal>& cases) {
  for (const Refusal& one : cases) {
    CAPTURE(one.name);
    CHECK(one.call(client) == HICACHE_BAD_ARGUMENT);
    const std::string line = hicache_last_error();
    CAPTURE(line);
    for (const std::string& word : one.words) {
      CAPTURE(word);
      CHECK(line.find(word) != std::string::npos);
    }
  }
}

}  // namespace hc::test
