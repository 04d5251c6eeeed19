// SPDX-License-Identifier: Apache-2.0
// space_validation_test: what is not a space, in memory and as bytes.
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "proto/space.h"
#include "support/catch.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

struct Bad {
  std::string line;  // Names the field, its value and the allowed range.
  std::function<void(SpaceDescriptor&)> apply;
};

using D = SpaceDescriptor;

const std::string kLongText(kNameBytesMax + 1, 'x');

std::vector<Bad> bad_texts() {
  return {
      {"tenant has 257 bytes: must be 0..256", [](D& s) { s.tenant = kLongText; }},
      {"model has 257 bytes: must be 1..256", [](D& s) { s.model = kLongText; }},
      {"model has 0 bytes: must be 1..256", [](D& s) { s.model.clear(); }},
      {"revision has 257 bytes: must be 0..256", [](D& s) { s.revision = kLongText; }},
      {"weight_version has 257 bytes: must be 0..256", [](D& s) { s.weight_version = kLongText; }},
      {"dtype has 257 bytes: must be 0..256", [](D& s) { s.dtype = kLongText; }},
      {"packing has 257 bytes: must be 0..256", [](D& s) { s.packing = kLongText; }},
      {"layout has 257 bytes: must be 0..256", [](D& s) { s.layout = kLongText; }},
      {"hash_scheme has 257 bytes: must be 0..256", [](D& s) { s.hash_scheme = kLongText; }},
      {"tenant holds a control character", [](D& s) { s.tenant = "a\nb"; }},
      {"model holds a control character", [](D& s) { s.model = std::string("a\0b", 3); }},
      {"revision holds a control character", [](D& s) { s.revision = "\x1F"; }},
      {"dtype holds a control character", [](D& s) { s.dtype = "\x7F"; }},
      {"kinds[1].name holds a control character", [](D& s) { s.kinds[1].name = "a\tb"; }},
      {"kinds[1].name has 0 bytes: must be 1..256", [](D& s) { s.kinds[1].name.clear(); }},
      {"kinds[0].name has 257 bytes: must be 1..256", [](D& s) { s.kinds[0].name = kLongText; }},
      {"kinds: the name 'kv' stands twice", [](D& s) { s.kinds[2].name = "kv"; }},
  };
}

std::vector<Bad> bad_numbers() {
  return {
      {"page_tokens = 0: must be 1..65536", [](D& s) { s.page_tokens = 0; }},
      {"page_tokens = 65537: must be 1..65536", [](D& s) { s.page_tokens = 65537; }},
      {"world.tensor = 0: must be 1..64", [](D& s) { s.world.tensor = 0; }},
      {"world.tensor = 65: must be 1..64", [](D& s) { s.world.tensor = 65; }},
      {"world.pipeline = 0: must be 1..64", [](D& s) { s.world.pipeline = 0; }},
      {"world.pipeline = 65535: must be 1..64", [](D& s) { s.world.pipeline = 65535; }},
      {"world.context = 0: must be 1..64", [](D& s) { s.world.context = 0; }},
      {"world.context = 65: must be 1..64", [](D& s) { s.world.context = 65; }},
      {"world (tensor * pipeline * context) = 65536: must be 1..64",
       [](D& s) {
         s.world = {64, 32, 32};
       }},
      {"number of kinds = 0: must be 1..8", [](D& s) { s.kinds.clear(); }},
      {"number of kinds = 9: must be 1..8", [](D& s) { s.kinds.resize(9); }},
      {"kinds[0].payload_bytes = 0: must be 1..67108864",
       [](D& s) { s.kinds[0].payload_bytes = 0; }},
      {"kinds[1].payload_bytes = 67108865: must be 1..67108864",
       [](D& s) { s.kinds[1].payload_bytes = kPayloadBytesMax + 1; }},
      {"kinds[0].placement = 3: must be 0..2",
       [](D& s) { s.kinds[0].placement = static_cast<Placement>(3); }},
      {"kinds[0].policy = 2: must be 0..1",
       [](D& s) { s.kinds[0].policy = static_cast<HitPolicy>(2); }},
      {"kinds[0].trailing_pages = 1: must be 0..0", [](D& s) { s.kinds[0].trailing_pages = 1; }},
      {"kinds[2].trailing_pages = 0: must be 1..512", [](D& s) { s.kinds[2].trailing_pages = 0; }},
      {"kinds[2].trailing_pages = 513: must be 1..512",
       [](D& s) { s.kinds[2].trailing_pages = 513; }},
      {"parts (shards of all kinds) = 129: must be 1..64",
       [](D& s) {
         s.world = {64, 1, 1};
       }},
  };
}

