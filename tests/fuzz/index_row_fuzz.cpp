// SPDX-License-Identifier: Apache-2.0
// index_row_fuzz: key and value of an index row, of any bytes.
//
// Input: flags (bit 0: right checksum), length of the key, the key, the value.
#include "proto/index_row.h"

#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace hc;
  fuzz::Input input(data, size_bytes);
  const std::uint8_t flags = input.byte();
  const fuzz::Bytes key = input.take(input.byte());
  fuzz::Bytes value = input.take_rest();
  if ((flags & 1) != 0 && value.size() >= sizeof(std::uint32_t)) {
    fuzz::reseal(value.data(), value.size(), crc32c(key));
  }

  const auto found = decode_index_row(key, value);
  if (!found) {
    HC_CHECK(found.error().code == Code::corrupt);
    return 0;
  }
  const auto key_again = encode_index_key(found->space, found->page);
  HC_CHECK(std::equal(key.begin(), key.end(), key_again.begin(), key_again.end()));
  HC_CHECK(encode_index_value(*found) == value);
  return 0;
}
