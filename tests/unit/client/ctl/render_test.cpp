// SPDX-License-Identifier: Apache-2.0
// render_test: what people see, and that it fits.
//
// Covers the texts of client/ctl/status_command.cpp, client/ctl/stats_command.cpp,
// client/ctl/spaces_command.cpp and client/ctl/version_command.cpp too.
#include "client/ctl/render.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/ctl/commands.h"
#include "support/catch.h"

namespace hc {

namespace {

using nlohmann::json;

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::size_t widest = 0;
  while (std::getline(lines, line)) {
    widest = std::max(widest, line.size());
  }
  return widest;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const json kStatus = json::parse(R"({
  "version": "0.1.0", "pid": 4242, "instance": "00ff", "uptime_ms": 12345, "state": "serving",
  "cold_start": "load", "disk_backend": "uring", "volume": "/var/lib/hicached",
  "load": {"slots_total": 1000, "slots_scanned": 1000, "live": 900, "dropped": 1},
  "l2": {"bytes": 1073741824, "frames_total": 5000, "frames_free": 2500},
  "l3": {"budget_bytes": 17179869184, "allocated_bytes": 1073741824, "slots_total": 52048,
         "slots_free": 2048},
  "sessions": [{"session": 1, "group": "an-engine-with-a-name-that-is-rather-long-for-a-table-cell",
                "rank": 0, "world": 2, "pid": 77, "shard": 0, "ops": 3, "leases": 1,
                "leased_pages": 12, "quota_pages": 64, "regions": 1}]})");

}  // namespace

TEST_CASE("a bar shows its share and never leaves its frame", "[ctl]") {
  CHECK(bar(0.5, 10) == "[#####.....]  50.0 %");
  CHECK(bar(0.0, 4) == "[....]   0.0 %");
  CHECK(bar(1.0, 4) == "[####] 100.0 %");
  CHECK(bar(7.0, 4) == bar(1.0, 4));
  CHECK(bar(-1.0, 4) == bar(0.0, 4));
}

TEST_CASE("pairs stand in two columns and long values go on in the next line", "[ctl]") {
  const std::string text = render_pairs("Head", {{"a", "1"}, {"longer", std::string(100, 'x')}});

  CHECK(contains(text, "Head\n  a       1\n  longer  xxx"));
  CHECK(widest_line(text) <= kColumns);
  std::string all = text;
  all.erase(std::remove(all.begin(), all.end(), '\n'), all.end());
  CHECK(std::count(all.begin(), all.end(), 'x') == 100);
}

TEST_CASE("a long value breaks at a blank", "[ctl]") {
  const std::string words = std::string(50, 'a') + " " + std::string(50, 'b');
  const std::string text = render_pairs("", {{"name", words}});
  CHECK(text == "name  " + std::string(50, 'a') + "\n      " + std::string(50, 'b') + "\n");
}

TEST_CASE("a table fits, cuts its widest cells and marks the cut", "[ctl]") {
  Table table({{"name", Table::Align::left}, {"count", Table::Align::right}});
  table.add({"short", "1"});
  table.add({std::string(120, 'n'), "12345"});

  const std::string text = table.text();

  CHECK(widest_line(text) == kColumns);
  CHECK(contains(text, "n~  12345\n"));
  CHECK(contains(text, "name "));
  CHECK(contains(text, "    1\n"));
}

TEST_CASE("a table takes rows with too few and too many cells", "[ctl]") {
  Table table({{"a", Table::Align::left}, {"b", Table::Align::left}});
  table.add({"1"});
  table.add({"1", "2", "3"});
  CHECK(table.text() == "a  b\n1\n1  2\n");
}

TEST_CASE("values that are absent or of another type read as nothing", "[ctl]") {
  const json object = {{"a", {{"b", 5}}}, {"text", "x"}, {"minus", -1}};
  CHECK(number_at(object, "/a/b") == 5);
  CHECK(number_at(object, "/a/c") == 0);
  CHECK(number_at(object, "/text") == 0);
  CHECK(number_at(object, "/minus") == 0);
  CHECK(text_at(object, "/text") == "x");
  CHECK(text_at(object, "/a") == "");
  CHECK(list_at(object, "/a").empty());
}

TEST_CASE("control characters never reach a terminal", "[ctl]") {
  CHECK(printable("a\x1b[2Jb\n") == "a?[2Jb?");
  CHECK(contains(render_pairs("", {{"name", "a\x1b" "b"}}), "a?b"));
}

TEST_CASE("status fits 80 columns and says what matters", "[ctl]") {
  const std::string text = render_status(kStatus);
  CHECK(widest_line(text) <= kColumns);
  CHECK(contains(text, "serving"));
  CHECK(contains(text, "2,500 of 5,000 frames"));
  CHECK(contains(text, "50,000 of 52,048 slots"));
  CHECK(contains(text, "/var/lib/hicached (uring)"));
  CHECK(contains(text, "0/2"));
}

