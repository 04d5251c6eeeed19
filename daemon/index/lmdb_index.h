// SPDX-License-Identifier: Apache-2.0
// lmdb_index: the Index over one LMDB file, committed by a thread of its own.
//
// Owner: the reactor thread. The committer thread runs one batch at a time and touches the file
// only while that batch is in flight; all other calls need that none is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "daemon/index/index.h"
#include "daemon/index/lmdb_env.h"
#include "daemon/os/local_dir.h"
#include "daemon/os/waitable.h"
#include "daemon/os/work_queue.h"
#include "proto/thread_roles.h"

namespace hc {

struct LmdbIndexOptions {
  std::string dir;                       // made if absent; its parent must exist
  std::uint64_t pages_expected = 0;      // rows that the store can hold
  std::uint64_t parts_expected = 1;      // parts per row
  std::uint32_t lock_retry_ms = 60'000;  // for a predecessor that still holds the directory
  // Program that checks a file before it is mapped, see index_child; empty: this process does.
  std::string checker = {};
  std::function<void()> on_progress = {};  // while a check runs
};

// Address space for that many rows; more is mapped when it does not suffice.
std::uint64_t index_map_bytes(std::uint64_t pages, std::uint64_t parts);

class LmdbIndex final : public Index, public Waitable {
 public:
  static Result<std::unique_ptr<LmdbIndex>> create(LmdbIndexOptions options);
  LmdbIndex(LmdbIndexOptions options, UniqueFd dir, EventFd event);
  LmdbIndex(const LmdbIndex&) = delete;
  LmdbIndex& operator=(const LmdbIndex&) = delete;
  // Waits for the batch in flight.
  ~LmdbIndex() override;

  // corrupt: the file is damaged. Nothing was changed; `reset` sets it aside and starts empty.
  Result<void> open(const IndexIdentity& identity) override HC_REACTOR;
  IndexState state() const override { return state_; }
  Result<void> visit(const IndexVisitor& visitor) override HC_REACTOR;
  Result<void> reset(const IndexIdentity& identity) override HC_REACTOR;
  void close() override HC_REACTOR;

  void commit(IndexBatch batch) override HC_REACTOR;
  std::optional<Result<void>> poll() override HC_REACTOR;
  void wait() override HC_REACTOR;
  bool is_dead() const override HC_REACTOR;
  int event_fd() const override { return results_.event_fd(); }

  // Room in the address space; grows.
  std::uint64_t map_bytes() const { return map_bytes_; }

 private:
  std::string path(const char* suffix = "") const;
  Result<void> check_file() const;
  Result<void> open_existing(const IndexIdentity& identity) HC_REACTOR;
  Result<void> open_file();
  Result<void> replace_by_empty(const IndexIdentity& identity);
  Result<void> build_empty(const IndexIdentity& identity) const;
  void remove_lock_files() const;

  void run_committer() HC_COMMITTER;
  Result<void> run_batch(const IndexBatch& batch) HC_COMMITTER;
  int write_growing(const IndexBatch& batch) HC_COMMITTER;
  Error handle_failed_write(int rc) HC_COMMITTER;
  Result<void> reopen() HC_COMMITTER;

  const LmdbIndexOptions options_;
  UniqueFd dir_;
  std::uint64_t map_bytes_;
  std::optional<LmdbEnv> env_;
  std::optional<Error> dead_;  // what killed the environment; every later commit answers it
  IndexState state_;           // of the last committed batch
  bool damaged_ = false;
  bool in_flight_ HC_OWNED_BY_REACTOR = false;
  WorkQueue<IndexBatch> batches_;
  ResultBox<Result<void>> results_;
  std::thread committer_;
};

}  // namespace hc
