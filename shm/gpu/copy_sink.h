// SPDX-License-Identifier: Apache-2.0
// copy_sink: who hears of the ends of copies.
//
// Called on the threads of the lanes, and must not wait for one.
#pragma once

#include <string>

#include "shm/gpu/copy_job.h"
#include "shm/gpu/cuda_mapping.h"

namespace hc {

class CopySink {
 public:
  virtual ~CopySink() = default;
  // Comes with the mapping: the lane holds it no more, and it is not closed before this was heard.
  virtual void copied(const CopyCompletion& done, CudaMappingPtr mapping) = 0;
  // The context of the device is lost: everything fails from here on. Once for a device.
  virtual void lost(const std::string& line) = 0;
};

}  // namespace hc
