// SPDX-License-Identifier: Apache-2.0
// measure_main: hc_gpu_measure, a table of what the driver and the device of this machine give.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpu/measure.h"

namespace hc::test {
namespace {

constexpr int kUsage = 64;

constexpr const char* kHelp =
    "Usage: hc_gpu_measure [--quick] [--json FILE]\n\n"
    "Measures copies, registrations, contexts and deaths on the driver that HC_GPU_LIBRARY names\n"
    "(without it: the stand-in of this build). docs/benchmarks.md explains the figures.\n\n"
    "  --quick      small and few samples: shows that it works\n"
    "  --json FILE  also write the figures as JSON\n\n"
    "Exit code 0: measured; 1: something failed; 64: the call was wrong.\n";

struct MeasureCall {
  MeasureSizes sizes;
  const char* json_path = nullptr;
};

// What a forked process has seen of the device, because this one loads no driver.
struct DeviceSeen {
  char name[128];
  int version;
  bool is_double;
};

bool look_at_device(DeviceSeen& seen) {
  return Child([&] {
           const auto bench = GpuBench::make();
           std::snprintf(seen.name, sizeof seen.name, "%s", bench->name.c_str());
           seen.version = bench->driver.version();
           seen.is_double = bench->is_double();
           return 0;
         }).wait() == 0;
}

bool write_json(const char* path, const std::vector<Figure>& figures, const DeviceSeen& seen) {
  nlohmann::json rows = figures_json(figures);
  for (nlohmann::json& row : rows) {
    row["device"] = seen.name;
  }
  std::ofstream file(path);
  file << rows.dump(2) << '\n';
  file.close();
  return !file.fail();
}

int run_measure(const MeasureCall& call) {
  DeviceSeen& seen = *reinterpret_cast<DeviceSeen*>(shared_memory(sizeof(DeviceSeen)));
  if (!look_at_device(seen)) {
    return 1;
  }
  if (seen.is_double) {
    std::printf("on the stand-in driver: these numbers mean nothing\n");
  } else {
    std::printf("on %s, driver version %d\n", seen.name, seen.version);
  }
  std::fflush(stdout);  // before processes are forked
  std::vector<Figure> figures;
  for (const auto measure : {measure_context, measure_registration, measure_stream_value,
                             measure_copies, measure_kill}) {
    measure(call.sizes, figures);
  }
  std::printf("%s", figures_text(figures).c_str());
  if (call.json_path != nullptr && !write_json(call.json_path, figures, seen)) {
    std::fprintf(stderr, "%s: can't be written\n", call.json_path);
    return 1;
  }
  const bool failed = std::any_of(figures.begin(), figures.end(), [](const Figure& figure) {
    return figure.spec.note.rfind("FAILED", 0) == 0;
  });
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace hc::test

int main(int argc, char** argv) {
  hc::test::MeasureCall call;
  for (int at = 1; at < argc; ++at) {
    if (std::strcmp(argv[at], "--help") == 0) {
      std::fputs(hc::test::kHelp, stdout);
      return 0;
    }
    if (std::strcmp(argv[at], "--quick") == 0) {
      call.sizes = hc::test::kQuickSizes;
    } else if (std::strcmp(argv[at], "--json") == 0 && at + 1 < argc) {
      call.json_path = argv[++at];
    } else {
      std::fputs(hc::test::kHelp, stderr);
      return hc::test::kUsage;
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
  return hc::test::run_measure(call);
}
