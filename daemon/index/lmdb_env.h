// SPDX-License-Identifier: Apache-2.0
// lmdb_env: one open LMDB file with our three databases. Hides LMDB's calls; knows its codes.
//
// Owner: one thread at a time. Default sync flags: a committed transaction has been synced, and a
// crash at any moment leaves the last committed state. No WRITEMAP: a stray pointer in the process
// can't reach the file, and a full disk is an error code instead of a SIGBUS. NOLOCK for the same
// reason: LMDB writes its lock file through a map. What the lock file is for, others care for: the
// directory is locked, and no transaction of the one process runs beside another.
#pragma once

#include <lmdb.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/index/index.h"
#include "daemon/index/lmdb_guard.h"
#include "proto/result.h"

namespace hc {

// An LMDB or errno value as an error: no_space, corrupt or io_error.
Error lmdb_error(const std::string& what, int rc);

// The same for a failed write, with that many bytes free in the file system: LMDB answers EIO for a
// write that came out short, which a nearly full disk does and not only a failing one.
Error lmdb_write_error(const std::string& what, int rc, std::uint64_t free_bytes);

using IndexBytes = std::vector<std::uint8_t>;

// One logical write: rows of a batch, or the identity of a new file.
struct LmdbWrite {
  const IndexBatch* batch = nullptr;
  const IndexIdentity* identity = nullptr;
};

enum class LmdbOpen : std::uint8_t {
  create,    // makes the file and its databases
  existing,  // and makes it as long as its map
  look,      // read only: nothing of the file changes
};

class LmdbEnv {
 public:
  // Opens the file. It is as long as its map, sparse.
  static Result<LmdbEnv> open(const std::string& path, std::uint64_t map_bytes, LmdbOpen mode);

  // One transaction, synced on return; 0 or what LMDB said. On failure nothing has changed.
  // Spaces first, then erases, then puts, each sorted by key: fewer distinct pages are touched.
  int write(const LmdbWrite& write);
  // Room for twice as much; with no transaction open. 0 or what LMDB said.
  int grow();
  std::uint64_t map_bytes() const { return map_bytes_; }

  // not_found: none is stored; corrupt: it does not verify, or the file is damaged.
  Result<IndexIdentity> read_identity();
  // The state of the last batch; that of an empty index where none was committed yet.
  Result<IndexState> read_state();
  Result<void> visit(const IndexVisitor& visitor);

  // One call of LMDB; kLmdbBroken where it met damage and was left. Nothing works afterwards.
  template <typename Call>
  int call(Call body) {
    const int rc = lmdb_call(body);
    env_.get_deleter().broken = env_.get_deleter().broken || rc == kLmdbBroken;
    return rc;
  }
  bool broken() const { return env_.get_deleter().broken; }
  MDB_env* raw() const { return env_.get(); }

 private:
  struct Close {
    Close() : broken(false) {}
    bool broken;
    void operator()(MDB_env* env) const;
  };

  LmdbEnv(MDB_env* env, std::uint64_t map_bytes) : env_(env), map_bytes_(map_bytes) {}

  int open_databases(LmdbOpen mode);
  Result<bool> read_meta_row(std::string_view name, IndexBytes& out);
  int write_batch(MDB_txn* transaction, const IndexBatch& batch);
  int put(MDB_txn* transaction, MDB_dbi database, MDB_val key, MDB_val value);
  Result<void> walk(MDB_txn* transaction, MDB_dbi database,
                    const std::function<void(const IndexBytes&, const IndexBytes&)>& on_row);
  int reserve_length(std::uint64_t bytes) const;

  std::unique_ptr<MDB_env, Close> env_;
  std::uint64_t map_bytes_;
  MDB_dbi spaces_ = 0;
  MDB_dbi pages_ = 0;
  MDB_dbi meta_ = 0;
};

}  // namespace hc
