//! The list of cases, as macros for the tests of the stores.

/// Expands to the cases about operations that the simulator and the model test need, as tests on a
/// [`Backend`](crate::conformance::Backend). `specified Mem` leaves out the cases behind a semicolon, which also need
/// operations that the in-memory store refuses.
#[macro_export]
macro_rules! conformance_specified {
    ($($backend:tt)+) => {
        $crate::conformance_cases! { $($backend)+, append:
            a_node_with_room_takes_new_deliveries_at_once
            a_message_for_nobody_is_accepted
            without_room_new_deliveries_wait_for_a_lease
            a_new_delivery_does_not_overtake_the_backlog_of_its_lane
            a_new_delivery_does_not_overtake_the_one_before_it_in_the_batch
            a_retry_in_the_future_does_not_keep_new_deliveries_waiting
            a_retry_that_is_due_does_not_keep_new_deliveries_waiting
            new_deliveries_wait_until_those_before_them_are_leased
            a_new_delivery_waits_while_its_lane_is_held
            an_expression_decides_with_the_payload
            only_endpoints_that_want_a_message_get_it
            an_endpoint_counts_from_the_moment_it_is_changed
            a_message_of_an_unknown_application_is_refused_and_forgotten
            nothing_to_append_is_nothing
            one_bad_neighbour_does_not_cost_the_batch
            a_message_for_one_endpoint_goes_nowhere_else
            a_message_for_later_waits_until_then
            a_message_for_earlier_is_delivered_now
            a_message_for_later_keeps_no_other_waiting
            a_lane_is_ready_for_the_earliest_of_a_batch
            ;
            a_message_of_a_deleted_application_is_refused
            the_store_tells_whether_any_endpoint_wants_a_message
        }
        $crate::conformance_cases! { $($backend)+, once:
            the_first_message_for_a_slot_wins_it
            a_suppressed_message_is_not_there
            a_higher_phase_opens_itself_and_a_lower_one_is_stale
            a_reset_opens_the_next_phase_and_keeps_the_slot
            a_repeated_reset_opens_one_phase
            a_suppressed_message_leaves_no_key_behind
            a_suppressed_row_of_an_outbox_wins_no_later_phase
            the_winners_own_request_again_is_answered_like_the_first
            a_message_that_is_refused_claims_no_slot
            the_first_accepted_message_of_a_batch_wins
            a_neighbour_in_the_batch_that_loses_its_key_leaves_its_slot_free
            equal_keys_of_two_applications_do_not_meet
            a_winner_that_ends_dead_keeps_its_slot
            a_slot_tells_when_it_was_made_won_and_changed
            slots_are_listed_piece_by_piece_both_ways
        }
        $crate::conformance_cases! { $($backend)+, dedup:
            a_repeated_request_gets_the_message_of_the_first
            a_repeated_request_takes_no_slot
            a_key_with_another_body_is_refused
            an_event_id_is_accepted_once
            a_repeated_request_is_no_conflict_with_its_own_event_id
            a_refused_message_leaves_no_key_behind
            repetitions_within_one_batch_are_recognised
            a_refused_message_costs_its_neighbours_in_the_batch_no_key
            equal_keys_in_two_environments_do_not_meet
        }
        $crate::conformance_cases! { $($backend)+, lease:
            a_pending_delivery_is_leased_once_with_all_its_holder_needs
            nothing_to_do_is_no_error
            what_is_not_due_stays_and_its_time_is_told
            what_waits_is_counted
            what_is_due_later_is_remembered_when_the_rest_of_its_lane_goes
            what_was_due_first_goes_first
            a_lease_takes_only_the_slots_that_its_node_gives
            a_group_at_its_share_is_passed_over
            a_paused_environment_is_passed_over
            a_lease_goes_on_behind_lanes_that_its_node_refused
            a_lane_gives_no_more_than_it_has_room_for
            a_lane_without_room_is_not_looked_at
            a_lease_gives_no_more_than_it_was_asked_for
            more_work_is_announced_at_once
            lanes_take_turns
            a_lane_that_was_cut_off_is_the_next_one
            a_held_lane_is_not_looked_at_until_its_time
            a_hold_is_never_shortened
            a_hold_that_is_over_holds_nothing
            a_hold_over_an_empty_lane_is_nothing_to_wait_for
            a_disabled_endpoint_keeps_its_deliveries_until_it_is_enabled
            a_paused_endpoint_takes_deliveries_and_holds_them
            a_disabled_endpoint_may_hold_new_deliveries
            a_retry_for_a_disabled_endpoint_waits_until_it_is_enabled
            deliveries_to_a_deleted_endpoint_come_out_whatever_they_waited_for
            a_delivery_that_was_leased_before_it_was_due_is_held_since_its_lease
            deliveries_to_a_deleted_endpoint_come_out_also_if_it_was_disabled
            deliveries_to_a_deleted_endpoint_come_out_in_portions
            a_removed_payload_comes_as_none
            a_lease_sees_the_endpoint_as_it_is_now
            equal_ids_in_two_environments_do_not_meet
            ;
            deleting_an_application_lets_its_deliveries_out
        }
        $crate::conformance_cases! { $($backend)+, settle:
            a_delivered_task_leaves_and_its_attempt_stays
            a_retry_keeps_its_counts_and_gets_a_new_epoch
            a_dead_task_stays_and_is_not_leased
            a_task_that_is_handed_back_leaves_no_trace
            only_the_holder_of_this_tenure_can_settle
            a_key_that_differs_in_any_part_is_another_task
            once_a_task_was_taken_over_its_earlier_holder_changes_nothing
            a_closed_session_can_still_settle_what_nobody_took_over
            settling_twice_counts_once
            a_settlement_said_again_after_the_next_lease_is_still_done
            one_lost_settlement_does_not_cost_its_neighbours
            a_batch_of_successes_is_settled_whole
            the_same_settlement_twice_in_a_batch_counts_once
            of_several_ends_of_one_tenure_in_a_batch_the_first_counts
            several_holds_of_one_lane_in_a_batch_leave_the_longest
            several_retries_of_one_lane_in_a_batch_leave_the_earliest
            a_receiver_that_is_gone_is_left_in_peace
            a_disabled_endpoint_does_not_become_gone
            a_deleted_endpoint_that_is_gone_still_lets_its_deliveries_out
            a_retry_of_a_deleted_endpoint_comes_out_again
        }
        $crate::conformance_cases! { $($backend)+, sessions:
            the_clock_does_not_run_backwards
            a_closed_session_never_renews
            an_unknown_session_does_not_renew
            opening_a_session_twice_is_harmless
            only_sessions_past_their_lease_are_closed_by_others
            a_session_with_a_lease_longer_than_its_closer_was_steady_goes_on
            an_expired_session_goes_on_if_nobody_closed_it
            nothing_is_taken_from_an_open_session_even_past_its_lease
            what_a_closed_session_held_is_taken_over_once_with_a_new_epoch
            a_takeover_tells_who_held_the_task_and_since_when
            a_task_taken_at_once_is_held_since_it_was_appended
            reclaiming_takes_no_more_than_it_was_asked_for
            pending_and_dead_tasks_are_nobodys_to_take_over
            what_was_appended_for_a_closed_session_is_found
            what_was_leased_for_a_session_nobody_knows_is_found
            a_reclaimed_task_is_retried_like_any_other
            ;
            sessions_are_listed_with_what_they_hold
        }
        $crate::conformance_cases! { $($backend)+, delivery:
            a_delivery_is_shown_through_its_whole_life
            the_next_attempt_is_told_while_a_delivery_waits
            a_delivery_taken_at_once_is_being_sent
            what_waits_for_a_deleted_endpoint_is_cancelled
            each_endpoint_has_its_own_state
            an_unknown_message_stands_nowhere
            a_resend_is_a_task_of_its_own_with_a_manual_trigger
            the_newest_life_of_a_delivery_is_the_one_shown
            a_resend_needs_a_message_with_its_payload_and_an_endpoint
            a_repeated_resend_sends_once
            a_refused_resend_uses_up_no_key
            a_resend_to_a_disabled_endpoint_waits
            a_redriven_delivery_begins_anew
            a_redrive_takes_only_what_is_asked_for
            a_redrive_here_leaves_the_dead_of_another_environment
        }
        $crate::conformance_cases! { $($backend)+, race:
            the_same_request_at_once_is_accepted_once
            the_same_event_id_at_once_is_accepted_once
            batches_with_the_same_keys_in_another_order_do_not_block_each_other
            a_slot_that_is_claimed_at_once_has_one_winner
            batches_that_want_the_same_slots_in_another_order_do_not_block_each_other
            each_phase_has_one_winner_whoever_opens_it
            racing_leases_never_share_a_task_and_get_them_all
            what_is_appended_while_lanes_are_drained_is_not_forgotten
            what_is_put_back_while_lanes_are_drained_is_not_forgotten
            a_task_is_settled_or_taken_over_never_both
            the_same_settlements_at_once_count_once
            racing_sweeps_never_share_a_task_and_get_them_all
            deliveries_taken_at_once_and_waiting_ones_add_up
            appends_at_once_share_the_permits_of_a_rate_limit
        }
        $crate::conformance_cases! { $($backend)+, job:
            a_job_is_leased_as_it_was_enqueued
            a_job_that_ended_is_shown_with_its_attempt_and_result
            a_result_that_was_too_large_is_told
            a_failed_job_is_tried_again_and_keeps_its_attempts
            an_abandoned_attempt_is_logged_for_the_holder_that_died
            a_late_word_of_a_former_holder_changes_nothing
            the_lowest_priority_number_goes_first_and_then_the_oldest
            a_job_for_later_waits_and_keeps_no_other_waiting
            concurrency_keys_take_turns
            deliveries_and_jobs_never_meet
            only_queues_that_are_asked_for_give
            a_worker_gets_the_kinds_it_takes
            lanes_with_nothing_for_a_worker_do_not_keep_it_from_the_others
            a_queue_that_is_named_twice_is_counted_once
            a_unique_job_is_accepted_once_per_queue
            a_unique_key_counts_within_its_window_only
            the_same_request_again_is_the_same_job
            a_bulk_is_judged_one_by_one
            only_the_holder_reports_progress
            a_watched_job_is_taken_back_when_its_time_is_over
            ;
            kinds_that_stand_for_the_same_number_are_told_apart
            lists_have_what_is_asked_for
            a_search_of_jobs_looks_at_a_few_and_goes_on
        }
        $crate::conformance_cases! { $($backend)+, job_steer:
            what_is_cancelled_ends_now_or_at_the_next_word
            a_dead_job_is_retried_with_fresh_tries
            a_job_that_is_named_twice_is_changed_once
            a_retry_is_not_cancelled_by_what_was_asked_of_the_life_before
            a_deleted_job_leaves_nothing_behind
        }
        $crate::conformance_cases! { $($backend)+, queue:
            no_more_than_its_room_is_taken_of_a_queue
            a_limit_holds_over_all_sessions
            a_limit_per_key_leaves_other_keys_alone
            a_rate_holds_over_all_sessions
            a_rate_is_not_used_up_by_asking
            a_paused_queue_gives_nothing_until_it_is_resumed
            a_target_that_wants_no_more_stops_its_queue
            two_changes_of_a_queue_do_not_undo_each_other
            ;
            queues_are_known_by_configuration_or_by_their_jobs
            a_queue_is_deleted_once_no_job_of_it_is_open
            statistics_tell_what_is_in_a_queue
        }
        $crate::conformance_cases! { $($backend)+, batch:
            a_batch_completes_when_all_its_jobs_have_succeeded
            the_first_death_is_announced_at_once_and_with_its_job
            an_empty_batch_completes_when_it_is_sealed
            a_job_that_is_refused_by_its_batch_keeps_no_key
            a_retry_opens_a_phase_that_is_announced_again
            a_batch_goes_on_without_what_is_skipped_cancelled_or_deleted
            a_bad_selection_changes_nothing
            a_repeated_end_is_counted_once
            announcements_are_counted_whatever_causes_them
            a_job_that_a_sweep_ends_is_announced
            the_ends_of_many_jobs_in_one_transaction_are_one_announcement
            ;
            a_batch_whose_application_is_gone_goes_on_silently
            a_batch_is_created_once_per_request_and_found_again
        }
        $crate::conformance_cases! { $($backend)+, job_race:
            a_limit_is_never_exceeded_however_many_lease
            a_unique_key_at_once_is_one_job
            the_last_two_jobs_of_a_batch_at_once_are_one_announcement
            what_is_enqueued_while_lanes_are_drained_is_not_forgotten
            a_job_is_cancelled_or_leased_never_both
        }
        $crate::conformance_cases! { $($backend)+, policy:
            a_delivery_has_the_policies_of_its_endpoint_and_application
            an_environment_has_one_policy
            a_rate_limit_holds_over_all_sessions
            messages_of_one_batch_take_a_permit_each
            a_rate_limit_of_any_level_applies_and_a_change_takes_effect_at_once
            ;
            an_append_takes_the_permits_of_a_rate_limit_and_what_waits_says_why
            paused_applications_are_listed
        }
        $crate::conformance_cases! { $($backend)+, breaker:
            a_breaker_probes_with_one_delivery_over_all_sessions_and_ramps_up
            a_breaker_changes_only_from_the_state_that_was_seen
            a_changed_breaker_starts_closed_and_an_inherited_one_applies
            ;
            an_open_breaker_holds_its_lane_and_says_why
        }
        $crate::conformance_cases! { $($backend)+, limits:
            a_concurrency_limit_holds_over_all_sessions
            a_delivery_of_a_crashed_node_counts_until_it_is_settled
            a_concurrency_limit_of_any_level_applies_and_a_change_takes_effect_at_once
            both_limits_of_an_endpoint_apply
            ;
            a_delivery_beyond_a_concurrency_limit_waits_for_a_lease_and_says_why
        }
        $crate::conformance_cases! { $($backend)+, order:
            a_takeover_keeps_the_place_in_an_ordered_lane
            a_redriven_delivery_goes_next_in_an_ordered_lane
            ;
            an_ordered_endpoint_gets_one_delivery_after_the_other
            a_retry_keeps_its_place_in_an_ordered_lane
            the_next_of_an_ordered_lane_goes_when_the_first_is_cancelled
            a_dead_delivery_blocks_an_ordered_lane_until_it_is_redriven_or_dismissed
        }
        $crate::conformance_cases! { $($backend)+, order_key:
            payloads_without_the_key_are_one_key
            a_takeover_keeps_the_order_of_a_key
            a_deleted_endpoint_ends_deliveries_behind_others
            a_change_of_the_order_applies_to_later_messages
            no_delivery_is_forgotten_behind_one_that_ends
            ;
            keys_run_beside_each_other_and_each_in_order
            a_failing_key_holds_only_its_own_deliveries
            a_redriven_delivery_goes_next_among_its_key
            a_dead_delivery_blocks_its_key_until_it_is_redriven_or_dismissed
        }
    };
}

