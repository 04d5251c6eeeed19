// SPDX-License-Identifier: Apache-2.0
// rank_client: submits, waits, retries and keeps the books of acknowledgements.
#include "client/ctl/rank_client.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "client/ctl/monotonic.h"
#include "proto/check.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::uint32_t kSetupTimeoutMs = 30'000;
constexpr std::uint32_t kOperationTimeoutMs = 60'000;
constexpr std::uint64_t kRetryNs = 30 * kNsPerSecond;
constexpr std::uint64_t kAttachNs = 60 * kNsPerSecond;
constexpr std::uint64_t kStuckNs = 120 * kNsPerSecond;
constexpr std::uint32_t kPumpMs = 100;
constexpr int kAttachPollMs = 20;
// Stores wait for their durable answers in operation slots; a load must find one free.
constexpr std::size_t kOperationsMax = kOpSlotsPerSession - 8;

bool try_again(hicache_code code) { return code == HICACHE_BUSY || code == HICACHE_RETRY; }

}  // namespace

bool is_miss(hicache_code code) {
  return code == HICACHE_NOT_FOUND || code == HICACHE_NO_SPACE || code == HICACHE_DISCONNECTED ||
         code == HICACHE_TIMED_OUT || code == HICACHE_CANCELLED || code == HICACHE_IO_ERROR ||
         code == HICACHE_NOT_READY || try_again(code);
}

RankClient::RankClient(const RankBoards& boards, const Trace& trace, std::uint32_t rank)
    : boards_(boards), trace_(trace), rank_(rank), totals_(boards.totals(rank)) {}

RankClient::~RankClient() { static_cast<void>(close()); }

hicache_code RankClient::open(const Options& options) {
  std::vector<hicache_kind> kinds;
  for (const KindSpec& spec : options.space.kinds) {
    hicache_kind kind{};
    kind.name = spec.name.c_str();
    kind.payload_bytes = spec.payload_bytes;
    kind.placement = static_cast<std::uint8_t>(spec.placement);
    kind.policy = HICACHE_ALL_PAGES;
    kinds.push_back(kind);
  }
  hicache_space space{};
  space.model = options.space.model.c_str();
  space.weight_version = options.weight_version.c_str();
  space.dtype = options.space.dtype.c_str();
  space.layout = options.space.layout.c_str();
  space.hash_scheme = options.space.hash_scheme.c_str();
  space.page_tokens = options.space.page_tokens;
  space.tensor_size = options.world;
  space.pipeline_size = 1;
  space.context_size = 1;
  space.kinds = kinds.data();
  space.kind_count = static_cast<std::uint32_t>(kinds.size());
  hicache_options open_options{};
  open_options.struct_bytes = sizeof(open_options);
  open_options.abi_version = HICACHE_ABI_VERSION;
  open_options.socket_path = options.socket_path.c_str();
  open_options.group = options.weight_version.c_str();
  open_options.rank = options.rank;
  open_options.world = options.world;
  open_options.tensor_rank = options.rank;
  open_options.attach_timeout_ms = kSetupTimeoutMs;
  open_options.quota_bytes = options.quota_bytes;
  open_options.flags = options.flags;
  const hicache_code code = hicache_open(&open_options, &space, &client_);
  return code == HICACHE_OK ? hicache_event_fd(client_, &event_fd_) : code;
}

hicache_code RankClient::wait_attached(std::uint64_t instances) {
  const std::uint64_t begin_ns = monotonic_ns();
  for (;;) {
    std::uint64_t seen = 0;
    const hicache_code counted = hicache_instances(client_, &seen);
    const hicache_code state = hicache_state(client_);
    if (counted == HICACHE_OK && state == HICACHE_OK && seen >= instances) {
      return HICACHE_OK;
    }
    if (state == HICACHE_SUPERSEDED || state == HICACHE_REFUSED) {
      return state;
    }
    if (monotonic_ns() - begin_ns > kAttachNs) {
      return HICACHE_TIMED_OUT;
    }
    pollfd event{event_fd_, POLLIN, 0};
    static_cast<void>(::poll(&event, 1, kAttachPollMs));
    pump(0);
  }
}

hicache_code RankClient::run(std::uint8_t verb, const Piece& piece,
                             const std::vector<hicache_page>& pages, hicache_completion& done) {
  const std::uint64_t begin_ns = monotonic_ns();
  for (;;) {
    std::uint64_t serial = 0;
    done = {};
    done.code = submit(verb, piece, pages, serial);
    if (done.code == HICACHE_OK) {
      const std::uint64_t submitted_ns = monotonic_ns();
      const hicache_code waited = await_operation(serial, done);
      if (waited != HICACHE_OK) {
        return waited;
      }
      const std::uint64_t elapsed_ns = monotonic_ns() - submitted_ns;
      const bool is_store = verb == HICACHE_VERB_STORE;
      (is_store ? totals_.store_resident : totals_.load).add(elapsed_ns);
      (is_store ? totals_.store_ns : totals_.load_ns) += elapsed_ns;
    }
    if (!try_again(done.code) || monotonic_ns() - begin_ns > kRetryNs) {
      return is_miss(done.code) ? HICACHE_OK : done.code;
    }
    ++totals_.retries;
    pump(kPumpMs);
  }
}

