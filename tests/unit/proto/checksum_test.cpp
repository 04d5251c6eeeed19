// SPDX-License-Identifier: Apache-2.0
// checksum_test: CRC32C against published vectors, and what copying and summing promises.
#include "proto/checksum.h"

#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

#include "support/catch.h"
#include "unit/proto/sample.h"

namespace hc::proto_test {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kRaceBytes = 4 * kPageBytes;  // One block of copy_crc32c.

// Private zeroed pages that may be protected one by one.
class Pages {
 public:
  explicit Pages(std::size_t size)
      : size_(size),
        data_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(data_ != MAP_FAILED);
  }
  ~Pages() { ::munmap(data_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }
  std::span<const std::uint8_t> bytes() const { return {data(), size_}; }

 private:
  std::size_t size_;
  void* data_;
};

// What the fault handler changes: it plays a client that writes to its memory during the copy.
std::uint8_t* race_source = nullptr;
std::uint8_t* race_guard = nullptr;
volatile std::sig_atomic_t race_faults = 0;

void change_source(int) {
  race_faults = race_faults + 1;
  if (race_faults > 1) {
    std::_Exit(99);  // A fault of some other kind: returning would repeat it for ever.
  }
  for (std::size_t i = 0; i < kRaceBytes; ++i) {
    race_source[i] = static_cast<std::uint8_t>(~race_source[i]);
  }
  ::mprotect(race_guard, kPageBytes, PROT_READ | PROT_WRITE);
}

std::vector<std::uint8_t> pattern(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 131 + i / 251);
  }
  return bytes;
}

}  // namespace

TEST_CASE("CRC32C gives the published sums") {
  std::vector<std::uint8_t> rising(32);
  std::iota(rising.begin(), rising.end(), std::uint8_t{0});

  CHECK(crc32c({}) == 0);
  CHECK(crc32c(bytes_of("123456789")) == 0xE3069283U);
  CHECK(crc32c(bytes_of("a")) == 0xC1D04330U);
  CHECK(crc32c(std::vector<std::uint8_t>(32, 0x00)) == 0x8A9136AAU);
  CHECK(crc32c(std::vector<std::uint8_t>(32, 0xFF)) == 0x62A8AB43U);
  CHECK(crc32c(rising) == 0x46DD794EU);
}

TEST_CASE("A sum continued over the second part equals the sum of both parts, at every cut") {
  const auto whole = pattern(300);
  const std::span<const std::uint8_t> bytes(whole);
  const std::uint32_t expected = crc32c(bytes);

  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    CAPTURE(cut);
    CHECK(crc32c(bytes.subspan(cut), crc32c(bytes.first(cut))) == expected);
  }
}

TEST_CASE("Copying and summing copies every byte and gives the plain sum, seeded or not") {
  for (const std::size_t size : {0U, 1U, 16383U, 16384U, 16385U, 100000U}) {
    CAPTURE(size);
    const auto source = pattern(size);
    std::vector<std::uint8_t> target(size + 1, 0xEE);

    CHECK(copy_crc32c(target.data(), source) == crc32c(source));
    CHECK(copy_crc32c(target.data(), source, 0x12345678U) == crc32c(source, 0x12345678U));
    CHECK(std::equal(source.begin(), source.end(), target.begin()));
    CHECK(target.back() == 0xEE);
  }
}

// The last page of the target is not writable at first. The copy faults there, when earlier pages
// are copied and nothing is summed, and the handler inverts the whole source. A sum of the source,
// taken before the copy or after it, would differ from what the target now holds.
TEST_CASE("The sum is of the copy, when the source changes in the middle of it") {
  const Pages source(kRaceBytes);
  const Pages target(kRaceBytes);
  const auto bytes = pattern(kRaceBytes);
  std::copy(bytes.begin(), bytes.end(), source.data());
  race_source = source.data();
  race_guard = target.data() + kRaceBytes - kPageBytes;
  race_faults = 0;
  REQUIRE(::mprotect(race_guard, kPageBytes, PROT_NONE) == 0);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = change_source;
  REQUIRE(::sigaction(SIGSEGV, &action, &before) == 0);

  const std::uint32_t sum = copy_crc32c(target.data(), source.bytes());
  REQUIRE(::sigaction(SIGSEGV, &before, nullptr) == 0);

  CHECK(race_faults == 1);
  CHECK(sum == crc32c(target.bytes()));
  CHECK(sum != crc32c(source.bytes()));
  CHECK(sum != crc32c(bytes));
}

}  // namespace hc::proto_test