void check_refused(const Result<SpaceDescriptor>& found, std::size_t size) {
  CAPTURE(size);
  REQUIRE_FALSE(found);
  CHECK(found.error().code == Code::bad_argument);
}

// Where the byte after the last text field lies: page_tokens, bigram, world, number of kinds.
std::size_t numbers_at(const SpaceDescriptor& space) {
  std::size_t at = 1;
  for (const std::string* text :
       {&space.tenant, &space.model, &space.revision, &space.weight_version, &space.dtype,
        &space.packing, &space.layout, &space.hash_scheme}) {
    at += 2 + text->size();
  }
  return at;
}

}  // namespace

TEST_CASE("A bad field of a space is refused by a line with field, value and range") {
  for (const std::vector<Bad>& table : {bad_texts(), bad_numbers()}) {
    for (const Bad& bad : table) {
      CAPTURE(bad.line);
      SpaceDescriptor space = sample_space();
      REQUIRE(validate_space(space));
      bad.apply(space);

      const auto verdict = validate_space(space);
      REQUIRE_FALSE(verdict);
      CHECK(verdict.error().code == Code::bad_argument);
      CHECK(verdict.error().message() == bad.line);
    }
  }
}

TEST_CASE("A space at each limit is still a space") {
  SpaceDescriptor space = sample_space();
  space.model = std::string(kNameBytesMax, 'x');
  space.tenant.clear();
  space.page_tokens = kPageTokensMax;
  space.world = {64, 1, 1};
  space.kinds = {{"kv", kPayloadBytesMax, Placement::sharded, HitPolicy::trailing, 512}};
  CHECK(validate_space(space));
}

TEST_CASE("Text of a space is UTF-8") {
  SpaceDescriptor space = sample_space();
  space.model = "Modell \xC3\xA4";
  CHECK(validate_space(space));
  CHECK(decode_space(encode_space(space)));
  space.model = "Modell \xFF";
  const auto refused = validate_space(space);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text == "model is not UTF-8");
}

TEST_CASE("What a bad space encodes to does not decode") {
  for (const std::vector<Bad>& table : {bad_texts(), bad_numbers()}) {
    for (const Bad& bad : table) {
      CAPTURE(bad.line);
      SpaceDescriptor space = sample_space();
      bad.apply(space);
      const Bytes bytes = encode_space(space);
      check_refused(decode_space(bytes), bytes.size());
    }
  }
}

TEST_CASE("A descriptor cut short at any length, or with a tail, does not decode") {
  const Bytes good = encode_space(sample_space());
  REQUIRE(decode_space(good));
  for (std::size_t size = 0; size < good.size(); ++size) {
    // An exact copy, so that the sanitizer sees a read past the end.
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    check_refused(decode_space(cut), size);
  }
  Bytes longer = good;
  longer.push_back(0);
  check_refused(decode_space(longer), longer.size());
}

TEST_CASE("A descriptor of another encoding version does not decode") {
  for (const auto version : std::initializer_list<std::uint8_t>{0, 2, 255}) {
    Bytes bytes = encode_space(sample_space());
    bytes[0] = version;
    check_refused(decode_space(bytes), bytes.size());
  }
}

TEST_CASE("A descriptor has one encoding: a flag other than 0 and 1 does not decode") {
  Bytes bytes = encode_space(sample_space());
  std::uint8_t& bigram = bytes[numbers_at(sample_space()) + 4];
  REQUIRE(bigram == 1);
  bigram = 0;
  CHECK(decode_space(bytes));
  bigram = 2;
  check_refused(decode_space(bytes), bytes.size());
}

TEST_CASE("A descriptor that announces more kinds or longer text than it has does not decode") {
  const Bytes good = encode_space(sample_space());
  Bytes many = good;
  const std::size_t count_at = numbers_at(sample_space()) + 4 + 1 + 6;
  REQUIRE(many[count_at] == 3);
  many[count_at] = 4;
  check_refused(decode_space(many), many.size());
  many[count_at + 1] = 0xFF;
  check_refused(decode_space(many), many.size());

  Bytes text = good;
  text[1] = 0xFF;
  text[2] = 0xFF;
  check_refused(decode_space(text), text.size());
}

}  // namespace hc::proto_test
