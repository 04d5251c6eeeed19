// SPDX-License-Identifier: Apache-2.0
// micro_bench: pairs, folders and processes.
#include "client/ctl/micro_bench.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "proto/check.h"

namespace hc {

Result<void> MicroBench::step(const std::string& what, std::uint64_t done, std::uint64_t total) {
  if (interrupt_.raised()) {
    return make_error(Code::cancelled, "interrupted");
  }
  progress_.step(done, total, what);
  return {};
}

Result<std::vector<std::vector<Sample>>> MicroBench::pairs_of_many(const std::string& what,
                                                                   const MeasureMany& ours,
                                                                   const MeasureMany& limit) {
  std::vector<std::vector<Sample>> samples;
  const std::uint32_t total = plan_.pairs + 1;
  for (std::uint32_t i = 0; i < total; ++i) {
    HC_TRY_VOID(step(what, i, total));
    std::vector<double> values;
    std::vector<double> limits;
    for (const bool turn_of_limit : {i % 2 == 1, i % 2 == 0}) {
      if (turn_of_limit && !limit) {
        continue;
      }
      auto measured = turn_of_limit ? limit() : ours();
      HC_TRY(measured);
      (turn_of_limit ? limits : values) = std::move(*measured);
    }
    if (i == 0) {
      samples.resize(values.size());
      continue;
    }
    HC_CHECK(values.size() == samples.size());
    limits.resize(values.size());
    for (std::size_t metric = 0; metric < values.size(); ++metric) {
      const double bound = limits[metric];
      samples[metric].push_back({values[metric], bound > 0 ? std::optional(bound) : std::nullopt});
    }
  }
  return samples;
}

Result<std::vector<Sample>> MicroBench::pairs(const std::string& what, const Measure& ours,
                                              const Measure& limit) {
  const auto as_many = [](const Measure& one) -> MeasureMany {
    if (!one) {
      return nullptr;
    }
    return [&one]() -> Result<std::vector<double>> {
      auto measured = one();
      HC_TRY(measured);
      return std::vector<double>{*measured};
    };
  };
  auto samples = pairs_of_many(what, as_many(ours), as_many(limit));
  HC_TRY(samples);
  return std::move(samples->front());
}

void MicroBench::add(FigureSpec spec, const std::vector<Sample>& samples) {
  if (plan_.wants(spec.name)) {
    add(make_figure(std::move(spec), samples));
  }
}

PrivateDaemonOptions MicroBench::daemon_options(const std::string& name) const {
  PrivateDaemonOptions out;
  out.binary = find_hicached(options_.hicached);
  out.folder = folder_ + "/" + name;
  out.disk_backend = options_.disk_backend;
  out.commit_interval_ms = 2000;
  return out;
}

MicroDaemon::MicroDaemon(const MicroBench& bench, PrivateDaemonOptions options)
    : folder_(options.folder), process_(std::move(options), bench.interrupt()) {}

MicroDaemon::~MicroDaemon() {
  process_.kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Result<void> MicroDaemon::make_folder() const {
  std::error_code error;
  std::filesystem::create_directory(folder_, error);
  return error ? Result<void>(make_error(Code::io_error, folder_, error.value())) : Result<void>();
}

Result<std::string> MicroDaemon::slab_file() const {
  std::error_code error;
  std::string largest;
  std::uintmax_t size = 0;
  using Walk = std::filesystem::recursive_directory_iterator;
  for (const auto& entry : Walk(folder_ + "/volume", error)) {
    const bool index = entry.path().filename().string().find(".mdb") != std::string::npos;
    if (entry.is_regular_file(error) && !index && entry.file_size(error) >= size) {
      size = entry.file_size(error);
      largest = entry.path().string();
    }
  }
  if (largest.empty()) {
    return make_error(Code::not_found, folder_ + "/volume: there is no slab file");
  }
  return largest;
}

Result<double> MicroDaemon::cpu_s() const {
  clockid_t clock = 0;
  timespec used{};
  if (::clock_getcpuclockid(process_.pid(), &clock) != 0 || ::clock_gettime(clock, &used) != 0) {
    return make_error(Code::io_error, "the processor time of the daemon", errno);
  }
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

std::string short_bytes(std::uint64_t size_bytes) {
  const double mib = static_cast<double>(size_bytes) / (1 << 20);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), mib < 1 ? "%.0fKiB" : "%.3gMiB",
                mib < 1 ? mib * 1024 : mib);
  return text.data();
}

}  // namespace hc
