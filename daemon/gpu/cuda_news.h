// SPDX-License-Identifier: Apache-2.0
// cuda_news: what the threads of the copies tell the reactor.
//
// Owner: they put, the reactor takes.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/gpu/copier.h"
#include "daemon/os/work_queue.h"
#include "shm/gpu/copy_sink.h"
#include "shm/gpu/cuda_mapping.h"
#include "shm/unique_fd.h"

namespace hc {

// With the mapping that was copied in, which may be closed once this was taken.
struct CudaCopied {
  CopyCompletion done;
  CudaMappingPtr mapping;
};

struct CudaOpened {
  std::uint64_t ticket = 0;
  MappingId id = kHostMapping;
  CudaMappingPtr mapping;  // null: `error` says why
  Error error{};
  std::vector<UniqueFd> spent{};  // descriptors of the export
};

// The mapping is no more.
struct CudaClosed {
  MappingId id = kHostMapping;
};

// The context of a device is lost; its copies fail from here on.
struct CudaLost {
  std::string line;
};

// Something that is worth one line of the log, no more.
struct CudaRemark {
  std::string event;
  std::string line;
};

using CudaNews = std::variant<CudaCopied, CudaOpened, CudaClosed, CudaLost, CudaRemark>;
using CudaNewsBox = ResultBox<CudaNews>;

// What a lane has to say, into the box.
class CudaNewsSink final : public CopySink {
 public:
  explicit CudaNewsSink(CudaNewsBox& box) : box_(box) {}
  void copied(const CopyCompletion& done, CudaMappingPtr mapping) override {
    box_.put(CudaCopied{done, std::move(mapping)});
  }
  void lost(const std::string& line) override { box_.put(CudaLost{line}); }

 private:
  CudaNewsBox& box_;
};

}  // namespace hc
