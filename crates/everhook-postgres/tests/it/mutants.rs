//! The suite finds the promises that are broken in this store's statements.

use everhook_store::conformance::mutants::all_are_caught;

/// Each mutant with a case of the suite that fails with it.
const CAUGHT: [(&str, &str); 7] = [
    ("settle-without-epoch", "conformance::settle::only_the_holder_of_this_tenure_can_settle"),
    ("renew-closed-session", "conformance::sessions::a_closed_session_never_renews"),
    ("reclaim-from-open-session", "conformance::sessions::nothing_is_taken_from_an_open_session_even_past_its_lease"),
    ("environment-missing", "conformance::settle::a_disabled_endpoint_does_not_become_gone"),
    ("count-repeated-end", "conformance::batch::a_repeated_end_is_counted_once"),
    ("lease-without-gate", "conformance::job::a_limit_holds_over_all_sessions"),
    ("deliver-in-doubt", "outage::a_commit_whose_reply_is_lost_is_in_doubt"),
];

#[test]
fn every_mutant_of_the_statements_is_caught() {
    all_are_caught(&CAUGHT);
}
