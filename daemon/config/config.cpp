// SPDX-License-Identifier: Apache-2.0
// config: names of the choices, the rules on values, and the effective configuration as text.
#include "daemon/config/config.h"

#include <numeric>
#include <string_view>

#include "daemon/config/config_keys.h"
#include "daemon/config/size_text.h"
#include "proto/limits.h"

namespace hc {

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out + "\"";
}

std::string render_size(std::uint64_t bytes) {
  const std::string value = format_size(bytes);
  return value.back() == 'B' ? quoted(value) : value;
}

std::string render_value(const Config& config, const ConfigKey& key) {
  if (const auto* text = std::get_if<TextKey>(&key.field)) {
    return quoted(config.*text->member);
  }
  if (const auto* size = std::get_if<SizeKey>(&key.field)) {
    return render_size(config.*size->member);
  }
  if (const auto* number = std::get_if<NumberKey>(&key.field)) {
    return std::to_string(config.*number->member);
  }
  if (const auto* flag = std::get_if<FlagKey>(&key.field)) {
    return config.*flag->member ? "true" : "false";
  }
  return quoted(std::get<ChoiceKey>(key.field).get(config));
}

}  // namespace

const char* gpu_transfer_name(GpuTransfer transfer) {
  switch (transfer) {
    case GpuTransfer::automatic: return "auto";
    case GpuTransfer::ipc: return "ipc";
    case GpuTransfer::rank: return "rank";
    case GpuTransfer::off: return "off";
  }
  HC_UNREACHABLE();
}

const char* spill_policy_name(SpillPolicy policy) {
  switch (policy) {
    case SpillPolicy::write_through: return "write_through";
    case SpillPolicy::selective: return "write_through_selective";
    case SpillPolicy::write_back: return "write_back";
  }
  HC_UNREACHABLE();
}

const char* cold_start_name(ColdStart mode) {
  switch (mode) {
    case ColdStart::clear: return "clear";
    case ColdStart::load: return "load";
    case ColdStart::hold: return "hold";
  }
  return "unknown";
}

Result<ColdStart> parse_cold_start(const std::string& name) {
  for (const ColdStart mode : {ColdStart::clear, ColdStart::load, ColdStart::hold}) {
    if (name == cold_start_name(mode)) {
      return mode;
    }
  }
  return make_error(Code::unsupported,
                    "cold start '" + name + "': must be clear, load or hold");
}

const char* disk_backend_name(DiskBackend backend) {
  switch (backend) {
    case DiskBackend::automatic: return "automatic";
    case DiskBackend::uring_fixed: return "uring_fixed";
    case DiskBackend::uring: return "uring";
    case DiskBackend::threads: return "threads";
  }
  return "unknown";
}

Result<void> validate_config(const Config& config) {
  for (const ConfigKey& key : config_keys()) {
    HC_TRY_VOID(validate_key(config, key));
  }
  if (config.arena_bytes > config.l2_bytes) {
    return make_error(Code::bad_argument, "l2.arena_bytes = " + format_size(config.arena_bytes) +
                                              ": must be at most l2.l2_bytes = " +
                                              format_size(config.l2_bytes));
  }
  if (config.volumes.size() > kVolumesMax) {
    return make_error(Code::bad_argument, "l3.volume: " + std::to_string(config.volumes.size()) +
                                              " volumes: must be at most " +
                                              std::to_string(kVolumesMax));
  }
  for (std::size_t i = 0; i < config.volumes.size(); ++i) {
    HC_TRY_VOID(validate_volume(config.volumes[i], "l3.volume[" + std::to_string(i) + "]"));
    for (std::size_t j = 0; j < i; ++j) {
      if (config.volumes[j].dir == config.volumes[i].dir) {
        return make_error(Code::bad_argument, "l3.volume[" + std::to_string(i) + "].dir = '" +
                                                  config.volumes[i].dir +
                                                  "': is volume " + std::to_string(j) +
                                                  " already");
      }
    }
  }
  return {};
}

std::vector<VolumeConfig> effective_volumes(const Config& config) {
  return config.volumes.empty()
             ? std::vector<VolumeConfig>{{config.volume_dir, config.l3_bytes, 0}}
             : config.volumes;
}

std::vector<std::string> volume_dirs(const Config& config) {
  std::vector<std::string> dirs;
  for (const VolumeConfig& volume : effective_volumes(config)) {
    dirs.push_back(volume.dir);
  }
  return dirs;
}

std::vector<std::uint64_t> volume_bytes(const Config& config) {
  std::vector<std::uint64_t> bytes;
  for (const VolumeConfig& volume : effective_volumes(config)) {
    bytes.push_back(volume.bytes);
  }
  return bytes;
}

std::vector<std::uint64_t> volume_inflight(const Config& config) {
  std::vector<std::uint64_t> bytes;
  for (const VolumeConfig& volume : effective_volumes(config)) {
    bytes.push_back(volume.inflight_bytes != 0 ? volume.inflight_bytes : config.io_inflight_bytes);
  }
  return bytes;
}

std::uint64_t total_l3_bytes(const Config& config) {
  const std::vector<std::uint64_t> bytes = volume_bytes(config);
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

std::string render_config(const Config& config) {
  std::string out;
  std::string_view table;
  for (const ConfigKey& key : config_keys()) {
    if (table != key.table) {
      out += (table.empty() ? "[" : "\n[") + std::string(key.table) + "]\n";
      table = key.table;
    }
    const bool short_form = std::string_view(key.table) == "l3" && !config.volumes.empty() &&
                            (key.name == std::string_view("volume_dir") ||
                             key.name == std::string_view("l3_bytes"));
    if (!short_form) {
      out += std::string(key.name) + " = " + render_value(config, key) + "\n";
    }
  }
  for (const VolumeConfig& volume : config.volumes) {
    out += "\n[[l3.volume]]\ndir = " + quoted(volume.dir) +
           "\nbytes = " + render_size(volume.bytes) +
           "\ninflight_bytes = " + render_size(volume.inflight_bytes) + "\n";
  }
  return out;
}

}  // namespace hc
