// SPDX-License-Identifier: Apache-2.0
// lmdb_env: transactions over LMDB.
#include "daemon/index/lmdb_env.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/index/meta_rows.h"
#include "proto/check.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr MDB_dbi kDatabases = 3;
constexpr std::uint64_t kNearlyFullBytes = 1 << 20;
// A key and a value: a space descriptor is the longest.
constexpr std::size_t kRowBytesMax = kDescriptorBytesMax + 1024;

using PageKey = std::array<std::uint8_t, kIndexKeyBytes>;

// Aborts unless committed.
class Transaction {
 public:
  Transaction(LmdbEnv& env, unsigned flags) : env_(env) {
    rc_ = env.call([&] { return mdb_txn_begin(env.raw(), nullptr, flags, &txn_); });
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (rc_ == 0 && txn_ != nullptr && !env_.broken()) {
      (void)env_.call([&] {
        mdb_txn_abort(txn_);
        return 0;
      });
    }
  }

  int begun() const { return rc_; }
  MDB_txn* get() const { return txn_; }
  int commit() {
    MDB_txn* const txn = std::exchange(txn_, nullptr);
    return env_.call([txn] { return mdb_txn_commit(txn); });
  }

 private:
  LmdbEnv& env_;
  MDB_txn* txn_ = nullptr;
  int rc_;
};

// LMDB only reads what it is given; its type has no const.
MDB_val as_val(std::span<const std::uint8_t> bytes) {
  return {bytes.size(), const_cast<std::uint8_t*>(bytes.data())};
}

MDB_val as_val(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

// The page under whose key a row stands, whatever the row says.
IndexErase page_of_key(std::span<const std::uint8_t> key) {
  IndexErase out;
  for (const std::uint8_t byte : key.first(kSpaceKeyBytes)) {
    out.space.value = out.space.value << 8 | byte;
  }
  std::copy(key.begin() + kSpaceKeyBytes, key.end(), out.page.bytes.begin());
  return out;
}

}  // namespace

Error lmdb_error(const std::string& what, int rc) {
  if (rc > 0) {
    return make_error(rc == ENOSPC || rc == EDQUOT ? Code::no_space : Code::io_error, what, rc);
  }
  if (rc == kLmdbBroken) {
    return make_error(Code::corrupt, what + ": LMDB met a damaged page");
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

// A broken environment can't be closed. Its descriptor and its map go; what it holds in memory
// stays, once for each damage, where a leak checker sees that it is kept on purpose.
void LmdbEnv::Close::operator()(MDB_env* env) const {
  if (!broken) {
    mdb_env_close(env);
    return;
  }
  static auto& kept = *new std::vector<MDB_env*>;
  static std::mutex mutex;
  {
    const std::lock_guard lock(mutex);
    kept.push_back(env);
  }
  mdb_filehandle_t fd = -1;
  if (mdb_env_get_fd(env, &fd) == 0) {
    ::close(fd);
  }
  MDB_envinfo info{};
  if (lmdb_call([&] { return mdb_env_info(env, &info); }) == 0) {
    ::munmap(info.me_mapaddr, info.me_mapsize);
  }
}

Result<LmdbEnv> LmdbEnv::open(const std::string& path, std::uint64_t map_bytes, LmdbOpen mode) {
  install_lmdb_guard();
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
    rc = mdb_env_set_assert(raw, leave_damaged_call);
  }
  if (rc == 0) {
    const unsigned flags = MDB_NOSUBDIR | MDB_NOLOCK | (mode == LmdbOpen::look ? MDB_RDONLY : 0U);
    rc = env.call([&] { return mdb_env_open(raw, path.c_str(), flags, 0600); });
  }
  if (rc == 0 && mode != LmdbOpen::look) {
    rc = env.reserve_length(map_bytes);
  }
  if (rc == 0) {
    rc = env.open_databases(mode);
  }
  if (rc != 0) {
    return rc == MDB_NOTFOUND ? make_error(Code::corrupt, path + " lacks a database")
                              : lmdb_error(path, rc);
  }
  return env;
}

int LmdbEnv::open_databases(LmdbOpen mode) {
  Transaction transaction(*this, mode == LmdbOpen::create ? 0 : MDB_RDONLY);
  int rc = transaction.begun();
  const unsigned flags = mode == LmdbOpen::create ? MDB_CREATE : 0;
  for (const auto& [name, database] :
       {std::pair{"spaces", &spaces_}, std::pair{"pages", &pages_}, std::pair{"meta", &meta_}}) {
    if (rc == 0) {
      rc = call([&, text = name, out = database] {
        return mdb_dbi_open(transaction.get(), text, flags, out);
      });
    }
  }
  return rc == 0 ? transaction.commit() : rc;
}

int LmdbEnv::put(MDB_txn* transaction, MDB_dbi database, MDB_val key, MDB_val value) {
  return call([&] { return mdb_put(transaction, database, &key, &value, 0); });
}

int LmdbEnv::write_batch(MDB_txn* transaction, const IndexBatch& batch) {
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
    const int rc = call([&] { return mdb_del(transaction, pages_, &key, nullptr); });
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
  return put(transaction, meta_, as_val(kStateKey), as_val(encode_state(batch.state)));
}

int LmdbEnv::write(const LmdbWrite& write) {
  Transaction transaction(*this, 0);
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
    rc = call([&] { return mdb_env_set_mapsize(env_.get(), wanted); });
  }
  if (rc == 0) {
    map_bytes_ = wanted;
  }
  return rc;
}

