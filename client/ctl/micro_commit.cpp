// SPDX-License-Identifier: Apache-2.0
// micro_commit: what group commits cost stores that arrive at a fixed rate, whoever waits.
//
// Two daemons, one that commits every two seconds and one that does not within a sample, take
// turns; a raw writer of the same rate flushes at the same interval.
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "client/ctl/fio_run.h"
#include "client/ctl/latency.h"
#include "client/ctl/micro_bench.h"
#include "client/ctl/micro_client.h"
#include "client/ctl/micro_limits.h"
#include "client/ctl/monotonic.h"
#include "proto/budget.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::uint32_t kStorePayloadBytes = 2560U << 10;
constexpr std::uint64_t kSlotBytes = kStorePayloadBytes + kBlockBytes;
constexpr std::uint64_t kCommitMs = 2000;
constexpr std::uint64_t kNoCommitMs = 600'000;
constexpr std::uint32_t kCommitRows = 128;
constexpr std::uint32_t kStoreMs = 60'000;
constexpr std::uint32_t kFioDepth = 38;  // the daemon's default of 96 MiB in flight

// Stores one page at each tick of a clock. One thread submits, this one takes the answers.
class OpenLoop {
 public:
  OpenLoop(hicache_client* client, std::uint64_t first_page, double pages_per_s,
           std::uint64_t window_ns)
      : client_(client),
        first_page_(first_page),
        period_ns_(1e9 / pages_per_s),
        window_ns_(window_ns),
        count_(static_cast<std::uint64_t>(static_cast<double>(window_ns) / period_ns_)) {}

  std::uint64_t count() const { return count_; }
  // Pages written a second of the window; p99 of resident in ms, from the moment a store was due;
  // the longest time between two writes that ended, in ms.
  Result<std::vector<double>> run();

 private:
  std::uint64_t due_ns(std::uint64_t page) const {
    return begin_ns_ + static_cast<std::uint64_t>(static_cast<double>(page) * period_ns_);
  }
  hicache_code submit(std::uint64_t page);
  void submit_all();
  Result<void> take_all();
  Result<void> take(const hicache_completion& done);

  hicache_client* client_;
  std::uint64_t first_page_;
  double period_ns_;
  std::uint64_t window_ns_;
  std::uint64_t count_;
  std::uint64_t begin_ns_ = 0;
  std::atomic<hicache_code> failed_{HICACHE_OK};
  std::uint64_t ended_ = 0;
  std::uint64_t written_in_window_ = 0;
  std::uint64_t last_written_ns_ = 0;
  std::uint64_t stall_ns_ = 0;
  std::vector<double> resident_ms_;
};

hicache_code OpenLoop::submit(std::uint64_t page) {
  const MicroKey key = micro_key(first_page_ + page);
  hicache_page wanted{};
  wanted.key = key.data();
  wanted.key_bytes = static_cast<std::uint32_t>(key.size());
  wanted.row = static_cast<std::uint32_t>(page % kCommitRows);
  hicache_op op{};
  op.deadline_ms = kStoreMs;
  op.flags = HICACHE_STORE_EVERY_ACK;
  op.ack = HICACHE_ACK_WRITTEN;
  op.user_data = page;
  std::uint64_t id = 0;
  return hicache_store(client_, &op, &wanted, 1, &id);
}

void OpenLoop::submit_all() {
  for (std::uint64_t page = 0; page < count_; ++page) {
    sleep_until_ns(due_ns(page));
    hicache_code code = submit(page);
    // Late is late: a store that finds no place goes on trying, and its latency counts from when
    // it was due.
    while (code == HICACHE_BUSY && failed_.load() == HICACHE_OK) {
      sleep_until_ns(monotonic_ns() + kNsPerMs / 4);
      code = submit(page);
    }
    if (code != HICACHE_OK) {
      failed_.store(code);
      return;
    }
  }
}

