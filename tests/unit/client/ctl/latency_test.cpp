// SPDX-License-Identifier: Apache-2.0
// latency_test: percentiles from buckets.
#include "client/ctl/latency.h"

#include <type_traits>

#include "support/catch.h"

namespace hc {

static_assert(std::is_trivially_copyable_v<LatencyHistogram>, "it lies in shared memory");

TEST_CASE("an empty histogram has no percentiles", "[ctl]") {
  const LatencyHistogram histogram;
  CHECK(histogram.count() == 0);
  CHECK(histogram.percentile_ns(0.5) == 0);
  CHECK(histogram.max_ns() == 0);
}

TEST_CASE("percentiles are at most 3.2 percent too high, the largest is exact", "[ctl]") {
  LatencyHistogram histogram;
  for (std::uint64_t i = 1; i <= 10000; ++i) {
    histogram.add(i * 1000);
  }

  for (const double share : {0.01, 0.5, 0.9, 0.99}) {
    const double exact = share * 1e7;
    const auto found = static_cast<double>(histogram.percentile_ns(share));
    CHECK(found >= exact);
    CHECK(found <= exact * 1.032);
  }
  CHECK(histogram.max_ns() == 10000000);
  CHECK(histogram.percentile_ns(1.0) == 10000000);
}

TEST_CASE("small and huge samples have their buckets", "[ctl]") {
  LatencyHistogram histogram;
  histogram.add(0);
  histogram.add(31);
  histogram.add(32);
  histogram.add(~0ULL);

  CHECK(histogram.percentile_ns(0.25) == 0);
  CHECK(histogram.percentile_ns(0.5) == 31);
  CHECK(histogram.percentile_ns(0.75) == 32);
  CHECK(histogram.percentile_ns(1.0) == ~0ULL);
}

TEST_CASE("merging is as if all samples had been added to one", "[ctl]") {
  LatencyHistogram one;
  LatencyHistogram two;
  one.add(100);
  two.add(5000);
  two.add(7000);

  one.merge(two);

  CHECK(one.count() == 3);
  CHECK(one.max_ns() == 7000);
  CHECK(one.percentile_ns(0.3) <= 103);
  CHECK(one.percentile_ns(0.6) >= 5000);
}

}  // namespace hc
