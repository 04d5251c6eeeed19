// SPDX-License-Identifier: Apache-2.0
// admin_server: the admin socket: JSON requests in, JSON answers out, some of them later.
//
// Owner: the reactor thread. Never waits for a peer. It reports and passes orders on; what they
// mean is the engine's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/engine.h"
#include "daemon/gpu/cuda_copier.h"
#include "daemon/engine/session_line.h"
#include "daemon/os/epoll.h"
#include "daemon/os/gated_listener.h"
#include "daemon/os/unix_socket.h"
#include "proto/handshake.h"
#include "proto/thread_roles.h"

namespace hc {

// What the daemon knows beside the engine.
// Of memory of GPUs that the daemon copies itself.
struct GpuLine {
  std::string transfer;                // of the configuration
  std::uint32_t allocations = 0;       // of ranks, open
  std::uint64_t registered_bytes = 0;  // of frames, with the driver
  std::vector<CudaDeviceLine> devices;
};

struct AdminFacts {
  std::string instance;
  std::string cold_start;
  std::string disk_backend;
  std::vector<std::string> volumes;  // all of them, by number
  Instant started{};
  std::function<std::vector<SessionLine>()> sessions;
  std::function<GpuLine()> gpu = [] { return GpuLine{}; };
  std::function<bool()> stopping;
  std::function<Result<void>(ColdStartMode)> cold_start_now;
};

class AdminServer {
 public:
  AdminServer(Epoll& epoll, UnixListener listener, std::uint64_t listener_tag,
              std::uint64_t socket_tag);

  void bind(Engine& engine, AdminFacts facts) HC_REACTOR;
  void on_listener() HC_REACTOR;
  void on_socket(std::uint32_t number) HC_REACTOR;
  // Answers what has finished meanwhile.
  void turn(Instant now) HC_REACTOR;

 private:
  enum class Wait : std::uint8_t { none, flush, order, cold_start };
  struct Peer {
    UniqueFd socket;
    Wait wait = Wait::none;
    bool lost = false;  // an answer could not be sent
    std::uint64_t request_id = 0;
    std::uint64_t barrier = 0;
    std::uint64_t pages = 0;
    Instant deadline{};
    Instant heard{};    // when it connected or last asked
  };
  void handle(std::uint32_t number, const MessageHeader& header, const std::string& text)
      HC_REACTOR;
  void start_flush(Peer& peer, std::uint64_t timeout_ms) HC_REACTOR;
  void start_clear(Peer& peer, const std::optional<std::string>& space) HC_REACTOR;
  Result<std::uint64_t> clear_space(const std::string& digits) HC_REACTOR;
  void start_cold_start(Peer& peer, const std::string& mode) HC_REACTOR;
  void answer(Peer& peer, const Result<std::string>& outcome) HC_REACTOR;
  void close(std::uint32_t number) HC_REACTOR;
  std::uint32_t make_place() HC_REACTOR;

  Epoll& epoll_;
  GatedListener listener_;
  std::uint64_t socket_tag_;
  Engine* engine_ = nullptr;
  AdminFacts facts_;
  std::vector<Peer> peers_;
  std::vector<std::uint8_t> message_;
  Instant now_{};
};

// The bodies of the read verbs (admin_report.cpp).
std::string report_version();
std::string report_status(Engine& engine, const AdminFacts& facts, Instant now) HC_REACTOR;
std::string report_stats(Engine& engine) HC_REACTOR;
// At most kSpacesPerAnswer of them, from number `from` on; "next" is there if more follow.
std::string report_spaces(Engine& engine, std::uint64_t from) HC_REACTOR;
inline constexpr std::size_t kSpacesPerAnswer = 64;
// A request's text taken apart; bad_argument when it is no JSON object of the known fields.
struct AdminRequest {
  std::string verb;
  std::string mode;
  std::optional<std::string> space;  // the first hexadecimal digits of a space id
  std::uint64_t from = 0;            // the number of the first space wanted
  std::uint64_t timeout_ms = 0;
};
Result<AdminRequest> parse_admin_request(const std::string& text);
std::string report_dropped(std::uint64_t pages);

}  // namespace hc
