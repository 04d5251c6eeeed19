// SPDX-License-Identifier: Apache-2.0
// micro_disk: spill and reload of large pages beside fio, and the processor time of a reload.
#include <algorithm>
#include <optional>
#include <random>

#include "client/ctl/fio_run.h"
#include "client/ctl/micro_bench.h"
#include "client/ctl/micro_client.h"
#include "client/ctl/micro_limits.h"
#include "client/ctl/monotonic.h"
#include "proto/budget.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::uint64_t kOpBytes = 8ULL << 20;
constexpr std::uint32_t kOpsMax = 24;            // twice the daemon's bytes in flight
constexpr std::uint64_t kInflightBytes = 96ULL << 20;  // the daemon's default
constexpr std::uint64_t kL2Bytes = 256ULL << 20;
constexpr double kDiskGiB = 1ULL << 30;

double disk_seconds(std::uint64_t elapsed_ns) { return static_cast<double>(elapsed_ns) / 1e9; }

// One payload size: a daemon, its store filled once, and a file of the same kind for fio.
class DiskBench {
 public:
  DiskBench(MicroBench& bench, std::uint32_t payload_bytes)
      : bench_(bench),
        payload_bytes_(payload_bytes),
        space_(micro_space(payload_bytes, false)),
        sample_pages_(std::max<std::uint64_t>(1, bench.plan().disk_sample_bytes / payload_bytes)),
        live_pages_(2 * sample_pages_ + 2 * kL2Bytes / payload_bytes),
        reserve_(static_cast<std::uint32_t>(sample_pages_ + sample_pages_ / 4)) {}

  Result<void> run() {
    HC_TRY_VOID(prepare());
    HC_TRY_VOID(measure_spill());
    return measure_reload();
  }

 private:
  std::uint64_t slot_bytes() const {
    return round_up(payload_bytes_, kBlockBytes) + kBlockBytes;
  }
  std::string params() const { return "payload=" + short_bytes(payload_bytes_); }
  std::string limit_file() const { return daemon_->path() + "/limit.dat"; }
  std::uint32_t depth() const {
    return static_cast<std::uint32_t>((kInflightBytes + slot_bytes() - 1) / slot_bytes());
  }
  MicroFlow flow(std::uint8_t verb) const {
    MicroFlow out;
    out.verb = verb;
    out.count = sample_pages_;
    out.pages_per_op = static_cast<std::uint32_t>(std::max<std::uint64_t>(
        1, kOpBytes / payload_bytes_));
    out.ops_max = kOpsMax;
    return out;
  }

  Result<void> prepare();
  Result<double> store(std::uint64_t pages);
  Result<std::vector<double>> reload();
  Result<FioResult> fio(const std::string& file, const char* rw, std::uint64_t span_bytes);
  Result<double> fio_write();
  Result<void> measure_spill();
  Result<void> measure_reload();

  MicroBench& bench_;
  std::uint32_t payload_bytes_;
  SpaceDescriptor space_;
  std::uint64_t sample_pages_;
  std::uint64_t live_pages_;
  std::uint32_t reserve_;
  std::optional<MicroDaemon> daemon_;
  std::unique_ptr<MicroClient> client_;
  std::uint64_t next_page_ = 0;
  std::vector<std::uint64_t> order_;   // of reloads
  std::size_t reloaded_ = 0;
};

// Every slot that is used later has been written before, and so has every byte of fio's file: a
// first write of preallocated space costs the file system more than the ones after it.
Result<void> DiskBench::prepare() {
  PrivateDaemonOptions options = bench_.daemon_options("disk");
  options.l2_bytes = std::max(kL2Bytes, 48 * slot_bytes());
  options.reserve_slots = reserve_;
  options.l3_bytes = slab_bytes(slots_for_pages(space_, 0, live_pages_, reserve_));
  daemon_.emplace(bench_, options);
  HC_TRY_VOID(daemon_->make_folder());
  HC_TRY_VOID(daemon_->process().start());
  const auto rows = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(4, (256ULL << 20) / payload_bytes_));
  auto client = MicroClient::open(daemon_->socket(), space_, {.rows = rows});
  HC_TRY(client);
  client_ = std::move(*client);
  HC_TRY_VOID(bench_.step("filling the store, " + params(), 0, 1));
  auto filled = store(live_pages_ + 2 * reserve_);
  HC_TRY(filled);
  if (bench_.fio_missing().empty()) {
    auto written = fio_write();
    HC_TRY(written);
  }
  return {};
}

