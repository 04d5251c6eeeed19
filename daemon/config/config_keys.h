// SPDX-License-Identifier: Apache-2.0
// config_keys: the table of all keys: where each stands in the file and in Config, and its bounds.
//
// Loading, validating and rendering all walk this one table, so that they can't disagree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "daemon/config/config.h"

namespace hc {

struct TextKey {
  std::string Config::*member;
  Result<void> (*check)(const std::string& value);
};

struct SizeKey {  // in bytes; the file may use units
  std::uint64_t Config::*member;
  std::uint64_t low;
  std::uint64_t high;
  bool zero_allowed;  // 0 means: choose for me
};

struct NumberKey {
  std::uint32_t Config::*member;
  std::uint32_t low;
  std::uint32_t high;
};

struct FlagKey {
  bool Config::*member;
};

// One of a few words.
struct ChoiceKey {
  Result<void> (*set)(Config& config, const std::string& word);
  const char* (*get)(const Config& config);
};

struct ConfigKey {
  const char* table;
  const char* name;
  std::variant<TextKey, SizeKey, NumberKey, FlagKey, ChoiceKey> field;
};

std::span<const ConfigKey> config_keys();

// Control characters become '?', so that a complaint about a value stays one line.
std::string printable(std::string text);

std::string key_path(const ConfigKey& key);  // "l2.l2_bytes"
// `name` names the volume in the line: "l3.volume[1]".
Result<void> validate_volume(const VolumeConfig& volume, const std::string& name);
// The rule of one key alone; the line names key, value and allowed range.
Result<void> validate_key(const Config& config, const ConfigKey& key);

}  // namespace hc
