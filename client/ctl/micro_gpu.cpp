// SPDX-License-Identifier: Apache-2.0
// micro_gpu: pages between the memory of a GPU and L2, through the client and a daemon, in both
// transfer modes, beside one plain pinned copy of as many bytes.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "client/ctl/device_rows.h"
#include "client/ctl/micro_bench.h"
#include "client/ctl/micro_client.h"
#include "client/ctl/monotonic.h"
#include "proto/budget.h"

namespace hc {

namespace {

constexpr std::uint32_t kGpuPayloadBytes = 8U << 20;
constexpr std::uint32_t kGoalRunBytes = 1U << 20;  // shorter runs have no goal
constexpr std::uint64_t kGpuSampleBytesMax = 256U << 20;
constexpr std::uint32_t kGpuSlackPages = 16;
constexpr double kGpuGiB = 1ULL << 30;

struct GpuCase {
  std::uint32_t transfer;
  const char* name;
  std::uint32_t run_bytes;
  std::string note;  // of the first case alone
};
constexpr std::array<std::uint32_t, 3> kRunBytes{64U << 10, 1U << 20, 8U << 20};

double gpu_rate(std::uint64_t bytes, std::uint64_t elapsed_ns) {
  return static_cast<double>(bytes) / (static_cast<double>(elapsed_ns) / 1e9) / kGpuGiB;
}

class GpuPages {
 public:
  GpuPages(MicroBench& bench, const GpuCase& of)
      : bench_(bench),
        of_(of),
        space_(micro_space(kGpuPayloadBytes, false)),
        pages_(static_cast<std::uint32_t>(
            std::min(bench.plan().memory_sample_bytes, kGpuSampleBytesMax) / kGpuPayloadBytes)),
        bytes_(std::uint64_t{pages_} * kGpuPayloadBytes) {}

  Result<void> run(DeviceRows& plain);

 private:
  std::string params() const {
    return std::string("transfer=") + of_.name + " run=" + short_bytes(of_.run_bytes) +
           " payload=" + short_bytes(kGpuPayloadBytes);
  }
  Result<void> start();
  Result<void> open();
  void add_unmeasured(const std::string& why);
  Result<std::uint64_t> pass(std::uint8_t verb, std::uint64_t first);
  Result<double> load();
  Result<double> store();
  Result<void> measure(const char* figure, const MicroBench::Measure& ours,
                       const MicroBench::Measure& limit);

