// SPDX-License-Identifier: Apache-2.0
// micro_memory: copies out of L2 beside memcpy, and the pre-fault of L2 beside memset.
#include <algorithm>
#include <cstring>
#include <thread>

#include "client/ctl/micro_bench.h"
#include "client/ctl/micro_client.h"
#include "client/ctl/micro_limits.h"
#include "client/ctl/monotonic.h"
#include "proto/budget.h"

namespace hc {

namespace {

constexpr std::uint32_t kCopyPayloadBytes = 2560U << 10;
constexpr std::uint32_t kSlackPages = 64;
constexpr std::uint32_t kPagesPerLease = 16;
constexpr std::uint32_t kLeaseMs = 10'000;
constexpr double kMemoryGiB = 1ULL << 30;

double copy_seconds(std::uint64_t elapsed_ns) { return static_cast<double>(elapsed_ns) / 1e9; }

// As many as the daemon's copiers.
std::uint32_t copier_threads() {
  return std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
}

class MemoryBench {
 public:
  explicit MemoryBench(MicroBench& bench)
      : bench_(bench),
        space_(micro_space(kCopyPayloadBytes, false)),
        pages_(static_cast<std::uint32_t>(bench.plan().memory_sample_bytes / kCopyPayloadBytes)),
        bytes_(std::uint64_t{pages_} * kCopyPayloadBytes) {}

  Result<void> run();

 private:
  Result<double> load();
  Result<double> copy_views();
  Result<void> copy_lease(std::uint64_t first);
  Result<hicache_completion> await_one();

