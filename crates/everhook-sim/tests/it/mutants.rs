//! The simulator finds every promise that is broken in what it runs.

use std::process::{Command, Stdio};

use everhook_store::mutant::{MUTANTS, Mutant};

/// Enough for the one that is hardest to find, many times over.
const SEEDS: &str = "400";

/// Broken in what only a real database has: the conformance suite and the fault suite find these.
const ELSEWHERE: [Mutant; 2] = [Mutant::DeliverInDoubt, Mutant::EnvironmentMissing];

fn simulate(mutant: &str) -> (bool, String) {
    let mut simulator = Command::new(env!("CARGO_BIN_EXE_everhook-sim"));
    simulator.args(["--seeds", SEEDS, "--until-bad"]).env("EVERHOOK_TEST_MUTANT", mutant).stderr(Stdio::null());
    let output = simulator.output().expect("the simulator was built");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_mutant_of_the_engine_is_caught() {
    for (mutant, name) in MUTANTS.iter().filter(|(mutant, _)| !ELSEWHERE.contains(mutant)) {
        let (survived, output) = simulate(name);
        assert!(!survived, "{mutant:?} survives {SEEDS} worlds: {output}");
        // A name that nobody knows ends the process, too, but finds nothing.
        assert!(output.starts_with("seed "), "{mutant:?}: {output}");
        eprintln!("{mutant:?}: {output}");
    }
}
