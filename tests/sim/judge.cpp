// SPDX-License-Identifier: Apache-2.0
// judge: every answer to a client, against what the model allows.
#include <algorithm>
#include <string>

#include "tests/sim/clients.h"
#include "tests/sim/rank_side.h"

namespace hc::sim {

namespace {

std::string about(const char* what, const SimOp& op, std::uint32_t page) {
  return std::string(what) + " (operation " + std::to_string(op.serial) + ", page " +
         std::to_string(page) + " of version " + std::to_string(op.version) + ")";
}

}  // namespace

void Clients::complete(SessionId id, const CompletionEntry& entry,
                       std::span<const FrameRef> frames) {
  world_.trace.add("complete", entry.client_data, entry.ack,
                   static_cast<std::uint64_t>(entry.code),
                   std::uint64_t{entry.terminal} << 32 | entry.page_count);
  const auto found = ops_.find(static_cast<std::uint32_t>(entry.client_data));
  if (found == ops_.end()) {
    world_.laws.broken(4, "an answer to an operation that has ended");
    return;
  }
  SimOp& op = found->second;
  SimSession& session = sessions_[op.session];
  world_.laws.expect(session.id == id && entry.op_slot == op.entry.op_slot &&
                         entry.op_sequence == op.entry.op_sequence &&
                         entry.verb == op.entry.verb,
                     4, "an answer that names another operation");
  if (entry.ack == static_cast<std::uint8_t>(Ack::prepared)) {
    world_.laws.expect(session.gpu == GpuUse::rank && entry.terminal == 0, 4,
                       "frames for a rank that does not copy itself");
    rank_side_->begin(session, op, frames);
    return;
  }
  if (entry.lease != 0) {
    take_lease(session, op, entry, frames);
  }
  if (entry.terminal == 0) {
    judge_progress(session, op, entry);
    return;
  }
  judge_end(session, op, entry);
  end_op(session, op, entry);
}

void Clients::judge_progress(SimSession& session, SimOp& op, const CompletionEntry& entry) {
  const auto ack = static_cast<Ack>(entry.ack);
  if (ack == Ack::late) {
    const bool names_memory = op.verb() == Verb::store || op.verb() == Verb::load;
    world_.laws.expect(names_memory && !op.late, 4, "late twice, or of a verb without memory");
    op.late = true;
    ++world_.tally.late;
    return;
  }
  const bool reports = op.verb() == Verb::store && (op.entry.flags & kFlagEveryAck) != 0;
  world_.laws.expect(reports && ack > op.last_ack && ack < static_cast<Ack>(op.entry.ack), 4,
                     "an acknowledgement that was not asked for, or twice");
  op.last_ack = ack;
  judge_ack(op, ack);
  give_memory_back(session, op);
}

void Clients::judge_end(SimSession& session, SimOp& op, const CompletionEntry& entry) {
  const auto code = static_cast<Code>(entry.code);
  world_.tally.busy += code == Code::busy ? 1U : 0U;
  if (code != Code::ok && code != Code::not_found && code != Code::not_durable) {
    world_.laws.expect(entry.page_count == 0, 4, "a failed operation speaks of pages");
  }
  if (code == Code::timed_out) {
    world_.laws.expect(world_.clock.time() >= op.deadline, 4, "timed out before its deadline");
  }
  switch (op.verb()) {
    case Verb::store:
      judge_store(session, op, entry);
      return;
    case Verb::load: judge_load(session, op, entry); return;
    case Verb::reload:
    case Verb::pin: judge_lease_verb(session, op, entry); return;
    case Verb::release: {
      const auto held = std::find_if(session.leases.begin(), session.leases.end(),
                                     [&](const SimLease& lease) {
                                       return lease.id == op.entry.lease;
                                     });
      const bool ours = held != session.leases.end();
      const bool ran = code == Code::ok || code == Code::not_found;
      world_.laws.expect(!ran || (code == Code::ok) == ours, 4, "release of a lease");
      if (ours && code == Code::ok) {
        session.leases.erase(held);
      }
      return;
    }
    case Verb::free_object: judge_free(op, code); return;
    case Verb::flush: judge_flush(session, op, code); return;
    case Verb::cancel:
    case Verb::copied:
    case Verb::none: return;
  }
}

// A store ends for its own reasons, never for those of another that it waited for.
void Clients::judge_store(SimSession& session, const SimOp& op, const CompletionEntry& entry) {
  const auto code = static_cast<Code>(entry.code);
  world_.laws.expect(code != Code::ok || entry.ack == op.entry.ack, 4,
                     "a store ended with another acknowledgement");
  world_.laws.expect(code != Code::not_found, 4, "a store misses");
  if (code == Code::not_durable) {
    const bool may = world_.scenario.options.spill.policy != SpillPolicy::write_through;
    const auto resident = static_cast<std::uint8_t>(Ack::resident);
    world_.laws.expect(may && entry.ack == resident && op.entry.ack > resident, 4,
                       "a store is not durable under a policy that makes it so");
    ++world_.tally.not_durable;
  }
  session.stores = std::max(session.stores, entry.store_sequence);
  if (code == Code::ok) {
    judge_ack(op, static_cast<Ack>(entry.ack));
    judge_word(session, op);
  }
  const bool forgotten =
      std::any_of(op.pages.begin(), op.pages.end(), [&](std::uint32_t page) {
        return world_.model.at(op.version, page).gone > op.submitted;
      });
  world_.laws.expect(code != Code::retry || forgotten, 4,
                     "a store fails because another one that it waited for has failed");
  world_.laws.expect(code != Code::memory_fault || op.faulted, 4,
                     "a store fails for memory that is not its own");
  world_.laws.expect(code != Code::cancelled || op.cancelled, 4,
                     "a store is cancelled that nobody cancelled");
}

// A store of one part ends when that part gets where it was wanted, so there it is.
void Clients::judge_word(const SimSession& session, const SimOp& op) {
  const auto ack = static_cast<Ack>(op.entry.ack);
  const Parts parts = parts_of_page(session, op, 0);
  if (op.pages.size() != 1 || parts.size() != 1) {
    return;  // others of its parts may have been lost again meanwhile
  }
  Core& core = world_.core();
  const PageId page = core.catalog->find(core.sessions.find(session.id)->space,
                                         world_.scenario.universe.hash(op.pages[0]));
  if (page == kNoPage) {
    return;
  }
  const Part& part = core.catalog->part(core.catalog->ref(page, parts[0]));
  const L3State wanted = ack == Ack::durable   ? L3State::durable
                         : ack == Ack::written ? L3State::written
                                               : L3State::absent;
  world_.laws.expect(part.l3 >= wanted, 2, "a store is acknowledged that is not on the disk");
}

void Clients::expect_hit(const SimOp& op, std::uint32_t index) {
  if (!world_.model.may_be_hit(op.version, op.pages[index], op.submitted)) {
    world_.laws.broken(1, about("a hit on a page that is not stored", op, op.pages[index]));
  }
}

void Clients::judge_load(SimSession& session, SimOp& op, const CompletionEntry& entry) {
  const auto code = static_cast<Code>(entry.code);
  if (code != Code::ok && code != Code::not_found) {
    return;
  }
  world_.tally.hits_l2 += entry.pages_from_l2;
  world_.tally.hits_l3 += entry.pages_from_l3;
  const auto asked = static_cast<std::uint32_t>(op.pages.size());
  const bool prefix_is_enough = (op.entry.flags & kFlagMaxPrefix) != 0;
  world_.laws.expect(entry.page_count <= asked, 1, "a load speaks of more pages than asked for");
  world_.laws.expect((code == Code::ok) ==
                         (entry.page_count == asked || (prefix_is_enough && entry.page_count > 0)),
                     1, "code and count of a load disagree");
  const Family& family = world_.core().family_of(session.id);
  std::vector<std::uint8_t> payload;
  for (std::uint32_t i = 0; i < entry.page_count; ++i) {
    bool any = false;
    for (const std::uint32_t part : parts_of_page(session, op, i)) {
      const std::uint16_t kind = family.kind_of(part);
      if (!is_needed(family.descriptor.kinds[kind], i, asked)) {
        continue;
      }
      any = true;
      payload.resize(family.payload_bytes(part));
      fill_content(world_.scenario.universe, world_.content_key(op.version, op.pages[i], part),
                   payload);
      if (!session.memory->equals(op.rows[i], kind, payload)) {
        world_.laws.broken(1, about("a load copied wrong bytes", op, op.pages[i]));
      }
    }
    if (any) {
      expect_hit(op, i);
    }
  }
  if (entry.page_count < asked) {
    ++world_.tally.misses;
    judge_miss(session, op, entry.page_count);
  }
}

// A page that was there at the submission, and is there now, was not missed. A blob that was
// damaged may have been followed by an older one, which a rebuild had not read before.
void Clients::judge_miss(SimSession& session, const SimOp& op, std::uint32_t index) {
  if (op.meets_overdue || op.unanswered != world_.unanswered()) {
    return;  // a read that the kernel could not take, or that is not answered, is a miss, that time
  }
  const bool there = op.there[index] && page_is_there(session, op, index, false) &&
                     op.blobs[index] == blobs_of(session, op, index);
  const PageTruth& truth = world_.model.at(op.version, op.pages[index]);
  if (there && truth.stored < op.submitted && truth.gone < op.submitted) {
    world_.laws.broken(2, about("a miss on a page that is there", op, op.pages[index]));
  }
}

void Clients::judge_lease_verb(SimSession& session, SimOp& op, const CompletionEntry& entry) {
  const auto code = static_cast<Code>(entry.code);
  const bool all_there = were_there(session, op);
  world_.tally.misses += code == Code::not_found ? 1U : 0U;
  if (op.verb() == Verb::pin) {
    world_.laws.expect(code != Code::ok || all_there, 1, "a pin of pages that are not resident");
    world_.laws.expect(code != Code::not_found || !all_there, 2, "a pin misses resident pages");
  }
  if (code == Code::ok) {
    world_.laws.expect(op.lease_known, 4, "no lease");
    for (std::uint32_t i = 0; i < op.pages.size(); ++i) {
      const Parts parts = parts_of_page(session, op, i);
      const Family& family = world_.core().family_of(session.id);
      const bool needed = std::any_of(parts.begin(), parts.end(), [&](std::uint32_t part) {
        return is_needed(family.descriptor.kinds[family.kind_of(part)], i, op.pages.size());
      });
      if (needed) {
        expect_hit(op, i);
      }
    }
  } else if (code == Code::not_found && all_there && op.verb() == Verb::reload) {
    bool still = !op.meets_overdue && op.unanswered == world_.unanswered();
    for (std::uint32_t i = 0; i < op.pages.size(); ++i) {
      const PageTruth& truth = world_.model.at(op.version, op.pages[i]);
      still = still && truth.stored < op.submitted && truth.gone < op.submitted &&
              page_is_there(session, op, i, false) && op.blobs[i] == blobs_of(session, op, i);
    }
    world_.laws.expect(!still, 2, "a reload misses pages that are there");
  }
}

void Clients::judge_free(SimOp& op, Code code) {
  for (std::size_t i = op.pages.size(); i-- > 0;) {
    PageTruth& truth = world_.model.at(op.version, op.pages[i]);
    --truth.frees_open;
    if (code == Code::ok) {
      truth.gone_for_good = std::max(truth.gone_for_good, op.submitted);
    } else if (op.in_submit) {
      truth.gone = op.gone_before[i];  // refused before it began: nothing was forgotten
    }
  }
  if (code != Code::ok) {
    return;
  }
  const SpaceNo space = world_.core().sessions.find(sessions_[op.session].id)->space;
  const BlobSeed seed = world_.core().superblock->seed_of(space);
  for (const WipePlace& place : op.wipes) {
    const bool others = std::any_of(op.pages.begin(), op.pages.end(), [&](std::uint32_t number) {
      return world_.model.at(op.version, number).frees_open > 0;
    });
    BlockBytes block{};
    BlobHeader header{};
    world_.disk.read_durable(place.file, place.offset_bytes, block);
    const bool back = parse_header_block(block, seed, header) == BlobVerdict::good &&
                      header.page_hash == place.page &&
                      header.generation == place.generation.value;
    const SimFile* file = world_.disk.file(place.file);
    const auto at = static_cast<std::size_t>(place.offset_bytes / kBlockBytes);
    const bool reused = !file->synced(at, 1);  // a new blob is on its way into the slot
    const bool excused = file->damaged(at, 1) || file->flush_lost(at, 1);
    world_.laws.expect(!back || others || reused || excused, 2,
                       "free_object is acknowledged and a header is still on the disk");
  }
}

// What was under way at the submission is still so: then it has come only as far as it says.
void Clients::judge_ack(const SimOp& op, Ack ack) {
  Catalog& catalog = *world_.core().catalog;
  for (const Underway& was : op.underway) {
    const Part& part = catalog.part(was.ref);
    if (part.barrier != was.barrier || !catalog.unsettled().contains(was.ref.value) ||
        catalog.page(catalog.page_of(was.ref)).doomed) {
      continue;
    }
    world_.laws.expect(ack < Ack::durable, 2, "durable is told of a part that is not durable");
    // Written, and by a failed flush written no more: then it is on its way a second time.
    world_.laws.expect(ack < Ack::written || part.l3 >= L3State::written || part.repeats > 0, 2,
                       "written is told of a part that is not written");
  }
}

void Clients::judge_flush(SimSession& session, const SimOp& op, Code code) {
  Catalog& catalog = *world_.core().catalog;
  LruList& unsettled = catalog.unsettled();
  if (code == Code::io_error || code == Code::no_space) {
    session.losses_told = std::max(session.losses_told, op.losses);
    session.barrier_told = std::max(session.barrier_told, op.barrier);
  }
  if (code != Code::ok) {
    return;
  }
  if (!unsettled.empty()) {
    const Part& oldest = catalog.part(PartRef{unsettled.oldest()});
    world_.laws.expect(oldest.barrier > op.barrier, 2, "a flush ended before an earlier store");
  }
  for (std::size_t loss = session.losses_told; loss < op.losses; ++loss) {
    world_.laws.expect(world_.losses[loss] <= session.barrier_told, 2,
                       "a flush is silent about an old loss");
  }
  for (const Underway& was : op.underway) {
    // In memory and not on the disk: evicted is not what it is.
    const Page& page = catalog.page(catalog.page_of(was.ref));
    const Part& part = catalog.part(was.ref);
    const bool lost = page.in_use && !page.doomed && page.hash == was.page &&
                      part.barrier == was.barrier && part.l2 == L2State::resident &&
                      part.l3 == L3State::absent && !unsettled.contains(was.ref.value);
    world_.laws.expect(!lost, 2, "a flush is silent about a part that was lost");
  }
  const LruList& held_back = catalog.held_back();
  for (std::uint32_t at = held_back.oldest(); at != kNone32; at = held_back.newer_than(at)) {
    world_.laws.expect(catalog.part(PartRef{at}).barrier > op.barrier, 2,
                       "a flush ended with a part that is held back");
  }
}

// One clock for the node, the tail of an operation's pages older than its head.
void Clients::judge_touches(SimSession& session, const SimOp& op) {
  const bool touches = op.verb() == Verb::store || op.verb() == Verb::load ||
                       op.verb() == Verb::reload;
  if (!touches) {
    return;
  }
  Catalog& catalog = *world_.core().catalog;
  const SpaceNo space = world_.core().sessions.find(session.id)->space;
  std::uint64_t newer = UINT64_MAX;
  for (std::uint32_t i = 0; i < op.pages.size(); ++i) {
    const PageId page = catalog.find(space, world_.scenario.universe.hash(op.pages[i]));
    const bool again = std::count(op.pages.begin(), op.pages.end(), op.pages[i]) > 1;
    if (page == kNoPage || again) {
      continue;
    }
    world_.laws.expect(catalog.page(page).last_access < newer, 2,
                       "the tail of a prefix is not older than its head");
    newer = catalog.page(page).last_access;
  }
}

}  // namespace hc::sim
