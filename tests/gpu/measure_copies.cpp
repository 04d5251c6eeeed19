// SPDX-License-Identifier: Apache-2.0
// measure_copies: what a lane of the product moves, beside one plain copy of as many bytes.
#include <algorithm>
#include <cstring>
#include <string>

#include "gpu/lane_bench.h"
#include "gpu/measure.h"

namespace hc::test {
namespace {

constexpr std::uint64_t kJobBytes = 8 << 20;
constexpr std::uint64_t kRunKiB[] = {4, 16, 28, 64, 256, 1024, 2048, 8192};
constexpr std::uint8_t kMark = 0x5A;
constexpr double kGiB = 1024.0 * 1024 * 1024;

struct CopyCase {
  std::uint64_t run_bytes;
  bool to_device;
};

// Two buffers of the device, of whoever made them, and as much pinned memory.
struct CopyPlaces {
  CuAddress scattered;   // twice the bytes of a sample
  CuAddress contiguous;
  void* pinned;
};

// Jobs of whole runs; in the device one run is followed by a gap of its length.
std::vector<std::vector<CopyRun>> make_jobs(std::uint64_t run_bytes, std::uint64_t copy_bytes) {
  const std::uint64_t runs_a_job = std::max<std::uint64_t>(1, kJobBytes / run_bytes);
  std::vector<std::vector<CopyRun>> jobs;
  std::uint64_t at = 0;
  while ((jobs.size() + 1) * kJobBytes <= copy_bytes) {
    std::vector<CopyRun>& job = jobs.emplace_back();
    for (std::uint64_t run = 0; run < runs_a_job; ++run) {
      job.push_back({at, run_bytes});
      at += 2 * run_bytes;
    }
  }
  return jobs;
}

class CopyPairs {
 public:
  CopyPairs(const GpuBench& bench, Frames& frames, const CopyPlaces& places)
      : bench_(bench),
        frames_(frames),
        places_(places),
        lanes_(bench, frames, kJobBytes),
        mapping_(lanes_.map(places.scattered, 2 * frames.bytes().size())) {}

  // False: a copy failed, or bytes did not arrive.
  bool run(const CopyCase& of, std::size_t pairs, Series& out) {
    const auto jobs = make_jobs(of.run_bytes, frames_.bytes().size());
    const double bytes =
        static_cast<double>(jobs.size() * jobs[0].size()) * static_cast<double>(of.run_bytes);
    mark(of);
    for (std::size_t pair = 0; pair <= pairs; ++pair) {
      const bool ours_first = pair % 2 == 0;
      double ours = ours_first ? time_lane(of, jobs) : 0;
      const double limit = time_plain(of, static_cast<std::size_t>(bytes));
      ours = ours_first ? ours : time_lane(of, jobs);
      if (ours <= 0 || limit <= 0) {
        return false;
      }
      if (pair > 0) {  // the first warms up
        out.add(bytes / kGiB / ours, bytes / kGiB / limit);
      }
    }
    return true;
  }

 private:
  // Seconds; 0: it failed.
  double time_lane(const CopyCase& of, const std::vector<std::vector<CopyRun>>& jobs) {
    const double begin = seconds_now();
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      lanes_.put(of.to_device, frames_.begin() + job * kJobBytes, jobs[job], mapping_);
    }
    const bool ended = lanes_.wait(jobs.size());
    const double took = seconds_now() - begin;
    return ended && arrived(of, jobs) ? took : 0;
  }

  double time_plain(const CopyCase& of, std::size_t bytes) {
    const auto& driver = bench_.driver;
    const double begin = seconds_now();
    const CuResult result =
        of.to_device
            ? driver->copy_to_device(places_.contiguous, places_.pinned, bytes, bench_.stream)
            : driver->copy_to_host(places_.pinned, places_.contiguous, bytes, bench_.stream);
    return result == kCuSuccess && bench_.settled() == kCuSuccess ? seconds_now() - begin : 0;
  }

