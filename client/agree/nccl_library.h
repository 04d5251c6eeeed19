// SPDX-License-Identifier: Apache-2.0
// nccl_library: libnccl, loaded at run time: the copy that the engine has loaded, if it has one.
//
// Owner thread: any; plain values once loaded.
// Invariants: every entry is there, and the version is one that we know how to call.
//
// The few types of NCCL's ABI that we use are declared here, so that the product builds without
// its header. Source: NCCL's user guide and the declarations of its public header; result, type and
// operation numbers are ABI.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "proto/result.h"
#include "shm/cuda/cuda_types.h"

namespace hc {

inline constexpr const char* kNcclLibrary = "libnccl.so.2";
// 2.18 has all calls and the configuration below; by its release notes 2.19 is the first whose
// bootstrap gives its locks back when it fails, which an abort before all have joined needs.
inline constexpr int kNcclVersionMin = 21900;
inline constexpr int kNcclVersionEnd = 30000;  // the next major version may be another ABI

using NcclResult = int;
using NcclComm = struct NcclCommObject*;

inline constexpr NcclResult kNcclSuccess = 0;
inline constexpr NcclResult kNcclInProgress = 7;
inline constexpr int kNcclInt64 = 4;
inline constexpr int kNcclMin = 3;
inline constexpr int kNcclUndefined = -2147483647 - 1;
inline constexpr std::size_t kNcclUniqueIdBytes = 128;

// Passed by value: opaque bytes that rank 0 makes and everybody else gets from it.
struct NcclUniqueId {
  char bytes[kNcclUniqueIdBytes] = {};
};

// As of version 2.18. The library reads as many bytes as `size` says, and takes its own defaults
// for what the version of the caller did not know.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = kNcclUndefined;
  int cga_cluster_size = kNcclUndefined;
  int min_ctas = kNcclUndefined;
  int max_ctas = kNcclUndefined;
  const char* net_name = nullptr;
  int split_share = kNcclUndefined;
};
static_assert(sizeof(NcclUniqueId) == kNcclUniqueIdBytes);
static_assert(std::is_standard_layout_v<NcclConfig>);
static_assert(offsetof(NcclConfig, blocking) == 16 && offsetof(NcclConfig, min_ctas) == 24);
static_assert(offsetof(NcclConfig, net_name) == 32 && sizeof(NcclConfig) == 48);

struct NcclEntries {
  NcclResult (*get_version)(int*) = nullptr;
  NcclResult (*get_unique_id)(NcclUniqueId*) = nullptr;
  NcclResult (*init_rank)(NcclComm*, int, NcclUniqueId, int, NcclConfig*) = nullptr;
  NcclResult (*async_error)(NcclComm, NcclResult*) = nullptr;
  NcclResult (*abort)(NcclComm) = nullptr;
  NcclResult (*all_reduce)(const void*, void*, std::size_t, int, int, NcclComm, CuStream) = nullptr;
  const char* (*error_string)(NcclResult) = nullptr;
  const char* (*last_error)(NcclComm) = nullptr;
};

class [[nodiscard]] NcclLibrary {
 public:
  // If a library with the name libnccl.so.2 is in the process already, that one, whatever
  // `library` says: two versions of it in one process disturb each other. Otherwise `library`, a
  // name or a path. Error: unsupported, "no NCCL: " and the one reason.
  static Result<NcclLibrary> load(const std::string& library = kNcclLibrary);

  const NcclEntries* operator->() const { return &entries_; }
  int version() const { return version_; }                 // 22809 is 2.28.9
  bool was_loaded_already() const { return was_loaded_; }  // the engine's copy

  // Rank 0 makes it and gives it to the others. The library listens in this process until all
  // have joined; needs no GPU. Error: io_error.
  Result<NcclUniqueId> make_unique_id() const;

  // io_error with one line: the call, NCCL's words and the number, and what it last said.
  Error error(std::string_view call, NcclResult result) const;

 private:
  NcclLibrary() = default;

  NcclEntries entries_;
  int version_ = 0;
  bool was_loaded_ = false;
};

}  // namespace hc