TEST_CASE("an answer without any field still renders", "[ctl]") {
  CHECK(contains(render_status(json::object()), "no sessions"));
  CHECK(contains(render_status(json::object()), "no engine has attached"));
  CHECK(render_spaces(json::object()) == "no spaces\n");
  CHECK(render_stats(json::object()).empty());
}

TEST_CASE("status says what is wrong although the daemon goes on") {
  CHECK_FALSE(contains(render_status(kStatus), "trouble"));
  json status = kStatus;
  status["l3"]["slots_set_aside"] = 3;
  status["l3"]["index_failed"] = true;
  status["load"]["rebuilding"] = true;
  status["load"]["adopted"] = 41;

  const std::string text = render_status(status);

  CHECK(contains(text, "3 slots set aside"));
  CHECK(contains(text, "commits fail"));
  CHECK(contains(text, "the index was incomplete"));
  CHECK(contains(text, "41 parts found"));
  CHECK(widest_line(text) <= kColumns);
}

TEST_CASE("status says what a spill policy holds back") {
  CHECK_FALSE(contains(render_status(kStatus), "held back"));
  json status = kStatus;
  status["l3"]["spill_policy"] = "write_back";
  status["l3"]["dirty_bytes"] = 3 << 20;

  CHECK(contains(render_status(status), "3.0 MiB, held back by write_back"));
}

TEST_CASE("stats print every counter with its unit", "[ctl]") {
  const std::string text = render_stats(
      json::parse(R"({"commits": 1234, "bytes_stored": 2048, "commit_ns": 1500000,
                      "verify": {"wrong_page": 2}})"));
  CHECK(contains(text, "commits            1,234\n"));
  CHECK(contains(text, "2,048 (2.0 KiB)"));
  CHECK(contains(text, "1.50 ms"));
  CHECK(contains(text, "verify.wrong_page  2\n"));
}

TEST_CASE("status shows several volumes and families, and a failing volume as trouble", "[ctl]") {
  json answer = kStatus;
  CHECK_FALSE(contains(render_status(answer), "L3 volume"));
  CHECK_FALSE(contains(render_status(answer), "families"));
  answer["families"] = 2;
  answer["l3"]["steps_moved"] = 7;
  answer["l3"]["volumes"] = json::parse(R"([
    {"volume": 0, "dir": "/mnt/a", "budget_bytes": 2147483648, "allocated_bytes": 1073741824,
     "failed": ""},
    {"volume": 1, "dir": "/mnt/b", "budget_bytes": 2147483648, "allocated_bytes": 0,
     "failed": "all"},
    {"volume": 2, "dir": "/mnt/c", "budget_bytes": 2147483648, "allocated_bytes": 0,
     "failed": "writes"}])");

  const std::string text = render_status(answer);

  CHECK(contains(text, "/mnt/a"));
  CHECK(contains(text, "/mnt/b, fails"));
  CHECK(contains(text, "volume 1 fails: its pages are misses"));
  CHECK(contains(text, "/mnt/c, takes no writes"));
  CHECK(contains(text, "volume 2 takes no writes: new pages go to the others"));
  CHECK(contains(text, "2, 7 steps moved"));
}

TEST_CASE("spaces show their id, kinds and pages", "[ctl]") {
  const std::string text = render_spaces(json::parse(R"({"spaces": [{
      "number": 1, "space_id": "0123456789abcdef0123456789abcdef", "tenant": "default",
      "model": "m", "revision": "r", "weight_version": "w", "world": 8, "page_tokens": 64,
      "epoch": 1, "kinds": [
        {"name": "kv", "payload_bytes": 65536, "placement": "sharded", "policy": "all_pages"},
        {"name": "swa", "payload_bytes": 100, "placement": "owned", "policy": "trailing"}],
      "pages": 10, "resident_pages": 5, "durable_pages": 7}]})"));
  CHECK(widest_line(text) <= kColumns);
  CHECK(contains(text, "0123456789ab\n"));
  CHECK(contains(text, "m, revision r, weights w"));
  CHECK(contains(text, "kv 65,536 B sharded, swa 100 B owned trailing"));
  CHECK(contains(text, "10, 5 in memory, 7 durable"));
}

TEST_CASE("version names both programs, or ours alone", "[ctl]") {
  CHECK(render_version({{"cachectl", "1.2"}}) == "cachectl  1.2\n");
  const std::string both = render_version(
      {{"cachectl", "1.2"},
       {"daemon", {{"version", "1.3"}, {"pid", 5}, {"protocol", 1}, {"disk_version", 2}}}});
  CHECK(contains(both, "1.3, pid 5"));
}

}  // namespace hc
