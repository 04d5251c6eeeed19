// SPDX-License-Identifier: Apache-2.0
// test_hooks: places in the product where a test build may die, fail or misbehave on purpose.
//
//   HC_FAILPOINT(name)        the process may be killed here
//   HC_FAILPOINT_FAILS(name)  the same, and true if what follows is to fail instead
//   HC_MUTANT(name)           true if the named small bug is switched on
//
// A build without HC_TEST_HOOKS has none of it: no code, no symbol, no name. With it (programs
// whose names end in _hooks, which only tests run) tests/hooks says what each one does, from the
// environment. Owner: any thread. These lists are the only ones: a name
// that is not in them does not compile, and the tests want each of them used.
#pragma once

#ifdef HC_TEST_HOOKS

#define HC_FAILPOINTS(X) \
  X(start_epoch_raised) \
  X(start_epoch_durable) \
  X(start_index_opened) \
  X(load_index_opened) \
  X(load_index_read) \
  X(load_space_settled) \
  X(load_installed) \
  X(load_header_read) \
  X(load_scanned_behind) \
  X(superblock_staged) \
  X(superblock_written) \
  X(superblock_synced) \
  X(superblock_written_now) \
  X(attach_space_added) \
  X(attach_done) \
  X(slab_file_created) \
  X(slab_header_written) \
  X(step_charged) \
  X(step_allocated) \
  X(step_taken) \
  X(step_emptied) \
  X(step_punch_started) \
  X(step_punched) \
  X(step_given_up) \
  X(volume_named) \
  X(volumes_claimed) \
  X(switch_space_added) \
  X(spill_slot_taken) \
  X(spill_write_started) \
  X(spill_write_done) \
  X(spill_written) \
  X(gc_evicting) \
  X(gc_evicted) \
  X(commit_collected) \
  X(commit_slab_flushed) \
  X(commit_flushed) \
  X(commit_handed_over) \
  X(commit_heard) \
  X(commit_settled) \
  X(commit_slot_freed) \
  X(commit_erase_told) \
  X(index_rows_put) \
  X(index_empty_built) \
  X(index_empty_renamed) \
  X(index_batch_taken) \
  X(index_batch_committed) \
  X(reload_read_started) \
  X(reload_read_done) \
  X(reload_summed) \
  X(reload_told) \
  X(reload_damaged_dropped) \
  X(forget_doomed) \
  X(forget_wipe_started) \
  X(forget_wiped) \
  X(forget_handed_on) \
  X(clear_epoch_raised) \
  X(clear_space_epoch_raised) \
  X(clear_space_done) \
  X(clear_epoch_durable) \
  X(clear_index_reset) \
  X(clear_slabs_emptied) \
  X(clear_family_forgotten) \
  X(stop_asked)

// On the way of copies between a GPU and L2 (tests/e2e/README.md): in the daemon.
#define HC_GPU_FAILPOINTS(X) \
  X(gpu_export_taken) \
  X(gpu_memory_opened) \
  X(gpu_events_opened) \
  X(gpu_mapping_told) \
  X(gpu_frames_registered) \
  X(gpu_region_answered) \
  X(gpu_await_begun) \
  X(gpu_await_heard) \
  X(copy_heard) \
  X(copy_sum_begun) \
  X(copy_settled) \
  X(gpu_mapping_let_go) \
  X(gpu_memory_closed) \
  X(gpu_unregister_answered) \
  X(rank_region_taken) \
  X(rank_prepared) \
  X(rank_told) \
  X(rank_committed) \
  X(rank_quarantine_begun) \
  X(rank_quarantine_over) \
  X(session_unmapped) \
  X(session_hung_up)

// In whoever copies: the daemon, or the process of a rank.
#define HC_LANE_FAILPOINTS(X) \
  X(gpu_await_over) \
  X(gpu_copies_queued) \
  X(gpu_batch_issued) \
  X(gpu_batch_done)

// In the process of a rank.
#define HC_CLIENT_FAILPOINTS(X) \
  X(client_region_exported) \
  X(client_region_mapped) \
  X(client_region_announced) \
  X(client_region_registered) \
  X(client_frames_registered) \
  X(client_event_recorded) \
  X(client_request_published) \
  X(client_prepared_taken) \
  X(client_batch_queued) \
  X(client_batch_copied) \
  X(client_word_told) \
  X(client_completion_taken) \
  X(client_unregister_asked) \
  X(client_region_released) \
  X(client_close_begun) \
  X(client_detached) \
  X(client_session_over)

