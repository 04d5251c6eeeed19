// SPDX-License-Identifier: Apache-2.0
// status_table_test: the status table against a model, at its edges, and over hostile bytes.
#include <sys/mman.h>

#include <random>
#include <unordered_map>
#include <vector>

#include "proto/handshake.h"
#include "shm/shared_word.h"
#include "shm/status_table_reader.h"
#include "shm/status_table_writer.h"
#include "support/catch.h"
#include "tests/unit/shm/shm_test_support.h"

using namespace hc;
using namespace hc::test;

namespace {

StatusTableWriter make_table(std::uint64_t capacity, bool forbid_new_writers = true,
                             std::uint64_t key = 0) {
  StatusTableOptions options;
  options.capacity = capacity;
  options.key = key;
  options.space.bytes[0] = 0xAB;
  options.forbid_new_writers = forbid_new_writers;
  auto table = StatusTableWriter::create(options);
  REQUIRE(table);
  return std::move(*table);
}

StatusTableReader attach_to(const StatusTableWriter& table) {
  auto fd = table.readonly_fd();
  REQUIRE(fd);
  auto reader = StatusTableReader::attach(std::move(*fd), table.size_bytes());
  REQUIRE(reader);
  return std::move(*reader);
}

PageStatus resident(std::uint64_t parts) {
  PageStatus status;
  status.resident = parts;
  return status;
}

bool equal(const PageStatus& a, const PageStatus& b) {
  return a.resident == b.resident && a.stored == b.stored && a.durable == b.durable &&
         a.remote == b.remote;
}

// A file with a good header that a test may then spoil.
struct SpoiledTable {
  StatusTableWriter table = make_table(16, false);
  Region region = open();
  StatusTableHeader& header = *region.writable_at<StatusTableHeader>(0);
  StatusEntry* entries = region.writable_at<StatusEntry>(kStatusEntriesOffset);

  Region open() const {
    RegionOptions options;
    options.size_bytes = table.size_bytes();
    options.read_only = false;
    auto mapped = Region::map(table.fd(), options);
    HC_CHECK(mapped);
    return std::move(*mapped);
  }
  std::string refusal() const {
    auto fd = table.readonly_fd();
    HC_CHECK(fd);
    auto reader = StatusTableReader::attach(std::move(*fd), table.size_bytes());
    return reader ? "accepted" : reader.error().message();
  }
};

}  // namespace

// Keys as an engine makes them that counts: without a key all of them share one home.
TEST_CASE("status table: with a key hashes that are all alike crowd no home") {
  const bool keyed = GENERATE(false, true);
  constexpr std::uint64_t kPages = 4096;
  StatusTableWriter table = make_table(2 * kPages, true, keyed ? 0x9D39247E33776D41U : 0);
  const auto counted = [](std::uint64_t number) {
    PageHash hash{};
    std::memcpy(hash.bytes.data() + 24, &number, sizeof number);
    return hash;
  };

  std::uint64_t listed = 0;
  for (std::uint64_t number = 0; number < kPages; ++number) {
    listed += table.put(counted(number), resident(1)) == Code::ok ? 1U : 0U;
  }

  CHECK(listed == (keyed ? kPages : kStatusProbeMax));
  const StatusTableReader reader = attach_to(table);
  for (std::uint64_t number = 0; number < listed; ++number) {
    REQUIRE(reader.lookup(counted(number)));
  }
  CHECK_FALSE(reader.lookup(counted(kPages)));
  if (keyed) {
    for (std::uint64_t number = 0; number < kPages; number += 2) {
      REQUIRE(table.put(counted(number), PageStatus{}) == Code::ok);
    }
    for (std::uint64_t number = 0; number < kPages; ++number) {
      REQUIRE(reader.lookup(counted(number)).has_value() == (number % 2 == 1));
    }
  }
}

