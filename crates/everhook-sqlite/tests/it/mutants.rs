//! The suite finds the promises that are broken in this store's statements.

use std::process::{Command, Stdio};

/// Each mutant with a case of the suite that fails with it.
const CAUGHT: [(&str, &str); 4] = [
    ("settle-without-epoch", "conformance::memory::settle::only_the_holder_of_this_tenure_can_settle"),
    ("renew-closed-session", "conformance::memory::sessions::a_closed_session_never_renews"),
    (
        "reclaim-from-open-session",
        "conformance::memory::sessions::nothing_is_taken_from_an_open_session_even_past_its_lease",
    ),
    ("environment-missing", "conformance::memory::settle::a_disabled_endpoint_does_not_become_gone"),
];

/// Runs one test of this program in a process of its own, perhaps with a mutant.
fn passes(case: &str, mutant: Option<&str>) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([case, "--exact"]).stdout(Stdio::piped()).stderr(Stdio::null());
    command.envs(mutant.map(|mutant| ("EVERHOOK_TEST_MUTANT", mutant)));
    let output = command.output().unwrap();
    let ran = String::from_utf8_lossy(&output.stdout).contains("running 1 test");
    assert!(ran, "there is no test {case}");
    output.status.success()
}

#[test]
fn every_mutant_of_the_statements_is_caught() {
    for (mutant, case) in CAUGHT {
        assert!(passes(case, None), "{case} fails without any mutant");
        assert!(!passes(case, Some(mutant)), "{mutant} survives {case}");
    }
}