  // What is copied has the mark, where it goes has none.
  void mark(const CopyCase& of) {
    HC_CHECK(bench_.fill(places_.scattered, of.to_device ? 0 : kMark,
                         2 * frames_.bytes().size()));
    std::memset(frames_.begin(), of.to_device ? kMark : 0, frames_.bytes().size());
  }

  bool arrived(const CopyCase& of, const std::vector<std::vector<CopyRun>>& jobs) {
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const CopyRun& last = jobs[job].back();
      const std::uint8_t* const frame = frames_.begin() + job * kJobBytes;
      const std::uint64_t payload = jobs[job].size() * last.size_bytes;
      const CuAddress end = places_.scattered + last.address + last.size_bytes - 1;
      if (of.to_device ? bench_.byte_at(end) != kMark : frame[payload - 1] != kMark) {
        return false;
      }
    }
    return true;
  }

  const GpuBench& bench_;
  Frames& frames_;
  CopyPlaces places_;
  LaneBench lanes_;
  CudaMappingPtr mapping_;
};

// Where the copying process gets its device memory from: its own, or that of another.
int export_scattered(FakeLine& line, std::size_t bytes) {
  line.be_child();
  const auto bench = GpuBench::make();
  CuIpcMemHandle handle = {};
  HC_EXPECT(bench->driver->ipc_get_mem(&handle, bench->new_memory(bytes)) == 0);
  ::alarm(0);  // it ends with its parent
  line.send(handle);
  line.wait();
  return 0;
}

int copy_all(FakeLine* line, std::size_t bytes, std::size_t pairs, Series* const* series) {
  const auto bench = GpuBench::make();
  Frames frames(bytes);
  CopyPlaces places = {0, bench->new_memory(bytes), nullptr};
  HC_EXPECT(bench->driver->host_alloc(&places.pinned, bytes, kCuHostPortable) == 0);
  if (line == nullptr) {
    places.scattered = bench->new_memory(2 * bytes);
  } else {
    CuIpcMemHandle handle = {};
    HC_EXPECT(line->receive(handle));
    HC_EXPECT(bench->driver->ipc_open_mem(&places.scattered, handle, kCuIpcLazyPeerAccess) == 0);
  }
  CopyPairs copies(*bench, frames, places);
  for (const bool to_device : {true, false}) {
    for (const std::uint64_t run : kRunKiB) {
      ::alarm(kHangSeconds);
      HC_EXPECT(copies.run({run << 10, to_device}, pairs, **series));
      ++series;
    }
  }
  return 0;
}

std::string run_text(std::uint64_t kib) {
  return "run=" + (kib < 1024 ? std::to_string(kib) + "KiB" : std::to_string(kib >> 10) + "MiB");
}

}  // namespace

void measure_copies(const MeasureSizes& sizes, std::vector<Figure>& figures) {
  for (const bool is_ipc : {false, true}) {
    std::vector<Series*> series;
    for (std::size_t at = 0; at < 2 * std::size(kRunKiB); ++at) {
      series.push_back(&Series::make());
    }
    bool well = false;
    if (is_ipc) {
      FakeLine line;
      Child exporter([&] { return export_scattered(line, 2 * sizes.copy_bytes); });
      line.be_parent();
      Child copier([&] { return copy_all(&line, sizes.copy_bytes, sizes.pairs, series.data()); });
      well = copier.wait() == 0;
    } else {
      well = Child([&] {
               return copy_all(nullptr, sizes.copy_bytes, sizes.pairs, series.data());
             }).wait() == 0;
    }
    std::size_t at = 0;
    for (const char* name : {"gpu_h2d", "gpu_d2h"}) {
      for (const std::uint64_t run : kRunKiB) {
        const std::string params = run_text(run) + (is_ipc ? ",mode=ipc" : ",mode=rank");
        figures.push_back(figure_of({name, params, "GiB/s", {}}, *series[at], well));
        ++at;
      }
    }
  }
}

}  // namespace hc::test
