// SPDX-License-Identifier: Apache-2.0
// synthetic: users come in order, `active` of them talk at the same time in random order.
#include "client/ctl/synthetic.h"

#include <algorithm>
#include <array>
#include <vector>

#include "client/ctl/amount.h"
#include "client/ctl/split_mix.h"

namespace hc {

namespace {

constexpr std::uint64_t kReferencesMax = 1ULL << 24;

struct Field {
  const char* name;
  std::uint64_t SyntheticOptions::* member;
  Range range;
};

constexpr std::array<Field, 7> kFields{{
    {"users", &SyntheticOptions::users, {1, 1000000}},
    {"turns", &SyntheticOptions::turns, {1, 10000}},
    {"tokens", &SyntheticOptions::tokens, {1, 1000000}},
    {"answer", &SyntheticOptions::answer, {0, 1000000}},
    {"system", &SyntheticOptions::system, {0, 10000000}},
    {"active", &SyntheticOptions::active, {1, 100000}},
    {"seed", &SyntheticOptions::seed, {0, ~0ULL}},
}};

struct Conversation {
  std::uint64_t user = 0;
  std::uint64_t turns_left = 0;
  std::uint64_t tokens = 0;  // everything said so far
};

Error refuse_field(const std::string& text) {
  std::string names;
  for (const Field& field : kFields) {
    names += names.empty() ? field.name : std::string(", ") + field.name;
  }
  return make_error(Code::bad_argument,
                    "--synthetic: \"" + text + "\" is not allowed; a list NAME=NUMBER,... of " +
                        names);
}

// Blocks of the shared system prompt have the ids below `shared`; the rest belong to one user.
std::vector<std::uint64_t> ids_of(const Conversation& talk, std::uint64_t shared,
                                  std::uint64_t block_count) {
  constexpr std::uint64_t kUserStride = 1ULL << 24;
  std::vector<std::uint64_t> ids;
  ids.reserve(block_count);
  for (std::uint64_t i = 0; i < block_count; ++i) {
    ids.push_back(i < shared ? i : (talk.user + 1) * kUserStride + i);
  }
  return ids;
}

}  // namespace

Result<SyntheticOptions> parse_synthetic(const std::string& text) {
  SyntheticOptions options;
  std::array<bool, kFields.size()> given{};
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    const auto field = std::find_if(kFields.begin(), kFields.end(), [&](const Field& candidate) {
      return equals != std::string::npos && item.substr(0, equals) == candidate.name;
    });
    if (field == kFields.end()) {
      return refuse_field(item);
    }
    bool& seen = given[static_cast<std::size_t>(field - kFields.begin())];
    if (seen) {
      return make_error(Code::bad_argument,
                        std::string("--synthetic: ") + field->name + " is given twice");
    }
    seen = true;
    auto value = parse_count(std::string("--synthetic: ") + field->name, item.substr(equals + 1),
                             field->range);
    HC_TRY(value);
    options.*(field->member) = *value;
    begin = end + 1;
  }
  return options;
}

Result<Trace> make_synthetic(const SyntheticOptions& options, std::uint64_t block_tokens,
                             std::uint64_t requests_max) {
  Trace trace;
  SplitMix random(options.seed);
  std::vector<Conversation> open;
  const std::uint64_t shared = options.system / block_tokens;
  std::uint64_t next_user = 0;
  std::uint64_t now_ms = 0;
  const auto full = [&] { return requests_max != 0 && trace.request_count() == requests_max; };
  while ((next_user < options.users || !open.empty()) && !full()) {
    while (open.size() < options.active && next_user < options.users) {
      open.push_back({next_user++, options.turns, options.system});
    }
    const std::size_t chosen = static_cast<std::size_t>(random.below(open.size()));
    Conversation& talk = open[chosen];
    TraceRequest request;
    now_ms += random.below(2000);
    request.timestamp_ms = now_ms;
    talk.tokens += random.around(options.tokens);
    request.input_tokens = talk.tokens;
    request.output_tokens = random.around(options.answer);
    const std::uint64_t blocks = talk.tokens / block_tokens;
    if (blocks > kTraceBlocksPerRequestMax || trace.reference_count() + blocks > kReferencesMax) {
      return make_error(Code::bad_argument,
                        "--synthetic: asks for more than 65,536 blocks in a request or 16,777,216 "
                        "in all; lower users, turns or tokens");
    }
    const std::size_t repeated = trace.add(request, ids_of(talk, shared, blocks));
    HC_CHECK(repeated == Trace::kAllDistinct);
    talk.tokens += request.output_tokens;
    if (--talk.turns_left == 0) {
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
  }
  if (trace.reference_count() == 0) {
    return make_error(Code::bad_argument,
                      "--synthetic: no request fills a block; raise tokens or system, or lower "
                      "--block-tokens");
  }
  return trace;
}

}  // namespace hc
