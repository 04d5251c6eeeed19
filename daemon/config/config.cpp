// SPDX-License-Identifier: Apache-2.0
// config: names of the choices, the rules on values, and the effective configuration as text.
#include "daemon/config/config.h"

#include <string_view>

#include "daemon/config/config_keys.h"
#include "daemon/config/size_text.h"

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

std::string render_value(const Config& config, const ConfigKey& key) {
  if (const auto* text = std::get_if<TextKey>(&key.field)) {
    return quoted(config.*text->member);
  }
  if (const auto* size = std::get_if<SizeKey>(&key.field)) {
    const std::string value = format_size(config.*size->member);
    return value.back() == 'B' ? quoted(value) : value;
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
  return {};
}

std::string render_config(const Config& config) {
  std::string out;
  std::string_view table;
  for (const ConfigKey& key : config_keys()) {
    if (table != key.table) {
      out += (table.empty() ? "[" : "\n[") + std::string(key.table) + "]\n";
      table = key.table;
    }
    out += std::string(key.name) + " = " + render_value(config, key) + "\n";
  }
  return out;
}

}  // namespace hc
