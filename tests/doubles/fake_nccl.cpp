// SPDX-License-Identifier: Apache-2.0
// fake_nccl: the entry points of the stand-in libnccl.so.2, written against NCCL's user guide.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "fake_group.h"
#include "fake_plan.h"
#include "fake_private.h"

extern "C" int cuStreamQuery(void* stream);

using hc::fake::FakeGroup;
using hc::fake::FakeId;
using hc::fake::FakePlan;

namespace {

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

struct UniqueId {
  char bytes[128];
};

// Up to splitShare; a caller may give more or less of it.
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cga_cluster_size;
  int min_ctas;
  int max_ctas;
  const char* net_name;
  int split_share;
};

FakePlan& plan() {
  static FakePlan* const all = new FakePlan("HC_FAKE_NCCL");
  return *all;
}

struct Reduce {
  struct Comm* comm;
  const char* in;
  char* out;
  std::size_t count;
  int type;
  int operation;
  std::uint64_t round;
  void* stream;
};

struct Comm {
  std::unique_ptr<FakeGroup> group;
  bool blocking = true;
  bool is_ready = false;
  std::atomic<bool> is_aborted{false};
  std::atomic<int> async{kSuccess};
  int late_error = kSuccess;  // comes to light when the stream is idle
  void* stream = nullptr;
  std::uint64_t round = 0;
  long polls_to_launch = 0;           // of a non-blocking call that has not queued its work yet
  std::unique_ptr<Reduce> unlaunched;
  std::mutex mutex;
  std::condition_variable ended;
  int in_stream = 0;
};

std::atomic<long> live_comms{0};
Config last_config{};

template <typename Word>
Word combine(int operation, Word a, Word b) {
  switch (operation) {
    case 2: return std::max(a, b);
    case 3: return std::min(a, b);
    default: return static_cast<Word>(a + b);
  }
}

template <typename Word>
void reduce_all(const Reduce& reduce) {
  for (std::size_t i = 0; i < reduce.count; ++i) {
    Word total{};
    for (int rank = 0; rank < reduce.comm->group->world(); ++rank) {
      Word word{};
      std::memcpy(&word, reduce.comm->group->vector_of(rank, reduce.round) + i * sizeof(Word),
                  sizeof(Word));
      total = rank == 0 ? word : combine(reduce.operation, total, word);
    }
    std::memcpy(reduce.out + i * sizeof(Word), &total, sizeof(Word));
  }
}

std::size_t size_of(int type) { return type == 2 ? 4 : type == 4 ? 8 : 0; }

// What the kernel does: it spins until all are there or the communicator is aborted. That a member
// is dead it does not see. What an aborted one leaves behind is nobody's result.
void run_kernel(void* argument) {
  const std::unique_ptr<Reduce> reduce(static_cast<Reduce*>(argument));
  Comm& comm = *reduce->comm;
  const std::string nth = "reduce_delay_us@" + std::to_string(reduce->round);
  const long delay_us = plan().setting(nth, plan().setting("reduce_delay_us", 0));
  ::usleep(static_cast<useconds_t>(delay_us));  // waits: a slow rank
  const std::uint64_t signature =
      reduce->count << 16 | static_cast<std::uint64_t>(reduce->type << 8 | reduce->operation);
  const std::size_t bytes = reduce->count * size_of(reduce->type);
  const bool never_ends = comm.async.load() != kSuccess;
  if (!never_ends) {
    comm.group->tell(reduce->round, signature, reduce->in, bytes);
  }
  while (!comm.is_aborted.load() &&
         (never_ends || !comm.group->all_have_told(reduce->round, signature))) {
    ::usleep(20);  // waits: the other ranks are processes that tell by memory only
  }
  if (comm.is_aborted.load()) {
    std::memset(reduce->out, 0x5A, bytes);
  } else if (reduce->type == 2) {
    reduce_all<std::int32_t>(*reduce);
  } else {
    reduce_all<std::int64_t>(*reduce);
  }
  const std::lock_guard lock(comm.mutex);
  --comm.in_stream;
  comm.ended.notify_all();
}