/// Expands to all cases as tests on a [`Backend`](crate::conformance::Backend) with a complete store.
#[macro_export]
macro_rules! conformance_full {
    ($backend:ident) => {
        $crate::conformance_specified!($backend);
        $crate::conformance_cases! { $backend, deliveries:
            a_delivery_is_listed_with_its_reason
            a_pause_of_the_application_or_the_environment_is_a_reason
            an_endpoint_that_backs_off_is_the_reason_to_wait
            deliveries_are_found_by_their_filters
            deliveries_are_listed_piece_by_piece_both_ways
            a_search_of_deliveries_visits_a_few_messages_and_goes_on
            all_applications_list_open_deliveries_only
            a_waiting_delivery_is_cancelled_at_once
            a_delivery_that_is_being_sent_is_cancelled_by_its_next_lease
            a_redriven_delivery_is_no_longer_cancelled
            a_delivery_is_retried_now
            a_dead_delivery_is_dismissed
            all_deliveries_of_a_message_are_cancelled
            a_dead_delivery_is_replaced_by_a_corrected_message
        }
        $crate::conformance_cases! { $backend, schedule:
            a_schedule_starts_its_job_and_tells
            a_schedule_sends_its_message
            what_schedules_create_is_counted
            whoever_looks_a_time_is_started_once
            a_paused_schedule_starts_nothing_and_goes_on_from_now
            a_run_on_request_changes_no_time
            a_run_that_is_still_open_is_not_overlapped
            schedules_are_kept_listed_and_deleted
        }
        $crate::conformance_cases! { $backend, maintenance:
            messages_that_are_done_are_forgotten
            jobs_that_are_done_are_forgotten
            payloads_are_erased_when_their_time_is_over
            keys_are_forgotten_when_they_expire
            slots_that_nobody_uses_are_forgotten
            closed_sessions_that_hold_nothing_are_forgotten
            a_queue_stays_known_when_its_lanes_are_forgotten
            everything_can_be_pruned_when_there_is_nothing
            a_worker_is_a_session_that_says_what_it_takes
        }
        $crate::conformance_cases! { $backend, applications:
            an_application_is_found_by_id_and_uid
            a_uid_belongs_to_one_application_of_an_environment
            the_same_creation_again_gets_the_same_application
            a_refused_creation_uses_up_no_key
            a_concurrent_change_of_an_application_is_noticed
            an_application_cannot_be_given_anothers_uid
            a_change_of_an_endpoint_is_a_change_of_its_application
            a_message_of_an_application_that_has_changed_since_is_refused
            a_deleted_application_is_gone_and_its_uid_is_free
            applications_are_listed_by_what_endpoints_they_have
            applications_are_listed_piece_by_piece_both_ways
        }
        $crate::conformance_cases! { $backend, endpoints:
            an_endpoint_is_found_as_it_was_made
            an_endpoint_belongs_to_its_application
            an_endpoint_needs_an_application
            a_uid_belongs_to_one_endpoint_of_an_application
            an_application_has_no_more_endpoints_than_it_may
            endpoints_created_at_once_are_no_more_than_there_may_be
            the_same_creation_again_gets_the_same_endpoint
            a_concurrent_change_of_an_endpoint_is_noticed
            a_repeated_change_is_made_once
            a_delivery_carries_nothing_of_its_endpoint_that_it_does_not_need
            endpoints_are_listed_piece_by_piece_both_ways
            an_application_keeps_its_place_when_its_uid_moves
        }
        $crate::conformance_cases! { $backend, poll:
            a_polled_endpoint_keeps_messages_for_its_readers
            a_reader_may_choose_messages
            a_message_for_later_reaches_readers_later
            a_consumer_continues_where_it_confirmed
            a_poller_has_a_bounded_number_of_consumers
            pruned_entries_do_not_stop_a_reader
        }
        $crate::conformance_cases! { $backend, request:
            a_request_is_answered_once_for_all_nodes
            a_failed_request_leaves_its_key
            an_expired_answer_is_forgotten
        }
        $crate::conformance_cases! { $backend, background:
            dead_deliveries_are_recovered_once_in_slices
            a_dry_run_counts_and_changes_nothing
            what_arrived_or_is_under_way_is_not_recovered
            messages_without_a_delivery_are_replayed_in_slices
            attempted_messages_are_replayed_as_new_deliveries
            a_slice_that_was_done_is_not_done_again
            crashes_before_a_slice_no_longer_count
            only_the_holder_of_the_job_advances_it
            a_replay_needs_its_endpoint
            payloads_of_an_application_are_purged_in_slices
            open_deliveries_to_one_endpoint_are_cancelled_in_slices
            dead_deliveries_are_redriven_once_in_slices
            background_tasks_are_listed_by_environment_and_filter
            attempts_are_counted_by_the_time_of_their_messages
        }
        $crate::conformance_cases! { $backend, directory:
            endpoints_of_all_applications_are_listed_in_pages
            the_application_of_a_message_is_found
            messages_of_all_applications_are_listed_in_pages
            open_tasks_are_counted_by_state
            deliveries_of_one_endpoint_are_counted
        }
        $crate::conformance_cases! { $backend, failure:
            dead_deliveries_are_grouped_by_endpoint_and_class
            a_mark_stays_with_its_group
        }
        $crate::conformance_cases! { $backend, traffic:
            a_node_replaces_its_own_counts_only
            minutes_are_forgotten_before_hours
        }
        $crate::conformance_cases! { $backend, alerts:
            an_alert_is_found_listed_changed_and_deleted
            alerts_of_all_environments_are_listed
            an_alert_pages_once_and_with_its_state
            an_environment_has_no_more_alerts_than_it_may
        }
        $crate::conformance_cases! { $backend, operational:
            a_change_of_an_endpoint_is_reported_with_it
            a_failing_endpoint_is_reported_once
            a_failing_delivery_is_reported_at_its_fourth_failure_and_its_end
            a_success_after_a_redrive_is_reported
            an_endpoint_that_its_receiver_disables_is_reported
            operational_endpoints_cause_no_events
            without_a_listener_nothing_is_written
            the_hidden_application_is_in_no_list
        }
        $crate::conformance_cases! { $backend, integrations:
            an_integration_is_found_changed_and_deleted
            an_application_has_no_more_integrations_than_it_may
            integrations_are_listed_piece_by_piece_and_end_with_their_application
        }
        $crate::conformance_cases! { $backend, quota:
            an_environment_and_an_application_have_one_quota_each
            changed_quotas_of_all_environments_are_listed
            endpoints_are_counted_up_to_a_limit
            stored_messages_are_counted_page_by_page
        }
        $crate::conformance_cases! { $backend, settings:
            an_environment_has_one_portal_look
            an_environment_has_one_chat_app_of_a_kind
        }
        $crate::conformance_cases! { $backend, event_types:
            an_event_type_is_found_as_it_was_made
            the_same_creation_again_gets_the_same_event_type
            a_concurrent_change_of_an_event_type_is_noticed
            event_types_are_listed_by_the_bytes_of_their_names
            unknown_and_archived_event_types_are_told
        }
        $crate::conformance_cases! { $backend, keys:
            an_environment_is_made_once
            a_key_works_until_it_is_revoked
        }
        $crate::conformance_cases! { $backend, audit:
            audit_entries_are_chained_and_found
        }
        $crate::conformance_cases! { $backend, egress:
            a_pause_of_egress_lasts_until_it_is_ended
        }
        $crate::conformance_cases! { $backend, tokens:
            a_signing_key_is_superseded_or_replaced
            tokens_of_an_application_end
            one_token_or_a_session_ends_and_is_forgotten
        }
        $crate::conformance_cases! { $backend, history:
            a_message_is_found_by_id_and_event_id_exactly_as_accepted
            a_message_that_could_not_be_written_claims_no_slot
            messages_are_found_by_type_channel_and_tag
            messages_are_found_by_time
            messages_are_listed_piece_by_piece_both_ways
            messages_are_found_by_a_text_in_their_payload
            a_list_of_large_messages_ends_early_and_goes_on
            a_search_of_messages_looks_at_a_few_and_goes_on
            a_message_keeps_what_few_others_have
            a_payload_is_removed_for_good
            a_message_whose_payload_was_erased_is_still_listed
            deliveries_are_listed_with_payloads_up_to_the_bytes_of_a_page
        }
        $crate::conformance_cases! { $backend, attempts:
            a_search_of_attempts_looks_at_a_few_and_goes_on
            attempts_are_found_by_message_and_endpoint
            attempts_are_found_by_result_and_status
            attempts_are_found_by_what_their_message_is
            attempts_are_found_by_time
            attempts_are_listed_piece_by_piece_both_ways
            an_attempt_is_found_in_its_message_and_its_reply_removed
            the_attempts_of_an_endpoint_are_counted_by_result
        }

        $crate::conformance_model!($backend);
    };
}

