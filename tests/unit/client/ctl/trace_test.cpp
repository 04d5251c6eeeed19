// SPDX-License-Identifier: Apache-2.0
// trace_test: reading and writing of request traces, and what is said about broken ones.
#include "client/ctl/trace.h"

#include <fstream>

#include "client/ctl/temporary_folder.h"
#include "support/catch.h"

namespace hc {

namespace {

class TraceFile {
 public:
  explicit TraceFile(const std::string& text) : folder_(*TemporaryFolder::make("")) {
    std::ofstream(path()) << text;
  }
  std::string path() const { return folder_.path() + "/trace.jsonl"; }

 private:
  TemporaryFolder folder_;
};

constexpr const char* kGood =
    "{\"timestamp\": 5, \"input_length\": 1000, \"output_length\": 2, \"hash_ids\": [7, 9]}\n"
    "\n"
    "{\"timestamp\": 6, \"input_length\": 1, \"output_length\": 2, \"hash_ids\": [7, 3]}\n";

}  // namespace

TEST_CASE("a trace is read with its blocks numbered densely", "[ctl]") {
  const TraceFile file(kGood);

  const auto trace = read_trace(file.path(), 0);

  REQUIRE(trace);
  CHECK(trace->request_count() == 2);
  CHECK(trace->block_count() == 3);
  CHECK(trace->reference_count() == 4);
  CHECK(trace->longest_request() == 2);
  CHECK(trace->request(0).timestamp_ms == 5);
  CHECK(trace->request(0).input_tokens == 1000);
  CHECK(trace->blocks_of(1)[0] == trace->blocks_of(0)[0]);
  CHECK(trace->id_of(trace->blocks_of(1)[1]) == 3);
}

TEST_CASE("only the requests asked for are read", "[ctl]") {
  const TraceFile file(kGood);
  CHECK(read_trace(file.path(), 1)->request_count() == 1);
}

TEST_CASE("a trace that is written reads back equal", "[ctl]") {
  const TraceFile file(kGood);
  const auto trace = read_trace(file.path(), 0);

  REQUIRE(write_trace(file.path(), *trace));

  const auto again = read_trace(file.path(), 0);
  REQUIRE(again);
  CHECK(again->request_count() == 2);
  CHECK(again->request(1).output_tokens == 2);
  CHECK(again->id_of(again->blocks_of(0)[1]) == 9);
}

TEST_CASE("a broken trace is one line with file, line, field, value and rule", "[ctl]") {
  struct Case {
    const char* line;
    const char* says;
  };
  const Case at = GENERATE(
      Case{"nonsense", "is not a JSON object"}, Case{"[1]", "is not a JSON object"},
      Case{R"({"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]})",
           "timestamp: -1 is not allowed; a whole number from 0 to"},
      Case{R"({"input_length": 1, "output_length": 1, "hash_ids": [1]})", "timestamp: is missing"},
      Case{R"({"timestamp": 1, "input_length": "x", "output_length": 1, "hash_ids": [1]})",
           "input_length: \"x\" is not allowed"},
      Case{R"({"timestamp": 1, "input_length": 1, "output_length": 9999999999, "hash_ids": [1]})",
           "output_length: 9999999999 is not allowed"},
      Case{R"({"timestamp": 1, "input_length": 1, "output_length": 1})", "hash_ids: is missing"},
      Case{R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 4})",
           "hash_ids: 4 is not allowed"},
      Case{R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1, 2.5]})",
           "hash_ids[1]: 2.5 is not allowed"},
      Case{R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [4, 4]})",
           "hash_ids[1]: 4 is not allowed; the blocks of a request are distinct"});
  const TraceFile file(std::string("\n") + at.line + "\n");

  const auto trace = read_trace(file.path(), 0);

  REQUIRE_FALSE(trace);
  CHECK(trace.error().code == Code::bad_argument);
  CHECK(trace.error().text.find(file.path() + ":2: " + at.says) == 0);
  CHECK(trace.error().text.find('\n') == std::string::npos);
}

TEST_CASE("a trace without blocks and a trace that is not there are refused", "[ctl]") {
  const TraceFile empty("");
  CHECK_FALSE(read_trace(empty.path(), 0));
  const auto absent = read_trace(empty.path() + ".not", 0);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().message().find("No such file") != std::string::npos);
}

TEST_CASE("a request with a repeated block changes nothing", "[ctl]") {
  Trace trace;
  const std::vector<std::uint64_t> good{1, 2};
  const std::vector<std::uint64_t> bad{3, 1, 3};

  CHECK(trace.add({}, good) == Trace::kAllDistinct);
  CHECK(trace.add({}, bad) == 2);

  CHECK(trace.request_count() == 1);
  CHECK(trace.reference_count() == 2);
}

}  // namespace hc
