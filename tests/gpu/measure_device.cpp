// SPDX-License-Identifier: Apache-2.0
// measure_device: what a registration, a context, a word from a stream and a death take.
#include <poll.h>
#include <sys/syscall.h>

#include <csignal>

#include "gpu/lane_bench.h"
#include "gpu/measure.h"
#include "shm/unique_fd.h"

namespace hc::test {
namespace {

constexpr double kMiB = 1024.0 * 1024;
constexpr std::uint64_t kFrameBytes = 8 << 20;
constexpr std::size_t kRegistrations = 3;
constexpr std::size_t kValues = 200;

// Each time in new pages that are there already, as those of the pool are.
int register_all(std::size_t bytes, bool huge_pages, Series& in, Series& out) {
  const auto bench = GpuBench::make();
  for (std::size_t run = 0; run < kRegistrations; ++run) {
    Frames frames(bytes, huge_pages);
    if (frames.huge_pages() != huge_pages) {
      return 0;  // none are free
    }
    HostRegistry registry;
    const double gib = static_cast<double>(bytes) / kMiB / 1024;
    const double begin = seconds_now();
    HC_EXPECT(registry.add(bench->driver, frames.bytes(), kFrameBytes));
    const double added = seconds_now();
    HC_EXPECT(registry.bytes() == bytes);
    registry.drop(bench->driver, frames.bytes());
    in.add((added - begin) / gib);
    out.add((seconds_now() - added) / gib);
  }
  return 0;
}

// Makes a context and nothing else, each time it is told to.
int hold_context(FakeLine& line) {
  line.be_child();
  HC_EXPECT(line.wait());
  ::alarm(kHangSeconds);
  const auto driver = CudaDriver::load(gpu_library());
  HC_EXPECT(driver);
  auto context = PrimaryContext::retain(*driver, 0);
  HC_EXPECT(context);
  const CurrentContext current(*context);
  context->keep_for_good();
  line.go();
  line.wait();
  return 0;
}

std::size_t free_now(const GpuBench& bench) {
  std::size_t free = 0;
  std::size_t total = 0;
  HC_CHECK(bench.driver->mem_info(&free, &total) == kCuSuccess);
  return free;
}

int watch_context(Series& series) {
  FakeLine line;
  Child other([&] { return hold_context(line); });
  line.be_parent();
  const auto bench = GpuBench::make();
  const std::size_t before = free_now(*bench);
  line.go();
  HC_EXPECT(line.wait());
  const std::size_t after = free_now(*bench);
  line.go();
  HC_EXPECT(other.wait() == 0);
  series.add((static_cast<double>(before) - static_cast<double>(after)) / kMiB);
  return 0;
}

// From the call to the word, beside from the record of an event to its being reached.
int time_values(Series& series) {
  const auto bench = GpuBench::make();
  const auto& driver = bench->driver;
  auto* const word = reinterpret_cast<std::uint64_t*>(shared_memory(4096));
  CuAddress seen = 0;
  HC_EXPECT(driver->host_register(word, 4096, kCuHostPortable | kCuHostDeviceMap) == 0);
  HC_EXPECT(driver->host_device_pointer(&seen, word, 0) == 0);
  if (driver->stream_write_value64 == nullptr ||
      driver->stream_write_value64(bench->stream, seen, 1, 0) != kCuSuccess) {
    return 0;
  }
  const CuEvent event = bench->new_event();
  for (std::uint64_t value = 2; value < kValues + 2; ++value) {
    HC_EXPECT(bench->settled() == kCuSuccess);
    const double begin = seconds_now();
    HC_EXPECT(driver->stream_write_value64(bench->stream, seen, value, 0) == 0);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
      ::sched_yield();
    }
    const double written = seconds_now() - begin;
    HC_EXPECT(bench->settled() == kCuSuccess);
    const double record = seconds_now();
    HC_EXPECT(driver->event_record(event, bench->stream) == 0);
    HC_EXPECT(bench->settled(event) == kCuSuccess);
    series.add(written * 1e6, (seconds_now() - record) * 1e6);
  }
  return 0;
}

// Copies to the frames for ever, each time other bytes, two copies queued ahead.
int copy_until_killed(Frames& frames) {
  const auto bench = GpuBench::make();
  const auto& driver = bench->driver;
  const std::size_t bytes = frames.bytes().size();
  const CuAddress memory = bench->new_memory(bytes);
  HC_EXPECT(driver->host_register(frames.begin(), bytes, kCuHostPortable) == 0);
  const CuEvent events[2] = {bench->new_event(), bench->new_event()};
  for (std::size_t copy = 1;; ++copy) {
    const auto value = static_cast<unsigned char>(1 + copy % 255);
    HC_EXPECT(bench->settled(events[copy % 2]) == kCuSuccess);
    HC_EXPECT(driver->memset_async(memory, value, bytes, bench->stream) == 0);
    HC_EXPECT(driver->copy_to_host(frames.begin(), memory, bytes, bench->stream) == 0);
    HC_EXPECT(driver->event_record(events[copy % 2], bench->stream) == 0);
    ::alarm(kHangSeconds);
  }
}

// A byte of each stretch of a few pages, as last seen.
class Watch {
 public:
  static constexpr std::size_t kStride = 16 << 10;

