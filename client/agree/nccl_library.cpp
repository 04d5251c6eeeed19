// SPDX-License-Identifier: Apache-2.0
// nccl_library: finds the library, its entries and its version.
#include "client/agree/nccl_library.h"

#include <dlfcn.h>

#include <utility>

namespace hc {

namespace {

Error no_nccl(const std::string& why) {
  return make_error(Code::unsupported, "no NCCL: " + why);
}

template <typename Entry>
void find_nccl_entry(void* library, const char* symbol, Entry& entry, const char*& missing) {
  entry = reinterpret_cast<Entry>(::dlsym(library, symbol));
  if (entry == nullptr && missing == nullptr) {
    missing = symbol;
  }
}

// The name of the first entry that is missing, or a null pointer.
const char* fill_nccl_entries(void* library, NcclEntries& entries) {
  const char* missing = nullptr;
  find_nccl_entry(library, "ncclGetVersion", entries.get_version, missing);
  find_nccl_entry(library, "ncclGetUniqueId", entries.get_unique_id, missing);
  find_nccl_entry(library, "ncclCommInitRankConfig", entries.init_rank, missing);
  find_nccl_entry(library, "ncclCommGetAsyncError", entries.async_error, missing);
  find_nccl_entry(library, "ncclCommAbort", entries.abort, missing);
  find_nccl_entry(library, "ncclAllReduce", entries.all_reduce, missing);
  find_nccl_entry(library, "ncclGetErrorString", entries.error_string, missing);
  find_nccl_entry(library, "ncclGetLastError", entries.last_error, missing);
  return missing;
}

std::string version_text(int version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

// A handle that we took stays open: NCCL has threads of its own, which an unload would pull from
// under.
Result<NcclLibrary> NcclLibrary::load(const std::string& library) {
  NcclLibrary out;
  void* handle = ::dlopen(kNcclLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  out.was_loaded_ = handle != nullptr;
  if (handle == nullptr) {
    handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return no_nccl(why == nullptr ? library : std::string(why));
  }
  const std::string name = out.was_loaded_ ? "the libnccl of this process" : library;
  const char* const missing = fill_nccl_entries(handle, out.entries_);
  if (out.entries_.get_version == nullptr) {
    return no_nccl(name + " has no ncclGetVersion");
  }
  // The version before the entries: it is the better reason why one is missing.
  if (const NcclResult result = out->get_version(&out.version_); result != kNcclSuccess) {
    return no_nccl(name + ": ncclGetVersion answers " + std::to_string(result));
  }
  if (out.version_ < kNcclVersionMin || out.version_ >= kNcclVersionEnd) {
    return no_nccl(name + " is version " + version_text(out.version_) + ", must be 2.19 to 2.x");
  }
  if (missing != nullptr) {
    return no_nccl(name + " has no " + missing);
  }
  return out;
}

Result<NcclUniqueId> NcclLibrary::make_unique_id() const {
  NcclUniqueId id;
  if (const NcclResult result = entries_.get_unique_id(&id); result != kNcclSuccess) {
    return error("ncclGetUniqueId", result);
  }
  return id;
}

Error NcclLibrary::error(std::string_view call, NcclResult result) const {
  std::string line(call);
  line += ": ";
  const char* const words = entries_.error_string(result);
  line += words == nullptr ? "an error without words" : words;
  line += " (" + std::to_string(result) + ")";
  // The argument is unused by every version so far; a communicator may be gone by now.
  const char* const last = entries_.last_error(nullptr);
  if (last != nullptr && *last != '\0') {
    line += "; NCCL said: ";
    line += last;
  }
  return make_error(Code::io_error, std::move(line));
}

}  // namespace hc
