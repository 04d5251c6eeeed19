// SPDX-License-Identifier: Apache-2.0
// op_table_test: slots, names, and what is in flight.
#include "client/op_table.h"

#include <chrono>
#include <deque>
#include <random>
#include <set>

#include "support/catch.h"

namespace hc {
namespace {

OpRecord record_of(Verb verb, std::uint32_t region = 0) {
  OpRecord record;
  record.verb = verb;
  record.region = region;
  return record;
}

TEST_CASE("an op id names attachment, use and slot and is never zero") {
  const OpName largest{kAttachmentsMax, 0xFFFFFFFFU, 63};
  const OpName smallest{1, 1, 0};

  CHECK(op_name_of(op_id_of(largest)) == largest);
  CHECK(op_name_of(op_id_of(smallest)) == smallest);
  CHECK(op_id_of(smallest) != 0);
}

TEST_CASE("the table takes as many operations as there are slots and then no more") {
  OpTable table(1);
  std::set<std::uint16_t> slots;
  for (std::uint32_t i = 0; i < kOpSlotsPerSession; ++i) {
    const auto name = table.take(record_of(Verb::flush));
    REQUIRE(name.has_value());
    slots.insert(name->slot);
  }

  CHECK(slots.size() == kOpSlotsPerSession);
  CHECK_FALSE(table.take(record_of(Verb::flush)).has_value());
  CHECK(table.in_flight() == kOpSlotsPerSession);
}

TEST_CASE("an operation that has ended is not found under its name again") {
  OpTable table(1);
  const OpName first = *table.take(record_of(Verb::load));

  table.end(first);

  CHECK(table.find(first) == nullptr);
  for (std::uint32_t i = 0; i < kOpSlotsPerSession; ++i) {
    const OpName later = *table.take(record_of(Verb::load));
    CHECK(op_id_of(later) != op_id_of(first));
  }
  CHECK(table.find(first) == nullptr);
}

TEST_CASE("the slot that was freed longest ago is taken next") {
  OpTable table(1);
  const OpName first = *table.take(record_of(Verb::load));

  table.end(first);

  for (std::uint32_t i = 0; i + 1 < kOpSlotsPerSession; ++i) {
    CHECK(table.take(record_of(Verb::load))->slot != first.slot);
  }
  CHECK(table.take(record_of(Verb::load))->slot == first.slot);
}

TEST_CASE("an operation of another attachment or slot is not found") {
  OpTable table(2);
  const OpName name = *table.take(record_of(Verb::load));

  CHECK(table.find(name) != nullptr);
  CHECK(table.find({1, name.sequence, name.slot}) == nullptr);
  CHECK(table.find({2, name.sequence + 1, name.slot}) == nullptr);
  CHECK(table.find({2, name.sequence, 60000}) == nullptr);
}

TEST_CASE("only stores and loads count for a region") {
  OpTable table(1);
  table.take(record_of(Verb::store, 5));
  table.take(record_of(Verb::load, 5));
  table.take(record_of(Verb::load, 4));
  table.take(record_of(Verb::flush, 5));

  CHECK(table.in_flight_of_region(5) == 2);
  CHECK(table.in_flight_of_region(4) == 1);
  CHECK(table.in_flight_of_region(0) == 0);
}

TEST_CASE("random takes and ends agree with a model") {
  std::mt19937 random(7);
  OpTable table(3);
  std::deque<OpName> model;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0 && model.size() < kOpSlotsPerSession) {
      auto record = record_of(Verb::reload);
      record.user_data = static_cast<std::uint64_t>(step);
      model.push_back(*table.take(record));
      REQUIRE(table.find(model.back())->user_data == static_cast<std::uint64_t>(step));
    } else if (!model.empty()) {
      const auto victim = static_cast<std::ptrdiff_t>(random() % model.size());
      table.end(model[static_cast<std::size_t>(victim)]);
      model.erase(model.begin() + victim);
    }
    REQUIRE(table.in_flight() == model.size());
    REQUIRE(table.all().size() == model.size());
  }
}

TEST_CASE("the next late operation is the earliest in flight that is not late yet") {
  const auto start = std::chrono::steady_clock::now();
  const auto taken_at = [&](OpTable& table, int seconds) {
    OpRecord record = record_of(Verb::load);
    record.late_at = start + std::chrono::seconds(seconds);
    return *table.take(record);
  };
  OpTable table(1);
  CHECK_FALSE(table.next_late().has_value());
  const OpName third = taken_at(table, 3);
  const OpName first = taken_at(table, 1);
  const OpName second = taken_at(table, 2);

  CHECK(table.next_late() == start + std::chrono::seconds(1));
  table.find(first)->late = true;
  CHECK(table.next_late() == start + std::chrono::seconds(2));
  table.end(second);
  CHECK(table.next_late() == start + std::chrono::seconds(3));
  table.end(third);
  CHECK_FALSE(table.next_late().has_value());
}

}  // namespace
}  // namespace hc
