// SPDX-License-Identifier: Apache-2.0
// lmdb_probe: raw gets in an LMDB file of our own, the limit beside exists_prefix.
//
// Owner thread: one. The rows have the keys of the bench's pages and values of the size of ours.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/ctl/micro_bench.h"

namespace hc {

// Errors: io_error, with LMDB's words.
Result<std::unique_ptr<IndexProbe>> make_lmdb_probe(const std::string& folder,
                                                    std::uint64_t rows);

}  // namespace hc