TEST_CASE("a page reads as it was put and is gone when nothing is known of it") {
  auto table = make_table(16);
  const auto reader = attach_to(table);
  const PageHash page = page_number(1);
  CHECK_FALSE(reader.lookup(page));

  const PageStatus status{.resident = 1, .stored = 2, .durable = 4, .remote = 0xAB00};
  REQUIRE(table.put(page, status) == Code::ok);
  auto seen = reader.lookup(page);
  REQUIRE(seen);
  CHECK(equal(*seen, status));
  CHECK(table.size() == 1);
  CHECK(reader.pages() == 1);
  CHECK(reader.space().bytes[0] == 0xAB);
  CHECK(reader.capacity() == 16);

  REQUIRE(table.put(page, resident(8)) == Code::ok);
  seen = reader.lookup(page);
  REQUIRE(seen);
  CHECK(equal(*seen, resident(8)));
  CHECK(table.size() == 1);

  REQUIRE(table.put(page, {}) == Code::ok);
  CHECK_FALSE(reader.lookup(page));
  CHECK(table.size() == 0);
  REQUIRE(table.put(page, {}) == Code::ok);
  CHECK(table.size() == 0);
}

TEST_CASE("the low bits of remote belong to the table") {
  auto table = make_table(16);
  const auto reader = attach_to(table);
  PageStatus status;
  status.remote = 0xFF;
  REQUIRE(table.put(page_number(1), status) == Code::ok);
  CHECK(table.size() == 0);
  status.remote = 0x1FF;
  REQUIRE(table.put(page_number(1), status) == Code::ok);
  const auto seen = reader.lookup(page_number(1));
  REQUIRE(seen);
  CHECK(seen->remote == 0x100);
}

TEST_CASE("hashes that differ only in their last word are different pages") {
  auto table = make_table(16);
  const auto reader = attach_to(table);
  const PageHash a = hash_at(7, 1);
  PageHash b = a;
  b.bytes[31] = 1;
  REQUIRE(table.put(a, resident(1)) == Code::ok);
  CHECK_FALSE(reader.lookup(b));
  REQUIRE(table.put(b, resident(2)) == Code::ok);
  CHECK(reader.lookup(a)->resident == 1);
  CHECK(reader.lookup(b)->resident == 2);
}

TEST_CASE("a table is full at half of its entries and still updates and removes") {
  auto table = make_table(16);
  for (std::uint64_t i = 0; i < 8; ++i) {
    REQUIRE(table.put(page_number(i), resident(1)) == Code::ok);
  }
  CHECK(table.put(page_number(8), resident(1)) == Code::no_space);
  CHECK(table.size() == 8);
  CHECK(table.put(page_number(3), resident(2)) == Code::ok);
  CHECK(table.put(page_number(3), {}) == Code::ok);
  CHECK(table.put(page_number(8), resident(1)) == Code::ok);
}

TEST_CASE("hashes that crowd one home are refused before lookups get long") {
  auto table = make_table(4096);
  const auto reader = attach_to(table);
  for (std::uint64_t i = 0; i < kStatusProbeMax; ++i) {
    REQUIRE(table.put(hash_at(4095, i), resident(i + 1)) == Code::ok);
  }
  CHECK(table.put(hash_at(4095, kStatusProbeMax), resident(1)) == Code::no_space);
  CHECK(table.size() == kStatusProbeMax);
  CHECK(reader.lookup(hash_at(4095, kStatusProbeMax - 1))->resident == kStatusProbeMax);
  CHECK_FALSE(reader.lookup(hash_at(4095, kStatusProbeMax)));
  REQUIRE(table.put(hash_at(4095, 0), {}) == Code::ok);
  CHECK(table.put(hash_at(4095, kStatusProbeMax), resident(1)) == Code::ok);
}

TEST_CASE("clear leaves nothing and the table can be filled again") {
  auto table = make_table(64);
  const auto reader = attach_to(table);
  for (std::uint64_t i = 0; i < 32; ++i) {
    REQUIRE(table.put(page_number(i), resident(1)) == Code::ok);
  }
  table.clear();
  CHECK(table.size() == 0);
  CHECK(reader.pages() == 0);
  for (std::uint64_t i = 0; i < 32; ++i) {
    REQUIRE_FALSE(reader.lookup(page_number(i)));
  }
  CHECK(table.put(page_number(5), resident(3)) == Code::ok);
  CHECK(reader.lookup(page_number(5))->resident == 3);
}

