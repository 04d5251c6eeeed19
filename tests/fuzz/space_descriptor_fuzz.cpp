// SPDX-License-Identifier: Apache-2.0
// space_descriptor_fuzz: an encoded space descriptor of any bytes, as a client may send it.
//
// Input: the descriptor.
#include "proto/space.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace hc;
  fuzz::Input input(data, size_bytes);
  const fuzz::Bytes bytes = input.take_rest();

  const auto found = decode_space(bytes);
  if (!found) {
    HC_CHECK(found.error().code == Code::bad_argument);
    HC_CHECK(!found.error().message().empty());
    return 0;
  }
  // One space has one encoding: its identity is the sum of these bytes.
  HC_CHECK(encode_space(*found) == bytes);
  HC_CHECK(bytes.size() <= kDescriptorBytesMax);
  HC_CHECK(static_cast<bool>(validate_space(*found)));
  const auto parts = parts_of(*found);
  HC_CHECK(!parts.empty() && parts.size() <= kPartsMax);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    HC_CHECK(part_index(*found, parts[i].kind, parts[i].shard) == i);
  }
  const bool has_version = !found->weight_version.empty();
  HC_CHECK((make_space_id(*found).bytes != make_family_id(*found).bytes) == has_version);
  return 0;
}