  MicroBench& bench_;
  const GpuCase of_;
  SpaceDescriptor space_;
  std::uint32_t pages_;
  std::uint64_t bytes_;
  std::uint64_t stored_ = 0;
  std::optional<MicroDaemon> daemon_;
  std::unique_ptr<MicroClient> client_;  // goes before its daemon
};

// Every page of a sample once; the time that it took.
Result<std::uint64_t> GpuPages::pass(std::uint8_t verb, std::uint64_t first) {
  MicroFlow flow;
  flow.verb = verb;
  flow.ack = verb == HICACHE_VERB_STORE ? HICACHE_ACK_RESIDENT : HICACHE_ACK_NONE;
  flow.count = pages_;
  flow.pages_per_op = 4;
  flow.page = [first](std::uint64_t at) { return first + at; };
  auto totals = client_->run(flow);
  HC_TRY(totals);
  if (totals->pages_from_l3 > 0) {
    return make_error(Code::io_error, "a page came from the disk");
  }
  return totals->elapsed_ns;
}

Result<double> GpuPages::load() {
  auto elapsed_ns = pass(HICACHE_VERB_LOAD, 0);
  HC_TRY(elapsed_ns);
  return gpu_rate(bytes_, *elapsed_ns);
}

// New pages each time; nobody needs them afterwards, and no disk is to be in the way.
Result<double> GpuPages::store() {
  const std::uint64_t first = stored_;
  stored_ += pages_;
  auto elapsed_ns = pass(HICACHE_VERB_STORE, first);
  HC_TRY(elapsed_ns);
  auto freed = pass(HICACHE_VERB_FREE, first);
  HC_TRY(freed);
  return gpu_rate(bytes_, *elapsed_ns);
}

Result<void> GpuPages::start() {
  PrivateDaemonOptions options = bench_.daemon_options("gpu");
  const std::uint32_t room = 2 * pages_ + kGpuSlackPages;
  options.l2_bytes = room * frame_bytes_per_page(space_, 0);
  options.reserve_slots = kGpuSlackPages;
  options.l3_bytes = slab_bytes(slots_for_pages(space_, 0, room, kGpuSlackPages));
  options.spill_policy = "write_back";
  daemon_.emplace(bench_, options);
  HC_TRY_VOID(daemon_->make_folder());
  return daemon_->process().start();
}

Result<void> GpuPages::open() {
  RankRegion::Shape shape;
  shape.rows = pages_;
  shape.runs = kGpuPayloadBytes / of_.run_bytes;
  shape.device = BenchDevice::cuda;
  shape.transfer = of_.transfer;
  auto client = MicroClient::open(daemon_->socket(), space_, shape);
  HC_TRY(client);
  client_ = std::move(*client);
  return {};
}

// A machine may have a device and not this transfer: the other one is measured all the same.
void GpuPages::add_unmeasured(const std::string& why) {
  const std::string note = of_.note.empty() ? why : of_.note + "; " + why;
  for (const char* figure : {"gpu_load", "gpu_store"}) {
    if (bench_.plan().wants(figure)) {
      bench_.add({figure, params(), "GiB/s", std::nullopt, note}, {});
    }
  }
}

Result<void> GpuPages::measure(const char* figure, const MicroBench::Measure& ours,
                               const MicroBench::Measure& limit) {
  if (!bench_.plan().wants(figure)) {
    return {};
  }
  auto samples = bench_.pairs(std::string(figure) + " " + params(), ours, limit);
  HC_TRY(samples);
  std::optional<Goal> goal;
  if (of_.run_bytes >= kGoalRunBytes) {
    goal = Goal{Goal::Of::ratio, Goal::Sense::at_least, 0.90};
  }
  bench_.add({figure, params(), "GiB/s", goal, of_.note}, *samples);
  return {};
}

Result<void> GpuPages::run(DeviceRows& plain) {
  HC_TRY_VOID(start());
  if (auto opened = open(); !opened) {
    add_unmeasured(opened.error().message());
    return {};
  }
  stored_ = pages_;
  if (auto stored = pass(HICACHE_VERB_STORE, 0); !stored) {
    return stored.error();
  }
  const auto plain_copy = [&](bool to_device) {
    return [this, &plain, to_device]() -> Result<double> {
      const std::uint64_t begin_ns = monotonic_ns();
      HC_TRY_VOID(to_device ? plain.push({0, bytes_}) : plain.pull({0, bytes_}));
      HC_TRY_VOID(plain.settle());
      return gpu_rate(bytes_, monotonic_ns() - begin_ns);
    };
  };
  HC_TRY_VOID(measure("gpu_load", [this] { return load(); }, plain_copy(true)));
  return measure("gpu_store", [this] { return store(); }, plain_copy(false));
}

}  // namespace

Result<void> measure_gpu(MicroBench& bench) {
  const std::uint64_t bytes = std::min(bench.plan().memory_sample_bytes, kGpuSampleBytesMax);
  auto plain = DeviceRows::make(bytes, 0, RowsMemory::allocation);
  if (!plain) {
    for (const char* figure : {"gpu_load", "gpu_store"}) {
      bench.add({figure, "", "GiB/s", std::nullopt, plain.error().message()}, {});
    }
    return {};
  }
  std::string note = "the device is: " + (**plain).device_name();
  for (const auto& [transfer, name] : {std::pair(HICACHE_TRANSFER_IPC, "ipc"),
                                       std::pair(HICACHE_TRANSFER_RANK, "rank")}) {
    for (const std::uint32_t run_bytes : kRunBytes) {
      GpuPages pages(bench, {static_cast<std::uint32_t>(transfer), name, run_bytes,
                             std::exchange(note, std::string())});
      HC_TRY_VOID(pages.run(**plain));
    }
  }
  return {};
}

}  // namespace hc
