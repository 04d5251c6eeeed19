// SPDX-License-Identifier: Apache-2.0
// stored_header: one judgement for reloads and for the scan behind a lazy load.
#include "daemon/engine/stored_header.h"

#include <cstring>

#include "daemon/engine/core.h"
#include "proto/test_hooks.h"

namespace hc {

BlobVerdict judge_stored_header(Core& core, PartRef ref,
                                std::span<const std::uint8_t> block, BlobHeader& header) {
  const Part& part = core.catalog->part(ref);
  const Page& page = core.catalog->page(core.catalog->page_of(ref));
  const std::uint32_t at = core.catalog->part_of(ref);
  BlobVerdict verdict = parse_header_block(block, core.superblock->seed_of(page.space), header);
  if (HC_MUTANT(checksums_unchecked) && verdict == BlobVerdict::bad_header_crc) {
    std::memcpy(&header, block.data(), sizeof header);
    verdict = BlobVerdict::good;
  }
  if (verdict != BlobVerdict::good || HC_MUTANT(header_fields_unchecked)) {
    return verdict;
  }
  const Family& family = core.family_of(ref);
  const BlobExpectation expected{family.kind_of(at),
                                 family.payload_bytes(at),
                                 page.hash,
                                 core.spaces->space(page.space).tags[at],
                                 part.slot,
                                 HC_MUTANT(generation_unchecked) ? Generation{header.generation}
                                                                 : part.generation};
  verdict = judge_header(header, expected);
  std::span<const std::uint8_t> metadata;
  return verdict == BlobVerdict::good ? read_metadata(block, metadata) : verdict;
}

}  // namespace hc