hicache_code RankClient::submit(std::uint8_t verb, const Piece& piece,
                                const std::vector<hicache_page>& pages, std::uint64_t& serial) {
  const bool is_store = verb == HICACHE_VERB_STORE;
  const std::uint64_t begin_ns = monotonic_ns();
  while (operations_.size() >= kOperationsMax && monotonic_ns() - begin_ns < kStuckNs) {
    pump(kPumpMs);
  }
  totals_.throttled_ns += monotonic_ns() - begin_ns;
  serial = next_serial_++;
  hicache_op op{};
  op.deadline_ms = kOperationTimeoutMs;
  op.flags = is_store ? HICACHE_STORE_EVERY_ACK : HICACHE_LOAD_MAX_PREFIX;
  op.ack = is_store ? HICACHE_ACK_DURABLE : HICACHE_ACK_NONE;
  op.user_data = serial;
  region_->prepare(op);
  Operation operation;
  operation.piece = piece;
  operation.verb = verb;
  operation.submitted_ns = monotonic_ns();
  std::uint64_t op_id = 0;
  const hicache_code code =
      is_store ? hicache_store(client_, &op, pages.data(), pages.size(), &op_id)
               : hicache_load(client_, &op, pages.data(), pages.size(), &op_id);
  if (code == HICACHE_OK) {
    operations_.emplace(serial, operation);
  }
  return code;
}

// Returns when the operation's memory is ours again: terminal, or resident for a store.
hicache_code RankClient::await_operation(std::uint64_t serial, hicache_completion& done) {
  const std::uint64_t begin_ns = monotonic_ns();
  for (;;) {
    const auto found = operations_.find(serial);
    HC_CHECK(found != operations_.end());
    Operation& operation = found->second;
    if (operation.ended || operation.resident) {
      done = operation.last;
      operation.awaited = false;
      if (operation.ended) {
        operations_.erase(found);
      }
      return HICACHE_OK;
    }
    if (monotonic_ns() - begin_ns > kStuckNs) {
      return HICACHE_TIMED_OUT;
    }
    pump(kPumpMs);
  }
}

// Takes what is there, after waiting up to timeout_ms for the first completion.
void RankClient::pump(std::uint32_t timeout_ms) {
  std::array<hicache_completion, 64> completions{};
  std::size_t count = 0;
  if (timeout_ms == 0) {
    static_cast<void>(hicache_poll(client_, completions.data(), completions.size(), &count));
  } else {
    static_cast<void>(
        hicache_wait(client_, completions.data(), completions.size(), timeout_ms, &count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    take(completions[i]);
  }
}

void RankClient::take(const hicache_completion& completion) {
  const auto found = operations_.find(completion.user_data);
  if (found == operations_.end()) {
    return;
  }
  Operation& operation = found->second;
  if (completion.ack == HICACHE_ACK_LATE) {
    ++totals_.late;
    return;
  }
  operation.last = completion;
  if (completion.terminal != 0) {
    end(found->first, operation);
  } else if (completion.ack == HICACHE_ACK_RESIDENT) {
    operation.resident = true;
  }
}

void RankClient::end(std::uint64_t serial, Operation& operation) {
  operation.ended = true;
  if (operation.verb == HICACHE_VERB_STORE) {
    if (operation.last.code == HICACHE_OK && operation.last.ack == HICACHE_ACK_DURABLE) {
      acknowledge(operation);
    } else if (operation.resident || operation.last.code == HICACHE_NOT_DURABLE) {
      ++totals_.stores_not_durable;
    }
    if (operation.last.code == HICACHE_NOT_DURABLE) {
      operation.last.code = HICACHE_OK;  // the spill policy keeps it in memory: that is no failure
    }
  }
  if (!operation.awaited) {
    operations_.erase(serial);
  }
}

void RankClient::acknowledge(const Operation& operation) {
  totals_.store_durable.add(monotonic_ns() - operation.submitted_ns);
  const auto acked = boards_.acked(rank_);
  const std::uint32_t name = static_cast<std::uint32_t>(operation.piece.request + 1);
  const auto blocks = trace_.blocks_of(operation.piece.request)
                          .subspan(operation.piece.first, operation.piece.count);
  for (const std::uint32_t block : blocks) {
    acked[block] = std::max(acked[block], name);
  }
}

hicache_code RankClient::settle() {
  hicache_op op{};
  op.deadline_ms = kOperationTimeoutMs;
  std::uint64_t op_id = 0;
  // The barrier only hurries the daemon; each store still gets its own answer.
  static_cast<void>(hicache_flush(client_, &op, &op_id));
  const std::uint64_t begin_ns = monotonic_ns();
  while (!operations_.empty()) {
    if (monotonic_ns() - begin_ns > kStuckNs) {
      return HICACHE_TIMED_OUT;
    }
    pump(kPumpMs);
  }
  return HICACHE_OK;
}

hicache_code RankClient::close() {
  const hicache_code code =
      client_ == nullptr ? HICACHE_OK : hicache_close(client_, kSetupTimeoutMs);
  client_ = nullptr;
  event_fd_ = -1;
  return code;
}

}  // namespace hc
