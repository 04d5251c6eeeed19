// SPDX-License-Identifier: Apache-2.0
// sim_copier: two halves per job, each at its own moment.
#include "tests/sim/sim_copier.h"

#include <algorithm>
#include <cstring>

#include "proto/checksum.h"

namespace hc::sim {

SimCopier::SimCopier(SimClock& clock, Trace& trace, Laws& laws, Prng prng)
    : clock_(clock), trace_(trace), laws_(laws), prng_(prng) {}

std::uint32_t SimCopier::lane_of(const CopyJob& job) const {
  const bool in = job.kind == CopyKind::await ? job.to_device : job.kind == CopyKind::scatter;
  return job.mapping == kHostMapping ? 0 : 1U + (in ? 1U : 0U);
}

// Never full. One in four never ends by itself.
Code SimCopier::submit_await(const CopyJob& job) {
  ++submitted_;
  Job entry;
  entry.job = job;
  entry.order = next_order_++;
  const std::uint64_t longest = std::uint64_t{plan_.slow_ms} * 1'000'000;
  entry.due = prng_.one_in(4) ? SimClock::kNever
                              : clock_.time() +
                                    static_cast<std::int64_t>(prng_.between(1, longest));
  entry.first = entry.due;
  entry.second = entry.due;
  jobs_.push_back(std::move(entry));
  return Code::ok;
}

void SimCopier::cancel_awaits(MappingId mapping) {
  for (Job& job : jobs_) {
    if (job.job.kind == CopyKind::await && job.job.mapping == mapping) {
      job.cancelled = true;
      job.due = clock_.time();
    }
  }
}

Code SimCopier::submit(const CopyJob& job) {
  if (job.kind == CopyKind::await) {
    return submit_await(job);
  }
  const auto same_lane = std::count_if(jobs_.begin(), jobs_.end(), [&](const Job& other) {
    return other.job.kind != CopyKind::await && lane_of(other.job) == lane_of(job);
  });
  if (static_cast<std::uint32_t>(same_lane) >= jobs_max_) {
    return Code::busy;
  }
  ++submitted_;
  Job entry;
  entry.job = job;
  entry.runs.assign(job.runs.begin(), job.runs.end());
  entry.order = next_order_++;
  std::uint64_t bytes = 0;
  for (const CopyRun& run : entry.runs) {
    bytes += run.size_bytes;
  }
  laws_.expect(job.kind == CopyKind::sum || bytes == job.payload_bytes, 0,
               "the runs of a copy are not its payload");
  const bool slow = prng_.per_10k(plan_.slow_copy);
  const std::uint64_t longest = slow ? std::uint64_t{plan_.slow_ms} * 1'000'000
                                     : std::uint64_t{plan_.copy_delay_us} * 1'000;
  std::array<std::int64_t, 3> at{};
  for (std::int64_t& moment : at) {
    moment = delay_ns_ != 0 ? delay_ns_ : static_cast<std::int64_t>(prng_.between(1, longest));
  }
  std::sort(at.begin(), at.end());
  entry.first = clock_.time() + at[0];
  entry.second = clock_.time() + at[1];
  entry.due = clock_.time() + at[2];
  entry.faulty = job.kind != CopyKind::sum && prng_.per_10k(plan_.memory_fault);
  jobs_.push_back(std::move(entry));
  return Code::ok;
}

// Copies the runs' bytes from where the job stands up to `until`.
void SimCopier::copy(Job& job, std::uint64_t until) {
  const bool gather = job.job.kind == CopyKind::gather;
  std::uint64_t run_begin = 0;
  for (const CopyRun& run : job.runs) {
    const std::uint64_t from = std::max(job.copied, run_begin);
    const std::uint64_t to = std::min(until, run_begin + run.size_bytes);
    if (from < to) {
      const bool owned = !may_touch_ || may_touch_(run, !gather);
      laws_.expect(owned, 7, gather ? "a store reads memory that its client got back"
                                    : "a load writes into memory that its client got back");
      std::uint8_t* const client = host_address(run) + (from - run_begin);
      std::uint8_t* const frame = job.job.frame + from;
      if (owned) {
        std::memcpy(gather ? frame : client, gather ? client : frame, to - from);
      }
    }
    run_begin += run.size_bytes;
  }
  job.copied = until;
}

void SimCopier::run_until(Job& job, Instant now) {
  if (job.job.kind == CopyKind::sum || job.job.kind == CopyKind::await) {
    return;
  }
  const std::uint64_t half = job.job.payload_bytes / 2;
  if (job.first <= now && job.copied < half) {
    copy(job, half);
  }
  if (job.second <= now && !job.faulty) {
    copy(job, job.job.payload_bytes);
  }
}

CopyCompletion SimCopier::finish(Job& job) {
  CopyCompletion out;
  out.ticket = job.job.ticket;
  if (job.job.kind == CopyKind::await) {
    out.code = job.cancelled ? Code::cancelled : Code::ok;
    if (!job.cancelled && on_await_) {
      on_await_(job.job);
    }
    return out;
  }
  if (job.faulty) {
    out.code = Code::memory_fault;
    trace_.add("fault memory");
    if (on_fault_) {
      on_fault_(job.runs.front());
    }
    return out;
  }
  if (job.job.kind == CopyKind::gather) {
    std::memset(job.job.frame + job.job.payload_bytes, 0,
                job.job.padded_bytes - job.job.payload_bytes);
  }
  out.summed = job.job.kind != CopyKind::gather || job.job.mapping == kHostMapping;
  if (job.job.kind != CopyKind::scatter && out.summed) {
    out.payload_crc = crc32c({job.job.frame, job.job.payload_bytes});
  }
  return out;
}

void SimCopier::poll(std::vector<CopyCompletion>& out) {
  clock_.tick(static_cast<std::int64_t>(prng_.below(1'000)));
  std::vector<Job> due;
  for (std::size_t i = 0; i < jobs_.size();) {
    run_until(jobs_[i], clock_.time());
    if (jobs_[i].due <= clock_.time()) {
      due.push_back(std::move(jobs_[i]));
      jobs_[i] = std::move(jobs_.back());
      jobs_.pop_back();
    } else {
      ++i;
    }
  }
  std::sort(due.begin(), due.end(), [](const Job& a, const Job& b) {
    return a.due != b.due ? a.due < b.due : a.order < b.order;
  });
  for (Job& job : due) {
    out.push_back(finish(job));
  }
}

void SimCopier::wait() {
  if (const Instant due = next_due(); due != SimClock::kNever) {
    clock_.advance_to(due);
  }
}

Instant SimCopier::next_due() const {
  Instant next = SimClock::kNever;
  for (const Job& job : jobs_) {
    next = std::min(next, job.due);
  }
  return next;
}

}  // namespace hc::sim
