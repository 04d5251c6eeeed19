// SPDX-License-Identifier: Apache-2.0
// micro_pages: exists_prefix over a large table while a writer runs, and a lazy start.
#include "client/ctl/micro_pages.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <thread>

#include "client/ctl/amount.h"
#include "client/ctl/monotonic.h"
#include "proto/budget.h"

namespace hc {

namespace {

constexpr std::uint64_t kMillion = 1'000'000;
constexpr std::uint32_t kReserve = 8192;
constexpr std::uint32_t kRows = 1024;
constexpr std::uint64_t kListPages = 4096;
constexpr std::uint64_t kLists = 32;        // different ones: nothing is in a cache twice
constexpr std::uint64_t kAbsent = 1ULL << 40;  // numbers from here on are never stored
constexpr std::uint64_t kLoads = 1000;
constexpr std::uint32_t kWriterPages = 64;

// Pages for the C interface, with the memory of their keys.
struct PageList {
  std::vector<MicroKey> keys;
  std::vector<hicache_page> pages;

  void set(const std::vector<std::uint64_t>& numbers) {
    keys.resize(numbers.size());
    pages.assign(numbers.size(), {});
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      keys[i] = micro_key(numbers[i]);
      pages[i].key = keys[i].data();
      pages[i].key_bytes = static_cast<std::uint32_t>(keys[i].size());
    }
  }
};

Result<std::uint32_t> count_prefix(hicache_client* client, const PageList& list) {
  hicache_prefix prefix{};
  const auto code =
      hicache_exists_prefix(client, list.pages.data(), list.pages.size(), &prefix);
  return code == HICACHE_OK ? Result<std::uint32_t>(prefix.usable_pages)
                            : Result<std::uint32_t>(client_error("hicache_exists_prefix", code));
}

// A rank that stores new pages, some at a time, as long as it lives.
class Writer {
 public:
  Writer(MicroClient& client, std::uint64_t first_page)
      : thread_([this, &client, first_page] { run(client, first_page); }) {}
  ~Writer() { static_cast<void>(stop()); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  Result<void> stop() {
    stop_.store(true);
    if (thread_.joinable()) {
      thread_.join();
    }
    return result_;
  }

 private:
  void run(MicroClient& client, std::uint64_t page) {
    MicroFlow flow;
    flow.ack = HICACHE_ACK_WRITTEN;
    flow.count = kWriterPages;
    flow.pages_per_op = kWriterPages;
    flow.page = [&page](std::uint64_t at) { return page + at; };
    while (!stop_.load() && result_) {
      auto totals = client.run(flow);
      result_ = totals ? Result<void>() : Result<void>(totals.error());
      page += kWriterPages;
    }
  }

  std::atomic<bool> stop_{false};
  Result<void> result_;
  std::thread thread_;
};

class PagesBench {
 public:
  explicit PagesBench(MicroBench& bench)
      : bench_(bench),
        pages_(bench.plan().pages),
        daemon_(bench, small_store_options(bench, "pages", bench.plan().pages)) {}

  Result<void> run();

 private:
  std::string params() const { return "pages=" + std::to_string(pages_); }
  std::optional<Goal> goal(Goal wanted) const {
    return pages_ >= kMillion ? std::optional(wanted) : std::nullopt;
  }
  std::string note(const std::string& other) const {
    return pages_ >= kMillion ? other : "the goal speaks of a million pages";
  }
  Result<void> measure_start();
  Result<double> start_lazily(const PageList& all, std::minstd_rand& random);
  Result<void> measure_exists();
  void make_lists(std::uint64_t present_from);
  Result<double> look_up(MicroClient& client);