Result<void> OpenLoop::take(const hicache_completion& done) {
  const std::uint64_t now_ns = monotonic_ns();
  if (done.terminal == 0) {
    if (done.ack == HICACHE_ACK_RESIDENT) {
      resident_ms_.push_back(static_cast<double>(now_ns - due_ns(done.user_data)) / 1e6);
    }
    return {};
  }
  ++ended_;
  if (done.code != HICACHE_OK) {
    return client_error("a store", done.code);
  }
  if (now_ns - begin_ns_ <= window_ns_) {
    ++written_in_window_;
    if (last_written_ns_ != 0) {
      stall_ns_ = std::max(stall_ns_, now_ns - last_written_ns_);
    }
    last_written_ns_ = now_ns;
  }
  return {};
}

Result<void> OpenLoop::take_all() {
  while (ended_ < count_) {
    std::array<hicache_completion, 64> done;
    std::size_t taken = 0;
    const auto code = hicache_wait(client_, done.data(), done.size(), kStoreMs, &taken);
    if (code != HICACHE_OK || failed_.load() != HICACHE_OK) {
      return client_error("open-loop stores", code != HICACHE_OK ? code : failed_.load());
    }
    for (std::size_t i = 0; i < taken; ++i) {
      HC_TRY_VOID(take(done[i]));
    }
  }
  return {};
}

Result<std::vector<double>> OpenLoop::run() {
  begin_ns_ = monotonic_ns();
  std::thread submitter([this] { submit_all(); });
  const auto taken = take_all();
  if (!taken) {
    failed_.store(HICACHE_CANCELLED);
  }
  submitter.join();
  HC_TRY_VOID(taken);
  if (resident_ms_.empty()) {
    return make_error(Code::io_error, "open-loop stores: none became resident by itself");
  }
  return std::vector<double>{
      static_cast<double>(written_in_window_) * 1e9 / static_cast<double>(window_ns_),
      percentile(resident_ms_, 0.99), static_cast<double>(stall_ns_) / 1e6};
}

class CommitBench {
 public:
  explicit CommitBench(MicroBench& bench)
      : bench_(bench), space_(micro_space(kStorePayloadBytes, false)) {}
  Result<void> run();

 private:
  struct Side {
    std::unique_ptr<MicroDaemon> daemon;
    std::unique_ptr<MicroClient> client;
    std::uint64_t next_page = 0;
  };
  std::uint64_t window_ns() const { return bench_.plan().store_window_ms * kNsPerMs; }
  std::string limit_file() const { return bench_.folder() + "/limit.dat"; }
  std::uint64_t limit_span() const { return 400 * kSlotBytes; }

  Result<void> find_rate();
  Result<void> start(Side& side, const char* name, std::uint64_t commit_ms);
  Result<std::vector<double>> window(Side& side);
  Result<double> raw_stall() const;

  MicroBench& bench_;
  SpaceDescriptor space_;
  double pages_per_s_ = 0;
  Side with_;
  Side without_;
};

// Half of what fio writes, so that the disk has time for the flushes.
Result<void> CommitBench::find_rate() {
  FioJob job;
  job.file = limit_file();
  job.rw = "write";
  job.span_bytes = limit_span();
  job.runtime_ms = bench_.plan().fio_ms;
  job.block_bytes = kSlotBytes;
  job.depth = kFioDepth;
  std::vector<double> rates;
  for (int i = 0; i < 4; ++i) {
    HC_TRY_VOID(bench_.step("commit: fio's write rate", static_cast<std::uint64_t>(i), 4));
    auto result = run_fio(bench_.options().fio, job, bench_.interrupt());
    HC_TRY(result);
    rates.push_back(result->bytes / result->elapsed_s);
  }
  rates.erase(rates.begin());  // it wrote the file for the first time
  pages_per_s_ = median(rates) / 2 / kStorePayloadBytes;
  return {};
}

