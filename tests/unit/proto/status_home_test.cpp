// SPDX-License-Identifier: Apache-2.0
// status_home_test: where a page lives in the status table.
#include <set>

#include "proto/status_table_layout.h"
#include "support/catch.h"

namespace hc::test {

// Worked out with Python's integers, not with this code.
TEST_CASE("status_home: known values") {
  CHECK(status_home({0, 0, 0, 0}, 1) == 0xad6ccce16d3d52eeU);
  CHECK(status_home({1, 2, 3, 4}, 0x0123456789ABCDEFU) == 0x3ba42b7dddae1c8cU);
  CHECK(status_home({1, 0, 0, 0}, 1) == 0xd6e8feb86659fd93U);
  CHECK(status_home({2, 0, 0, 0}, 1) == 0xeaf895191600690bU);
  CHECK(status_home({7, 2, 3, 4}, 0) == 7);
}

TEST_CASE("status_home: a change in any word moves the page, and so does another key") {
  std::set<std::uint64_t> homes;
  for (std::size_t word = 0; word < 4; ++word) {
    for (int bit = 0; bit < 64; ++bit) {
      std::uint64_t hash[4] = {11, 22, 33, 44};
      hash[word] ^= 1ULL << bit;
      homes.insert(status_home(hash, 5));
    }
  }
  homes.insert(status_home({11, 22, 33, 44}, 5));
  homes.insert(status_home({11, 22, 33, 44}, 6));
  CHECK(homes.size() == 258);
}

}  // namespace hc::test
