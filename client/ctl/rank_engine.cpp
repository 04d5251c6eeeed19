// SPDX-License-Identifier: Apache-2.0
// rank_engine: exists, load, store and probe of one rank.
#include "client/ctl/rank_engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "client/ctl/monotonic.h"
#include "proto/check.h"
#include "proto/page_hash.h"

namespace hc {

namespace {
constexpr std::uint32_t kRegion = 0;
constexpr std::uint32_t kRegisterTimeoutMs = 30'000;
}  // namespace

std::vector<PageHash> make_page_keys(const Trace& trace) {
  constexpr std::array<char, 16> kSalt{"cachectl bench:"};
  std::vector<PageHash> keys(trace.block_count());
  Sha256 hash;
  for (std::uint32_t block = 0; block < trace.block_count(); ++block) {
    std::array<std::uint8_t, kSalt.size() + sizeof(std::uint64_t)> message{};
    const std::uint64_t id = trace.id_of(block);
    std::memcpy(message.data(), kSalt.data(), kSalt.size());
    std::memcpy(message.data() + kSalt.size(), &id, sizeof(id));
    hash.update(message);
    keys[block].bytes = hash.finish();
  }
  return keys;
}

RankEngine::RankEngine(const RankSetup& setup, std::uint32_t rank)
    : setup_(setup),
      rank_(static_cast<std::uint16_t>(rank)),
      totals_(setup.boards.totals(rank)),
      client_(setup.boards, setup.trace, rank),
      bytes_(setup.plan, setup.trace, rank_) {}

hicache_code RankEngine::open(std::string& why) {
  auto region = RankRegion::make(
      setup_.plan.space,
      {setup_.plan.region_rows, setup_.plan.runs, setup_.plan.device, rank_,
       setup_.plan.transfer});
  if (!region) {
    why = region.error().message();
    return HICACHE_IO_ERROR;
  }
  region_.emplace(std::move(*region));
  client_.set_region(*region_);
  hicache_code code = client_.open({setup_.plan.space, setup_.socket_path, setup_.weight_version,
                                    rank_, setup_.plan.ranks, 0, setup_.plan.open_flags()});
  if (code == HICACHE_OK) {
    code = region_->attach(client_.handle(), kRegion, kRegisterTimeoutMs);
  }
  if (code != HICACHE_OK) {
    why = hicache_last_error();
  }
  answer_for_foreign();
  return code;
}

// Of a block that this rank stores nothing of, the word of its owner alone counts.
void RankEngine::answer_for_foreign() {
  const auto acked = setup_.boards.acked(rank_);
  for (std::uint32_t block = 0; block < setup_.trace.block_count(); ++block) {
    if (!bytes_.is_mine(block)) {
      acked[block] = std::numeric_limits<std::uint32_t>::max();
    }
  }
}

hicache_code RankEngine::exists(std::uint64_t request, std::uint64_t& pages) {
  const std::uint64_t count = setup_.trace.request(request).block_count;
  list_pages({request, 0, static_cast<std::uint32_t>(count)});
  hicache_prefix prefix{};
  const std::uint64_t begin_ns = monotonic_ns();
  const hicache_code code =
      hicache_exists_prefix(client_.handle(), pages_.data(), pages_.size(), &prefix);
  totals_.exists.add(monotonic_ns() - begin_ns);
  pages = code == HICACHE_OK ? prefix.usable_pages : 0;
  return is_miss(code) ? HICACHE_OK : code;
}

hicache_code RankEngine::load(std::uint64_t request, std::uint64_t wanted, std::uint64_t& loaded) {
  loaded = 0;
  while (loaded < wanted) {
    const std::uint64_t count = std::min<std::uint64_t>(region_->rows(), wanted - loaded);
    const Piece piece{request, loaded, static_cast<std::uint32_t>(count)};
    spoil_rows(piece);
    list_pages(piece);
    hicache_completion done{};
    const hicache_code code = client_.run(HICACHE_VERB_LOAD, piece, pages_, done);
    if (code != HICACHE_OK) {
      return code;
    }
    const std::uint32_t pages = done.code == HICACHE_OK ? done.page_count : 0;
    HC_CHECK(pages <= piece.count);
    check_rows(piece, pages);
    loaded += pages;
    if (done.code == HICACHE_OK) {
      totals_.loaded_bytes += done.bytes;
      totals_.pages_from_l2 += done.pages_from_l2;
      totals_.pages_from_l3 += done.pages_from_l3;
    }
    if (pages < piece.count) {
      ++totals_.loads_short;
      break;
    }
  }
  return HICACHE_OK;
}

hicache_code RankEngine::store(std::uint64_t request, std::uint64_t& written,
                               std::uint32_t& refused) {
  written = 0;
  refused = 0;
  std::uint64_t end = setup_.trace.request(request).block_count;
  while (end > 0) {
    const std::uint64_t count = std::min<std::uint64_t>(region_->rows(), end);
    const Piece piece{request, end - count, static_cast<std::uint32_t>(count)};
    fill_rows(piece);
    list_pages(piece);
    hicache_completion done{};
    const hicache_code code = client_.run(HICACHE_VERB_STORE, piece, pages_, done);
    if (code != HICACHE_OK) {
      return code;
    }
    if (done.code == HICACHE_OK) {
      written += done.pages_stored;
      totals_.stored_bytes += done.bytes;
    } else {
      ++refused;
      ++totals_.stores_refused;
    }
    end -= count;
  }
  totals_.pages_stored += written;
  return HICACHE_OK;
}

hicache_code RankEngine::probe(std::uint64_t& found) {
  found = 0;
  const auto present = setup_.boards.present(rank_);
  for (std::uint32_t block = 0; block < setup_.trace.block_count(); ++block) {
    hicache_page page{};
    page.key = setup_.keys[block].bytes.data();
    page.key_bytes = kSha256Bytes;
    page.owner = bytes_.owner_of(block);
    hicache_prefix prefix{};
    const hicache_code code = hicache_exists_prefix(client_.handle(), &page, 1, &prefix);
    if (code != HICACHE_OK && !is_miss(code)) {
      return code;
    }
    present[block] = code == HICACHE_OK && prefix.usable_pages == 1 ? 1 : 0;
    found += present[block];
  }
  return HICACHE_OK;
}

// Row i of the region belongs to page i of the piece.
void RankEngine::list_pages(const Piece& piece) {
  const auto blocks = setup_.trace.blocks_of(piece.request).subspan(piece.first, piece.count);
  pages_.assign(blocks.size(), hicache_page{});
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    pages_[i].key = setup_.keys[blocks[i]].bytes.data();
    pages_[i].key_bytes = kSha256Bytes;
    pages_[i].row = static_cast<std::uint32_t>(i);
    pages_[i].owner = bytes_.owner_of(blocks[i]);
  }
}

void RankEngine::check_rows(const Piece& piece, std::uint32_t pages) {
  const auto blocks = setup_.trace.blocks_of(piece.request).subspan(piece.first, pages);
  for (std::uint32_t row = 0; row < pages; ++row) {
    bytes_.check(*region_, row, blocks[row], piece.request, totals_);
  }
}

void RankEngine::fill_rows(const Piece& piece) {
  const auto blocks = setup_.trace.blocks_of(piece.request).subspan(piece.first, piece.count);
  for (std::uint32_t row = 0; row < piece.count; ++row) {
    bytes_.fill(*region_, row, blocks[row]);
  }
}

void RankEngine::spoil_rows(const Piece& piece) {
  for (std::uint32_t row = 0; row < piece.count; ++row) {
    bytes_.spoil(*region_, row);
  }
}

}  // namespace hc