int launch(Comm& comm, std::unique_ptr<Reduce> reduce) {
  {
    const std::lock_guard lock(comm.mutex);
    ++comm.in_stream;
  }
  void* const stream = reduce->stream;
  Reduce* const given = reduce.release();
  if (hc_fake_cuda_enqueue(stream, run_kernel, given) == 0) {
    return kSuccess;
  }
  delete given;
  const std::lock_guard lock(comm.mutex);
  --comm.in_stream;
  return kUnhandledCudaError;
}

bool is_complete(Comm& comm) {
  if (!comm.is_ready) {
    comm.is_ready = plan().setting("init_never", 0) == 0 && comm.group->all_have_joined();
  }
  return comm.is_ready;
}

void free_comm(Comm* comm) {
  {
    std::unique_lock lock(comm->mutex);
    comm->ended.wait(lock, [comm] { return comm->in_stream == 0; });
  }
  delete comm;
  --live_comms;
}

bool read_config(const Config* given, Config* config) {
  *config = Config{sizeof(Config), 0, 0, INT_MIN, INT_MIN, INT_MIN, INT_MIN, nullptr, INT_MIN};
  if (given == nullptr) {
    return true;
  }
  std::memcpy(config, given, std::min(given->size, sizeof(Config)));
  const bool ctas_fit = config->min_ctas == INT_MIN || config->max_ctas == INT_MIN ||
                        (config->min_ctas > 0 && config->min_ctas <= config->max_ctas);
  return config->magic == 0xcafebeef && config->version >= 21400 && ctas_fit &&
         (config->blocking == INT_MIN || config->blocking == 0 || config->blocking == 1);
}

}  // namespace

HC_FAKE_EXPORT int ncclGetVersion(int* version) {
  const int injected = plan().on_call("ncclGetVersion");
  if (injected != 0) return injected;
  *version = static_cast<int>(plan().setting("version", 22809));
  return kSuccess;
}

HC_FAKE_EXPORT int ncclGetUniqueId(UniqueId* id) {
  const int injected = plan().on_call("ncclGetUniqueId");
  if (injected != 0) return injected;
  FakeId made{};
  if (!hc::fake::make_fake_id(&made)) return kSystemError;
  std::memcpy(id, &made, sizeof(made));
  return kSuccess;
}

