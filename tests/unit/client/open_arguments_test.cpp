// SPDX-License-Identifier: Apache-2.0
// open_arguments_test: every field of hicache_open, wrong once: the code, and what the line names.
#include "client/open_arguments.h"

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.h"
#include "unit/client/sample.h"

namespace hc {
namespace {

using test::SampleSpace;

struct Case {
  const char* name;
  std::function<void(hicache_options&, SampleSpace&)> spoil;
  std::vector<std::string> words;  // field, value, allowed
};

const std::string kLong(300, 'x');
const std::string kUnterminated(5000, 'x');

const std::vector<Case>& option_cases() {
  using Options = hicache_options;
  static const std::vector<Case> kCases = {
      {"struct size",
       [](Options& o, SampleSpace&) { o.struct_bytes = 8; },
       {"options.struct_bytes", "8", std::to_string(sizeof(Options))}},
      {"version",
       [](Options& o, SampleSpace&) { o.abi_version = 1; },
       {"options.abi_version", "1", "must be 2"}},
      {"empty socket",
       [](Options& o, SampleSpace&) { o.socket_path = ""; },
       {"options.socket_path", "0 bytes", "1..107"}},
      {"long socket",
       [](Options& o, SampleSpace&) { o.socket_path = kLong.c_str(); },
       {"options.socket_path", "108", "1..107"}},
      {"no group",
       [](Options& o, SampleSpace&) { o.group = nullptr; },
       {"options.group", "NULL", "1..63"}},
      {"empty group",
       [](Options& o, SampleSpace&) { o.group = ""; },
       {"options.group", "0 bytes", "1..63"}},
      {"long group",
       [](Options& o, SampleSpace&) { o.group = kLong.c_str(); },
       {"options.group", "64", "1..63"}},
      {"world", [](Options& o, SampleSpace&) { o.world = 0; }, {"options.world", "0", "1..65535"}},
      {"rank", [](Options& o, SampleSpace&) { o.rank = 2; }, {"options.rank", "2", "0..1"}},
      {"tensor rank",
       [](Options& o, SampleSpace&) { o.tensor_rank = 2; },
       {"options.tensor_rank", "2", "0..1"}},
      {"pipeline rank",
       [](Options& o, SampleSpace&) { o.pipeline_rank = 9; },
       {"options.pipeline_rank", "9", "0..0"}},
      {"context rank",
       [](Options& o, SampleSpace&) { o.context_rank = 1; },
       {"options.context_rank", "1", "0..0"}},
      {"shards on node",
       [](Options& o, SampleSpace&) { o.shards_on_node = 3; },
       {"options.shards_on_node", "3", "0..2"}},
      {"no timeout",
       [](Options& o, SampleSpace&) { o.attach_timeout_ms = 0; },
       {"options.attach_timeout_ms", "0", "1..600000"}},
      {"long timeout",
       [](Options& o, SampleSpace&) { o.attach_timeout_ms = 600001; },
       {"options.attach_timeout_ms", "600001", "1..600000"}},
      {"quota of less than a page",
       [](Options& o, SampleSpace&) { o.quota_bytes = 77; },
       {"options.quota_bytes", "77", "must be 0 or at least"}},
      {"flags", [](Options& o, SampleSpace&) { o.flags = 4; }, {"options.flags", "4", "0..3"}},
      {"reserved",
       [](Options& o, SampleSpace&) { o.reserved = 5; },
       {"options.reserved", "5", "must be 0"}},
  };
  return kCases;
}

const std::vector<Case>& text_cases() {
  using Options = hicache_options;
  static const std::vector<Case> kCases = {
      {"no model",
       [](Options&, SampleSpace& s) { s.space.model = nullptr; },
       {"space.model", "NULL", "1..256"}},
      {"empty model",
       [](Options&, SampleSpace& s) { s.space.model = ""; },
       {"space.model", "0 bytes", "1..256"}},
      {"endless model",
       [](Options&, SampleSpace& s) { s.space.model = kUnterminated.c_str(); },
       {"space.model", "257", "1..256"}},
      {"revision",
       [](Options&, SampleSpace& s) { s.space.revision = kLong.c_str(); },
       {"space.revision", "257", "0..256"}},
      {"weights",
       [](Options&, SampleSpace& s) { s.space.weight_version = "a\nb"; },
       {"space.weight_version", "control character"}},
      {"dtype",
       [](Options&, SampleSpace& s) { s.space.dtype = kLong.c_str(); },
       {"space.dtype", "257", "0..256"}},
      {"packing",
       [](Options&, SampleSpace& s) { s.space.packing = kLong.c_str(); },
       {"space.packing", "257", "0..256"}},
      {"layout",
       [](Options&, SampleSpace& s) { s.space.layout = kLong.c_str(); },
       {"space.layout", "257", "0..256"}},
      {"hash scheme",
       [](Options&, SampleSpace& s) { s.space.hash_scheme = kLong.c_str(); },
       {"space.hash_scheme", "257", "0..256"}},
  };
  return kCases;
}

const std::vector<Case>& space_cases() {
  using Options = hicache_options;
  static const std::vector<Case> kCases = {
      {"page tokens",
       [](Options&, SampleSpace& s) { s.space.page_tokens = 0; },
       {"space.page_tokens", "0", "1..65536"}},
      {"bigram",
       [](Options&, SampleSpace& s) { s.space.bigram = 2; },
       {"space.bigram", "2", "0..1"}},
      {"reserved",
       [](Options&, SampleSpace& s) { s.space.reserved = 1; },
       {"space.reserved", "1", "must be 0"}},
      {"tensor size",
       [](Options&, SampleSpace& s) { s.space.tensor_size = 65; },
       {"space.tensor_size", "65", "1..64"}},
      {"pipeline size",
       [](Options&, SampleSpace& s) { s.space.pipeline_size = 0; },
       {"space.pipeline_size", "0", "1..64"}},
      {"context size",
       [](Options&, SampleSpace& s) { s.space.context_size = 0; },
       {"space.context_size", "0", "1..64"}},
      {"too many shards",
       [](Options&, SampleSpace& s) {
         s.space.tensor_size = 64;
         s.space.pipeline_size = 2;
       },
       {"space.world", "128", "1..64"}},
      {"no kinds",
       [](Options&, SampleSpace& s) { s.space.kinds = nullptr; },
       {"space.kinds", "NULL", "must be given"}},
      {"kind count",
       [](Options&, SampleSpace& s) { s.space.kind_count = 9; },
       {"space.kind_count", "9", "1..8"}},
      {"kind name",
       [](Options&, SampleSpace& s) { s.kinds[1].name = nullptr; },
       {"space.kinds[1].name", "NULL", "1..256"}},
      {"kind twice",
       [](Options&, SampleSpace& s) { s.kinds[1].name = "kv"; },
       {"space.kinds", "'kv'", "twice"}},
      {"payload",
       [](Options&, SampleSpace& s) { s.kinds[0].payload_bytes = 0; },
       {"space.kinds[0].payload_bytes", "0", "1..67108864"}},
      {"placement",
       [](Options&, SampleSpace& s) { s.kinds[0].placement = 3; },
       {"space.kinds[0].placement", "3", "0..2"}},
      {"policy",
       [](Options&, SampleSpace& s) { s.kinds[1].policy = 2; },
       {"space.kinds[1].policy", "2", "0..1"}},
      {"kind reserved",
       [](Options&, SampleSpace& s) { s.kinds[1].reserved = 7; },
       {"space.kinds[1].reserved", "7", "must be 0"}},
      {"trailing",
       [](Options&, SampleSpace& s) { s.kinds[1].trailing_pages = 513; },
       {"space.kinds[1].trailing_pages", "513", "1..512"}},
      {"not trailing",
       [](Options&, SampleSpace& s) { s.kinds[0].trailing_pages = 1; },
       {"space.kinds[0].trailing_pages", "1", "0..0"}},
  };
  return kCases;
}

void check_case(const Case& one) {
  CAPTURE(one.name);
  const test::SocketFolder folder;
  const std::string socket = folder.socket();
  hicache_options options = test::sample_options(socket);
  SampleSpace space;
  one.spoil(options, space);
  auto* client = reinterpret_cast<hicache_client*>(1);

  const hicache_code code = hicache_open(&options, &space.space, &client);

  CHECK(code == HICACHE_BAD_ARGUMENT);
  CHECK(client == nullptr);
  const std::string line = hicache_last_error();
  CAPTURE(line);
  for (const std::string& word : one.words) {
    CAPTURE(word);
    CHECK(line.find(word) != std::string::npos);
  }
}

TEST_CASE("each option out of range is refused by its name, value and allowed range") {
  for (const Case& one : option_cases()) {
    check_case(one);
  }
}

TEST_CASE("each field of a space out of range is refused by its name, value and range") {
  for (const Case& one : text_cases()) {
    check_case(one);
  }
  for (const Case& one : space_cases()) {
    check_case(one);
  }
}

TEST_CASE("hicache_open refuses missing pointers") {
  const std::string socket = "/nowhere";
  const hicache_options options = test::sample_options(socket);
  const SampleSpace space;
  hicache_client* client = nullptr;

  CHECK(hicache_open(nullptr, &space.space, &client) == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "options = NULL: must be given");
  CHECK(hicache_open(&options, nullptr, &client) == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "space = NULL: must be given");
  CHECK(hicache_open(&options, &space.space, nullptr) == HICACHE_BAD_ARGUMENT);
  CHECK(std::string(hicache_last_error()) == "out = NULL: must be given");
}

TEST_CASE("a good plan holds copies of everything and the shard of the coordinates") {
  const std::string socket = "/tmp/x";
  hicache_options options = test::sample_options(socket);
  options.quota_bytes = 64 << 20;
  options.flags = HICACHE_OPEN_BACKGROUND;
  const SampleSpace space;

  const auto plan = check_open(&options, &space.space);

  REQUIRE(plan.has_value());
  CHECK(plan->socket_path == "/tmp/x");
  CHECK(plan->group == "g");
  CHECK(plan->shard == 1);
  CHECK(plan->quota_bytes == 64 << 20);
  CHECK(plan->background);
  CHECK(plan->incarnation != 0);
  CHECK(plan->space.tenant.empty());
  CHECK(plan->space.kinds[1].placement == Placement::owned);
  CHECK(plan->space.kinds[1].trailing_pages == 2);
}

TEST_CASE("without a socket path the environment decides, and then the default") {
  const std::string unused;
  hicache_options options = test::sample_options(unused);
  options.socket_path = nullptr;
  const SampleSpace space;

  REQUIRE(::setenv("HICACHE_SOCKET", "/from/environment", 1) == 0);
  CHECK(check_open(&options, &space.space)->socket_path == "/from/environment");
  REQUIRE(::setenv("HICACHE_SOCKET", "", 1) == 0);
  CHECK(check_open(&options, &space.space)->socket_path == kDefaultSocketPath);
  REQUIRE(::unsetenv("HICACHE_SOCKET") == 0);
  CHECK(check_open(&options, &space.space)->socket_path == kDefaultSocketPath);
}

}  // namespace
}  // namespace hc
