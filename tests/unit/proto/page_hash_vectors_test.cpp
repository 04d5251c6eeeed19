// SPDX-License-Identifier: Apache-2.0
// page_hash_vectors_test: page hashes against vectors of the engine's own algorithm.
//
// The names in brackets number the vectors, which were computed with Python's hashlib.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/page_hash.h"
#include "support/catch.h"
#include "unit/proto/page_hash_model.h"

namespace hc::page_hash_test {
namespace {

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

TEST_CASE("SHA-256 gives the published digests, and one object hashes message after message") {
  REQUIRE(check_sha256());
  const PageHash abc =
      from_hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const PageHash nothing =
      from_hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256(bytes_of("abc")) == abc.bytes);
  CHECK(sha256({}) == nothing.bytes);

  Sha256 sha;
  sha.update(bytes_of("a"));
  sha.update({});
  sha.update(bytes_of("bc"));
  CHECK(sha.finish() == abc.bytes);
  CHECK(sha.finish() == nothing.bytes);

  sha.update(bytes_of("ab"));
  Sha256 moved = std::move(sha);
  moved.update(bytes_of("c"));
  CHECK(moved.finish() == abc.bytes);
}

TEST_CASE("A hash over plain ids equals the engine's single hash (S1, S2, S3, S6, S8)") {
  CHECK(units(kNoPrior, {}) ==
        from_hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
  CHECK(units(kNoPrior, {1}) ==
        from_hex("67abdd721024f0ff4e0b3f4c2fc13bc5bad42d0b7851d456d88d203d15aaa450"));
  CHECK(units(kNoPrior, {1, 2, 3, 4}) == from_hex(kS3));
  CHECK(units(kNoPrior, {0, 151643, 151644, 128009, 4294967295}) ==
        from_hex("0ebdbb6eda746c4fb23fa03c9164aacca63f51d677bff5fbdc0720483c5ff9bd"));
  CHECK(units(units(kNoPrior, {1, 2}), {3, 4}) ==
        from_hex("c57b445f90651b9a650e516ab2238c965b21af35608a31c303e6d9e407f2915c"));
}

TEST_CASE("Pages of plain ids equal the engine's page hashes (S4, S5, S7)") {
  CHECK(pages(kNoPrior, range(1, 9), kPlain4) ==
        from_hex_all({kS3, "4ebfa8a1f3c341517621838c6e1b9aa350307e3f00b3cbd1a07ef740f54396d6"}));
  CHECK(pages(kNoPrior, range(0, 128), {.page_tokens = 64}) ==
        from_hex_all({"fea7b32778ecbdd7adee1941e98c89cf96bbc762f5f1beb0be24e36a456fbbc5",
                      "1617a7384eff5e9135098c24794739af884859cdb17c1a61a834e8d6ac997351"}));
  CHECK(pages(kNoPrior, range(1, 7), {.page_tokens = 4, .include_short_tail = true}) ==
        from_hex_all({kS3, "ccb860d400a5043f4378cf6408132e442be724ef376ab2f53169b5d9e958f75f"}));
}

TEST_CASE("Bigrams equal the engine's hashes of pairs (B1 to B4)") {
  CHECK(units(kNoPrior, {1, 2}, true) ==
        from_hex("34fb5c825de7ca4aea6e712f19d439c1da0c92c37b423936c5f618545ca4fa1f"));
  CHECK(pages(kNoPrior, range(1, 10), kBigram4) ==
        from_hex_all({"f721fe42aac11dcbfd1a17f24cc5765a0d5b6bc264d1c0b6581d775a7344c11f",
                      "c35ad698917936a474f7e55f3a4855eaee20585cd0bf156b1ae3a62666ba7220"}));
  CHECK(pages(kNoPrior, range(0, 129), {.page_tokens = 64, .bigram = true}) ==
        from_hex_all({"2fbff5c19f67e55a3048fa127a9075e64896f6bee41385b93e4e51af12642ba7",
                      "6c749457bd4f67c169fe309570c7ada4f8b779a76651c1afa7e178afbb8ace2b"}));

  const PageHash anchor = units(kNoPrior, {7, 8, 9});
  CHECK(anchor == from_hex("bcbc01a5036673e493422616677a83718edfe475d3e938b1a879903ffb2a05a0"));
  CHECK(units(anchor, {10, 20, 30, 40, 50}, true) ==
        from_hex("3d522a8d461287307c73890882bc8dd86f7d4d50c4d306a644db19e4bc39b9c5"));
}

TEST_CASE("A long bigram chain from an anchor equals the engine's, short tail included (B5)") {
  Ids raw;
  for (std::uint64_t i = 0; i < 258; ++i) {
    raw.push_back((i * 2654435761ULL) & 0xFFFFFFULL);
  }
  const Prior anchor = units(kNoPrior, {7, 8, 9});
  const Hashes expected =
      from_hex_all({"d9be4ff6eea5a1fd913b335378279f8c3acd7969d7d35d57201ec76760f79172",
                    "3b91bf8b105fa81961ebdc4c0c17090e3ab4ab06008eb8ee82a27302753acdf2",
                    "2ae4b11a3b96818b055831d2c33796f22f156cc13659a8af2bcfdb1dce9d092e",
                    "be079459f240a498d7553ed67b6e898168fb5b8f17ab37c526ba2f1815c2b821",
                    "866f83f52ad2e5090dbebf4531226813ea084e81b5b58dce97f84e14869a435b"});
  CHECK(pages(anchor, raw, {.page_tokens = 64, .bigram = true, .include_short_tail = true}) ==
        expected);
  CHECK(pages(anchor, raw, {.page_tokens = 64, .bigram = true}) ==
        Hashes(expected.begin(), expected.end() - 1));
}

TEST_CASE("A namespace seeds the chain as the engine's storage does (N1 to N3, N6)") {
  struct Row {
    RequestNamespace parts;
    std::string_view seed;
    std::vector<std::string_view> pages_of_1_to_8;
  };
  const std::vector<Row> rows{
      {{"lora-a", std::nullopt},
       "407c773a7c02b33bd4a62af6bf5fc77997c2c8067811ecf2b39e3839c3f4284b",
       {"e4f68dc4af99b6de199d5a048add282da40aa4ef97942ce9eca321bccada9376",
        "fbf38da27007309d9127971414d44f4bcf8e272e236565e65870e62aed63c6e4"}},
      {{std::nullopt, "tenant-a"},
       "9d303df3761a7561353e2ae7459eb4ab12a08abb37951b696aa4f0c059c7caaa",
       {"2fd053693d7ef6aeb2f9315a5ca100dfe4b99434c563241ee3243a9163846222",
        "39ba3f7b77a6d9be73bc583518710afb6b630f81f7fc266efce37828cbf9a04e"}},
      {{"lora-a", "tenant-a"},
       "c7ee8656b62ea39a58fe00c8ba17747f60ce196f8d46c898be45bb1d1a188340",
       {"b75936c8af69e86720737a02ea012719582e19d3cc9f6f680b8882b51e4883ef",
        "512424e446f62db2934b087a8423470d5388a2040c9b8dee95626ccb15e36987"}},
  };
  for (const Row& row : rows) {
    const Prior seed = namespace_seed(row.parts);
    REQUIRE(seed);
    CHECK(*seed == from_hex(row.seed));
    CHECK(pages(seed, range(1, 9), kPlain4) == from_hex_all(row.pages_of_1_to_8));
  }
  CHECK(pages(namespace_seed({"lora-a", "tenant-a"}), range(1, 10), kBigram4) ==
        from_hex_all({"18480464fc2732ffae6f4073185901a3e0da4ef91b8904cbd84a1550332d4f67",
                      "090893a51d20377b08712d1f42d20a753c7a2ae4724fb5418ea79eeceb53965e"}));
}

TEST_CASE("Absent, empty and shifted namespace parts all differ (N4, N5)") {
  CHECK_FALSE(namespace_seed({}));
  CHECK(namespace_seed({"", std::nullopt}) ==
        from_hex("fd649dd130277fa0773e23e84ddfa4ec779d9df77087968a60d7cefb9050ab1d"));
  CHECK(namespace_seed({std::nullopt, ""}) ==
        from_hex("906782eeabf820a68eef4455ab98e5e86e311f658f7d7721723a97a90b81427e"));
  CHECK(namespace_seed({"a", "bc"}) ==
        from_hex("b8080ec8e713ddb4b5469eaf5874a021a72286a24e6c55d2046f0acfb48a938b"));
  CHECK(namespace_seed({"ab", "c"}) ==
        from_hex("3d6b02ff0d7a0ce42a5ac4a58251ee0e63490c7de5eb46aa2eeaa3a0fdff5364"));
}

TEST_CASE("Cache events keep the older salt seed, which is not the storage seed (E1)") {
  const Prior seed = event_seed("tenant-a");
  REQUIRE(seed);
  CHECK(*seed == from_hex("f5d0f785efe6042a4e4b0297a4d712917e1763c850835e93df58b373fd47fd2c"));
  CHECK(pages(seed, range(1, 9), kPlain4) ==
        from_hex_all({"339927f491605c4b08e0228f28c8f0d39419a45902ba4230d24069bdb603cc64",
                      "2dea906acb1a41cd3ea7b912d4c1d23196d8fe952afcdb5b8c5baa940959104a"}));
  CHECK_FALSE(event_seed(std::nullopt));
  CHECK(event_seed("").has_value());
  CHECK(event_seed("") != namespace_seed({std::nullopt, ""}));
}

TEST_CASE("A page with an id beyond 32 bits takes the wide form, alone in its chain (W1 to W4)") {
  const std::uint64_t big = 1ULL << 32;
  const Prior s3 = from_hex(kS3);
  CHECK(units(kNoPrior, {big}) ==
        from_hex("51e2a39324194d5161469fa264a9384235bfab266722e69a80a15cd932185a33"));
  CHECK(units(s3, {1, 2, 3, 1ULL << 40}) ==
        from_hex("f75b999184433c7c11f46eee0cbb2ffdea7e9551fc92d6531236082b5010a6f2"));
  CHECK(units(kNoPrior, {1, 1ULL << 33, 2}, true) ==
        from_hex("36f4aaecf4549122621b88fd0d2e5735d7e1650b0a7aa4c720b65adf1fa5df9a"));
  CHECK(pages(s3, Ids{5, 6, 7, big, 9, 10, 11, 12}, kPlain4) ==
        from_hex_all({"a854b0e04065d6dfd00b2f4772108b42e3404da9169c1f2013af360b36ab87f9",
                      "bbfa2d7f757467378c46694101c9445a81d58c815eecb2750c09816153f915ca"}));
}

TEST_CASE("The event number is the first eight bytes as a signed number (I1)") {
  CHECK(event_hash(from_hex(kS3)) == -3488128144981237669);
  CHECK(event_hash(units(kNoPrior, {42, 99})) == -1508490892048070135);
  CHECK(event_hash(units(kNoPrior, {1})) == 0x67abdd721024f0ff);
}

TEST_CASE("Page size and bigram flag are not in the hash, so a space must keep them apart") {
  CHECK(units(kNoPrior, {1, 2}, true) == units(kNoPrior, {1, 2}, false));
  CHECK(pages(kNoPrior, range(1, 5), kPlain4).front() == units(kNoPrior, {1, 2, 3, 4}));
}

}  // namespace hc::page_hash_test
