// SPDX-License-Identifier: Apache-2.0
// nccl_agreement_test: ranks on the stand-in libraries reduce to the exact minimum, by one
// collective per reduce (nccl_agreement.cpp, device_words.cpp).
#include "client/agree/nccl_agreement.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <random>

#include "client/agree/device_words.h"
#include "nccl_bench.h"

namespace hc {
namespace {

constexpr int kRounds = 100;

// What a rank says in a round; every rank can compute it for all.
AgreementVector words_of(std::uint32_t rank, int round) {
  std::mt19937_64 random(rank * 1'000U + static_cast<unsigned>(round));
  AgreementVector vector;
  for (std::int64_t& word : vector.words) {
    word = static_cast<std::int64_t>(random());
    if (random() % 8 == 0) {
      word = random() % 2 == 0 ? std::numeric_limits<std::int64_t>::min()
                               : AgreementVector::kUnused;
    }
  }
  return vector;
}

int reduce_many(NcclRank& rank) {
  {
    const auto agreement = rank.create();
    HC_EXPECT(agreement);
    for (int round = 0; round < kRounds; ++round) {
      AgreementVector vector = words_of(rank.options.rank, round);
      AgreementVector expected = words_of(0, round);
      for (std::uint32_t other = 1; other < rank.options.world; ++other) {
        expected.reduce(words_of(other, round));
      }
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::ok);
      HC_EXPECT(vector == expected);
      HC_EXPECT(test::nccl_count("ncclAllReduce") == round + 1);
    }
    HC_EXPECT((*agreement)->reason().empty());
  }
  return nccl_left_overs();
}

TEST_CASE("ranks reduce to the exact minimum, by one collective each time, and leave nothing") {
  for (std::uint32_t world = 1; world <= 4; ++world) {
    CAPTURE(world);
    NcclGroup group(world, same_plan({}), reduce_many);
    CHECK(group.all_end_well());
  }
}

TEST_CASE("a rank that is late in every round changes nothing but the time") {
  NcclGroup group(
      3,
      [](std::uint32_t rank) {
        const NcclPlan late{"stream_delay_us=300", "init_delay_us=50000,reduce_delay_us=500"};
        return rank == 1 ? late : NcclPlan{};
      },
      reduce_many);
  CHECK(group.all_end_well());
}

TEST_CASE("a collective that is queued after its call has returned is waited for") {
  NcclGroup group(2, same_plan({"", "launch_polls=3"}), reduce_many);
  CHECK(group.all_end_well());
}

TEST_CASE("the communicator does not block and takes one block of threads") {
  NcclGroup group(1, same_plan({}), [](NcclRank& rank) {
    HC_EXPECT(rank.create());
    HC_EXPECT(test::nccl_count("config.blocking") == 0);
    HC_EXPECT(test::nccl_count("config.min_ctas") == 1);
    HC_EXPECT(test::nccl_count("config.max_ctas") == 1);
    return 0;
  });
  CHECK(group.all_end_well());
}

TEST_CASE("options out of range are refused before anything is taken") {
  NcclGroup group(1, same_plan({}), [](NcclRank& rank) {
    for (const auto& [own, world, device] : {std::array{0, 0, 0}, {2, 2, 0}, {0, 1, 1}}) {
      rank.options.rank = static_cast<std::uint32_t>(own);
      rank.options.world = static_cast<std::uint32_t>(world);
      rank.options.device = device;
      const auto agreement = rank.create();
      HC_EXPECT(!agreement && agreement.error().code == Code::bad_argument);
    }
    HC_EXPECT(test::cuda_count("cuStreamCreateWithPriority") == 0);
    HC_EXPECT(test::nccl_count("ncclCommInitRankConfig") == 0);
    return 0;
  });
  CHECK(group.all_end_well());
}

// By hand, on a machine with a device; the libraries are those that the linker finds.
TEST_CASE("on a real device a rank reduces alone to its own words", "[.][gpu]") {
  CHECK(test::holds_in_child([] {
    const auto driver = CudaDriver::load();
    if (!driver) std::fprintf(stderr, "%s\n", driver.error().message().c_str());
    HC_EXPECT(driver);
    const auto library = NcclLibrary::load();
    if (!library) std::fprintf(stderr, "%s\n", library.error().message().c_str());
    HC_EXPECT(library);
    const auto id = library->make_unique_id();
    HC_EXPECT(id);
    NcclOptions options;
    options.id = *id;
    auto agreement = NcclAgreement::create(*driver, *library, options);
    if (!agreement) std::fprintf(stderr, "%s\n", agreement.error().message().c_str());
    HC_EXPECT(agreement);
    std::vector<std::int64_t> took_us;
    for (int round = 0; round < 1000; ++round) {
      AgreementVector vector = words_of(0, round);
      const auto begin = std::chrono::steady_clock::now();
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::ok);
      took_us.push_back(std::chrono::duration_cast<std::chrono::microseconds>(
                            std::chrono::steady_clock::now() - begin).count());
      HC_EXPECT(vector == words_of(0, round));
    }
    std::sort(took_us.begin(), took_us.end());
    std::fprintf(stderr, "driver %d, NCCL %d, a reduce: %lld us median, %lld us p99\n",
                 driver->version(), library->version(), static_cast<long long>(took_us[500]),
                 static_cast<long long>(took_us[990]));
    (*agreement)->notice_member_gone();
    AgreementVector vector;
    HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::disconnected);
    return 0;
  }));
}

TEST_CASE("a wait is over when its time is up, however it pauses") {
  for (const std::int64_t spin_ns : {std::int64_t{0}, std::int64_t{100'000}}) {
    PollWait wait({spin_ns, 3'000'000});
    int looks = 0;
    while (wait.pause()) {
      ++looks;
    }
    CHECK(looks > 0);
    CHECK_FALSE(wait.pause());
  }
  CHECK_FALSE(PollWait({0, 0}).pause());
}

}  // namespace
}  // namespace hc