  MicroBench& bench_;
  SpaceDescriptor space_;
  std::uint32_t pages_;
  std::uint64_t bytes_;
  std::unique_ptr<MicroClient> client_;
  std::vector<std::uint8_t> target_;  // of copies from views
};

Result<double> MemoryBench::load() {
  MicroFlow flow;
  flow.verb = HICACHE_VERB_LOAD;
  flow.count = pages_;
  flow.pages_per_op = 4;
  flow.ops_max = 16;
  flow.page = [](std::uint64_t at) { return at; };
  auto totals = client_->run(flow);
  HC_TRY(totals);
  if (totals->pages_from_l3 > 0) {
    return make_error(Code::io_error, "l2_load: a page came from the disk");
  }
  return static_cast<double>(bytes_) / copy_seconds(totals->elapsed_ns) / kMemoryGiB;
}

Result<hicache_completion> MemoryBench::await_one() {
  hicache_completion done{};
  std::size_t count = 0;
  const auto code = hicache_wait(client_->handle(), &done, 1, kLeaseMs, &count);
  if (code != HICACHE_OK || done.code != HICACHE_OK) {
    return client_error("hicache_wait", code != HICACHE_OK ? code : done.code);
  }
  return done;
}

// Leases pages, copies them as an engine would that reads the mapped pool, and gives them back.
Result<void> MemoryBench::copy_lease(std::uint64_t first) {
  const auto count = static_cast<std::size_t>(
      std::min<std::uint64_t>(kPagesPerLease, pages_ - first));
  std::vector<MicroKey> keys(count);
  std::vector<hicache_page> pages(count);
  for (std::size_t i = 0; i < count; ++i) {
    keys[i] = micro_key(first + i);
    pages[i].key = keys[i].data();
    pages[i].key_bytes = static_cast<std::uint32_t>(keys[i].size());
  }
  hicache_op op{};
  op.deadline_ms = kLeaseMs;
  std::uint64_t id = 0;
  hicache_client* const client = client_->handle();
  if (const auto code = hicache_pin(client, &op, pages.data(), count, &id); code != HICACHE_OK) {
    return client_error("hicache_pin", code);
  }
  auto leased = await_one();
  HC_TRY(leased);
  for (std::uint32_t i = 0; i < count; ++i) {
    hicache_view view{};
    if (const auto code = hicache_lease_view(client, leased->lease, i, 0, &view);
        code != HICACHE_OK) {
      return client_error("hicache_lease_view", code);
    }
    std::memcpy(target_.data() + (first + i) * kCopyPayloadBytes, view.data, kCopyPayloadBytes);
    if (hicache_view_intact(client, &view) == 0) {
      return make_error(Code::io_error, "l2_view: a leased frame has changed");
    }
  }
  if (const auto code = hicache_release(client, &op, leased->lease, &id); code != HICACHE_OK) {
    return client_error("hicache_release", code);
  }
  auto released = await_one();
  return released ? Result<void>() : Result<void>(released.error());
}

Result<double> MemoryBench::copy_views() {
  const std::uint64_t begin_ns = monotonic_ns();
  for (std::uint64_t first = 0; first < pages_; first += kPagesPerLease) {
    HC_TRY_VOID(copy_lease(first));
  }
  return static_cast<double>(bytes_) / copy_seconds(monotonic_ns() - begin_ns) / kMemoryGiB;
}

Result<void> MemoryBench::run() {
  PrivateDaemonOptions options = bench_.daemon_options("memory");
  options.l2_bytes = (pages_ + kSlackPages) * frame_bytes_per_page(space_, 0);
  options.reserve_slots = kSlackPages;
  options.l3_bytes = slab_bytes(slots_for_pages(space_, 0, pages_ + kSlackPages, kSlackPages));
  MicroDaemon daemon(bench_, options);
  HC_TRY_VOID(daemon.make_folder());
  HC_TRY_VOID(daemon.process().start());
  auto client = MicroClient::open(daemon.socket(), space_, {.rows = pages_});
  HC_TRY(client);
  client_ = std::move(*client);
  MicroFlow store;
  store.ack = HICACHE_ACK_WRITTEN;
  store.count = pages_;
  store.page = [](std::uint64_t at) { return at; };
  auto stored = client_->run(store);
  HC_TRY(stored);
  HC_TRY_VOID(client_->flush());
  auto buffers = CopyBuffers::make(bytes_);
  HC_TRY(buffers);
  const auto limit = [&](std::uint32_t threads, std::uint64_t piece_bytes) {
    return [&, threads, piece_bytes]() -> Result<double> {
      return (*buffers)->copy(threads, piece_bytes) / kMemoryGiB;
    };
  };
  // The daemon chooses how it copies, so its limit is the best memcpy there is, one call a thread.
  const std::uint64_t share = (bytes_ + copier_threads() - 1) / copier_threads();
  const Goal goal{Goal::Of::ratio, Goal::Sense::at_least, 0.85};
  if (bench_.plan().wants("l2_load")) {
    auto samples = bench_.pairs("l2_load", [this] { return load(); },
                                limit(copier_threads(), share));
    HC_TRY(samples);
    bench_.add({"l2_load", "payload=" + short_bytes(kCopyPayloadBytes) + " threads=" +
                               std::to_string(copier_threads()), "GiB/s", goal, ""},
               *samples);
  }
  if (bench_.plan().wants("l2_view")) {
    target_.assign(bytes_, 0);
    auto samples = bench_.pairs("l2_view", [this] { return copy_views(); },
                                limit(1, kCopyPayloadBytes));
    HC_TRY(samples);
    bench_.add({"l2_view", "payload=" + short_bytes(kCopyPayloadBytes) + " threads=1", "GiB/s",
                goal, ""},
               *samples);
  }
  return {};
}

// From the attach of the first rank, when the pool is made, to its answer.
Result<double> attach_fresh(const MicroBench& bench, std::uint64_t l2_bytes) {
  const SpaceDescriptor space = micro_space(kCopyPayloadBytes, false);
  PrivateDaemonOptions options = bench.daemon_options("prefault");
  options.l2_bytes = l2_bytes;
  options.reserve_slots = 8;
  options.l3_bytes = slab_bytes(slots_for_pages(space, 0, 8, options.reserve_slots));
  MicroDaemon daemon(bench, options);
  HC_TRY_VOID(daemon.make_folder());
  HC_TRY_VOID(daemon.process().start());
  const std::uint64_t begin_ns = monotonic_ns();
  auto client = MicroClient::open(daemon.socket(), space, {.rows = 1});
  HC_TRY(client);
  return static_cast<double>(l2_bytes) / copy_seconds(monotonic_ns() - begin_ns) / kMemoryGiB;
}

Result<void> measure_prefault(MicroBench& bench) {
  const std::uint64_t bytes = 4 * bench.plan().memory_sample_bytes;
  auto samples = bench.pairs("prefault", [&] { return attach_fresh(bench, bytes); },
                             [&]() -> Result<double> {
                               auto rate = set_fresh_memory(bytes);
                               HC_TRY(rate);
                               return *rate / kMemoryGiB;
                             });
  HC_TRY(samples);
  bench.add({"prefault", "l2=" + short_bytes(bytes), "GiB/s",
             Goal{Goal::Of::ratio, Goal::Sense::at_least, 1.0}, ""},
            *samples);
  return {};
}

}  // namespace

Result<void> measure_memory(MicroBench& bench) {
  if (bench.plan().wants("l2_load") || bench.plan().wants("l2_view")) {
    MemoryBench memory(bench);
    HC_TRY_VOID(memory.run());
  }
  return bench.plan().wants("prefault") ? measure_prefault(bench) : Result<void>();
}

}  // namespace hc
