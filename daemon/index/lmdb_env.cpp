// SPDX-License-Identifier: Apache-2.0
// lmdb_env: transactions over LMDB.
#include "daemon/index/lmdb_env.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/index/meta_rows.h"
#include "daemon/log/log.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::string_view kIdentityKey = "identity";
constexpr MDB_dbi kDatabases = 3;
constexpr std::uint64_t kNearlyFullBytes = 1 << 20;
constexpr int kExitDamaged = 5;  // as for damage that a start finds by itself

using PageKey = std::array<std::uint8_t, kIndexKeyBytes>;

// Aborts unless committed.
class Transaction {
 public:
  Transaction(MDB_env* env, unsigned flags) : rc_(mdb_txn_begin(env, nullptr, flags, &txn_)) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (txn_ != nullptr) {
      mdb_txn_abort(txn_);
    }
  }

  int begun() const { return rc_; }
  MDB_txn* get() const { return txn_; }
  int commit() { return mdb_txn_commit(std::exchange(txn_, nullptr)); }

 private:
  MDB_txn* txn_ = nullptr;
  int rc_;
};

// LMDB found one of its pages damaged and can't go on; on return it would abort. Exit handlers
// would wait for threads that may wait for this one.
void end_damaged(MDB_env* env, const char* message) {
  const char* path = nullptr;
  const bool known = mdb_env_get_path(env, &path) == 0 && path != nullptr;
  log_error("index.damaged", {{"file", known ? path : "?"},
                              {"lmdb", message},
                              {"help", "start once with --cold-start clear"}});
  ::_exit(kExitDamaged);
}

// LMDB only reads what it is given; its type has no const.
MDB_val as_val(std::span<const std::uint8_t> bytes) {
  return {bytes.size(), const_cast<std::uint8_t*>(bytes.data())};
}

MDB_val as_val(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

std::span<const std::uint8_t> as_bytes(const MDB_val& value) {
  return {static_cast<const std::uint8_t*>(value.mv_data), value.mv_size};
}

// The page under whose key a row stands, whatever the row says.
IndexErase page_of_key(std::span<const std::uint8_t> key) {
  IndexErase out;
  for (const std::uint8_t byte : key.first(kSpaceKeyBytes)) {
    out.space.value = out.space.value << 8 | byte;
  }
  std::copy(key.begin() + kSpaceKeyBytes, key.end(), out.page.bytes.begin());
  return out;
}

int put(MDB_txn* txn, MDB_dbi database, MDB_val key, MDB_val value) {
  return mdb_put(txn, database, &key, &value, 0);
}

Result<void> walk(MDB_txn* txn, MDB_dbi database,
                  const std::function<void(const MDB_val&, const MDB_val&)>& on_row) {
  MDB_cursor* raw = nullptr;
  if (const int rc = mdb_cursor_open(txn, database, &raw); rc != 0) {
    return lmdb_error("index: walk", rc);
  }
  const std::unique_ptr<MDB_cursor, void (*)(MDB_cursor*)> cursor(raw, mdb_cursor_close);
  MDB_val key{};
  MDB_val value{};
  int rc = 0;
  while ((rc = mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT)) == 0) {
    on_row(key, value);
  }
  return rc == MDB_NOTFOUND ? Result<void>() : Result<void>(lmdb_error("index: walk", rc));
}

}  // namespace

Error lmdb_error(const std::string& what, int rc) {
  if (rc > 0) {
    return make_error(rc == ENOSPC || rc == EDQUOT ? Code::no_space : Code::io_error, what, rc);
  }
  const std::string text = what + ": " + mdb_strerror(rc);
  switch (rc) {
    case MDB_MAP_FULL: return make_error(Code::no_space, text);
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH: return make_error(Code::corrupt, text);
    default: return make_error(Code::io_error, text);
  }
}

Error lmdb_write_error(const std::string& what, int rc, std::uint64_t free_bytes) {
  return lmdb_error(what, rc == EIO && free_bytes < kNearlyFullBytes ? ENOSPC : rc);
}

Result<LmdbEnv> LmdbEnv::open(const std::string& path, std::uint64_t map_bytes, bool create) {
  MDB_env* raw = nullptr;
  if (const int rc = mdb_env_create(&raw); rc != 0) {
    return lmdb_error(path, rc);
  }
  LmdbEnv env(raw, map_bytes);
  int rc = mdb_env_set_maxdbs(raw, kDatabases);
  if (rc == 0) {
    rc = mdb_env_set_mapsize(raw, map_bytes);
  }
  if (rc == 0) {
    rc = mdb_env_set_assert(raw, end_damaged);
  }
  if (rc == 0) {
    rc = mdb_env_open(raw, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK, 0600);
  }
  if (rc == 0) {
    rc = env.reserve_length(map_bytes);
  }
  if (rc == 0) {
    rc = env.open_databases(create);
  }
  if (rc != 0) {
    return rc == MDB_NOTFOUND ? make_error(Code::corrupt, path + " lacks a database")
                              : lmdb_error(path, rc);
  }
  return env;
}

