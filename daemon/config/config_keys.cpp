// SPDX-License-Identifier: Apache-2.0
// config_keys: the keys, their bounds, and the rules on texts.
#include "daemon/config/config_keys.h"

#include <algorithm>
#include <array>

#include "daemon/config/size_text.h"
#include "proto/limits.h"

namespace hc {

namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kTiB = 1ULL << 40;
// sun_path holds 107 bytes; the longest socket name in runtime_dir is "/hicached.sock".
constexpr std::size_t kRuntimeDirBytesMax = 107 - 14;
// The dirty pages of one LMDB transaction are bounded; rows are spread, so this many fit easily.
constexpr std::uint32_t kCommitPagesMax = 16384;
constexpr std::size_t kPathBytesMax = 3072;

Error bad_value(const std::string& why) { return make_error(Code::bad_argument, why); }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

Result<void> check_length(const std::string& text, std::size_t high) {
  if (text.empty() || text.size() > high) {
    return bad_value("has " + std::to_string(text.size()) + " bytes: must be 1.." +
                     std::to_string(high));
  }
  if (std::any_of(text.begin(), text.end(), is_control)) {
    return bad_value("holds a control character");
  }
  return {};
}

Result<void> check_path_of(const std::string& path, std::size_t high) {
  HC_TRY_VOID(check_length(path, high));
  return path.front() == '/' ? Result<void>() : bad_value("must be an absolute path");
}

Result<void> check_path(const std::string& path) { return check_path_of(path, kPathBytesMax); }

Result<void> check_optional_path(const std::string& path) {
  return path.empty() ? Result<void>() : check_path(path);
}

Result<void> check_runtime_dir(const std::string& path) {
  return check_path_of(path, kRuntimeDirBytesMax);
}

Result<void> check_tenant(const std::string& tenant) { return check_length(tenant, kNameBytesMax); }

// A name is for the dynamic linker to find.
Result<void> check_library(const std::string& name) {
  HC_TRY_VOID(check_length(name, kPathBytesMax));
  const bool is_path = name.find('/') != std::string::npos;
  return is_path && name.front() != '/' ? bad_value("must be a name or an absolute path")
                                        : Result<void>();
}

Result<void> check_log_level(const std::string& level) {
  if (level == "debug" || level == "info" || level == "warn" || level == "error") {
    return {};
  }
  return bad_value("must be debug, info, warn or error");
}

Result<void> check_socket_mode(const std::string& mode) {
  const bool octal =
      std::all_of(mode.begin(), mode.end(), [](char c) { return c >= '0' && c <= '7'; });
  if (!octal || mode.size() < 3 || mode.size() > 4 || (mode.size() == 4 && mode.front() != '0')) {
    return bad_value("must be octal permissions, 000..777, such as \"0660\"");
  }
  return {};
}

Result<void> set_cold_start(Config& config, const std::string& word) {
  const auto mode = parse_cold_start(word);
  if (!mode) {
    return make_error(mode.error().code, "must be clear, load or hold");
  }
  config.cold_start = *mode;
  return {};
}

Result<void> set_load_verify(Config& config, const std::string& word) {
  if (word != "before" && word != "lazy") {
    return bad_value("must be before or lazy");
  }
  config.load_verify = word == "lazy" ? LoadVerify::lazy : LoadVerify::before;
  return {};
}

Result<void> set_missing_volume(Config& config, const std::string& word) {
  if (word != "refuse" && word != "drop") {
    return bad_value("must be refuse or drop");
  }
  config.missing_volume = word == "drop" ? MissingVolume::drop : MissingVolume::refuse;
  return {};
}

Result<void> set_disk_backend(Config& config, const std::string& word) {
  for (const auto backend : {DiskBackend::automatic, DiskBackend::uring_fixed, DiskBackend::uring,
                             DiskBackend::threads}) {
    if (word == disk_backend_name(backend)) {
      config.disk_backend = backend;
      return {};
    }
  }
  return bad_value("must be automatic, uring_fixed, uring or threads");
}

Result<void> set_spill_policy(Config& config, const std::string& word) {
  for (const auto policy :
       {SpillPolicy::write_through, SpillPolicy::selective, SpillPolicy::write_back}) {
    if (word == spill_policy_name(policy)) {
      config.spill_policy = policy;
      return {};
    }
  }
  return bad_value("must be write_through, write_through_selective or write_back");
}

Result<void> set_gpu_transfer(Config& config, const std::string& word) {
  for (const auto transfer :
       {GpuTransfer::automatic, GpuTransfer::ipc, GpuTransfer::rank, GpuTransfer::off}) {
    if (word == gpu_transfer_name(transfer)) {
      config.gpu_transfer = transfer;
      return {};
    }
  }
  return bad_value("must be auto, ipc, rank or off");
}

const char* get_gpu_transfer(const Config& config) {
  return gpu_transfer_name(config.gpu_transfer);
}
const char* get_spill_policy(const Config& config) {
  return spill_policy_name(config.spill_policy);
}
const char* get_cold_start(const Config& config) { return cold_start_name(config.cold_start); }
const char* get_load_verify(const Config& config) {
  return config.load_verify == LoadVerify::lazy ? "lazy" : "before";
}
const char* get_missing_volume(const Config& config) {
  return config.missing_volume == MissingVolume::drop ? "drop" : "refuse";
}
const char* get_disk_backend(const Config& config) {
  return disk_backend_name(config.disk_backend);
}

const std::array<ConfigKey, 31> kKeys{{
    {"daemon", "runtime_dir", TextKey{&Config::runtime_dir, check_runtime_dir}},
    {"daemon", "log_level", TextKey{&Config::log_level, check_log_level}},
    {"daemon", "tenant", TextKey{&Config::tenant, check_tenant}},
    {"daemon", "socket_mode", TextKey{&Config::socket_mode, check_socket_mode}},
    {"daemon", "spin_us", NumberKey{&Config::spin_us, 0, 1'000'000}},
    {"l2", "l2_bytes", SizeKey{&Config::l2_bytes, kMiB, 64 * kTiB, false}},
    {"l2", "arena_bytes", SizeKey{&Config::arena_bytes, 64 << 10, kTiB, true}},
    {"l2", "huge_pages", FlagKey{&Config::huge_pages}},
    {"l2", "prefault_threads", NumberKey{&Config::prefault_threads, 0, 64}},
    {"l2", "copier_threads", NumberKey{&Config::copier_threads, 0, 64}},
    {"l2", "family_bytes", SizeKey{&Config::family_bytes, kMiB, 64 * kTiB, true}},
    {"l3", "volume_dir", TextKey{&Config::volume_dir, check_path}},
    {"l3", "index_dir", TextKey{&Config::index_dir, check_optional_path}},
    {"l3", "l3_bytes", SizeKey{&Config::l3_bytes, kMiB, 1024 * kTiB, false}},
    {"l3", "reserve_slots", NumberKey{&Config::reserve_slots, 0, 1U << 20}},
    {"l3", "disk_backend", ChoiceKey{set_disk_backend, get_disk_backend}},
    {"l3", "io_threads", NumberKey{&Config::io_threads, 1, 64}},
    {"l3", "io_inflight_bytes", SizeKey{&Config::io_inflight_bytes, kIoPieceBytes, kTiB, false}},
    {"l3", "io_timeout_ms", NumberKey{&Config::io_timeout_ms, 100, 600'000}},
    {"l3", "commit_interval_ms", NumberKey{&Config::commit_interval_ms, 1, 600'000}},
    {"l3", "commit_pages", NumberKey{&Config::commit_pages, 1, kCommitPagesMax}},
    {"l3", "lock_wait_ms", NumberKey{&Config::lock_wait_ms, 0, 600'000}},
    {"l3", "spill_policy", ChoiceKey{set_spill_policy, get_spill_policy}},
    {"l3", "spill_min_uses", NumberKey{&Config::spill_min_uses, 1, 255}},
    {"l3", "dirty_percent", NumberKey{&Config::dirty_percent, 1, 100}},
    {"l3", "missing_volume", ChoiceKey{set_missing_volume, get_missing_volume}},
    {"cold_start", "mode", ChoiceKey{set_cold_start, get_cold_start}},
    {"cold_start", "load_verify", ChoiceKey{set_load_verify, get_load_verify}},
    {"gpu", "transfer", ChoiceKey{set_gpu_transfer, get_gpu_transfer}},
    {"gpu", "library", TextKey{&Config::gpu_library, check_library}},
    {"limits", "sessions_max", NumberKey{&Config::sessions_max, 1, kSessionsMax}},
}};

Result<void> check_volume_size(const std::string& name, std::uint64_t value, std::uint64_t low,
                               std::uint64_t high) {
  if (value >= low && value <= high) {
    return {};
  }
  return make_error(Code::bad_argument, name + " = " + format_size(value) + ": must be " +
                                            format_size(low) + ".." + format_size(high));
}

Error out_of_range(const ConfigKey& key, const std::string& value, const std::string& range) {
  return make_error(Code::bad_argument, key_path(key) + " = " + value + ": must be " + range);
}

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }

std::string printable(std::string text) {
  std::replace_if(text.begin(), text.end(), is_control, '?');
  return text;
}

std::string key_path(const ConfigKey& key) { return std::string(key.table) + "." + key.name; }

Result<void> validate_volume(const VolumeConfig& volume, const std::string& name) {
  if (auto checked = check_path(volume.dir); !checked) {
    return make_error(Code::bad_argument, name + ".dir = '" + printable(volume.dir) + "': " +
                                              checked.error().text);
  }
  HC_TRY_VOID(check_volume_size(name + ".bytes", volume.bytes, kMiB, 1024 * kTiB));
  if (volume.inflight_bytes != 0) {
    HC_TRY_VOID(check_volume_size(name + ".inflight_bytes", volume.inflight_bytes, kIoPieceBytes,
                                  kTiB));
  }
  return {};
}

Result<void> validate_key(const Config& config, const ConfigKey& key) {
  if (const auto* text = std::get_if<TextKey>(&key.field)) {
    const std::string& value = config.*text->member;
    const auto checked = text->check(value);
    if (!checked) {
      return make_error(Code::bad_argument,
                        key_path(key) + " = '" + printable(value) + "': " + checked.error().text);
    }
  }
  if (const auto* size = std::get_if<SizeKey>(&key.field)) {
    const std::uint64_t value = config.*size->member;
    const bool automatic = size->zero_allowed && value == 0;
    if (!automatic && (value < size->low || value > size->high)) {
      return out_of_range(key, format_size(value),
                          std::string(size->zero_allowed ? "0 or " : "") + format_size(size->low) +
                              ".." + format_size(size->high));
    }
  }
  if (const auto* number = std::get_if<NumberKey>(&key.field)) {
    const std::uint32_t value = config.*number->member;
    if (value < number->low || value > number->high) {
      return out_of_range(key, std::to_string(value),
                          std::to_string(number->low) + ".." + std::to_string(number->high));
    }
  }
  return {};
}

}  // namespace hc
