// SPDX-License-Identifier: Apache-2.0
// load: read a TOML file into Config. The one file that knows toml++ and catches what it throws.
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/config/config_keys.h"
#include "daemon/config/size_text.h"

namespace hc {

namespace {

constexpr std::uintmax_t kFileBytesMax = 1U << 20;
constexpr std::size_t kSuggestionsMax = 3;

// Edits between two words: which known key was probably meant.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t swapped = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, swapped});
    }
  }
  return row[b.size()];
}

std::string join(const std::vector<std::string>& names) {
  std::string line;
  for (const std::string& name : names) {
    line += (line.empty() ? "" : ", ") + name;
  }
  return line;
}

std::string nearest(std::string_view word, std::vector<std::string> known) {
  std::stable_sort(known.begin(), known.end(), [word](const auto& a, const auto& b) {
    return distance(word, a) < distance(word, b);
  });
  known.resize(std::min(known.size(), kSuggestionsMax));
  return join(known);
}

class Loader {
 public:
  explicit Loader(std::string path) : path_(std::move(path)) {}

  Result<Config> load(const toml::table& root) {
    for (const auto& [name, node] : root) {
      const auto loaded = load_table(name.str(), node);
      HC_TRY(loaded);
    }
    if (!config_.volumes.empty() && !short_form_.empty()) {
      return make_error(Code::bad_argument,
                        path_ + ": " + short_form_ + " and [[l3.volume]] are given: the volumes "
                                                     "stand in one form or the other");
    }
    const auto valid = validate_config(config_);
    return valid ? Result<Config>(config_)
                 : make_error(Code::bad_argument, path_ + ": " + valid.error().text);
  }

 private:
  using Keys = std::vector<const ConfigKey*>;

  static Keys keys_of(std::string_view table) {
    Keys keys;
    for (const ConfigKey& key : config_keys()) {
      if (table == key.table) {
        keys.push_back(&key);
      }
    }
    return keys;
  }

  static const ConfigKey* find(const Keys& keys, std::string_view name) {
    const auto found = std::find_if(keys.begin(), keys.end(),
                                    [name](const ConfigKey* key) { return name == key->name; });
    return found == keys.end() ? nullptr : *found;
  }

  // The first table that has a key of this name; empty: none has.
  static std::string table_of_key(std::string_view name) {
    for (const ConfigKey& key : config_keys()) {
      if (name == key.name) {
        return key.table;
      }
    }
    return "";
  }

  static std::string tables() {
    std::vector<std::string> names;
    for (const ConfigKey& key : config_keys()) {
      if (names.empty() || names.back() != key.table) {
        names.emplace_back(key.table);
      }
    }
    return join(names);
  }

  static std::vector<std::string> paths(const Keys& keys) {
    std::vector<std::string> names;
    for (const ConfigKey* key : keys) {
      names.push_back(key_path(*key));
    }
    return names;
  }

  Result<void> load_table(std::string_view name, const toml::node& node) {
    const toml::table* table = node.as_table();
    const Keys known = keys_of(name);
    if (known.empty() && table == nullptr && !table_of_key(name).empty()) {
      return at(node, "key '" + std::string(name) + "' stands in no table; it belongs below [" +
                          table_of_key(name) + "]");
    }
    if (known.empty()) {
      return at(node, "unknown table '" + std::string(name) + "'; tables are " + tables());
    }
    if (table == nullptr) {
      return at(node, std::string(name) + ": must be a table; write [" + std::string(name) +
                          "] and its keys below");
    }
    for (const auto& [key_name, value] : *table) {
      const std::string full = std::string(name) + "." + std::string(key_name.str());
      if (full == "l3.volume") {
        HC_TRY_VOID(load_volumes(value));
        continue;
      }
      short_form_ = full == "l3.volume_dir" || full == "l3.l3_bytes" ? full : short_form_;
      const ConfigKey* key = find(known, key_name.str());
      if (key == nullptr) {
        return at(value, "unknown key '" + full + "'; nearest are " + nearest(full, paths(known)));
      }
      const auto assigned = assign(*key, value);
      if (!assigned) {
        return at(value, assigned.error());
      }
    }
    return {};
  }

