// SPDX-License-Identifier: Apache-2.0
// nccl_failure_test: every way in which a reduce of nccl_agreement ends without a result, and that
// nothing hangs or is left behind (nccl_agreement.cpp, device_words.cpp).
#include <sched.h>

#include <csignal>
#include <thread>

#include "nccl_bench.h"
#include "support/dies.h"

namespace hc {
namespace {

constexpr AgreementLimits kShort{20'000, 300'000'000};

// Rank 2 of 3 dies in its third round: its kernel has begun and has told nobody.
NcclPlan dying_plan(std::uint32_t rank) {
  return rank == 2 ? NcclPlan{"", "reduce_delay_us@3=60000000"} : NcclPlan{};
}

int die_in_third_round(NcclAgreement& agreement) {
  std::thread killer([] {
    while (test::nccl_count("ncclAllReduce") < 3) {
      ::sched_yield();
    }
    ::raise(SIGKILL);
  });
  AgreementVector vector;
  while (agreement.reduce(vector, kPatientNccl) == Code::ok) {
  }
  killer.join();
  return 1;
}

TEST_CASE("survivors of a member that dies in a round hear of it and leave") {
  int told[2];
  REQUIRE(::pipe(told) == 0);
  NcclGroup group(3, dying_plan, [&](NcclRank& rank) {
    {
      auto agreement = rank.create();
      HC_EXPECT(agreement);
      if (rank.options.rank == 2) {
        return die_in_third_round(**agreement);
      }
      ::close(told[1]);
      std::thread background([&] {
        char byte = 0;
        static_cast<void>(::read(told[0], &byte, 1));  // its end is the news
        (*agreement)->notice_member_gone();
      });
      AgreementVector vector;
      Code code = Code::ok;
      int rounds = 0;
      while ((code = (*agreement)->reduce(vector, kPatientNccl)) == Code::ok) {
        ++rounds;
      }
      background.join();
      HC_EXPECT(rounds <= 2);  // the news may come before the second is looked at
      HC_EXPECT(code == Code::disconnected);
      HC_EXPECT((*agreement)->reason() == "a member of the group is gone");
      HC_EXPECT(test::nccl_count("ncclCommAbort") == 1);
    }
    return nccl_left_overs();
  });
  CHECK(group.wait(2) == -SIGKILL);
  ::close(told[0]);
  ::close(told[1]);
  CHECK(group.wait(0) == 0);
  CHECK(group.wait(1) == 0);
}

TEST_CASE("survivors that nobody tells of a death leave when their time is up") {
  NcclGroup group(3, dying_plan, [](NcclRank& rank) {
    {
      auto agreement = rank.create();
      HC_EXPECT(agreement);
      if (rank.options.rank == 2) {
        return die_in_third_round(**agreement);
      }
      AgreementVector vector;
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::ok);
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::ok);
      HC_EXPECT((*agreement)->reduce(vector, kShort) == Code::timed_out);
      HC_EXPECT((*agreement)->reason() == "the other ranks did not come in time");
    }
    return nccl_left_overs();
  });
  CHECK(group.wait(2) == -SIGKILL);
  CHECK(group.wait(0) == 0);
  CHECK(group.wait(1) == 0);
}

TEST_CASE("news of a death that came before a reduce end it before its collective") {
  NcclGroup group(1, same_plan({}), [](NcclRank& rank) {
    auto agreement = rank.create();
    HC_EXPECT(agreement);
    (*agreement)->notice_member_gone();
    AgreementVector vector;
    HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::disconnected);
    HC_EXPECT(test::nccl_count("ncclAllReduce") == 0);
    return 0;
  });
  CHECK(group.all_end_well());
}

TEST_CASE("an asynchronous error of NCCL ends a reduce with io_error") {
  NcclGroup group(2, same_plan({"", "async@3=6"}), [](NcclRank& rank) {
    {
      auto agreement = rank.create();
      HC_EXPECT(agreement);
      AgreementVector vector;
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::ok);
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::ok);
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::io_error);
      HC_EXPECT((*agreement)->reason() ==
                "ncclAllReduce, afterwards: remote process exited or there was a network error "
                "(6)");
    }
    return nccl_left_overs();
  });
  CHECK(group.all_end_well());
}

TEST_CASE("a kernel that is complete counts for nothing if NCCL reports an error") {
  NcclGroup group(1, same_plan({"", "late_async@2=6"}), [](NcclRank& rank) {
    auto agreement = rank.create();
    HC_EXPECT(agreement);
    AgreementVector vector;
    HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::ok);
    HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::io_error);
    return 0;
  });
  CHECK(group.all_end_well());
}

TEST_CASE("a group that never comes together is given up when the time is up") {
  const bool others_come = GENERATE(true, false);
  NcclGroup group(others_come ? 2 : 1, same_plan({"", others_come ? "init_never=1" : ""}),
                  [](NcclRank& rank) {
                    rank.options.world = 2;
                    rank.options.limits = kShort;
                    const auto agreement = rank.create();
                    HC_EXPECT(!agreement && agreement.error().code == Code::timed_out);
                    return nccl_left_overs();
                  });
  CHECK(group.all_end_well());
}

