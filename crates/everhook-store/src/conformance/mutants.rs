//! That the suite finds the promises that are broken in a store's statements.

use std::process::{Command, Stdio};

/// Each mutant with a test of the calling program that passes without it and has to fail with it.
pub fn all_are_caught(caught: &[(&str, &str)]) {
    for (mutant, case) in caught {
        assert!(passes(case, None), "{case} fails without any mutant");
        assert!(!passes(case, Some(mutant)), "{mutant} survives {case}");
    }
}

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
