// SPDX-License-Identifier: Apache-2.0
// daemon: wiring.
#include "daemon/daemon.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "daemon/daemon_options.h"
#include "daemon/log/log.h"
#include "daemon/open_disk.h"
#include "daemon/process_setup.h"
#include "proto/versions.h"

namespace hc {

namespace {

constexpr std::int64_t kStillAliveMs = 1000;

}  // namespace

Daemon::Daemon(Config config)
    : config_(std::move(config)), notifier_(Notifier::from_environment()) {}

// The engine refers to the session server (its sink) and the seams: it goes first.
Daemon::~Daemon() {
  reactor_.reset();
  admin_.reset();
  engine_.reset();
  sessions_.reset();
}

// Allocating a large pool takes longer than the manager waits for a sign of life.
void Daemon::still_alive() {
  const Instant now = clock_.now();
  if (now - still_alive_at_ < kStillAliveMs * kNsPerMs) {
    return;  // the manager's socket holds few messages
  }
  still_alive_at_ = now;
  notifier_.watchdog();
  notifier_.extend_timeout(10 * kStillAliveMs * 1000);
}

Result<void> Daemon::open_sockets() {
  // Under systemd the folder is there already; by hand a first start makes it.
  if (::mkdir(config_.runtime_dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return make_error(Code::refused, "daemon.runtime_dir = '" + config_.runtime_dir +
                                          "': can't be created", errno);
  }
  const auto mode = static_cast<mode_t>(std::stoul(config_.socket_mode, nullptr, 8));
  auto clients = UnixListener::create(config_.runtime_dir + "/hicached.sock", mode);
  HC_TRY(clients);
  auto admin = UnixListener::create(config_.runtime_dir + "/admin.sock", 0600);
  HC_TRY(admin);
  sessions_ = std::make_unique<SessionServer>(*epoll_, std::move(*clients),
                                              session_options(config_, copier_->cuda()));
  admin_ = std::make_unique<AdminServer>(*epoll_, std::move(*admin),
                                         epoll_tag(EpollOwner::admin_listener, 0),
                                         epoll_tag(EpollOwner::admin_socket, 0));
  return {};
}

// The volume's lock first: with a predecessor still on it nothing else is touched.
Result<void> Daemon::open_store() {
  auto disk = open_disk(config_);
  HC_TRY(disk);
  disk_ = std::move(*disk);
  const std::string dir = config_.index_dir.empty() ? disk_->volume_name(0) : config_.index_dir;
  const std::uint64_t pages = std::max<std::uint64_t>(total_l3_bytes(config_) >> 16, 1024);
  auto index = LmdbIndex::create(
      {dir, pages, 1, config_.lock_wait_ms, "/proc/self/exe", [this] { still_alive(); }});
  HC_TRY(index);
  index_ = std::move(*index);
  auto copier = CopierSet::create(config_.copier_threads, config_.gpu_library);
  HC_TRY(copier);
  copier_ = std::move(*copier);
  return {};
}

AdminFacts Daemon::admin_facts() {
  AdminFacts facts;
  facts.instance = to_hex(instance_);
  facts.cold_start = cold_start_name(config_.cold_start);
  facts.disk_backend = disk_->description();
  facts.volumes = volume_dirs(config_);
  facts.started = clock_.now();
  facts.sessions = [this]() HC_REACTOR { return sessions_->list(); };
  facts.gpu = [this]() HC_REACTOR {
    CudaCopier& cuda = copier_->cuda();
    return GpuLine{gpu_transfer_name(config_.gpu_transfer), cuda.open_allocations(),
                   cuda.registered_bytes(), cuda.devices()};
  };
  facts.stopping = [this]() HC_REACTOR { return reactor_ != nullptr && reactor_->stopping(); };
  facts.cold_start_now = [this](auto mode) HC_REACTOR { return engine_->cold_start(mode); };
  return facts;
}

Result<void> Daemon::start() {
  signals_ = take_signals();
  instance_ = random_uuid();
  raise_file_limit();
  auto epoll = Epoll::create();
  HC_TRY(epoll);
  epoll_ = std::make_unique<Epoll>(std::move(*epoll));
  HC_TRY_VOID(open_store());
  HC_TRY_VOID(open_sockets());
  engine_ = std::make_unique<Engine>(*disk_, *index_, *copier_, *sessions_,
                                     engine_options(config_, [this] { still_alive(); }));
  HC_TRY_VOID(engine_->open(random_uuid()));
  if (config_.cold_start != ColdStart::hold) {
    HC_TRY_VOID(engine_->cold_start(config_.cold_start == ColdStart::load
                                        ? ColdStartMode::load
                                        : ColdStartMode::clear));
  }
  sessions_->bind(*engine_, instance_);
  admin_->bind(*engine_, admin_facts());
  log_info("daemon.started", {{"version", kProductVersion},
                              {"disk", disk_->description()},
                              {"cold_start", cold_start_name(config_.cold_start)},
                              {"l2_bytes", config_.l2_bytes},
                              {"l3_bytes", total_l3_bytes(config_)}});
  return {};
}

Result<void> Daemon::run() {
  reactor_ = std::make_unique<Reactor>(
      ReactorParts{*epoll_, clock_, *engine_, *sessions_, *admin_, notifier_,
                   {disk_.get(), index_.get(), &copier_->host(), &copier_->cuda()},
                   signals_.get(), config_.spin_us});
  return reactor_->run();
}

}  // namespace hc
