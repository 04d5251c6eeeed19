// SPDX-License-Identifier: Apache-2.0
// lmdb_index: life of the index file, and the committer thread.
#include "daemon/index/lmdb_index.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "daemon/index/index_child.h"
#include "daemon/index/lmdb_file.h"
#include "daemon/index/lmdb_tree_check.h"
#include "daemon/log/log.h"
#include "daemon/os/file_lock.h"
#include "proto/test_hooks.h"

namespace hc {

namespace {

constexpr std::uint64_t kMapBytesSpare = 64ULL << 20;
constexpr std::uint64_t kMapBytesPerPart = 512;  // measured need is below 260, more while it churns
constexpr std::uint64_t kMapBytesMax = 8ULL << 40;  // a file of ext4 can be twice as long

enum class AfterFailure : std::uint8_t { go_on, reopen, die };

// Each of them undid its transaction: pages written meanwhile are named by nothing and will be
// written anew. But LMDB refuses all further work where the write of a header failed, and has no
// map where it could not make it larger; what it held in memory goes with a reopening.
AfterFailure after_failure(int rc) {
  switch (rc) {
    case MDB_MAP_FULL:
    case MDB_TXN_FULL: return AfterFailure::go_on;
    case EIO:
    case ENOSPC:
    case EDQUOT:
    case ENOMEM: return AfterFailure::reopen;
    default: return AfterFailure::die;
  }
}

std::uint64_t free_bytes_of(int dir) {
  struct statvfs info {};
  return ::fstatvfs(dir, &info) == 0 ? std::uint64_t{info.f_bavail} * info.f_frsize : UINT64_MAX;
}

Result<void> check_library_version() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  const char* text = mdb_version(&major, &minor, &patch);
  if (major != MDB_VERSION_MAJOR || minor != MDB_VERSION_MINOR) {
    return make_error(Code::unsupported, std::string("index: built for LMDB ") +
                                             MDB_VERSION_STRING + ", runs with " + text);
  }
  log_info("index.library", {{"version", text}});
  return {};
}

// Where a reset failed: the daemon serves on without an index.
Error not_open() { return make_error(Code::io_error, "index is not open"); }

void remove_file(const std::string& path) { ::unlink(path.c_str()); }

Result<void> rename_file(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return make_error(code_of_errno(errno), from + ": rename", errno);
  }
  return {};
}

}  // namespace

std::uint64_t index_map_bytes(std::uint64_t pages, std::uint64_t parts) {
  const std::uint64_t parts_max = kMapBytesMax / kMapBytesPerPart;
  const std::uint64_t rows_max = parts_max / std::max<std::uint64_t>(parts, 1);
  const std::uint64_t wanted = std::min(pages, rows_max) * parts * kMapBytesPerPart;
  return std::min(wanted + kMapBytesSpare, kMapBytesMax) / kMapBytesSpare * kMapBytesSpare;
}

Result<std::unique_ptr<LmdbIndex>> LmdbIndex::create(LmdbIndexOptions options) {
  HC_TRY_VOID(check_library_version());
  auto dir = open_local_dir(options.dir, "index " + options.dir);
  HC_TRY(dir);
  HC_TRY_VOID(lock_exclusive(dir->get(), "index " + options.dir, options.lock_retry_ms));
  auto event = EventFd::create();
  HC_TRY(event);
  return std::make_unique<LmdbIndex>(std::move(options), std::move(*dir), std::move(*event));
}

LmdbIndex::LmdbIndex(LmdbIndexOptions options, UniqueFd dir, EventFd event)
    : options_(std::move(options)),
      dir_(std::move(dir)),
      map_bytes_(index_map_bytes(options_.pages_expected, options_.parts_expected)),
      results_(std::move(event)),
      committer_([this] {
        const RoleScope role(kCommitterRole);
        run_committer();
      }) {}

LmdbIndex::~LmdbIndex() {
  batches_.close();
  committer_.join();
}

std::string LmdbIndex::path(const char* suffix) const {
  return options_.dir + "/index.lmdb" + suffix;
}

Result<void> LmdbIndex::open(const IndexIdentity& identity) {
  HC_CHECK(!env_ && !in_flight_);
  damaged_ = false;
  remove_file(path(".new"));
  remove_lock_files();
  const auto opened = open_existing(identity);
  if (opened) {
    return {};
  }
  env_.reset();
  if (opened.error().code == Code::not_found) {
    return replace_by_empty(identity);
  }
  // One that can't be read is as good as damaged: its pages lie in the slots.
  const bool unreadable = opened.error().sys_errno == EIO;
  damaged_ = unreadable || opened.error().code == Code::corrupt;
  return unreadable ? make_error(Code::corrupt, opened.error().message()) : opened;
}

// Every page and every row. In a child where there is a program for it; the child may die of LMDB.
Result<void> LmdbIndex::check_file() const {
  HC_TRY_VOID(check_lmdb_file(path()));
  const std::uint64_t used_bytes = lmdb_used_bytes(path());
  if (!options_.checker.empty()) {
    const auto found = run_index_child({{options_.checker, kCheckIndexArgument, path()},
                                        index_check_limit_ms(used_bytes),
                                        options_.on_progress});
    if (found) {
      log_info("index.checked", {{"found", *found}});
      return {};
    }
    if (found.error().code != Code::unsupported) {
      return found.error();
    }
    log_warn("index.no_child", {{"reason", found.error().message()},
                                {"help", "the index is checked by the daemon itself"}});
  }
  const auto facts = check_lmdb_trees(path());
  return facts ? Result<void>() : Result<void>(facts.error());
}