// Payload bytes a second until all of them are durable.
Result<double> DiskBench::store(std::uint64_t pages) {
  MicroFlow stores = flow(HICACHE_VERB_STORE);
  stores.ack = HICACHE_ACK_WRITTEN;
  stores.count = pages;
  const std::uint64_t first = next_page_;
  stores.page = [first](std::uint64_t at) { return first + at; };
  next_page_ += pages;
  const std::uint64_t begin_ns = monotonic_ns();
  auto totals = client_->run(stores);
  HC_TRY(totals);
  HC_TRY_VOID(client_->flush());
  const double elapsed_s = disk_seconds(monotonic_ns() - begin_ns);
  return static_cast<double>(pages * payload_bytes_) / elapsed_s / kDiskGiB;
}

Result<std::vector<double>> DiskBench::reload() {
  MicroFlow reloads = flow(HICACHE_VERB_RELOAD);
  reloads.page = [this](std::uint64_t at) { return order_[(reloaded_ + at) % order_.size()]; };
  auto before = daemon_->cpu_s();
  HC_TRY(before);
  auto totals = client_->run(reloads);
  HC_TRY(totals);
  auto after = daemon_->cpu_s();
  HC_TRY(after);
  reloaded_ = (reloaded_ + sample_pages_) % order_.size();
  const double gib = static_cast<double>(totals->pages_from_l3 * payload_bytes_) / kDiskGiB;
  if (totals->pages_from_l3 < sample_pages_ / 2) {
    return make_error(Code::io_error, "reload: most pages were in memory still");
  }
  return std::vector<double>{gib / disk_seconds(totals->elapsed_ns), (*after - *before) / gib};
}

Result<FioResult> DiskBench::fio(const std::string& file, const char* rw,
                                 std::uint64_t span_bytes) {
  FioJob job;
  job.file = file;
  job.rw = rw;
  job.offset_bytes = 1ULL << 20;
  job.span_bytes = span_bytes / slot_bytes() * slot_bytes();
  job.runtime_ms = bench_.plan().fio_ms;
  job.block_bytes = slot_bytes();
  job.depth = depth();
  return run_fio(bench_.options().fio, job, bench_.interrupt());
}

// As with ours, the bytes count when they survive a power cut.
Result<double> DiskBench::fio_write() {
  auto result = fio(limit_file(), "write", sample_pages_ * slot_bytes());
  HC_TRY(result);
  auto synced_ns = time_fdatasync(limit_file());
  HC_TRY(synced_ns);
  return result->bytes / (result->elapsed_s + disk_seconds(*synced_ns)) / kDiskGiB;
}

Result<void> DiskBench::measure_spill() {
  if (!bench_.plan().wants("spill")) {
    return {};
  }
  const MicroBench::Measure limit = [this] { return fio_write(); };
  auto samples = bench_.pairs("spill, " + params(), [this] { return store(sample_pages_); },
                              bench_.fio_missing().empty() ? limit : nullptr);
  HC_TRY(samples);
  bench_.add({"spill", params(), "GiB/s", Goal{Goal::Of::ratio, Goal::Sense::at_least, 0.90},
              bench_.fio_missing()},
             *samples);
  return {};
}

Result<void> DiskBench::measure_reload() {
  if (!bench_.plan().wants("reload") && !bench_.plan().wants("reload_cpu")) {
    return {};
  }
  for (std::uint64_t i = 0; i < live_pages_ - sample_pages_; ++i) {
    order_.push_back(next_page_ - 1 - i);
  }
  std::shuffle(order_.begin(), order_.end(), std::minstd_rand(7));
  auto slab = daemon_->slab_file();
  HC_TRY(slab);
  // The rate, and what the processors had to do for it.
  const MicroBench::MeasureMany ours = [this] { return reload(); };
  const MicroBench::MeasureMany limit = [&]() -> Result<std::vector<double>> {
    auto result = fio(*slab, "randread", live_pages_ * slot_bytes());
    HC_TRY(result);
    const double gib = result->bytes / kDiskGiB;
    return std::vector<double>{gib / result->elapsed_s, result->cpu_s / gib};
  };
  auto samples = bench_.pairs_of_many("reload, " + params(), ours,
                                      bench_.fio_missing().empty() ? limit : nullptr);
  HC_TRY(samples);
  bench_.add({"reload", params(), "GiB/s", Goal{Goal::Of::ratio, Goal::Sense::at_least, 0.90},
              bench_.fio_missing()},
             (*samples)[0]);
  bench_.add({"reload_cpu", params(), "core-s/GiB",
              Goal{Goal::Of::value, Goal::Sense::at_most, 0.10}, ""},
             (*samples)[1]);
  return {};
}

}  // namespace

Result<void> measure_disk(MicroBench& bench) {
  for (const std::uint32_t payload_bytes : bench.plan().payloads) {
    DiskBench disk(bench, payload_bytes);
    HC_TRY_VOID(disk.run());
  }
  return {};
}

}  // namespace hc
