// SPDX-License-Identifier: Apache-2.0
// trace: reads and writes one JSON object a line.
#include "client/ctl/trace.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

namespace hc {

namespace {

using nlohmann::json;

struct Place {
  const std::string& path;
  std::uint64_t line;
};

Error refuse(const Place& at, const std::string& what) {
  return make_error(Code::bad_argument, at.path + ":" + std::to_string(at.line) + ": " + what);
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  constexpr std::size_t kShownMax = 40;
  if (text.size() > kShownMax) {
    text.resize(kShownMax);
    text += "...";
  }
  return text;
}

Result<std::uint64_t> read_number(const Place& at, const std::string& field, const json& value,
                                  std::uint64_t max) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= max) {
    return value.get<std::uint64_t>();
  }
  return refuse(at, field + ": " + shown(value) + " is not allowed; a whole number from 0 to " +
                        std::to_string(max));
}

Result<std::uint64_t> read_field(const Place& at, const json& object, const char* field,
                                 std::uint64_t max) {
  const auto found = object.find(field);
  if (found == object.end()) {
    return refuse(at, std::string(field) + ": is missing; a whole number from 0 to " +
                          std::to_string(max));
  }
  return read_number(at, field, *found, max);
}

Result<std::vector<std::uint64_t>> read_ids(const Place& at, const json& object) {
  const auto found = object.find("hash_ids");
  const std::string allowed =
      "a list of 0 to " + std::to_string(kTraceBlocksPerRequestMax) + " block ids";
  if (found == object.end()) {
    return refuse(at, "hash_ids: is missing; " + allowed);
  }
  if (!found->is_array() || found->size() > kTraceBlocksPerRequestMax) {
    return refuse(at, "hash_ids: " + shown(*found) + " is not allowed; " + allowed);
  }
  std::vector<std::uint64_t> ids;
  ids.reserve(found->size());
  for (const json& item : *found) {
    auto id = read_number(at, "hash_ids[" + std::to_string(ids.size()) + "]", item, kTraceIdMax);
    HC_TRY(id);
    ids.push_back(*id);
  }
  return ids;
}

Result<void> read_line(const Place& at, const std::string& text, Trace& trace) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) {
    return refuse(at, "is not a JSON object with timestamp, input_length, output_length, hash_ids");
  }
  TraceRequest request;
  auto timestamp = read_field(at, object, "timestamp", kTraceTimestampMax);
  HC_TRY(timestamp);
  auto input = read_field(at, object, "input_length", kTraceTokensMax);
  HC_TRY(input);
  auto output = read_field(at, object, "output_length", kTraceTokensMax);
  HC_TRY(output);
  auto ids = read_ids(at, object);
  HC_TRY(ids);
  request.timestamp_ms = *timestamp;
  request.input_tokens = *input;
  request.output_tokens = *output;
  const std::size_t repeated = trace.add(request, *ids);
  if (repeated != Trace::kAllDistinct) {
    return refuse(at, "hash_ids[" + std::to_string(repeated) + "]: " +
                          std::to_string((*ids)[repeated]) +
                          " is not allowed; the blocks of a request are distinct");
  }
  return {};
}

}  // namespace

std::size_t Trace::add(const TraceRequest& request, std::span<const std::uint64_t> ids) {
  const std::uint64_t mark = requests_.size() + 1;
  const std::size_t blocks_before = blocks_.size();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto [at, is_new] =
        numbers_.emplace(ids[i], static_cast<std::uint32_t>(ids_.size()));
    if (is_new) {
      ids_.push_back(ids[i]);
      seen_in_.push_back(0);
    }
    if (seen_in_[at->second] == mark) {
      blocks_.resize(blocks_before);
      return i;
    }
    seen_in_[at->second] = mark;
    blocks_.push_back(at->second);
  }
  TraceRequest added = request;
  added.first_block = blocks_before;
  added.block_count = ids.size();
  requests_.push_back(added);
  longest_request_ = std::max<std::uint64_t>(longest_request_, ids.size());
  return kAllDistinct;
}

std::span<const std::uint32_t> Trace::blocks_of(std::size_t index) const {
  const TraceRequest& request = requests_[index];
  return std::span(blocks_).subspan(request.first_block, request.block_count);
}

Result<Trace> read_trace(const std::string& path, std::uint64_t requests_max) {
  std::ifstream file(path);
  if (!file) {
    return make_error(Code::io_error, path + ": cannot be opened", errno);
  }
  Trace trace;
  std::string text;
  std::uint64_t line = 0;
  while ((requests_max == 0 || trace.request_count() < requests_max) && std::getline(file, text)) {
    ++line;
    if (text.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    HC_TRY_VOID(read_line(Place{path, line}, text, trace));
  }
  if (file.bad()) {
    return make_error(Code::io_error, path + ": cannot be read", errno);
  }
  if (trace.reference_count() == 0) {
    return make_error(Code::bad_argument, path + ": holds no request with blocks");
  }
  return trace;
}

Result<void> write_trace(const std::string& path, const Trace& trace) {
  std::ofstream file(path, std::ios::trunc);
  if (!file) {
    return make_error(Code::io_error, path + ": cannot be created", errno);
  }
  for (std::size_t i = 0; i < trace.request_count(); ++i) {
    const TraceRequest& request = trace.request(i);
    file << "{\"timestamp\": " << request.timestamp_ms
         << ", \"input_length\": " << request.input_tokens
         << ", \"output_length\": " << request.output_tokens << ", \"hash_ids\": [";
    const char* separator = "";
    for (const std::uint32_t block : trace.blocks_of(i)) {
      file << separator << trace.id_of(block);
      separator = ", ";
    }
    file << "]}\n";
  }
  file.flush();
  if (!file) {
    return make_error(Code::io_error, path + ": cannot be written", errno);
  }
  return {};
}

}  // namespace hc