int LmdbEnv::open_databases(bool create) {
  Transaction transaction(env_.get(), create ? 0 : MDB_RDONLY);
  int rc = transaction.begun();
  const unsigned flags = create ? MDB_CREATE : 0;
  for (const auto& [name, database] :
       {std::pair{"spaces", &spaces_}, std::pair{"pages", &pages_}, std::pair{"meta", &meta_}}) {
    if (rc == 0) {
      rc = mdb_dbi_open(transaction.get(), name, flags, database);
    }
  }
  return rc == 0 ? transaction.commit() : rc;
}

int LmdbEnv::write_batch(MDB_txn* transaction, const IndexBatch& batch) const {
  for (const IndexSpace& space : batch.spaces) {
    const int rc = put(transaction, spaces_, as_val(encode_space_key(space.number)),
                       as_val(encode_space_row(space)));
    if (rc != 0) {
      return rc;
    }
  }
  std::vector<PageKey> erases;
  erases.reserve(batch.erases.size());
  for (const IndexErase& erase : batch.erases) {
    erases.push_back(encode_index_key(erase.space, erase.page));
  }
  std::sort(erases.begin(), erases.end());
  for (const PageKey& bytes : erases) {
    MDB_val key = as_val(bytes);
    const int rc = mdb_del(transaction, pages_, &key, nullptr);
    if (rc != 0 && rc != MDB_NOTFOUND) {
      return rc;
    }
  }
  std::vector<std::pair<PageKey, const IndexRow*>> puts;
  puts.reserve(batch.puts.size());
  for (const IndexRow& row : batch.puts) {
    puts.emplace_back(encode_index_key(row.space, row.page), &row);
  }
  // Stable: of two rows of one page the later one stays.
  std::stable_sort(puts.begin(), puts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, row] : puts) {
    const int rc = put(transaction, pages_, as_val(key), as_val(encode_index_value(*row)));
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

int LmdbEnv::write(const LmdbWrite& write) {
  Transaction transaction(env_.get(), 0);
  int rc = transaction.begun();
  if (rc == 0 && write.identity != nullptr) {
    rc = put(transaction.get(), meta_, as_val(kIdentityKey),
             as_val(encode_identity(*write.identity)));
  }
  if (rc == 0 && write.batch != nullptr) {
    rc = write_batch(transaction.get(), *write.batch);
    HC_FAILPOINT(index_rows_put);
  }
  return rc == 0 ? transaction.commit() : rc;
}

// LMDB counts a page that was allocated last and freed again in one transaction, and never writes
// it: its file may end before its last page. So the file gets its whole length, sparse and synced,
// before the first commit that could record a map of that size. A file shorter than the map it
// records was cut (check_lmdb_file), at whatever moment a kill or a power cut came.
int LmdbEnv::reserve_length(std::uint64_t bytes) const {
  mdb_filehandle_t fd = -1;
  HC_CHECK(mdb_env_get_fd(env_.get(), &fd) == 0);
  struct stat file {};
  if (::fstat(fd, &file) != 0) {
    return errno;
  }
  const auto wanted = static_cast<off_t>(bytes);
  if (file.st_size >= wanted) {
    return 0;
  }
  return ::ftruncate(fd, wanted) == 0 && ::fsync(fd) == 0 ? 0 : errno;
}

int LmdbEnv::grow() {
  const std::uint64_t wanted = map_bytes_ * 2;
  int rc = reserve_length(wanted);
  if (rc == 0) {
    rc = mdb_env_set_mapsize(env_.get(), wanted);
  }
  if (rc == 0) {
    map_bytes_ = wanted;
  }
  return rc;
}

Result<IndexIdentity> LmdbEnv::read_identity() const {
  const Transaction transaction(env_.get(), MDB_RDONLY);
  MDB_val key = as_val(kIdentityKey);
  MDB_val value{};
  int rc = transaction.begun();
  if (rc == 0) {
    rc = mdb_get(transaction.get(), meta_, &key, &value);
  }
  if (rc == MDB_NOTFOUND) {
    return make_error(Code::not_found, "index has no identity");
  }
  if (rc != 0) {
    return lmdb_error("index identity", rc);
  }
  return decode_identity(as_bytes(value));
}

Result<void> LmdbEnv::visit(const IndexVisitor& visitor) const {
  const Transaction transaction(env_.get(), MDB_RDONLY);
  if (transaction.begun() != 0) {
    return lmdb_error("index: walk", transaction.begun());
  }
  HC_TRY_VOID(walk(transaction.get(), spaces_, [&](const MDB_val& key, const MDB_val& value) {
    const auto space = decode_space_row(as_bytes(key), as_bytes(value));
    space ? visitor.on_space(*space) : visitor.on_damaged_row(space.error());
  }));
  return walk(transaction.get(), pages_, [&](const MDB_val& key, const MDB_val& value) {
    const auto row = decode_index_row(as_bytes(key), as_bytes(value));
    if (row) {
      visitor.on_row(*row);
      return;
    }
    visitor.on_damaged_row(row.error());
    if (visitor.on_damaged_key && key.mv_size == kIndexKeyBytes) {
      visitor.on_damaged_key(page_of_key(as_bytes(key)));
    }
  });
}

}  // namespace hc
