// SPDX-License-Identifier: Apache-2.0
// lmdb_probe: rows put in key order, one read transaction a list of keys.
#include "bench/lmdb_probe.h"

#include <lmdb.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <vector>

#include "client/ctl/micro_client.h"

namespace hc {

namespace {

constexpr std::size_t kValueBytes = 64;
constexpr std::uint64_t kMapBytesPerRow = 512;
constexpr std::uint64_t kMapBytesMin = 16ULL << 20;

Error lmdb_error(const char* call, int code) {
  return make_error(Code::io_error, std::string(call) + ": " + mdb_strerror(code));
}

MDB_val key_of(const std::uint8_t* bytes) {
  return {sizeof(MicroKey), const_cast<std::uint8_t*>(bytes)};
}

class LmdbProbe final : public IndexProbe {
 public:
  ~LmdbProbe() override { mdb_env_close(env_); }

  Result<void> fill(const std::string& folder, std::uint64_t rows);
  std::uint64_t look_up(const std::vector<const std::uint8_t*>& keys) override;

 private:
  Result<void> put(MDB_txn* txn, const std::vector<MicroKey>& keys);
  MDB_env* env_ = nullptr;
  MDB_dbi dbi_ = 0;
};

Result<void> LmdbProbe::put(MDB_txn* txn, const std::vector<MicroKey>& keys) {
  if (const int code = mdb_dbi_open(txn, nullptr, 0, &dbi_); code != 0) {
    return lmdb_error("mdb_dbi_open", code);
  }
  std::array<std::uint8_t, kValueBytes> bytes{};
  for (const MicroKey& key : keys) {
    MDB_val name = key_of(key.data());
    MDB_val value{bytes.size(), bytes.data()};
    if (const int code = mdb_put(txn, dbi_, &name, &value, MDB_APPEND); code != 0) {
      return lmdb_error("mdb_put", code);
    }
  }
  return {};
}

Result<void> LmdbProbe::fill(const std::string& folder, std::uint64_t rows) {
  std::vector<MicroKey> keys(rows);
  for (std::uint64_t row = 0; row < rows; ++row) {
    keys[row] = micro_key(row);
  }
  std::sort(keys.begin(), keys.end());
  const std::string path = folder + "/lmdb-probe";
  ::mkdir(path.c_str(), 0700);
  if (const int code = mdb_env_create(&env_); code != 0) {
    return lmdb_error("mdb_env_create", code);
  }
  mdb_env_set_mapsize(env_, std::max(kMapBytesMin, rows * kMapBytesPerRow));
  // What is in the file does not matter after a crash: it is read by this process alone.
  if (const int code = mdb_env_open(env_, path.c_str(), MDB_NOSYNC, 0600); code != 0) {
    return lmdb_error("mdb_env_open", code);
  }
  MDB_txn* txn = nullptr;
  if (const int code = mdb_txn_begin(env_, nullptr, 0, &txn); code != 0) {
    return lmdb_error("mdb_txn_begin", code);
  }
  if (const auto done = put(txn, keys); !done) {
    mdb_txn_abort(txn);
    return done;
  }
  const int code = mdb_txn_commit(txn);
  return code == 0 ? Result<void>() : Result<void>(lmdb_error("mdb_txn_commit", code));
}

std::uint64_t LmdbProbe::look_up(const std::vector<const std::uint8_t*>& keys) {
  MDB_txn* txn = nullptr;
  if (mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn) != 0) {
    return 0;
  }
  std::uint64_t found = 0;
  for (const std::uint8_t* key : keys) {
    MDB_val name = key_of(key);
    MDB_val value{};
    found += mdb_get(txn, dbi_, &name, &value) == 0 ? 1U : 0U;
  }
  mdb_txn_abort(txn);
  return found;
}

}  // namespace

Result<std::unique_ptr<IndexProbe>> make_lmdb_probe(const std::string& folder,
                                                    std::uint64_t rows) {
  auto probe = std::make_unique<LmdbProbe>();
  HC_TRY_VOID(probe->fill(folder, rows));
  return std::unique_ptr<IndexProbe>(std::move(probe));
}

}  // namespace hc
