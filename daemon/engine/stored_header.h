// SPDX-License-Identifier: Apache-2.0
// stored_header: judges the header block of a stored part against what the catalog says of it.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/engine/catalog.h"
#include "proto/blob_header.h"

namespace hc {

struct Core;

// The part is stored; `header` is filled as far as the block parses. Metadata is judged too.
BlobVerdict judge_stored_header(Core& core, PartRef ref,
                                std::span<const std::uint8_t> block, BlobHeader& header);

}  // namespace hc
