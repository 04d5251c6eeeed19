// SPDX-License-Identifier: Apache-2.0
// log: lines to standard error through spdlog, which only this file knows.
//
// Any thread. Invariant: one event is one line, whatever its values hold.
#include "daemon/log/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

#include "daemon/log/line_writer.h"

namespace hc {

namespace {

constexpr const char* kPlainPattern = "%Y-%m-%dT%H:%M:%S.%eZ %v";
constexpr const char* kSystemdPattern = "%v";

// A reader that stops must not stop the daemon: what finds no room is dropped and counted, and the
// first line that finds room again comes after one that says how many are missing.
class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set_systemd(bool systemd) { systemd_ = systemd; }
  bool systemd() const { return systemd_; }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if ((dropped_ != 0 && !write_gap(message)) || !write(message)) {
      ++dropped_;
    }
  }
  void flush_() override {}

 private:
  bool write(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    return writer_.write(std::string_view(line.data(), line.size()));
  }

  bool write_gap(const spdlog::details::log_msg& next) {
    const std::string text = std::string(systemd_ ? "<4>" : "") +
                             "warn log.dropped lines=" + std::to_string(dropped_);
    spdlog::details::log_msg gap = next;
    gap.payload = spdlog::string_view_t(text.data(), text.size());
    if (!write(gap)) {
      return false;
    }
    dropped_ = 0;
    return true;
  }

  LineWriter writer_{STDERR_FILENO};
  std::uint64_t dropped_ = 0;
  std::atomic<bool> systemd_{false};
};

struct State {
  State() : sink(std::make_shared<StderrSink>()), logger("hicached", sink) {
    logger.set_pattern(kPlainPattern, spdlog::pattern_time_type::utc);
    logger.set_level(spdlog::level::info);
  }
  std::shared_ptr<StderrSink> sink;
  spdlog::logger logger;
};

// Made at the first line and never destroyed, so that a line at exit still finds it.
State& state() {
  static State* const one = new State;
  return *one;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

// The priorities of syslog, which the journal reads from the start of a line.
const char* journal_prefix(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "<7>";
    case LogLevel::info: return "<6>";
    case LogLevel::warn: return "<4>";
    case LogLevel::error: return "<3>";
  }
  return "<3>";
}

bool needs_quotes(std::string_view value) {
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7F || c == '"' || c == '=' || c == '\\') {
      return true;
    }
  }
  return value.empty();
}

void append_quoted(std::string& line, std::string_view value) {
  line += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      char hex[5];
      std::snprintf(hex, sizeof hex, "\\x%02x", byte);
      line += hex;
    } else {
      line += c;
    }
  }
  line += '"';
}

}  // namespace

const char* log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warn: return "warn";
    case LogLevel::error: return "error";
  }
  return "error";
}

Result<LogLevel> parse_log_level(std::string_view name) {
  for (const LogLevel level :
       {LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error}) {
    if (name == log_level_name(level)) {
      return level;
    }
  }
  return make_error(Code::bad_argument, "log level '" + std::string(name) +
                                            "': must be debug, info, warn or error");
}

void log_start(LogLevel level, bool systemd) {
  State& log = state();
  log.sink->set_systemd(systemd);
  log.logger.set_pattern(systemd ? kSystemdPattern : kPlainPattern,
                         spdlog::pattern_time_type::utc);
  log.logger.set_level(spdlog_level(level));
}

void log_line(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  State& log = state();
  if (!log.logger.should_log(spdlog_level(level))) {
    return;
  }
  std::string line;
  if (log.sink->systemd()) {
    line += journal_prefix(level);
  }
  line += log_level_name(level);
  line += ' ';
  line += event;
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    if (needs_quotes(field.value)) {
      append_quoted(line, field.value);
    } else {
      line += field.value;
    }
  }
  // As a string, not as a format: a brace in a value means nothing.
  log.logger.log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace hc