TEST_CASE("random puts and removals agree with a map, homes clustered over the end of the table") {
  auto table = make_table(256);
  const auto reader = attach_to(table);
  std::unordered_map<std::uint64_t, PageStatus> model;
  std::mt19937_64 random(2024);
  // Few homes, among them the last entries: long chains, shifts, and the turn to entry 0.
  const auto page = [](std::uint64_t n) { return hash_at(240 + mix(n) % 24, n); };
  for (int step = 0; step < 60'000; ++step) {
    const std::uint64_t number = random() % 160;
    PageStatus status;
    if (random() % 2 == 0) {
      status = {.resident = random(), .stored = random() % 2, .durable = 1, .remote = 0x100};
    }
    const bool removes = status.durable == 0;
    const Code code = table.put(page(number), status);
    const bool fits = removes || model.contains(number) || model.size() < 128;
    REQUIRE(code == (fits ? Code::ok : Code::no_space));
    if (removes) {
      model.erase(number);
    } else if (fits) {
      model[number] = status;
    }
    REQUIRE(table.size() == model.size());
    const std::uint64_t probe = random() % 160;
    const auto seen = reader.lookup(page(probe));
    REQUIRE(seen.has_value() == model.contains(probe));
    REQUIRE((!seen || equal(*seen, model[probe])));
  }
  for (std::uint64_t number = 0; number < 160; ++number) {
    REQUIRE(reader.lookup(page(number)).has_value() == model.contains(number));
  }
}

TEST_CASE("looking up many pages answers like looking up each") {
  auto table = make_table(1024);
  const auto reader = attach_to(table);
  std::vector<PageHash> pages;
  for (std::uint64_t i = 0; i < 200; ++i) {
    pages.push_back(page_number(i));
    if (i % 3 != 0) {
      REQUIRE(table.put(pages.back(), resident(i + 1)) == Code::ok);
    }
  }
  const std::size_t count = GENERATE(0U, 1U, 11U, 12U, 13U, 200U);
  std::vector<PageStatus> out(200, resident(~0ULL));
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < count; ++i) {
    wanted += i % 3 != 0 ? 1U : 0U;
  }
  CHECK(reader.lookup_many(std::span(pages).first(count), out) == wanted);
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(equal(out[i], i % 3 != 0 ? resident(i + 1) : PageStatus{}));
  }
  CHECK((count == 200 || out[count].resident == ~0ULL));
}

TEST_CASE("the sequence of an entry goes on over the wrap of its number") {
  SpoiledTable spoiled;
  const auto reader = attach_to(spoiled.table);
  for (int i = 0; i < 16; ++i) {
    spoiled.entries[i].sequence = 0xFFFFFFFEU;
  }
  for (std::uint64_t round = 1; round < 4; ++round) {
    REQUIRE(spoiled.table.put(hash_at(3, 1), resident(round)) == Code::ok);
    REQUIRE(spoiled.table.put(hash_at(3, 2), resident(round)) == Code::ok);
    CHECK(reader.lookup(hash_at(3, 1))->resident == round);
    REQUIRE(spoiled.table.put(hash_at(3, 1), {}) == Code::ok);
    CHECK_FALSE(reader.lookup(hash_at(3, 1)));
    CHECK(reader.lookup(hash_at(3, 2))->resident == round);
    REQUIRE(spoiled.table.put(hash_at(3, 2), {}) == Code::ok);
  }
  CHECK(spoiled.entries[3].sequence < 100);
  CHECK(spoiled.entries[3].sequence % 2 == 0);
  CHECK(spoiled.header.moves == 6);
}

TEST_CASE("a writer that stopped inside an entry makes the answer unsure, not wrong or endless") {
  SpoiledTable spoiled;
  const auto reader = attach_to(spoiled.table);
  REQUIRE(spoiled.table.put(hash_at(3, 1), resident(1)) == Code::ok);
  REQUIRE(spoiled.table.put(hash_at(3, 2), resident(2)) == Code::ok);
  PageStatus status;
  spoiled.entries[3].sequence += 1;
  CHECK(reader.look(hash_at(3, 1), status) == StatusAnswer::unsure);
  CHECK(status.resident == 0);
  CHECK_FALSE(reader.lookup(hash_at(3, 1)));
  CHECK(reader.lookup(hash_at(3, 2))->resident == 2);
  CHECK(reader.look(hash_at(4, 2), status) == StatusAnswer::absent);
}

