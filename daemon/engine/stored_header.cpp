// SPDX-License-Identifier: Apache-2.0
// stored_header: one judgement for reloads and for the scan behind a lazy load.
#include "daemon/engine/stored_header.h"

#include "daemon/engine/core.h"

namespace hc {

BlobVerdict judge_stored_header(Core& core, PartRef ref,
                                std::span<const std::uint8_t> block, BlobHeader& header) {
  const Part& part = core.catalog->part(ref);
  const Page& page = core.catalog->page(core.catalog->page_of(ref));
  const std::uint32_t at = core.catalog->part_of(ref);
  BlobVerdict verdict = parse_header_block(block, core.superblock->seed_of(page.space), header);
  if (verdict != BlobVerdict::good) {
    return verdict;
  }
  const BlobExpectation expected{core.family().kind_of(at),
                                 core.family().payload_bytes(at),
                                 page.hash,
                                 core.spaces->space(page.space).tags[at],
                                 part.slot,
                                 part.generation};
  verdict = judge_header(header, expected);
  std::span<const std::uint8_t> metadata;
  return verdict == BlobVerdict::good ? read_metadata(block, metadata) : verdict;
}

}  // namespace hc
