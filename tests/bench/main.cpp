// SPDX-License-Identifier: Apache-2.0
// main: the command line of hc_bench, which is `cachectl bench micro` with raw LMDB gets beside it.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/lmdb_probe.h"
#include "client/ctl/amount.h"
#include "client/ctl/commands.h"
#include "client/ctl/micro_run.h"

namespace hc {

namespace {

constexpr const char* kUsage =
    "hc_bench [--quick] [--only NAME]... [--pairs N] [--dir FOLDER] [--hicached PATH]\n"
    "         [--fio PROGRAM] [--disk-backend NAME] [--json FILE]\n";

struct Arguments {
  MicroOptions options;
  std::string json_path;
};

Result<void> set(Arguments& out, const std::string& name, const std::string& value) {
  if (name == "--only") {
    out.options.only.push_back(value);
  } else if (name == "--pairs") {
    auto pairs = parse_count(name, value, {1, 1000});
    HC_TRY(pairs);
    out.options.pairs = *pairs;
  } else if (name == "--dir") {
    out.options.directory = value;
  } else if (name == "--hicached") {
    out.options.hicached = value;
  } else if (name == "--fio") {
    out.options.fio = value;
  } else if (name == "--disk-backend") {
    out.options.disk_backend = value;
  } else if (name == "--json") {
    out.json_path = value;
  } else {
    return make_error(Code::bad_argument, "unknown option \"" + name + "\"; see --help");
  }
  return {};
}

Result<Arguments> parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--quick") {
      out.options.quick = true;
    } else if (i + 1 == argc) {
      return make_error(Code::bad_argument, name + ": needs a value, or is unknown; see --help");
    } else {
      HC_TRY_VOID(set(out, name, argv[++i]));
    }
  }
  return out;
}

int run(const Arguments& arguments) {
  Progress progress(stderr);
  const auto figures = run_micro(arguments.options, make_lmdb_probe, progress);
  progress.clear();
  if (!figures) {
    return report_error(figures.error());
  }
  if (!arguments.json_path.empty()) {
    std::ofstream file(arguments.json_path, std::ios::trunc);
    file << figures_json(*figures).dump(2) << "\n";
    file.flush();
    if (!file) {
      return report_error(make_error(Code::io_error, arguments.json_path + ": can't be written"));
    }
  }
  return print_result(figures_text(*figures));
}

}  // namespace

}  // namespace hc

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(hc::kUsage, stdout);
    return hc::kExitOk;
  }
  const auto arguments = hc::parse(argc, argv);
  if (!arguments) {
    hc::report_error(arguments.error());
    return hc::kExitUsage;
  }
  return hc::run(*arguments);
}
