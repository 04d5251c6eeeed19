// SPDX-License-Identifier: Apache-2.0
// nccl_agreement: the ranks of a group reduce their vector by one ncclAllReduce per tick, on a
// communicator and a stream of their own.
//
// Owner thread: the engine's scheduler, from creation to destruction; no other thread of ours is
// ever inside NCCL. Only the DeathNotice is shared.
// Invariants: at most one collective is in flight; every wait has a deadline.
//
// A member that dies is not reported by NCCL within a node: the kernels of the others spin until
// their communicator is aborted. So somebody must say so (DeathNotice), or the deadline decides.
// NCCL has no descriptor and no word to sleep on: a reduce polls, with pauses (poll_wait.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "client/agree/agreement.h"
#include "client/agree/device_words.h"
#include "client/agree/nccl_library.h"
#include "client/agree/poll_wait.h"
#include "shm/cuda/primary_context.h"

namespace hc {

// Given by whoever learns of a member's death, read by the one that waits. Never taken back: a
// group that lost a member is formed anew.
class DeathNotice {
 public:
  virtual ~DeathNotice() = default;
  void give() { is_given_.store(true, std::memory_order_release); }
  virtual bool is_given() const { return is_given_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> is_given_{false};
};

struct NcclOptions {
  NcclUniqueId id{};  // of NcclLibrary::make_unique_id of rank 0; one per group that is formed
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  int device = 0;                                  // as CUDA counts
  AgreementLimits limits{20'000, 60'000'000'000};  // of the creation: until all have joined
  std::shared_ptr<DeathNotice> notice = nullptr;   // to end the creation too; may be null
};

class NcclAgreement final : public Agreement {
 public:
  // Returns when all ranks have joined. Errors: bad_argument; timed_out: some rank did not come;
  // disconnected: the notice was given; io_error: the driver or NCCL said no.
  static Result<std::unique_ptr<NcclAgreement>> create(const CudaDriver& driver,
                                                       const NcclLibrary& library,
                                                       const NcclOptions& options);
  NcclAgreement(const NcclAgreement&) = delete;
  NcclAgreement& operator=(const NcclAgreement&) = delete;
  // Leaves without the others: those who wait for this rank wait until they hear of it.
  ~NcclAgreement() override;

  Code reduce(AgreementVector& vector, const AgreementLimits& limits) override;

  // From any thread, while the object lives: a member is dead. A reduce that waits ends with
  // `disconnected` within a millisecond or so, and so does every later one.
  void notice_member_gone() { notice_->give(); }

  // One line about what failed, for the log; empty before.
  const std::string& reason() const { return reason_; }

 private:
  NcclAgreement(const NcclLibrary& library, PrimaryContext context, DeviceWords words,
                std::shared_ptr<DeathNotice> notice);
  Code join(const NcclOptions& options);
  Code run(AgreementVector& vector, PollWait& wait);
  Code settle(const char* call, NcclResult result, PollWait& wait);
  Code finish(PollWait& wait);
  Code pause(PollWait& wait);
  Code fail(Error error);
  void abort();

  NcclLibrary library_;
  std::shared_ptr<DeathNotice> notice_;
  PrimaryContext context_;
  std::unique_ptr<DeviceWords> words_;  // freed with the context current, before its release
  NcclComm comm_ = nullptr;
  std::string reason_;
  bool has_failed_ = false;
};

}  // namespace hc