TEST_CASE("a writer that stopped while it shifted entries hides no page") {
  SpoiledTable spoiled;
  const auto reader = attach_to(spoiled.table);
  REQUIRE(spoiled.table.put(hash_at(3, 1), resident(1)) == Code::ok);
  REQUIRE(spoiled.table.put(hash_at(3, 2), resident(2)) == Code::ok);
  spoiled.header.moves = 1;
  PageStatus status;
  CHECK(reader.look(hash_at(3, 2), status) == StatusAnswer::found);
  CHECK(reader.look(hash_at(3, 3), status) == StatusAnswer::absent);
}

TEST_CASE("a capacity that is no power of two or out of range is refused") {
  for (const std::uint64_t capacity : {0ULL, 1ULL, 3ULL, 1000ULL, 1ULL << 31, ~0ULL}) {
    StatusTableOptions options;
    options.capacity = capacity;
    const auto table = StatusTableWriter::create(options);
    REQUIRE_FALSE(table);
    CHECK(table.error().code == Code::bad_argument);
  }
  CHECK(status_capacity_for(0) == 2);
  CHECK(status_capacity_for(8) == 16);
  CHECK(status_capacity_for(9) == 32);
  CHECK(status_capacity_for(~0ULL) == kStatusCapacityMax);
}

TEST_CASE("a header that is not ours is refused with one line") {
  SpoiledTable spoiled;
  CHECK(spoiled.refusal() == "accepted");
  SECTION("magic") {
    spoiled.header.magic ^= 1;
    CHECK(spoiled.refusal() == "status table: magic is wrong");
  }
  SECTION("protocol") {
    spoiled.header.protocol += 1;
    CHECK(spoiled.refusal() == "status table: protocol is 2, wanted 1");
  }
  SECTION("fingerprint") {
    spoiled.header.fingerprint ^= 1;
    CHECK(spoiled.refusal() == "status table: layout differs from this build");
  }
  SECTION("capacity") {
    const std::uint64_t capacity =
        GENERATE(0ULL, 1ULL, 15ULL, 32ULL, 1ULL << 30, 1ULL << 58, 1ULL << 63, ~0ULL);
    spoiled.header.capacity = capacity;
    CHECK(spoiled.refusal().find("status table: capacity ") == 0);
  }
}

TEST_CASE("a status file without its seal, too short, or without a header is refused") {
  UniqueFd unsealed(::memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.get(), 8192) == 0);
  CHECK_FALSE(StatusTableReader::attach(std::move(unsealed), 8192));

  const auto table = make_table(16);
  auto fd = table.readonly_fd();
  REQUIRE(fd);
  CHECK_FALSE(StatusTableReader::attach(std::move(*fd), 1ULL << 40));
  fd = table.readonly_fd();
  REQUIRE(fd);
  const auto small = StatusTableReader::attach(std::move(*fd), 100);
  REQUIRE_FALSE(small);
  CHECK(small.error().message() == "status table: file has 100 bytes, no header");
}

TEST_CASE("a table of random bytes is read to an end") {
  SpoiledTable spoiled;
  const auto reader = attach_to(spoiled.table);
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    for (std::size_t i = kStatusEntriesOffset; i < spoiled.region.size_bytes(); ++i) {
      spoiled.region.writable_bytes()[i] = static_cast<std::uint8_t>(random());
    }
    for (int i = 0; i < 16; ++i) {
      // Every hash is asked for, so that sequences and masks are reached too.
      PageStatus status;
      const StatusAnswer answer = reader.look(spoiled.entries[i].hash, status);
      REQUIRE((answer == StatusAnswer::found || equal(status, PageStatus{})));
      spoiled.entries[i].remote |= kStatusInUse;
    }
    spoiled.header.moves = static_cast<std::uint32_t>(random());
    spoiled.header.capacity = random();
    PageStatus status;
    REQUIRE(reader.look(page_number(random()), status) != StatusAnswer::found);
  }
}
