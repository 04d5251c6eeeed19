// SPDX-License-Identifier: Apache-2.0
// micro_run: folder, groups, report.
#include "client/ctl/micro_run.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "client/ctl/commands.h"
#include "client/ctl/fio_run.h"
#include "client/ctl/temporary_folder.h"

namespace hc {

namespace {

using GroupFunction = Result<void> (*)(MicroBench&);
// In the order of micro_groups.
constexpr std::array<GroupFunction, 8> kFunctions{measure_ring, measure_memory, measure_disk,
                                                  measure_commit, measure_scan, measure_pages,
                                                  measure_agree, measure_gpu};

Result<TemporaryFolder> make_folder(const MicroOptions& options) {
  std::error_code error;
  const std::string parent =
      options.directory.empty()
          ? std::string()
          : std::filesystem::absolute(options.directory, error).string();
  auto folder = TemporaryFolder::make(parent);
  if (folder && options.keep_folder) {
    folder->keep();
  }
  return folder;
}

}  // namespace

Result<std::vector<Figure>> run_micro(const MicroOptions& options, const IndexProbeMaker& probe,
                                      Progress& progress) {
  auto plan = make_micro_plan(options);
  HC_TRY(plan);
  auto interrupt = Interrupt::make();
  HC_TRY(interrupt);
  auto folder = make_folder(options);
  HC_TRY(folder);
  MicroBench bench(options, *plan, *interrupt, progress);
  bench.set_folder(folder->path());
  bench.set_index_probe(probe);
  if (const auto version = fio_version(options.fio); !version) {
    bench.set_fio_missing("no limit: " + version.error().text + "; is fio installed?");
  }
  const auto groups = micro_groups();
  HC_CHECK(groups.size() == kFunctions.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (plan->wants_group(groups[i])) {
      HC_TRY_VOID(kFunctions[i](bench));
    }
  }
  progress.clear();
  return bench.figures();
}

int print_micro(const MicroOptions& options, const IndexProbeMaker& probe, bool json) {
  Progress progress(stderr);
  const auto figures = run_micro(options, probe, progress);
  progress.clear();
  if (!figures) {
    return report_error(figures.error());
  }
  return print_result(json ? figures_json(*figures).dump(2) + "\n" : figures_text(*figures));
}

}  // namespace hc