TEST_CASE("news of a death end a group that is coming together") {
  NcclGroup group(1, same_plan({}), [](NcclRank& rank) {
    rank.options.world = 2;
    rank.options.notice = std::make_shared<DeathNotice>();
    std::thread background([&] {
      while (test::nccl_count("ncclCommGetAsyncError") < 3) {
        ::sched_yield();
      }
      rank.options.notice->give();
    });
    const auto agreement = rank.create();
    background.join();
    HC_EXPECT(!agreement && agreement.error().code == Code::disconnected);
    return nccl_left_overs();
  });
  CHECK(group.all_end_well());
}

struct Refusal {
  NcclPlan plan;
  const char* line;
};

TEST_CASE("a call that fails while a group is made is an error that names it, and nothing leaks") {
  const std::vector<Refusal> refusals = {
      {{"cuDevicePrimaryCtxRetain=2", ""},
       "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2)"},
      {{"cuCtxPushCurrent@1=201", ""}, "cuCtxPushCurrent: CUDA_ERROR_INVALID_CONTEXT (201)"},
      {{"cuCtxGetStreamPriorityRange=1", ""},
       "cuCtxGetStreamPriorityRange: CUDA_ERROR_INVALID_VALUE (1)"},
      {{"cuStreamCreateWithPriority=2", ""},
       "cuStreamCreateWithPriority: CUDA_ERROR_OUT_OF_MEMORY (2)"},
      {{"cuMemAlloc=2", ""}, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)"},
      {{"cuMemHostAlloc=2", ""}, "cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)"},
      {{"", "ncclCommInitRankConfig=2"}, "ncclCommInitRankConfig: unhandled system error (2)"},
      {{"", "ncclCommGetAsyncError@1=3"}, "ncclCommGetAsyncError: internal error (3)"},
  };
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.line);
    NcclGroup group(1, same_plan(refusal.plan), [&](NcclRank& rank) {
      {
        const auto agreement = rank.create();
        HC_EXPECT(!agreement && agreement.error().code == Code::io_error);
        HC_EXPECT(agreement.error().message() == refusal.line);
      }
      for (const char* const what : {"device", "pinned", "streams", "retains"}) {
        HC_EXPECT(test::cuda_count(what) == 0);
      }
      HC_EXPECT(test::nccl_count("comms") == 0);
      HC_EXPECT(test::nccl_count("mappings") == 0);
      return 0;
    });
    CHECK(group.all_end_well());
  }
}

TEST_CASE("a call that fails in a reduce ends it with io_error, and nothing leaks") {
  const std::vector<Refusal> refusals = {
      {{"cuMemcpyHtoDAsync@2=1", ""}, "cuMemcpyHtoDAsync: CUDA_ERROR_INVALID_VALUE (1)"},
      {{"cuMemcpyDtoHAsync@2=1", ""}, "cuMemcpyDtoHAsync: CUDA_ERROR_INVALID_VALUE (1)"},
      {{"", "ncclAllReduce@2=1"}, "ncclAllReduce: unhandled cuda error (1)"},
      {{"", "async@2=1,launch_polls=2"}, "ncclAllReduce: unhandled cuda error (1)"},
      {{"cuCtxPushCurrent@3=201", ""}, "cuCtxPushCurrent: CUDA_ERROR_INVALID_CONTEXT (201)"},
  };
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.line);
    NcclGroup group(1, same_plan(refusal.plan), [&](NcclRank& rank) {
      {
        auto agreement = rank.create();
        HC_EXPECT(agreement);
        AgreementVector vector;
        HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::ok);
        HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::io_error);
        HC_EXPECT((*agreement)->reason() == refusal.line);
      }
      return nccl_left_overs();
    });
    CHECK(group.all_end_well());
  }
}

// 700 sticks to the context, so that even freeing answers it: the memory goes with the context.
TEST_CASE("a context that is lost ends a reduce with io_error, and its end does not hang") {
  NcclGroup group(1, same_plan({"cuStreamQuery@1=700", ""}), [](NcclRank& rank) {
    {
      auto agreement = rank.create();
      HC_EXPECT(agreement);
      AgreementVector vector;
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::io_error);
      HC_EXPECT((*agreement)->reason() == "cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    }
    HC_EXPECT(test::nccl_count("comms") == 0);
    return 0;
  });
  CHECK(group.all_end_well());
}

TEST_CASE("what a kernel that never ends may touch is left alone, and nobody waits for it") {
  NcclGroup group(1, same_plan({"", "async@1=6,ncclCommAbort=3"}), [](NcclRank& rank) {
    {
      auto agreement = rank.create();
      HC_EXPECT(agreement);
      AgreementVector vector;
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::io_error);
    }
    HC_EXPECT(test::cuda_count("device") == 1 && test::cuda_count("pinned") == 1);
    HC_EXPECT(test::cuda_count("cuMemFree") == 0 && test::cuda_count("cuMemFreeHost") == 0);
    HC_EXPECT(test::cuda_count("retains") == 1);
    return 0;
  });
  CHECK(group.all_end_well());
}

TEST_CASE("an agreement that has failed may not be used again") {
  CHECK(test::holds_in_child([] {
    NcclGroup group(1, same_plan({}), [](NcclRank& rank) {
      auto agreement = rank.create();
      HC_EXPECT(agreement);
      (*agreement)->notice_member_gone();
      AgreementVector vector;
      HC_EXPECT((*agreement)->reduce(vector, kPatientNccl) == Code::disconnected);
      HC_EXPECT(test::dies_by_check(
          [&] { static_cast<void>((*agreement)->reduce(vector, kPatientNccl)); }));
      return 0;
    });
    return group.wait(0);
  }));
}

}  // namespace
}  // namespace hc
