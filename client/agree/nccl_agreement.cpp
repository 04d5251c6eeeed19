// SPDX-License-Identifier: Apache-2.0
// nccl_agreement: join, copy in, reduce, copy out, and how each wait ends.
#include "client/agree/nccl_agreement.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"

namespace hc {

namespace {

constexpr std::int64_t kAbortDrainNs = 1'000'000'000;
constexpr std::uint32_t kNcclWorldMax = 1U << 20;

NcclConfig own_communicator() {
  NcclConfig config;
  config.blocking = 0;
  // One block of threads: the vector is a kilobyte, and the multiprocessors are the engine's.
  config.min_ctas = 1;
  config.max_ctas = 1;
  return config;
}

}  // namespace

Result<std::unique_ptr<NcclAgreement>> NcclAgreement::create(const CudaDriver& driver,
                                                             const NcclLibrary& library,
                                                             const NcclOptions& options) {
  if (options.world == 0 || options.world > kNcclWorldMax || options.rank >= options.world) {
    return make_error(Code::bad_argument, "rank = " + std::to_string(options.rank) +
                                              ", world = " + std::to_string(options.world) +
                                              ": must be 0..world-1 and 1..1048576");
  }
  auto context = PrimaryContext::retain(driver, options.device);
  HC_TRY(context);
  // Before the scope, so that an object that could not join gives its share of the context back
  // after the context is popped.
  std::unique_ptr<NcclAgreement> agreement;
  const CurrentContext current(*context);
  if (current.result() != kCuSuccess) {
    return driver.error("cuCtxPushCurrent", current.result());
  }
  auto words = DeviceWords::create(driver, AgreementVector::kWords);
  HC_TRY(words);
  auto notice = options.notice != nullptr ? options.notice : std::make_shared<DeathNotice>();
  agreement.reset(
      new NcclAgreement(library, std::move(*context), std::move(*words), std::move(notice)));
  const Code code = agreement->join(options);
  if (code != Code::ok) {
    return make_error(code, agreement->reason());
  }
  return agreement;
}

NcclAgreement::NcclAgreement(const NcclLibrary& library, PrimaryContext context, DeviceWords words,
                             std::shared_ptr<DeathNotice> notice)
    : library_(library),
      notice_(std::move(notice)),
      context_(std::move(context)),
      words_(std::make_unique<DeviceWords>(std::move(words))) {}

// Abort, not destroy: to destroy is a collective on some versions and waits for the others, who may
// be gone. A communicator without work is freed by either.
NcclAgreement::~NcclAgreement() {
  const CurrentContext current(context_);
  abort();
  if (current.result() != kCuSuccess || !words_->drain(0)) {
    context_.keep_for_good();
  }
  words_.reset();
}

// NCCL takes the device from the context that is current, which the caller has pushed.
Code NcclAgreement::join(const NcclOptions& options) {
  NcclConfig config = own_communicator();
  PollWait wait(options.limits);
  const NcclResult result =
      library_->init_rank(&comm_, static_cast<int>(options.world), options.id,
                          static_cast<int>(options.rank), &config);
  return settle("ncclCommInitRankConfig", result, wait);
}

Code NcclAgreement::reduce(AgreementVector& vector, const AgreementLimits& limits) {
  HC_CHECK(!has_failed_);
  HC_CHECK(comm_ != nullptr);
  PollWait wait(limits);
  const CurrentContext current(context_);
  if (current.result() != kCuSuccess) {
    return fail(context_.driver().error("cuCtxPushCurrent", current.result()));
  }
  return run(vector, wait);
}

// The copy out is queued only once NCCL has queued its kernel: a non-blocking communicator may do
// that after its call has returned.
Code NcclAgreement::run(AgreementVector& vector, PollWait& wait) {
  if (notice_->is_given()) {
    return fail(make_error(Code::disconnected, "a member of the group is gone"));
  }
  std::copy(vector.words.begin(), vector.words.end(), words_->host().begin());
  if (const CuResult result = words_->copy_in(); result != kCuSuccess) {
    return fail(context_.driver().error("cuMemcpyHtoDAsync", result));
  }
  const NcclResult queued =
      library_->all_reduce(words_->device(), words_->device(), AgreementVector::kWords, kNcclInt64,
                           kNcclMin, comm_, words_->stream());
  if (const Code code = settle("ncclAllReduce", queued, wait); code != Code::ok) {
    return code;
  }
  if (const CuResult result = words_->copy_out(); result != kCuSuccess) {
    return fail(context_.driver().error("cuMemcpyDtoHAsync", result));
  }
  if (const Code code = finish(wait); code != Code::ok) {
    return code;
  }
  const auto host = words_->host();
  std::copy(host.begin(), host.end(), vector.words.begin());
  return Code::ok;
}

// Waits until NCCL has done its part of a call that may go on behind our back.
Code NcclAgreement::settle(const char* call, NcclResult result, PollWait& wait) {
  while (result == kNcclInProgress) {
    if (const Code code = pause(wait); code != Code::ok) {
      return code;
    }
    if (const NcclResult asked = library_->async_error(comm_, &result); asked != kNcclSuccess) {
      return fail(library_.error("ncclCommGetAsyncError", asked));
    }
  }
  return result == kNcclSuccess ? Code::ok : fail(library_.error(call, result));
}

// Waits for the stream. What is complete counts, whatever has happened to the others since; but not
// against NCCL's own word, which is asked after the stream: a kernel that an error ended is
// complete too.
Code NcclAgreement::finish(PollWait& wait) {
  while (true) {
    const CuResult result = words_->query();
    if (result != kCuSuccess && result != kCuNotReady) {
      return fail(context_.driver().error("cuStreamQuery", result));
    }
    NcclResult state = kNcclSuccess;
    if (const NcclResult asked = library_->async_error(comm_, &state); asked != kNcclSuccess) {
      return fail(library_.error("ncclCommGetAsyncError", asked));
    }
    if (state != kNcclSuccess && state != kNcclInProgress) {
      return fail(library_.error("ncclAllReduce, afterwards", state));
    }
    if (result == kCuSuccess) {
      return Code::ok;
    }
    if (const Code code = pause(wait); code != Code::ok) {
      return code;
    }
  }
}

Code NcclAgreement::pause(PollWait& wait) {
  if (notice_->is_given()) {
    return fail(make_error(Code::disconnected, "a member of the group is gone"));
  }
  if (!wait.pause()) {
    return fail(make_error(Code::timed_out, "the other ranks did not come in time"));
  }
  return Code::ok;
}

Code NcclAgreement::fail(Error error) {
  has_failed_ = true;
  reason_ = error.message();
  abort();
  return error.code;
}

// The abort ends our kernel, so what is queued behind it runs off; only then may buffers go. On a
// non-blocking communicator it may go on behind our back and must not be asked about any more.
void NcclAgreement::abort() {
  if (comm_ == nullptr) {
    return;
  }
  static_cast<void>(library_->abort(std::exchange(comm_, nullptr)));
  static_cast<void>(words_->drain(kAbortDrainNs));
}

}  // namespace hc
