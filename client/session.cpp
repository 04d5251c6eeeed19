// SPDX-License-Identifier: Apache-2.0
// session: submission, and the translation of completions.
#include "client/session.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <string>
#include <utility>

#include "proto/test_hooks.h"
#include "shm/doorbell.h"

namespace hc {

namespace {

constexpr std::size_t kTakeBatch = 64;

hicache_completion completion_of(const OpName& name, const OpRecord& record, Code code, Ack ack) {
  hicache_completion out{};
  out.op_id = op_id_of(name);
  out.user_data = record.user_data;
  out.code = static_cast<hicache_code>(code);
  out.verb = static_cast<std::uint8_t>(record.verb);
  out.ack = static_cast<std::uint8_t>(ack);
  return out;
}

// Damage is a miss to an engine.
Code code_for_engine(std::int32_t wire) {
  if (!code_is_known(wire)) {
    return Code::protocol;
  }
  const Code code = static_cast<Code>(wire);
  return code == Code::corrupt ? Code::not_found : code;
}

std::span<std::uint8_t> part_of(Region& file, std::uint64_t offset, std::uint64_t bytes) {
  return file.writable_bytes().subspan(offset, bytes);
}

}  // namespace

Session::Session(SessionParts parts)
    : parts_(std::move(parts)),
      client_(parts_.client_file.writable_at<ClientHeader>(0)),
      server_(parts_.server_file.at<ServerHeader>(0)),
      requests_(part_of(parts_.client_file, kRequestsOffset,
                        std::uint64_t{kRingEntries} * sizeof(RequestEntry)),
                client_->request_tail, server_->request_head),
      completions_(
          parts_.server_file.bytes().subspan(
              kCompletionsOffset, std::uint64_t{kCompletionEntries} * sizeof(CompletionEntry)),
          client_->completion_head, server_->completion_tail),
      ops_(parts_.attachment) {}

SessionState Session::state() const {
  switch (load_acquire(server_->state)) {
    case static_cast<std::uint32_t>(SessionState::holding):
      return SessionState::holding;
    case static_cast<std::uint32_t>(SessionState::serving):
      return SessionState::serving;
    default:
      return SessionState::ended;
  }
}

bool Session::is_quiet() const {
  return load_acquire(server_->quiet) != 0;
}

Code Session::end_code() const {
  return code_for_engine(load_acquire(server_->end_code));
}

void Session::detach(Parting parting, bool copies_in_flight) {
  closed_ = true;
  if (copies_in_flight) {
    return;
  }
  const auto word = parting == Parting::for_good ? MessageType::detach : MessageType::leave;
  const bool sent = parts_.connection.send(word, next_request_id(), {}, {}).has_value();
  parted_for_good_ = parted_for_good_ || (sent && word == MessageType::detach);
  parts_.connection.end_sending();
  HC_FAILPOINT(client_detached);
}

Result<OpName> Session::submit(Submission submission) {
  HC_CHECK(!closed_);
  const auto name = ops_.take(submission.record);
  if (!name) {
    return make_error(Code::busy, std::to_string(kOpSlotsPerSession) +
                                      " operations are in flight: take completions first");
  }
  if (submission.prepare) {
    if (auto prepared = submission.prepare(name->slot); !prepared) {
      ops_.end(*name);
      return prepared.error();
    }
  }
  if (submission.rules != nullptr) {
    write_pages(*submission.rules, submission.pages,
                part_of(parts_.client_file, op_pages_offset(name->slot), kOpAreaBytes));
  }
  submission.entry.op_slot = name->slot;
  submission.entry.op_sequence = name->sequence;
  submission.entry.page_count = static_cast<std::uint32_t>(submission.pages.size());
  if (const Code code = requests_.stage(submission.entry); code != Code::ok) {
    ops_.end(*name);
    return make_error(code, "the daemon's request index is impossible");
  }
  requests_.publish();
  HC_FAILPOINT(client_request_published);
  // A doorbell that can't be written leaves the request to the daemon's own look at the ring.
  static_cast<void>(ring_if_sleeping(parts_.doorbell.get(), server_->daemon_sleeping));
  return *name;
}

Code Session::take_completions(std::vector<hicache_completion>& out, std::size_t max,
                               LeaseTable& leases) {
  std::array<CompletionEntry, kTakeBatch> entries;
  Code verdict = Code::ok;
  while (max > 0 && verdict == Code::ok) {
    std::uint32_t taken = 0;
    verdict = completions_.take({entries.data(), std::min(max, entries.size())}, taken);
    if (taken == 0) {
      break;
    }
    for (std::uint32_t i = 0; i < taken && verdict == Code::ok; ++i) {
      if (auto completion = judge(entries[i], leases, verdict)) {
        out.push_back(*completion);
        --max;
      }
    }
  }
  return verdict;
}

std::optional<hicache_completion> Session::judge(const CompletionEntry& entry, LeaseTable& leases,
                                                 Code& verdict) {
  const OpName name{parts_.attachment, entry.op_sequence, entry.op_slot};
  OpRecord* const record = ops_.find(name);
  if (record == nullptr || entry.verb != static_cast<std::uint8_t>(record->verb) ||
      entry.ack > static_cast<std::uint8_t>(Ack::prepared) || entry.page_count > kPagesPerOpMax) {
    verdict = Code::protocol;
    return std::nullopt;
  }
  const auto ack = static_cast<Ack>(entry.ack);
  const bool terminal = entry.terminal != 0;
  if (ack == Ack::prepared) {
    verdict = note_prepared(name, *record, terminal);
    return std::nullopt;
  }
  if (record->unasked) {
    if (terminal) {
      ops_.end(name);
    }
    return std::nullopt;
  }
  if (!terminal && ack == Ack::late && std::exchange(record->late, true)) {
    return std::nullopt;  // Already reported by report_overdue.
  }
  hicache_completion out = completion_of(name, *record, code_for_engine(entry.code), ack);
  out.terminal = terminal ? 1 : 0;
  out.page_count = entry.page_count;
  out.pages_from_l2 = entry.pages_from_l2;
  out.pages_from_l3 = entry.pages_from_l3;
  out.pages_stored = entry.pages_stored;
  out.bytes = entry.bytes;
  out.store_sequence = entry.store_sequence;
  out.lease = grant(entry, name, *record, leases);
  if (terminal) {
    ops_.end(name);
    HC_FAILPOINT(client_completion_taken);
  }
  return out;
}

Code Session::note_prepared(const OpName& name, const OpRecord& record, bool terminal) {
  if (terminal || record.by_rank == nullptr) {
    return Code::protocol;
  }
  Prepared prepared{name, record.by_rank, {}};
  prepared.frames.resize(std::size_t{record.page_count} * kKindsMax);
  const auto area =
      parts_.server_file.bytes().subspan(result_area_offset(name.slot), kResultAreaBytes);
  std::memcpy(prepared.frames.data(), area.data(), prepared.frames.size() * sizeof(FrameRef));
  prepared_.push_back(std::move(prepared));
  return Code::ok;
}

Code Session::say_copied(const OpName& name, Code code) {
  RequestEntry entry{};
  entry.verb = static_cast<std::uint8_t>(Verb::copied);
  entry.op_slot = name.slot;
  entry.op_sequence = name.sequence;
  entry.target_sequence = static_cast<std::uint32_t>(code);
  const Code staged = requests_.stage(entry);
  if (staged == Code::ok) {
    requests_.publish();
    HC_FAILPOINT(client_word_told);
    static_cast<void>(ring_if_sleeping(parts_.doorbell.get(), server_->daemon_sleeping));
  }
  return staged;
}

// A store with every acknowledgement names its lease in each of them; it is one lease.
std::uint64_t Session::grant(const CompletionEntry& entry, const OpName& name, OpRecord& record,
                             LeaseTable& leases) {
  if (entry.lease == kNoLease.value || record.lease != 0) {
    return record.lease;
  }
  Lease lease;
  lease.attachment = parts_.attachment;
  lease.daemon_lease = LeaseId{entry.lease};
  lease.page_count = std::min(entry.page_count, record.page_count);
  lease.kind_count = parts_.kind_count;
  lease.arenas = parts_.arenas;
  lease.frames.reserve(std::size_t{lease.page_count} * lease.kind_count);
  const auto area =
      parts_.server_file.bytes().subspan(result_area_offset(name.slot), kResultAreaBytes);
  for (std::uint32_t page = 0; page < lease.page_count; ++page) {
    for (std::uint32_t kind = 0; kind < lease.kind_count; ++kind) {
      FrameRef ref{};
      const std::size_t at = (std::size_t{page} * kKindsMax + kind) * sizeof ref;
      std::memcpy(&ref, area.data() + at, sizeof ref);
      lease.frames.push_back(ref);
    }
  }
  record.lease = leases.add(std::move(lease));
  return record.lease;
}

void Session::add_late(const OpName& name, OpRecord& record, std::vector<hicache_completion>& out) {
  if (!std::exchange(record.late, true) && !record.unasked) {
    out.push_back(completion_of(name, record, Code::timed_out, Ack::late));
  }
}

void Session::report_overdue(Deadline now, std::vector<hicache_completion>& out) {
  const auto next = ops_.next_late();
  if (!next || now < *next) {
    return;
  }
  for (const OpName& name : ops_.all()) {
    OpRecord& record = *ops_.find(name);
    if (now >= record.late_at) {
      add_late(name, record, out);
    }
  }
}

void Session::report_all_late(std::vector<hicache_completion>& out) {
  for (const OpName& name : ops_.all()) {
    OpRecord& record = *ops_.find(name);
    if (record.names_memory()) {
      add_late(name, record, out);
    }
  }
}

void Session::abandon(bool memory_too, std::vector<hicache_completion>& out) {
  for (const OpName& name : ops_.all()) {
    const OpRecord& record = *ops_.find(name);
    if (record.names_memory() && !memory_too) {
      continue;
    }
    hicache_completion completion = completion_of(name, record, Code::disconnected, Ack::done);
    completion.terminal = 1;
    if (!record.unasked) {
      out.push_back(completion);
    }
    ops_.end(name);
  }
}

std::uint32_t Session::begin_wait(std::uint32_t wait_flags) {
  return hc::begin_wait(client_->client_waiting, wait_flags, server_->wake_word);
}

void Session::end_wait(std::uint32_t remaining_flags) {
  hc::end_wait(client_->client_waiting, remaining_flags);
}

void Session::wake_own_waiters() const {
  // Waking needs no right to write: the mapping is read-only.
  static_cast<void>(
      ::syscall(SYS_futex, &server_->wake_word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0));
}

}  // namespace hc
