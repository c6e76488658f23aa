//! Runs enough worlds to detect a broken promise, and few enough to finish in seconds.

use everhook_sim::world::{Plan, run};

#[track_caller]
fn check(plan: Plan) {
    let outcome = run(plan);
    let seed = plan.seed;
    assert!(
        outcome.violations.is_empty(),
        "seed {seed}: {:#?}\nreplay: cargo run --release -p everhook-sim -- --seed {seed} --trace",
        outcome.violations
    );
}

#[test]
fn promises_hold_under_crashes_pauses_stalls_and_lost_replies() {
    for seed in 1..=200 {
        check(Plan { seed, faults: true, messages: 60, jobs: 40, crowd: 0, print: false });
    }
}

#[test]
fn without_faults_every_message_is_sent_exactly_once() {
    for seed in 1..=10 {
        check(Plan { seed, faults: false, messages: 200, jobs: 100, crowd: 0, print: false });
    }
}

#[test]
fn a_crowd_of_hanging_endpoints_delays_no_other_application() {
    for seed in 1..=20 {
        check(Plan { seed, faults: false, messages: 60, jobs: 0, crowd: 60, print: false });
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in [7, 8, 9] {
        let plan = Plan { seed, faults: true, messages: 60, jobs: 40, crowd: 0, print: false };
        assert_eq!(run(plan), run(plan));
    }
}
