// SPDX-License-Identifier: Apache-2.0
// micro_scan: the header scan of a load beside fio's random reads of 4 KiB in the same slab.
#include <nlohmann/json.hpp>
#include <poll.h>

#include <array>

#include "client/ctl/admin_client.h"
#include "client/ctl/fio_run.h"
#include "client/ctl/micro_pages.h"
#include "client/ctl/monotonic.h"
#include "client/ctl/render.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::uint32_t kLookMs = 2000;
constexpr int kBetweenLooksMs = 5;
constexpr std::uint64_t kScanNs = 300 * kNsPerSecond;
constexpr std::uint64_t kFirstSlotBytes = 1ULL << 20;  // well behind the slab's own headers
// What the daemon keeps in flight: its requests, less those that it reserves for flushes.
constexpr std::uint32_t kDepth = 380;

struct Look {
  std::uint64_t at_ns = 0;
  std::uint64_t scanned = 0;
};

// Headers a second between the first and the last look at a scan that was under way.
Result<double> watch_scan(PrivateDaemon& daemon, const Interrupt& interrupt) {
  HC_TRY_VOID(daemon.launch());
  std::array<Look, 2> looks{};  // the first, the last
  const std::uint64_t deadline_ns = monotonic_ns() + kScanNs;
  while (monotonic_ns() < deadline_ns) {
    const std::uint64_t asked_ns = monotonic_ns();
    auto status = ask_daemon(daemon.admin_socket(), "status", nlohmann::json::object(), kLookMs);
    const std::uint64_t scanned = status ? number_at(*status, "/load/slots_scanned") : 0;
    const std::string state = status ? text_at(*status, "/state") : "";
    if (state == "loading" && scanned > 0) {
      const Look look{(asked_ns + monotonic_ns()) / 2, scanned};
      looks[0] = looks[0].at_ns == 0 ? look : looks[0];
      looks[1] = look;
    }
    if (state == "serving") {
      if (looks[1].scanned <= looks[0].scanned) {
        return make_error(Code::io_error, "header_scan: too few slots to watch the scan of");
      }
      return static_cast<double>(looks[1].scanned - looks[0].scanned) * 1e9 /
             static_cast<double>(looks[1].at_ns - looks[0].at_ns);
    }
    std::array<pollfd, 2> events{{{daemon.pidfd(), POLLIN, 0}, {interrupt.fd(), POLLIN, 0}}};
    if (::poll(events.data(), events.size(), kBetweenLooksMs) > 0) {
      return make_error(Code::cancelled, events[1].revents != 0 ? "interrupted"
                                                                : daemon.last_log_line());
    }
  }
  return make_error(Code::timed_out, "header_scan: it did not end within 300 s");
}

}  // namespace

Result<void> measure_scan(MicroBench& bench) {
  const std::uint64_t pages = bench.plan().scan_pages;
  MicroDaemon daemon(bench, small_store_options(bench, "scan", pages));
  HC_TRY_VOID(daemon.make_folder());
  HC_TRY_VOID(daemon.process().start());
  {
    auto client = MicroClient::open(daemon.socket(), small_space(), {.rows = 64});
    HC_TRY(client);
    HC_TRY_VOID(fill_small_store(bench, **client, 0, pages));
  }
  HC_TRY_VOID(daemon.process().stop());
  auto slab = daemon.slab_file();
  HC_TRY(slab);
  const MicroBench::Measure limit = [&]() -> Result<double> {
    FioJob job;
    job.file = *slab;
    job.rw = "randread";
    job.offset_bytes = kFirstSlotBytes;
    job.span_bytes = pages * kSmallPayloadBytes;
    job.runtime_ms = bench.plan().fio_ms;
    job.block_bytes = kBlockBytes;
    job.depth = kDepth;
    auto result = run_fio(bench.options().fio, job, bench.interrupt());
    HC_TRY(result);
    return result->requests / result->elapsed_s;
  };
  auto samples = bench.pairs(
      "header scan",
      [&]() -> Result<double> {
        auto rate = watch_scan(daemon.process(), bench.interrupt());
        HC_TRY(rate);
        HC_TRY_VOID(daemon.process().stop());
        return rate;
      },
      bench.fio_missing().empty() ? limit : nullptr);
  HC_TRY(samples);
  bench.add({"header_scan", "pages=" + std::to_string(pages), "reads/s",
             Goal{Goal::Of::ratio, Goal::Sense::at_least, 0.8}, bench.fio_missing()},
            *samples);
  return {};
}

}  // namespace hc