  MicroBench& bench_;
  std::uint64_t pages_;
  MicroDaemon daemon_;
  std::vector<PageList> lists_;
};

Result<void> PagesBench::run() {
  HC_TRY_VOID(daemon_.make_folder());
  HC_TRY_VOID(daemon_.process().start());
  {
    auto client = MicroClient::open(daemon_.socket(), small_space(), {.rows = kRows});
    HC_TRY(client);
    HC_TRY_VOID(fill_small_store(bench_, **client, 0, pages_));
  }
  HC_TRY_VOID(daemon_.process().stop());
  if (bench_.plan().wants("lazy_start")) {
    HC_TRY_VOID(measure_start());
  }
  if (bench_.plan().wants("exists_prefix") || bench_.plan().wants("exists_lmdb")) {
    HC_TRY_VOID(daemon_.process().start());
    HC_TRY_VOID(measure_exists());
  }
  return {};
}

// Seconds from the start of the process until every page was seen and some were loaded.
Result<double> PagesBench::start_lazily(const PageList& all, std::minstd_rand& random) {
  const std::uint64_t begin_ns = monotonic_ns();
  HC_TRY_VOID(daemon_.process().start());
  auto client = MicroClient::open(daemon_.socket(), small_space(), {.rows = kRows});
  HC_TRY(client);
  auto there = count_prefix((*client)->handle(), all);
  HC_TRY(there);
  if (*there != pages_) {
    return make_error(Code::io_error, "lazy_start: " + std::to_string(*there) + " of " +
                                          std::to_string(pages_) + " pages are there");
  }
  MicroFlow loads;
  loads.verb = HICACHE_VERB_LOAD;
  loads.count = kLoads;
  loads.pages_per_op = 25;
  loads.ops_max = 40;
  loads.page = [&](std::uint64_t) { return random() % pages_; };
  auto loaded = (*client)->run(loads);
  HC_TRY(loaded);
  const std::uint64_t elapsed_ns = monotonic_ns() - begin_ns;
  client->reset();
  HC_TRY_VOID(daemon_.process().stop());
  return static_cast<double>(elapsed_ns) / 1e9;
}

Result<void> PagesBench::measure_start() {
  PageList all;
  std::vector<std::uint64_t> numbers(pages_);
  std::iota(numbers.begin(), numbers.end(), 0);
  all.set(numbers);
  std::minstd_rand random(11);
  auto samples =
      bench_.pairs("lazy start", [&] { return start_lazily(all, random); }, nullptr);
  HC_TRY(samples);
  bench_.add({"lazy_start", params(), "s", goal({Goal::Of::value, Goal::Sense::at_most, 3.0}),
              note("")},
             *samples);
  return {};
}

// Half of each list is there, in random order; the oldest pages may be evicted meanwhile and are
// left out.
void PagesBench::make_lists(std::uint64_t present_from) {
  std::minstd_rand random(5);
  lists_.resize(kLists);
  std::uint64_t absent = kAbsent;
  for (PageList& list : lists_) {
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < kListPages; ++i) {
      const bool present = i % 2 == 0;
      numbers.push_back(present ? present_from + random() % (pages_ - present_from) : absent++);
    }
    std::shuffle(numbers.begin(), numbers.end(), random);
    list.set(numbers);
  }
}

// The median list, in ns a page.
Result<double> PagesBench::look_up(MicroClient& client) {
  std::vector<double> elapsed_ns;
  for (const PageList& list : lists_) {
    const std::uint64_t begin_ns = monotonic_ns();
    HC_TRY_VOID(count_prefix(client.handle(), list));
    elapsed_ns.push_back(static_cast<double>(monotonic_ns() - begin_ns) / kListPages);
  }
  return median(std::move(elapsed_ns));
}

Result<void> PagesBench::measure_exists() {
  make_lists(pages_ / 2);
  auto client = MicroClient::open(daemon_.socket(), small_space(), {.rows = kRows});
  HC_TRY(client);
  std::unique_ptr<IndexProbe> probe;
  if (bench_.index_probe()) {
    HC_TRY_VOID(bench_.step("rows for raw lookups", 0, 1));
    auto made = bench_.index_probe()(bench_.folder(), pages_);
    HC_TRY(made);
    probe = std::move(*made);
  }
  const MicroBench::Measure limit = [&]() -> Result<double> {
    std::vector<double> elapsed_ns;
    for (std::size_t i = 0; i < lists_.size() / 4; ++i) {
      std::vector<const std::uint8_t*> keys;
      for (const MicroKey& key : lists_[i].keys) {
        keys.push_back(key.data());
      }
      const std::uint64_t begin_ns = monotonic_ns();
      if (probe->look_up(keys) != kListPages / 2) {
        return make_error(Code::io_error, "exists_lmdb: half of the keys must be there");
      }
      elapsed_ns.push_back(static_cast<double>(monotonic_ns() - begin_ns) / kListPages);
    }
    return median(std::move(elapsed_ns));
  };
  Writer writer(**client, pages_);
  auto samples = bench_.pairs("exists_prefix", [&] { return look_up(**client); },
                              probe ? limit : nullptr);
  HC_TRY(samples);
  HC_TRY_VOID(writer.stop());
  std::vector<Sample> alone = *samples;
  for (Sample& sample : alone) {
    sample.limit.reset();
  }
  bench_.add({"exists_prefix", params(), "ns/page",
              goal({Goal::Of::value, Goal::Sense::at_most, 100}), note("")},
             alone);
  bench_.add({"exists_lmdb", params(), "ns/page",
              goal({Goal::Of::ratio, Goal::Sense::at_most, 0.05}),
              note(probe ? "raw LMDB gets" : "scripts/bench brings the raw LMDB gets")},
             probe ? *samples : std::vector<Sample>());
  return {};
}

}  // namespace

Result<void> measure_pages(MicroBench& bench) {
  PagesBench pages(bench);
  return pages.run();
}

SpaceDescriptor small_space() { return micro_space(kSmallPayloadBytes, true); }

PrivateDaemonOptions small_store_options(const MicroBench& bench, const char* name,
                                         std::uint64_t pages) {
  PrivateDaemonOptions out = bench.daemon_options(name);
  out.load_verify = std::string(name) == "pages" ? "lazy" : "before";
  out.l2_bytes = 256ULL << 20;
  out.reserve_slots = kReserve;
  out.l3_bytes = slab_bytes(slots_for_pages(small_space(), 0, pages, kReserve));
  return out;
}

Result<void> fill_small_store(MicroBench& bench, MicroClient& client, std::uint64_t first,
                              std::uint64_t pages) {
  constexpr std::uint64_t kPiece = 32768;
  for (std::uint64_t done = 0; done < pages; done += kPiece) {
    HC_TRY_VOID(bench.step("filling a store of " + format_count(pages) + " pages", done, pages));
    MicroFlow flow;
    flow.ack = HICACHE_ACK_WRITTEN;
    flow.count = std::min(kPiece, pages - done);
    flow.pages_per_op = 512;
    flow.ops_max = 32;
    flow.page = [&](std::uint64_t at) { return first + done + at; };
    auto totals = client.run(flow);
    HC_TRY(totals);
  }
  return client.flush();
}

}  // namespace hc