// False: there is none.
Result<bool> LmdbEnv::read_meta_row(std::string_view name, IndexBytes& out) {
  Transaction transaction(*this, MDB_RDONLY);
  MDB_val key = as_val(name);
  MDB_val value{};
  std::array<std::uint8_t, 64> copy{};
  int rc = transaction.begun();
  if (rc == 0) {
    rc = call([&] {
      const int got = mdb_get(transaction.get(), meta_, &key, &value);
      if (got == 0) {
        std::memcpy(copy.data(), value.mv_data, std::min(copy.size(), value.mv_size));
      }
      return got;
    });
  }
  if (rc == 0) {
    out.assign(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(
                                                std::min(copy.size(), value.mv_size)));
    return true;
  }
  return rc == MDB_NOTFOUND ? Result<bool>(false)
                            : Result<bool>(lmdb_error("index " + std::string(name), rc));
}

Result<IndexIdentity> LmdbEnv::read_identity() {
  IndexBytes value;
  const auto found = read_meta_row(kIdentityKey, value);
  HC_TRY(found);
  return *found ? decode_identity(value)
                : Result<IndexIdentity>(make_error(Code::not_found, "index has no identity"));
}

Result<IndexState> LmdbEnv::read_state() {
  IndexBytes value;
  const auto found = read_meta_row(kStateKey, value);
  HC_TRY(found);
  return *found ? decode_state(value) : Result<IndexState>(IndexState{});
}

// Rows are copied out under the guard: what their pointers name may go while they are judged.
Result<void> LmdbEnv::walk(
    MDB_txn* transaction, MDB_dbi database,
    const std::function<void(const IndexBytes&, const IndexBytes&)>& on_row) {
  MDB_cursor* cursor = nullptr;
  int rc = call([&] { return mdb_cursor_open(transaction, database, &cursor); });
  IndexBytes row(kRowBytesMax);
  IndexBytes key_bytes;
  IndexBytes value_bytes;
  while (rc == 0) {
    MDB_val key{};
    MDB_val value{};
    bool fits = false;
    rc = call([&] {
      const int got = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
      fits = got == 0 && key.mv_size <= row.size() && value.mv_size <= row.size() - key.mv_size;
      if (fits) {
        std::memcpy(row.data(), key.mv_data, key.mv_size);
        std::memcpy(row.data() + key.mv_size, value.mv_data, value.mv_size);
      }
      return got;
    });
    if (rc == 0) {
      const auto end_of_key = row.begin() + static_cast<std::ptrdiff_t>(fits ? key.mv_size : 0);
      key_bytes.assign(row.begin(), end_of_key);
      value_bytes.assign(end_of_key,
                         end_of_key + static_cast<std::ptrdiff_t>(fits ? value.mv_size : 0));
      on_row(key_bytes, value_bytes);
    }
  }
  if (!broken() && cursor != nullptr) {
    (void)call([cursor] {
      mdb_cursor_close(cursor);
      return 0;
    });
  }
  return rc == MDB_NOTFOUND ? Result<void>() : Result<void>(lmdb_error("index: walk", rc));
}

Result<void> LmdbEnv::visit(const IndexVisitor& visitor) {
  Transaction transaction(*this, MDB_RDONLY);
  if (transaction.begun() != 0) {
    return lmdb_error("index: walk", transaction.begun());
  }
  HC_TRY_VOID(walk(transaction.get(), spaces_, [&](const IndexBytes& key, const IndexBytes& value) {
    const auto space = decode_space_row(key, value);
    space ? visitor.on_space(*space) : visitor.on_damaged_row(space.error());
  }));
  return walk(transaction.get(), pages_, [&](const IndexBytes& key, const IndexBytes& value) {
    const auto row = decode_index_row(key, value);
    if (row) {
      visitor.on_row(*row);
      return;
    }
    visitor.on_damaged_row(row.error());
    if (visitor.on_damaged_key && key.size() == kIndexKeyBytes) {
      visitor.on_damaged_key(page_of_key(key));
    }
  });
}

}  // namespace hc
