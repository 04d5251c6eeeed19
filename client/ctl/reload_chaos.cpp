// SPDX-License-Identifier: Apache-2.0
// reload_chaos: the words of --chaos, and how often each thing happens.
#include "client/ctl/reload_chaos.h"

#include <algorithm>
#include <array>

#include "client/ctl/amount.h"
#include "client/ctl/monotonic.h"

namespace hc {

namespace {

// Often enough that a short run has each of them, seldom enough that most requests go well.
constexpr std::uint64_t kSkewOneIn = 8;
constexpr std::uint64_t kSkewNsMax = 3 * kNsPerMs;
constexpr std::uint64_t kSlowAckOneIn = 4;
constexpr std::uint64_t kSlowAckNsMax = 20 * kNsPerMs;
constexpr std::uint64_t kFailedReadOneIn = 8;
constexpr std::uint64_t kAbortOneIn = 12;

struct Word {
  const char* name;
  bool ChaosPlan::* member;
};
constexpr std::array<Word, 5> kWords{{{"skew", &ChaosPlan::skew},
                                      {"aborts", &ChaosPlan::aborts},
                                      {"slow_acks", &ChaosPlan::slow_acks},
                                      {"failed_reads", &ChaosPlan::failed_reads},
                                      {"restart", &ChaosPlan::restart}}};
constexpr const char* kKillWord = "kill_rank=";

Error refuse_word(const std::string& item) {
  return make_error(Code::bad_argument,
                    "--chaos: \"" + item + "\" is not allowed; a list of skew, aborts, slow_acks, "
                    "failed_reads, restart, all, kill_rank=RANK@TICK");
}

Result<RankKill> parse_kill(const std::string& value, std::uint32_t ranks) {
  const std::size_t at = value.find('@');
  if (at == std::string::npos || ranks < 2) {
    return refuse_word(kKillWord + value);
  }
  auto rank = parse_count("--chaos: kill_rank", value.substr(0, at), {1, ranks - 1});
  HC_TRY(rank);
  auto tick = parse_count("--chaos: kill_rank", value.substr(at + 1), {1, 1ULL << 40});
  HC_TRY(tick);
  return RankKill{static_cast<std::uint32_t>(*rank), *tick};
}

Result<void> take_word(const std::string& item, std::uint32_t ranks, ChaosPlan& plan) {
  if (item.rfind(kKillWord, 0) == 0) {
    auto kill = parse_kill(item.substr(std::string(kKillWord).size()), ranks);
    HC_TRY(kill);
    plan.kill = *kill;
    return {};
  }
  bool is_known = false;
  for (const Word& word : kWords) {
    if (item == word.name || item == "all") {
      plan.*(word.member) = true;
      is_known = true;
    }
  }
  if (!is_known) {
    return refuse_word(item);
  }
  return {};
}

}  // namespace

std::string ChaosPlan::text() const {
  std::string out;
  for (const Word& word : kWords) {
    if (this->*(word.member)) {
      out += (out.empty() ? "" : ", ") + std::string(word.name);
    }
  }
  if (kill) {
    out += (out.empty() ? "" : ", ") + std::string(kKillWord) + std::to_string(kill->rank) + "@" +
           std::to_string(kill->tick);
  }
  return out.empty() ? "none" : out;
}

Result<ChaosPlan> parse_chaos(const std::string& text, std::uint32_t ranks) {
  ChaosPlan plan;
  std::size_t begin = 0;
  while (!text.empty() && begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    HC_TRY_VOID(take_word(text.substr(begin, end - begin), ranks, plan));
    begin = end + 1;
  }
  return plan;
}

std::uint64_t ChaosDraws::tick_delay_ns() {
  return plan_.skew && random_.one_in(kSkewOneIn) ? random_.below(kSkewNsMax) : 0;
}

std::uint64_t ChaosDraws::ack_delay_ns() {
  return plan_.slow_acks && random_.one_in(kSlowAckOneIn) ? 1 + random_.below(kSlowAckNsMax) : 0;
}

bool ChaosDraws::fails_read() { return plan_.failed_reads && random_.one_in(kFailedReadOneIn); }

std::optional<std::size_t> ChaosDraws::aborted(std::size_t count) {
  if (!plan_.aborts || count == 0 || !random_.one_in(kAbortOneIn)) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(random_.below(count));
}

}  // namespace hc
