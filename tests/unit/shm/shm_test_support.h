// SPDX-License-Identifier: Apache-2.0
// shm_test_support: what several tests of this room need.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "proto/ids.h"
#include "shm/memory_file.h"
#include "shm/region.h"

namespace hc::test {

// A hash whose home is chosen by word 0 and whose identity by `number`.
inline PageHash hash_at(std::uint64_t home, std::uint64_t number) {
  PageHash hash;
  std::memcpy(hash.bytes.data(), &home, sizeof home);
  std::memcpy(hash.bytes.data() + 8, &number, sizeof number);
  return hash;
}

// Spreads numbers over 64 bits; the constants are those of SplitMix64.
inline std::uint64_t mix(std::uint64_t number) {
  number += 0x9E3779B97F4A7C15ULL;
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9ULL;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBULL;
  return number ^ (number >> 31);
}

inline PageHash page_number(std::uint64_t number) {
  return hash_at(mix(number), number);
}

// The block of /proc/self/smaps that holds `address`, from its first line to its VmFlags.
inline std::string smaps_of(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream file("/proc/self/smaps");
  std::string line;
  std::string block;
  bool inside = false;
  while (std::getline(file, line)) {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream fields(line);
    if (fields >> std::hex >> start >> dash >> end && dash == '-') {
      inside = start <= wanted && wanted < end;
    }
    if (inside) {
      block += line + "\n";
    }
  }
  return block;
}

inline Region map_all(const MemoryFile& file, bool read_only) {
  RegionOptions options;
  options.size_bytes = file.size_bytes();
  options.read_only = read_only;
  auto region = Region::map(file.fd(), options);
  HC_CHECK(region);
  return std::move(*region);
}

inline MemoryFile make_file(std::uint64_t size_bytes) {
  auto file = MemoryFile::create("hicache-test", size_bytes);
  HC_CHECK(file);
  return std::move(*file);
}

}  // namespace hc::test
