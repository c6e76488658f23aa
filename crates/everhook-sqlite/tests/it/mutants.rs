//! The suite finds the promises that are broken in this store's statements.

use everhook_store::conformance::mutants::all_are_caught;

/// Each mutant with a case of the suite that fails with it.
const CAUGHT: [(&str, &str); 6] = [
    ("settle-without-epoch", "conformance::memory::settle::only_the_holder_of_this_tenure_can_settle"),
    ("renew-closed-session", "conformance::memory::sessions::a_closed_session_never_renews"),
    (
        "reclaim-from-open-session",
        "conformance::memory::sessions::nothing_is_taken_from_an_open_session_even_past_its_lease",
    ),
    ("environment-missing", "conformance::memory::settle::a_disabled_endpoint_does_not_become_gone"),
    ("count-repeated-end", "conformance::memory::batch::a_repeated_end_is_counted_once"),
    ("lease-without-gate", "conformance::memory::job::a_limit_holds_over_all_sessions"),
];

#[test]
fn every_mutant_of_the_statements_is_caught() {
    all_are_caught(&CAUGHT);
}
