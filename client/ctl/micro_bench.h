// SPDX-License-Identifier: Apache-2.0
// micro_bench: what all groups of `bench micro` share: the plan, the folder, pairs of measurements,
// private daemons, and the figures so far.
//
// Owner thread: the bench's only thread, but for what a group starts and ends itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/interrupt.h"
#include "client/ctl/micro_figure.h"
#include "client/ctl/micro_options.h"
#include "client/ctl/private_daemon.h"
#include "client/ctl/progress.h"

namespace hc {

// Raw lookups in an LMDB file of as many rows as the status table has. Not a part of cachectl,
// which does not link LMDB: scripts/bench brings it.
class IndexProbe {
 public:
  virtual ~IndexProbe() = default;
  // Looks up every key; 32 bytes each. Returns how many are there.
  virtual std::uint64_t look_up(const std::vector<const std::uint8_t*>& keys) = 0;
};
// `rows` rows whose keys are micro_key(0..rows-1).
using IndexProbeMaker = std::function<Result<std::unique_ptr<IndexProbe>>(
    const std::string& folder, std::uint64_t rows)>;

class MicroBench {
 public:
  using Measure = std::function<Result<double>()>;
  // Several numbers of one run, always the same ones.
  using MeasureMany = std::function<Result<std::vector<double>>()>;

  MicroBench(const MicroOptions& options, MicroPlan plan, const Interrupt& interrupt,
             Progress& progress)
      : options_(options), plan_(std::move(plan)), interrupt_(interrupt), progress_(progress) {}

  const MicroPlan& plan() const { return plan_; }
  const MicroOptions& options() const { return options_; }
  const Interrupt& interrupt() const { return interrupt_; }
  const std::string& folder() const { return folder_; }
  void set_folder(std::string folder) { folder_ = std::move(folder); }
  // Empty while fio can be run; else why not.
  const std::string& fio_missing() const { return fio_missing_; }
  void set_fio_missing(std::string why) { fio_missing_ = std::move(why); }
  const IndexProbeMaker& index_probe() const { return index_probe_; }
  void set_index_probe(IndexProbeMaker maker) { index_probe_ = std::move(maker); }

  // Ours and the limit, one right after the other, in turns first; one pair before them warms up
  // and is thrown away. Without a limit: ours alone.
  Result<std::vector<Sample>> pairs(const std::string& what, const Measure& ours,
                                    const Measure& limit);
  // The same for several numbers; one list of samples for each. A limit of 0 is none.
  Result<std::vector<std::vector<Sample>>> pairs_of_many(const std::string& what,
                                                         const MeasureMany& ours,
                                                         const MeasureMany& limit);
  // True to go on; shows progress.
  Result<void> step(const std::string& what, std::uint64_t done, std::uint64_t total);

  void add(Figure figure) { figures_.push_back(std::move(figure)); }
  // The figure if it was asked for.
  void add(FigureSpec spec, const std::vector<Sample>& samples);
  const std::vector<Figure>& figures() const { return figures_; }

  // A daemon in a folder of its own below ours; options for the caller to complete.
  PrivateDaemonOptions daemon_options(const std::string& name) const;

 private:
  const MicroOptions& options_;
  const MicroPlan plan_;
  const Interrupt& interrupt_;
  Progress& progress_;
  std::string folder_;
  std::string fio_missing_;
  IndexProbeMaker index_probe_;
  std::vector<Figure> figures_;
};

// A daemon that is started, and whose folder is gone with it.
class MicroDaemon {
 public:
  MicroDaemon(const MicroBench& bench, PrivateDaemonOptions options);
  ~MicroDaemon();
  MicroDaemon(const MicroDaemon&) = delete;
  MicroDaemon& operator=(const MicroDaemon&) = delete;

  Result<void> make_folder() const;
  PrivateDaemon& process() { return process_; }
  std::string socket() const { return process_.client_socket(); }
  // The largest file below the volume's folder: the slab of the one kind.
  Result<std::string> slab_file() const;
  const std::string& path() const { return folder_; }
  // User and system time of the whole process so far.
  Result<double> cpu_s() const;

 private:
  std::string folder_;
  PrivateDaemon process_;
};

// "2.5MiB", for the parameters of a figure.
std::string short_bytes(std::uint64_t size_bytes);

// The groups, one function each; micro_run calls those that were asked for.
Result<void> measure_ring(MicroBench& bench);
Result<void> measure_memory(MicroBench& bench);
Result<void> measure_disk(MicroBench& bench);
Result<void> measure_commit(MicroBench& bench);
Result<void> measure_scan(MicroBench& bench);
Result<void> measure_pages(MicroBench& bench);
Result<void> measure_agree(MicroBench& bench);
Result<void> measure_gpu(MicroBench& bench);

}  // namespace hc