// not_found: there is none of this identity.
Result<void> LmdbIndex::open_existing(const IndexIdentity& identity) {
  HC_TRY_VOID(check_file());
  HC_TRY_VOID(open_file());
  const auto found = env_->read_identity();
  HC_TRY(found);
  if (*found != identity) {
    log_info("index.other_store", {{"file", path()}});
    return make_error(Code::not_found, path() + " belongs to another store or epoch");
  }
  const auto state = env_->read_state();
  HC_TRY(state);
  state_ = *state;
  return {};
}

Result<void> LmdbIndex::open_file() {
  auto env = LmdbEnv::open(path(), map_bytes_, LmdbOpen::existing);
  HC_TRY(env);
  env_.emplace(std::move(*env));
  return {};
}

Result<void> LmdbIndex::reset(const IndexIdentity& identity) {
  HC_CHECK(!in_flight_);
  const auto replaced = replace_by_empty(identity);
  if (!replaced) {
    // The caller has left the old identity behind: none of its rows may get into the old file.
    dead_ = replaced.error();
  }
  return replaced;
}

void LmdbIndex::close() {
  HC_CHECK(!in_flight_);
  env_.reset();
  dead_.reset();
}

bool LmdbIndex::is_dead() const {
  HC_CHECK(!in_flight_);
  return dead_.has_value() || !env_;
}

// Creation is not atomic in LMDB, so it happens under another name; whoever finds the final name
// finds a complete file. A full disk shows while the old file is still untouched; nothing after
// that needs space.
Result<void> LmdbIndex::replace_by_empty(const IndexIdentity& identity) {
  HC_TRY_VOID(build_empty(identity));
  HC_FAILPOINT(index_empty_built);
  if (damaged_) {
    // An attempt that failed later may have set it aside already.
    const auto aside = rename_file(path(), path(".damaged"));
    if (!aside && aside.error().code != Code::not_found) {
      return aside;
    }
    damaged_ = false;
    log_warn("index.set_aside", {{"file", path(".damaged")}});
  }
  HC_TRY_VOID(rename_file(path(".new"), path()));
  HC_FAILPOINT(index_empty_renamed);
  env_.reset();
  HC_TRY_VOID(sync_dir(dir_.get(), "index " + options_.dir));
  HC_TRY_VOID(open_file());
  state_ = IndexState{};
  dead_.reset();
  return {};
}

// Lock files are of a predecessor that had LMDB lock; the directory's lock is ours.
void LmdbIndex::remove_lock_files() const {
  remove_file(path("-lock"));
  remove_file(path(".new-lock"));
}

Result<void> LmdbIndex::build_empty(const IndexIdentity& identity) const {
  remove_file(path(".new"));
  auto env = LmdbEnv::open(path(".new"), map_bytes_, LmdbOpen::create);
  HC_TRY(env);
  if (const int rc = env->write({nullptr, &identity}); rc != 0) {
    return lmdb_write_error(path(".new"), rc, free_bytes_of(dir_.get()));
  }
  return {};
}

Result<void> LmdbIndex::visit(const IndexVisitor& visitor) {
  HC_CHECK(!in_flight_);
  return env_ ? env_->visit(visitor) : Result<void>(not_open());
}

void LmdbIndex::commit(IndexBatch batch) {
  HC_CHECK(!in_flight_);
  in_flight_ = true;
  batches_.put(std::move(batch));
}

std::optional<Result<void>> LmdbIndex::poll() {
  auto done = results_.take_all();
  HC_CHECK(done.size() <= (in_flight_ ? 1U : 0U));
  if (done.empty()) {
    return std::nullopt;
  }
  in_flight_ = false;
  return std::move(done.front());
}

void LmdbIndex::wait() {
  if (in_flight_) {
    results_.wait();
  }
}

void LmdbIndex::run_committer() {
  while (auto batch = batches_.take()) {
    results_.put(run_batch(*batch));
  }
}

Result<void> LmdbIndex::run_batch(const IndexBatch& batch) {
  if (batch.fresh) {
    damaged_ = true;
    if (auto replaced = replace_by_empty(*batch.fresh); !replaced) {
      dead_ = replaced.error();
      return replaced;
    }
  }
  if (dead_ || !env_) {
    return dead_ ? *dead_ : not_open();
  }
  if (HC_FAILPOINT_FAILS(index_batch_taken)) {
    return make_error(Code::io_error, "index: commit");
  }
  if (const int rc = write_growing(batch); rc != 0) {
    return handle_failed_write(rc);
  }
  state_ = batch.state;
  return {};
}

int LmdbIndex::write_growing(const IndexBatch& batch) {
  int rc = env_->write({&batch, nullptr});
  while (rc == MDB_MAP_FULL && map_bytes_ < kMapBytesMax) {
    rc = env_->grow();
    if (rc == 0) {
      map_bytes_ = env_->map_bytes();
      log_info("index.grow", {{"map_bytes", map_bytes_}});
      rc = env_->write({&batch, nullptr});
    }
  }
  HC_FAILPOINT(index_batch_committed);
  return rc;
}

Error LmdbIndex::handle_failed_write(int rc) {
  const Error error = lmdb_write_error("index: commit", rc, free_bytes_of(dir_.get()));
  const AfterFailure next = after_failure(rc);
  if (next == AfterFailure::die) {
    dead_ = error;
  }
  if (next == AfterFailure::reopen) {
    if (const auto reopened = reopen(); !reopened) {
      env_.reset();
      damaged_ = reopened.error().code == Code::corrupt;
      dead_ = reopened.error();
      log_error("index.reopen_failed", {{"reason", reopened.error().message()}});
    }
  }
  return error;
}

Result<void> LmdbIndex::reopen() {
  env_.reset();
  HC_TRY_VOID(check_lmdb_file(path()));
  return open_file();
}

}  // namespace hc
