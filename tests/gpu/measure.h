// SPDX-License-Identifier: Apache-2.0
// measure: what hc_gpu_measure measures, one function for each group of figures.
//
// Owner thread: the program's only one. Each group runs in forked processes, which load the driver;
// their samples come back through memory that they share with the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/micro_figure.h"
#include "gpu/gpu_bench.h"

namespace hc::test {

struct MeasureSizes {
  std::size_t pairs = 20;
  std::size_t copy_bytes = std::size_t{256} << 20;    // of one sample
  std::size_t pinned_bytes = std::size_t{1} << 30;    // of one registration
  std::size_t kill_bytes = std::size_t{64} << 20;     // of one copy that is killed
  std::size_t kills = 5;
  std::uint64_t quiet_ms = 1000;                      // watched after the end of a process
};
inline constexpr MeasureSizes kQuickSizes{2, std::size_t{8} << 20, std::size_t{16} << 20,
                                          std::size_t{1} << 20, 2, 50};

// Samples of a few figures, in shared memory.
struct Series {
  static constexpr std::size_t kMax = 4096;
  std::size_t count;
  double value[kMax];
  double limit[kMax];  // 0: none

  static Series& make() { return *reinterpret_cast<Series*>(shared_memory(sizeof(Series))); }
  void add(double of_ours, double of_limit = 0) {
    HC_CHECK(count < kMax);
    value[count] = of_ours;
    limit[count] = of_limit;
    ++count;
  }
  std::vector<Sample> samples() const {
    std::vector<Sample> all;
    for (std::size_t at = 0; at < count; ++at) {
      all.push_back({value[at], limit[at] > 0 ? std::optional(limit[at]) : std::nullopt});
    }
    return all;
  }
};

// A figure of the samples of a process; of one that failed, the figure that says so.
inline Figure figure_of(FigureSpec spec, const Series& series, bool ended_well) {
  if (!ended_well) {
    spec.note = "FAILED: its process did not end well";
  } else if (series.count == 0 && spec.note.empty()) {
    spec.note = "not measured: the driver or the machine does not offer it";
  }
  return make_figure(std::move(spec), ended_well ? series.samples() : std::vector<Sample>());
}

// Seconds of a steady clock.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void measure_copies(const MeasureSizes& sizes, std::vector<Figure>& figures);
void measure_registration(const MeasureSizes& sizes, std::vector<Figure>& figures);
void measure_context(const MeasureSizes& sizes, std::vector<Figure>& figures);
void measure_stream_value(const MeasureSizes& sizes, std::vector<Figure>& figures);
void measure_kill(const MeasureSizes& sizes, std::vector<Figure>& figures);

}  // namespace hc::test
