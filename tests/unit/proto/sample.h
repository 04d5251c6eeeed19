// SPDX-License-Identifier: Apache-2.0
// sample: the values that format tests and golden files share, and the bytes of golden files.
//
// Owner thread: the test's. Invariant: the values equal those of tests/golden/make_golden.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/blob_header.h"
#include "proto/page_hash.h"
#include "proto/space.h"
#include "support/catch.h"
#include "support/paths.h"

namespace hc::proto_test {

using Bytes = std::vector<std::uint8_t>;

inline std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// The bytes of a plain struct. It has no padding, so equal bytes mean equal fields.
template <WireStruct T>
Bytes struct_bytes(const T& object) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(&object);
  return Bytes(data, data + sizeof(T));
}

template <WireStruct T>
void append(Bytes& out, const T& object) {
  const Bytes bytes = struct_bytes(object);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

inline PageHash sample_page(int number = 0) {
  return PageHash{sha256(bytes_of("page " + std::to_string(number)))};
}

inline Uuid sample_uuid() {
  Uuid uuid{};
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    uuid[i] = static_cast<std::uint8_t>(0x10 + i);
  }
  return uuid;
}

inline BlobSeed sample_seed() {
  return {sample_uuid(), 3, 5};
}

inline SpaceDescriptor sample_space() {
  SpaceDescriptor space;
  space.tenant = "team-a";
  space.model = "example/model-8b";
  space.revision = "r1";
  space.weight_version = "weights-7";
  space.dtype = "fp8_e4m3";
  space.packing = "mla";
  space.layout = "page_first";
  space.hash_scheme = "sha256-chain";
  space.page_tokens = 64;
  space.bigram = true;
  space.world = {4, 2, 1};
  space.kinds = {{"kv", 2561024, Placement::sharded, HitPolicy::all_pages, 0},
                 {"indexer", 515328, Placement::replicated, HitPolicy::all_pages, 0},
                 {"swa", 40960, Placement::owned, HitPolicy::trailing, 4}};
  return space;
}

// The bytes of tests/golden/NAME.hex, whose form tests/golden/README.md gives.
inline Bytes golden(const std::string& name) {
  std::ifstream file(test::source_dir() / "tests/golden" / (name + ".hex"));
  INFO("golden file " << name);
  std::string word;
  std::size_t size = 0;
  REQUIRE(file >> word >> size);
  REQUIRE(word == "size");
  Bytes bytes(size);
  std::size_t at = 0;
  while (file >> word) {
    const std::size_t number = std::strtoul(word.c_str(), nullptr, 16);
    if (word.back() == ':') {
      at = number;
      continue;
    }
    REQUIRE(at < size);
    bytes[at++] = static_cast<std::uint8_t>(number);
  }
  return bytes;
}

}  // namespace hc::proto_test
