// SPDX-License-Identifier: Apache-2.0
// cuda_news: what the threads of the copies tell the reactor.
//
// Owner: they put, the reactor takes.
#pragma once

#include <string>
#include <variant>

#include "daemon/gpu/copier.h"
#include "daemon/gpu/cuda_mapping.h"
#include "daemon/os/work_queue.h"

namespace hc {

struct CudaOpened {
  std::uint64_t ticket = 0;
  MappingId id = kHostMapping;
  CudaMappingPtr mapping;  // null: `error` says why
  Error error{};
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

using CudaNews = std::variant<CopyCompletion, CudaOpened, CudaLost, CudaRemark>;
using CudaNewsBox = ResultBox<CudaNews>;

}  // namespace hc
