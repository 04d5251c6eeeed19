// SPDX-License-Identifier: Apache-2.0
// nccl_bench: a group of ranks, each a forked process on the stand-in libraries.
#pragma once

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/agree/nccl_agreement.h"
#include "support/catch.h"
#include "support/doubles.h"

namespace hc {

// What one rank has, in its own process.
struct NcclRank {
  CudaDriver driver;
  NcclLibrary library;
  NcclOptions options;

  Result<std::unique_ptr<NcclAgreement>> create() const {
    return NcclAgreement::create(driver, library, options);
  }
};

// What the stand-ins are told, by rank.
struct NcclPlan {
  std::string cuda;
  std::string nccl;
};
using NcclPlans = std::function<NcclPlan(std::uint32_t rank)>;
using NcclBody = std::function<int(NcclRank& rank)>;

inline constexpr AgreementLimits kPatientNccl{20'000, 60'000'000'000};

// Nothing of the stand-ins' is held by this process any more.
inline int nccl_left_overs() {
  for (const char* const what : {"device", "pinned", "streams", "events", "retains"}) {
    HC_EXPECT(test::cuda_count(what) == 0);
  }
  for (const char* const what : {"comms", "mappings", "descriptors"}) {
    HC_EXPECT(test::nccl_count(what) == 0);
  }
  return 0;
}

// The processes of a group. Rank 0 makes the id and gives it to the others by a pipe, whose end
// they see if it dies before.
class NcclGroup {
 public:
  NcclGroup(std::uint32_t world, const NcclPlans& plans, const NcclBody& body) {
    int ends[2];
    HC_CHECK(::pipe(ends) == 0);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      ranks_.push_back(std::make_unique<test::Child>([&] {
        ::close(ends[rank == 0 ? 0 : 1]);
        return run(rank, world, ends[rank == 0 ? 1 : 0], plans(rank), body);
      }));
    }
    ::close(ends[0]);
    ::close(ends[1]);
  }

  // The end of a rank: 0 if all that its body expects is so.
  int wait(std::uint32_t rank) { return ranks_[rank]->wait(); }
  bool all_end_well() {
    bool well = true;
    for (const auto& rank : ranks_) {
      well = rank->wait() == 0 && well;
    }
    return well;
  }

 private:
  static int run(std::uint32_t rank, std::uint32_t world, int id_fd, const NcclPlan& plan,
                 const NcclBody& body) {
    test::plan_double("HC_FAKE_CUDA", plan.cuda);
    test::plan_double("HC_FAKE_NCCL", plan.nccl);
    const auto driver = CudaDriver::load(test::double_library("libcuda.so.1"));
    HC_EXPECT(driver);
    const auto library = NcclLibrary::load(test::double_library("libnccl.so.2"));
    HC_EXPECT(library);
    NcclRank own{*driver, *library, {}};
    own.options.rank = rank;
    own.options.world = world;
    auto& id = own.options.id;
    if (rank == 0) {
      const auto made = library->make_unique_id();
      HC_EXPECT(made);
      id = *made;
      for (std::uint32_t other = 1; other < world; ++other) {
        HC_EXPECT(::write(id_fd, id.bytes, sizeof(id.bytes)) == sizeof(id.bytes));
      }
    } else {
      HC_EXPECT(::read(id_fd, id.bytes, sizeof(id.bytes)) == sizeof(id.bytes));
    }
    ::close(id_fd);
    return body(own);
  }

  std::vector<std::unique_ptr<test::Child>> ranks_;
};

inline NcclPlans same_plan(NcclPlan plan) {
  return [plan](std::uint32_t /*rank*/) { return plan; };
}

}  // namespace hc
