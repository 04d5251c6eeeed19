// SPDX-License-Identifier: Apache-2.0
// log: one line per event: a level, an event name, key=value fields. Hides spdlog.
//
// Any thread may log. Nothing on a data path logs per page.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace hc {

enum class LogLevel : std::uint8_t { debug, info, warn, error };

const char* log_level_name(LogLevel level);
Result<LogLevel> parse_log_level(std::string_view name);

struct LogField {
  std::string_view key;
  std::string value;
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, std::uint64_t v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, std::uint32_t v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, int v) : key(k), value(std::to_string(v)) {}
};

// Until log_start, lines go to standard error at level info. `systemd` leaves out the time,
// which the journal adds, and prefixes the priority (<6>).
void log_start(LogLevel level, bool systemd);
void log_line(LogLevel level, std::string_view event, std::initializer_list<LogField> fields);

inline void log_info(std::string_view event, std::initializer_list<LogField> fields = {}) {
  log_line(LogLevel::info, event, fields);
}
inline void log_warn(std::string_view event, std::initializer_list<LogField> fields = {}) {
  log_line(LogLevel::warn, event, fields);
}
inline void log_error(std::string_view event, std::initializer_list<LogField> fields = {}) {
  log_line(LogLevel::error, event, fields);
}

}  // namespace hc