  explicit Watch(Frames& frames) : frames_(frames), seen_(frames.bytes().size() / kStride) {}

  // True: something has changed since the last look.
  bool look() {
    bool changed = false;
    for (std::size_t at = 0; at < seen_.size(); ++at) {
      const std::uint8_t now = __atomic_load_n(frames_.begin() + at * kStride, __ATOMIC_RELAXED);
      changed = changed || now != seen_[at];
      seen_[at] = now;
    }
    return changed;
  }

 private:
  Frames& frames_;
  std::vector<std::uint8_t> seen_;
};

struct KillSeries {
  Series& write;  // ms from the kill to the last write that was seen
  Series& ended;  // ms from the kill until the pidfd said so
};

bool kill_once(const MeasureSizes& sizes, const KillSeries& series) {
  Frames frames(sizes.kill_bytes);
  Child copier([&] { return copy_until_killed(frames); });
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, copier.pid(), 0)));
  HC_CHECK(pidfd.get() >= 0);
  pollfd end = {pidfd.get(), POLLIN, 0};
  Watch watch(frames);
  for (int changes = 0; changes < 50;) {
    changes += watch.look() ? 1 : 0;
    if (::poll(&end, 1, 0) != 0) {
      return false;  // it failed before
    }
  }
  const double begin = seconds_now();
  ::kill(copier.pid(), SIGKILL);
  double last = begin;
  double ended = 0;
  const double quiet = static_cast<double>(sizes.quiet_ms) / 1000;
  while (ended <= 0 || seconds_now() < ended + quiet) {
    last = watch.look() ? seconds_now() : last;
    ended = ended <= 0 && ::poll(&end, 1, 0) == 1 ? seconds_now() : ended;
  }
  series.write.add((last - begin) * 1000);
  series.ended.add((ended - begin) * 1000);
  return copier.wait() == -SIGKILL;
}

}  // namespace

void measure_registration(const MeasureSizes& sizes, std::vector<Figure>& figures) {
  for (const bool huge_pages : {false, true}) {
    Series& in = Series::make();
    Series& out = Series::make();
    const bool well =
        Child([&] { return register_all(sizes.pinned_bytes, huge_pages, in, out); }).wait() == 0;
    const std::string params = huge_pages ? "pages=2MiB" : "pages=4KiB";
    figures.push_back(figure_of({"gpu_register", params, "s/GiB", {}}, in, well));
    figures.push_back(figure_of({"gpu_unregister", params, "s/GiB", {}}, out, well));
  }
}

void measure_context(const MeasureSizes&, std::vector<Figure>& figures) {
  Series& series = Series::make();
  bool well = true;
  for (std::size_t run = 0; run < kRegistrations; ++run) {
    well = Child([&] { return watch_context(series); }).wait() == 0 && well;
  }
  figures.push_back(figure_of({"gpu_context", "device memory", "MiB", {}}, series, well));
}

void measure_stream_value(const MeasureSizes&, std::vector<Figure>& figures) {
  Series& series = Series::make();
  const bool well = Child([&] { return time_values(series); }).wait() == 0;
  figures.push_back(figure_of({"gpu_stream_value", "limit=event", "us", {}}, series, well));
}

void measure_kill(const MeasureSizes& sizes, std::vector<Figure>& figures) {
  const KillSeries series{Series::make(), Series::make()};
  Series& beyond = Series::make();
  bool well = true;
  for (std::size_t run = 0; run < sizes.kills && well; ++run) {
    well = kill_once(sizes, series);
  }
  for (std::size_t run = 0; run < series.write.count; ++run) {
    beyond.add(series.write.value[run] - series.ended.value[run]);
  }
  figures.push_back(figure_of({"gpu_kill_write", "kill to last write", "ms", {}}, series.write,
                              well));
  figures.push_back(figure_of({"gpu_kill_pidfd", "kill to pidfd", "ms", {}}, series.ended, well));
  figures.push_back(figure_of({"gpu_kill_beyond", "pidfd to last write", "ms", {}}, beyond, well));
}

}  // namespace hc::test
