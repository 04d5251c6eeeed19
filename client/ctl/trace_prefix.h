// SPDX-License-Identifier: Apache-2.0
// trace_prefix: whether the block ids of a trace name prefixes, as the page keys of an engine do.
//
// Owner thread: any; there is no state.
#pragma once

#include <string>

#include "client/ctl/trace.h"
#include "proto/result.h"

namespace hc {

// A prefix tree holds a page below one page only: the same id must follow the same id wherever it
// stands. bad_argument in one line that names `source` and the first block that does not.
Result<void> check_prefixes(const std::string& source, const Trace& trace);

}  // namespace hc