#define HC_MUTANTS(X) \
  X(rows_before_flush) \
  X(failed_flush_believed) \
  X(late_failure_ignored) \
  X(durable_told_when_written) \
  X(durable_bit_not_published) \
  X(limbo_lost_on_failure) \
  X(slot_free_before_commit) \
  X(reserve_ignored) \
  X(pin_ignored) \
  X(lease_ignored) \
  X(lease_freed_at_eof) \
  X(late_store_published) \
  X(late_told_twice) \
  X(head_older_than_tail) \
  X(payload_sum_unchecked) \
  X(checksums_unchecked) \
  X(header_fields_unchecked) \
  X(generation_unchecked) \
  X(generation_mark_not_kept) \
  X(rows_believed) \
  X(flush_does_not_wait) \
  X(flush_hides_losses) \
  X(epoch_not_raised) \
  X(slab_files_kept) \
  X(quota_refused_busy) \
  X(reservation_ignored) \
  X(quota_count_kept) \
  X(handed_over_lease_counted_twice) \
  X(unlisted_lease_handed_over) \
  X(copies_before_event) \
  X(filled_not_summed) \
  X(rank_frames_dropped) \
  X(rank_failure_ignored)

// Of what ranks decide together (client/reload), for hc_group_sim_hooks.
#define HC_GROUP_MUTANTS(X) \
  X(input_taken_at_once) \
  X(reduce_skipped_when_idle) \
  X(late_landing_kept) \
  X(failure_called_landed) \
  X(deadline_ignored) \
  X(digest_over_local_facts) \
  X(divergence_ignored) \
  X(instances_ignored) \
  X(failed_store_adopted) \
  X(quota_kept) \
  X(local_state_believed) \
  X(admitted_in_order) \
  X(anchor_unchecked) \
  X(lease_dropped_at_admit) \
  X(first_waiter_only) \
  X(admitted_evicted) \
  X(drain_skipped) \
  X(one_round_is_enough)

// Of copies between a GPU and L2 (daemon/gpu, client/gpu), for tests on the stand-in driver.
#define HC_GPU_MUTANTS(X) \
  X(copy_done_when_issued) \
  X(region_offset_dropped) \
  X(shared_mapping_closed) \
  X(chunks_swapped) \
  X(chunks_kept) \
  X(quarantine_skipped) \
  X(event_of_slot_zero) \
  X(later_batches_dropped) \
  X(refused_batch_believed) \
  X(lost_copies_believed) \
  X(awaits_not_cancelled) \
  X(owner_events_kept) \
  X(rank_failure_believed) \
  X(rank_freed_while_alive) \
  X(rank_sum_skipped) \
  X(rank_word_of_any_use)

namespace hc {

#define HC_HOOK_ENTRY(name) name,
enum class Failpoint {
  HC_FAILPOINTS(HC_HOOK_ENTRY) HC_GPU_FAILPOINTS(HC_HOOK_ENTRY) HC_LANE_FAILPOINTS(HC_HOOK_ENTRY)
  HC_CLIENT_FAILPOINTS(HC_HOOK_ENTRY)
};
enum class Mutant {
  HC_MUTANTS(HC_HOOK_ENTRY) HC_GROUP_MUTANTS(HC_HOOK_ENTRY) HC_GPU_MUTANTS(HC_HOOK_ENTRY)
};
#undef HC_HOOK_ENTRY

void pass_failpoint(Failpoint point);
bool failpoint_fails(Failpoint point);
bool mutant_is_on(Mutant mutant);

}  // namespace hc

#define HC_FAILPOINT(name) ::hc::pass_failpoint(::hc::Failpoint::name)
#define HC_FAILPOINT_FAILS(name) ::hc::failpoint_fails(::hc::Failpoint::name)
#define HC_MUTANT(name) ::hc::mutant_is_on(::hc::Mutant::name)

#else

#define HC_FAILPOINT(name) static_cast<void>(0)
#define HC_FAILPOINT_FAILS(name) false
#define HC_MUTANT(name) false

#endif