HC_FAKE_EXPORT const char* ncclGetErrorString(int result) {
  switch (result) {
    case kSuccess: return "no error";
    case kUnhandledCudaError: return "unhandled cuda error";
    case kSystemError: return "unhandled system error";
    case kInternalError: return "internal error";
    case kInvalidArgument: return "invalid argument";
    case kInvalidUsage: return "invalid usage";
    case kRemoteError: return "remote process exited or there was a network error";
    case kInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

HC_FAKE_EXPORT const char* ncclGetLastError(Comm* /*comm*/) { return ""; }

HC_FAKE_EXPORT int ncclCommInitRankConfig(Comm** out, int world, UniqueId id, int rank,
                                          Config* given) {
  const int injected = plan().on_call("ncclCommInitRankConfig");
  if (injected != 0) return injected;
  Config config{};
  if (out == nullptr || !read_config(given, &config)) return kInvalidArgument;
  *out = nullptr;
  if (hc_fake_cuda_current() < 0) return kUnhandledCudaError;
  last_config = config;
  ::usleep(static_cast<useconds_t>(plan().setting("init_delay_us", 0)));  // waits: a slow rank
  FakeId known{};
  std::memcpy(&known, &id, sizeof(known));
  auto group = FakeGroup::join(known, world, rank);
  if (group == nullptr) return kInvalidUsage;
  auto comm = std::make_unique<Comm>();
  comm->group = std::move(group);
  comm->blocking = config.blocking != 0;
  while (comm->blocking && !is_complete(*comm)) {
    ::usleep(100);  // waits: the other ranks are processes that join by memory only
  }
  ++live_comms;
  const bool blocking = comm->blocking;
  *out = comm.release();
  return blocking ? kSuccess : kInProgress;
}

HC_FAKE_EXPORT int ncclCommGetAsyncError(Comm* comm, int* async) {
  const int injected = plan().on_call("ncclCommGetAsyncError");
  if (injected != 0) return injected;
  if (comm == nullptr || async == nullptr) return kInvalidArgument;
  if (comm->late_error != kSuccess && cuStreamQuery(comm->stream) == 0) {
    comm->async.store(comm->late_error);
  }
  *async = comm->async.load();
  if (*async != kSuccess) return kSuccess;
  if (!is_complete(*comm)) {
    *async = kInProgress;
  } else if (comm->unlaunched != nullptr) {
    if (--comm->polls_to_launch > 0) {
      *async = kInProgress;
      return kSuccess;
    }
    *async = launch(*comm, std::move(comm->unlaunched));
    comm->async.store(*async);
  }
  return kSuccess;
}

HC_FAKE_EXPORT int ncclAllReduce(const void* in, void* out, std::size_t count, int type,
                                 int operation, Comm* comm, void* stream) {
  const int injected = plan().on_call("ncclAllReduce");
  if (injected != 0) return injected;
  const std::size_t bytes = count * size_of(type);
  const bool is_known = operation == 0 || operation == 2 || operation == 3;
  if (comm == nullptr || !is_known || bytes == 0 || bytes > hc::fake::kVectorBytesMax) {
    return kInvalidArgument;
  }
  if (!is_complete(*comm) || comm->unlaunched != nullptr) return kInvalidUsage;
  // The real one trusts its pointers; a test is better off with an answer.
  auto* const from = static_cast<char*>(hc_fake_cuda_host(const_cast<void*>(in), bytes));
  auto* const to = static_cast<char*>(hc_fake_cuda_host(out, bytes));
  if (from == nullptr || to == nullptr) return kInvalidArgument;
  const std::string nth = "@" + std::to_string(plan().calls("ncclAllReduce"));
  comm->async.store(static_cast<int>(plan().setting("async" + nth, kSuccess)));
  comm->late_error = static_cast<int>(plan().setting("late_async" + nth, kSuccess));
  comm->stream = stream;
  auto reduce = std::make_unique<Reduce>(
      Reduce{comm, from, to, count, type, operation, ++comm->round, stream});
  comm->polls_to_launch = comm->blocking ? 0 : plan().setting("launch_polls", 0);
  if (comm->polls_to_launch > 0) {
    comm->unlaunched = std::move(reduce);
    return kInProgress;
  }
  return launch(*comm, std::move(reduce));
}

// Ends the kernels and frees; what was not queued yet never is.
HC_FAKE_EXPORT int ncclCommAbort(Comm* comm) {
  const int injected = plan().on_call("ncclCommAbort");
  if (injected != 0) return injected;
  if (comm == nullptr) return kSuccess;
  comm->is_aborted.store(true);
  free_comm(comm);
  return kSuccess;
}

// Waits for the kernels, and so for the other ranks.
HC_FAKE_EXPORT int ncclCommDestroy(Comm* comm) {
  const int injected = plan().on_call("ncclCommDestroy");
  if (injected != 0) return injected;
  if (comm == nullptr) return kSuccess;
  free_comm(comm);
  return kSuccess;
}

HC_FAKE_EXPORT long hc_fake_nccl_count(const char* what) {
  const std::string name = what;
  if (name == "comms") return live_comms.load();
  if (name == "mappings") return FakeGroup::mappings();
  if (name == "descriptors") return FakeGroup::descriptors();
  if (name == "config.blocking") return last_config.blocking;
  if (name == "config.min_ctas") return last_config.min_ctas;
  if (name == "config.max_ctas") return last_config.max_ctas;
  return plan().calls(name);
}
