// SPDX-License-Identifier: Apache-2.0
// fake_report: what is alive and what was done, by name. With HC_FAKE_CUDA_REPORT=FOLDER it lies in
// the file FOLDER/PID, where another process reads it, also after the death of this one.
//
// Owner thread: any; each counter is atomic. The file is an array of FakeRecord, the end of which
// is an empty name; test::cuda_report reads it.
#pragma once

#include <cstdint>
#include <string>

namespace hc::fake {

enum class Count : int {
  device,        // allocations by cuMemAlloc
  device_bytes,  // of them and of cuMemCreate
  pinned,        // allocations by cuMemHostAlloc
  registered,    // bytes that are registered
  registrations,
  mappings,  // of memory of other processes
  mapped_bytes,
  peer_opens,  // mappings that were opened under the context of another device
  streams,
  events,
  opened_events,  // those of other processes, which `events` counts too
  retains,
  handles,       // of cuMemCreate and imports
  reservations,  // of addresses
  maps,          // of handles at addresses
  copies,        // pieces that were copied, by threads of this process
  bytes,         // of them
  batches,       // calls of cuMemcpyBatchAsync that were accepted
  outlived,      // pieces that were copied after the death of this process
  kinds,
};

struct FakeRecord {
  char name[24];
  std::int64_t value;
};
static_assert(sizeof(FakeRecord) == 32);

class FakeReport {
 public:
  FakeReport();

  // At the start of the driver.
  void publish();
  void add(Count count, std::int64_t change) {
    __atomic_add_fetch(&records_[static_cast<int>(count)].value, change, __ATOMIC_SEQ_CST);
  }
  std::int64_t get(Count count) const {
    return __atomic_load_n(&records_[static_cast<int>(count)].value, __ATOMIC_SEQ_CST);
  }
  // Minus 1 if there is no counter of that name.
  std::int64_t get(const std::string& name) const;
  std::int64_t* place(Count count) { return &records_[static_cast<int>(count)].value; }

 private:
  FakeRecord* records_;
};

}  // namespace hc::fake