/// Expands to the model test against the in-memory store as a test on a [`Backend`](crate::conformance::Backend).
#[macro_export]
macro_rules! conformance_model {
    (table) => {};
    ($backend:ident) => {
        #[test]
        fn random_operations_do_the_same_as_in_memory() {
            $crate::conformance::model::check($crate::conformance::fresh::<$backend>);
        }
    };
}

/// Expands to cases of one module as tests, in a module of that name; for `table`, to functions that such tests call.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($run:ident, $module:ident: $($case:ident)*; $($more:ident)*) => {
        $crate::conformance_cases! { $run, $module: $($case)* $($more)* }
    };
    (specified $backend:ident, $module:ident: $($case:ident)* $(; $($more:ident)*)?) => {
        $crate::conformance_cases! { $backend, $module: $($case)* }
    };
    (table, $module:ident: $($case:ident)*) => {
        pub mod $module {
            use $crate::conformance::{Make, run};

            $(
                pub fn $case(fresh: Make) {
                    run(fresh, |fx| Box::pin($crate::conformance::$module::$case(fx)));
                }
            )*
        }
    };
    ($backend:ident, $module:ident: $($case:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $case() {
                    $crate::conformance::table::$module::$case($crate::conformance::fresh::<super::$backend>);
                }
            )*
        }
    };
}