  // [[l3.volume]], each with its own few keys.
  Result<void> load_volumes(const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list == nullptr || list->empty() || !list->is_homogeneous<toml::table>()) {
      return at(node, "l3.volume: must be a list of tables; write [[l3.volume]] for each volume");
    }
    for (const toml::node& entry : *list) {
      const std::string name = "l3.volume[" + std::to_string(config_.volumes.size()) + "]";
      VolumeConfig volume;
      for (const auto& [key, value] : *entry.as_table()) {
        const std::string full = name + "." + std::string(key.str());
        if (key.str() == "dir" && value.is_string()) {
          volume.dir = value.as_string()->get();
        } else if (key.str() == "bytes" || key.str() == "inflight_bytes") {
          auto& field = key.str() == "bytes" ? volume.bytes : volume.inflight_bytes;
          const auto size = size_of(full, value);
          if (!size) {
            return at(value, size.error());
          }
          field = *size;
        } else {
          return at(value, full + (key.str() == "dir" ? ": must be a text in quotes"
                                                      : ": unknown key; keys are dir, bytes, "
                                                        "inflight_bytes"));
        }
      }
      if (auto valid = validate_volume(volume, name); !valid) {
        return at(entry, valid.error());
      }
      config_.volumes.push_back(std::move(volume));
    }
    return {};
  }

  Error at(const toml::node& node, const std::string& text) const {
    return at(node, make_error(Code::bad_argument, text));
  }
  Error at(const toml::node& node, const Error& error) const {
    const std::string line = std::to_string(node.source().begin.line);
    return make_error(error.code, path_ + ":" + line + ": " + printable(error.text));
  }

  Result<void> assign(const ConfigKey& key, const toml::node& node) {
    const auto assigned =
        std::visit([&](const auto& field) { return set(key, field, node); }, key.field);
    HC_TRY_VOID(assigned);
    return validate_key(config_, key);
  }

  static Error wrong_type(const ConfigKey& key, const char* wanted) {
    return make_error(Code::bad_argument, key_path(key) + ": must be " + wanted);
  }

  Result<void> set(const ConfigKey& key, const TextKey& field, const toml::node& node) {
    const auto* text = node.as_string();
    if (text == nullptr) {
      return wrong_type(key, "a text in quotes");
    }
    config_.*field.member = text->get();
    return {};
  }

  Result<void> set(const ConfigKey& key, const SizeKey& field, const toml::node& node) {
    const auto size = size_of(key_path(key), node);
    HC_TRY(size);
    config_.*field.member = *size;
    return {};
  }

  static Result<std::uint64_t> size_of(const std::string& name, const toml::node& node) {
    if (const auto* number = node.as_integer(); number != nullptr) {
      if (number->get() < 0) {
        return make_error(Code::bad_argument,
                          name + " = " + std::to_string(number->get()) + ": must not be negative");
      }
      return static_cast<std::uint64_t>(number->get());
    }
    const auto* text = node.as_string();
    if (text == nullptr) {
      return make_error(Code::bad_argument,
                        name + ": must be a number of bytes or a size such as \"64GiB\"");
    }
    const auto size = parse_size(text->get());
    return size ? size : make_error(Code::bad_argument, name + ": " + size.error().text);
  }

  Result<void> set(const ConfigKey& key, const NumberKey& field, const toml::node& node) {
    const auto* number = node.as_integer();
    if (number == nullptr) {
      return wrong_type(key, "a whole number");
    }
    // What does not fit is outside of every key's bounds as well.
    if (number->get() < field.low || number->get() > field.high) {
      return make_error(Code::bad_argument, key_path(key) + " = " + std::to_string(number->get()) +
                                                ": must be " + std::to_string(field.low) + ".." +
                                                std::to_string(field.high));
    }
    config_.*field.member = static_cast<std::uint32_t>(number->get());
    return {};
  }

  Result<void> set(const ConfigKey& key, const FlagKey& field, const toml::node& node) {
    const auto* flag = node.as_boolean();
    if (flag == nullptr) {
      return wrong_type(key, "true or false");
    }
    config_.*field.member = flag->get();
    return {};
  }

  Result<void> set(const ConfigKey& key, const ChoiceKey& field, const toml::node& node) {
    const auto* word = node.as_string();
    if (word == nullptr) {
      return wrong_type(key, "a word in quotes");
    }
    const auto chosen = field.set(config_, word->get());
    if (!chosen) {
      return make_error(chosen.error().code,
                        key_path(key) + " = '" + word->get() + "': " + chosen.error().text);
    }
    return {};
  }

  std::string path_;
  std::string short_form_;  // a key of the short form that the file gives
  Config config_;
};

Result<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    const int error = errno;
    return make_error(error == ENOENT ? Code::not_found : Code::io_error,
                      "configuration file " + path, error);
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) {
    return make_error(Code::bad_argument, path + ": is larger than 1 MiB");
  }
  return text;
}

}  // namespace

Result<Config> load_config(const std::string& path) {
  const auto text = read_file(path);
  HC_TRY(text);
  try {
    return Loader(path).load(toml::parse(*text, path));
  } catch (const toml::parse_error& error) {
    return make_error(Code::bad_argument, path + ":" + std::to_string(error.source().begin.line) +
                                              ": " + std::string(error.description()));
  }
}

}  // namespace hc
