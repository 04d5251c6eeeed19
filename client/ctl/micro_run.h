// SPDX-License-Identifier: Apache-2.0
// micro_run: `bench micro` from its options to its figures.
//
// Owner thread: the main thread, before any other thread or process exists.
#pragma once

#include <vector>

#include "client/ctl/micro_bench.h"

namespace hc {

// Errors: bad_argument (an option), cancelled, and what a private daemon could not do. A limit that
// this machine can't measure (no fio) is no error: its figures say so.
Result<std::vector<Figure>> run_micro(const MicroOptions& options, const IndexProbeMaker& probe,
                                      Progress& progress);

// Runs, prints, and answers the exit status: 0, or that of the error. A goal that is not met is a
// figure, not a failure.
int print_micro(const MicroOptions& options, const IndexProbeMaker& probe, bool json);

}  // namespace hc