Result<void> CommitBench::start(Side& side, const char* name, std::uint64_t commit_ms) {
  // Without commits nothing that was evicted comes free within a window.
  const auto window_pages = static_cast<std::uint32_t>(
      pages_per_s_ * static_cast<double>(bench_.plan().store_window_ms) / 1e3);
  PrivateDaemonOptions options = bench_.daemon_options(name);
  options.commit_interval_ms = commit_ms;
  options.l2_bytes = 512ULL << 20;
  options.reserve_slots = window_pages * 3 / 2 + 64;
  options.l3_bytes = slab_bytes(slots_for_pages(space_, 0, kCommitRows, options.reserve_slots));
  side.daemon = std::make_unique<MicroDaemon>(bench_, options);
  HC_TRY_VOID(side.daemon->make_folder());
  HC_TRY_VOID(side.daemon->process().start());
  auto client = MicroClient::open(side.daemon->socket(), space_, {.rows = kCommitRows});
  HC_TRY(client);
  side.client = std::move(*client);
  MicroFlow fill;
  fill.ack = HICACHE_ACK_WRITTEN;
  fill.count = 2 * (options.reserve_slots + kCommitRows);
  fill.page = [](std::uint64_t at) { return at; };
  HC_TRY_VOID(bench_.step("commit: filling the store", 0, 1));
  auto filled = side.client->run(fill);
  HC_TRY(filled);
  side.next_page = fill.count;
  return side.client->flush();
}

Result<std::vector<double>> CommitBench::window(Side& side) {
  OpenLoop loop(side.client->handle(), side.next_page, pages_per_s_, window_ns());
  side.next_page += loop.count();
  auto measured = loop.run();
  HC_TRY_VOID(side.client->flush());
  return measured;
}

Result<double> CommitBench::raw_stall() const {
  RawWriter writer;
  writer.file = limit_file();
  writer.span_bytes = limit_span();
  writer.piece_bytes = kSlotBytes;
  writer.pieces_per_s = pages_per_s_;
  writer.window_ns = window_ns();
  writer.flush_interval_ns = kCommitMs * kNsPerMs;
  auto stall = longest_stall(writer);
  HC_TRY(stall);
  return static_cast<double>(stall->longest_ns) / 1e6;
}

Result<void> CommitBench::run() {
  HC_TRY_VOID(find_rate());
  HC_TRY_VOID(start(with_, "commits", kCommitMs));
  HC_TRY_VOID(start(without_, "no-commits", kNoCommitMs));
  auto samples = bench_.pairs_of_many(
      "open-loop stores", [this] { return window(with_); },
      [this]() -> Result<std::vector<double>> {
        auto limits = window(without_);
        HC_TRY(limits);
        auto stall_ms = raw_stall();
        HC_TRY(stall_ms);
        limits->back() = *stall_ms;
        return limits;
      });
  HC_TRY(samples);
  const auto bytes_per_s = static_cast<std::uint64_t>(pages_per_s_ * kStorePayloadBytes);
  const std::string params = "payload=" + short_bytes(kStorePayloadBytes) +
                             " rate=" + short_bytes(bytes_per_s) + "/s";
  bench_.add({"commit_throughput", params, "pages/s",
              Goal{Goal::Of::ratio, Goal::Sense::at_least, 0.9}, ""},
             (*samples)[0]);
  bench_.add({"commit_p99", params, "ms", Goal{Goal::Of::ratio, Goal::Sense::at_most, 1.2}, ""},
             (*samples)[1]);
  bench_.add({"commit_stall", params, "ms", Goal{Goal::Of::ratio, Goal::Sense::at_most, 2.0}, ""},
             (*samples)[2]);
  return {};
}

}  // namespace

Result<void> measure_commit(MicroBench& bench) {
  if (!bench.fio_missing().empty()) {
    for (const char* name : {"commit_throughput", "commit_p99", "commit_stall"}) {
      bench.add({name, "", "", std::nullopt, "the rate is half of fio's: " + bench.fio_missing()},
                {});
    }
    return {};
  }
  CommitBench commit(bench);
  return commit.run();
}

}  // namespace hc
