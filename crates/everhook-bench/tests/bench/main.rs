//! A tiny run of every benchmark scenario with its checks, without a look at the figures.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

#[allow(dead_code, reason = "compiled here for its tests; the benchmark uses all of it")]
#[path = "../../src/metrics.rs"]
mod metrics;

use std::collections::BTreeSet;
use std::process::Command;

/// Rows that every store has.
const ROWS: &[&str] = &[
    "1 endpoint",
    "5 endpoints",
    "jobs, enqueue, of graphile",
    "jobs, burn-down, of graphile",
    "jobs, flat",
    "accepted p50",
    "received p50",
    "50% accepted p99",
    "50% received p99",
    "80% accepted p99",
    "80% received p99",
    "flat, not due",
    "flat, not due: claim",
    "flat, stuck",
    "flat, stuck: claim",
    "drain",
    "p99 beside a hanging one",
    "p99 beside 1,000 hanging ones",
    "p99 beside a flooded one",
    "p99 beside a noisy one",
    "rate-limited endpoints",
    "lists and scrapes",
    "page 1000 of attempts",
    "page 1000 of deliveries",
    "page 1000 of messages",
    "page 1000 of messages of all applications",
    "retention",
    "cold start",
    "idle",
    "binary",
];
/// Rows that only PostgreSQL has.
const SHARED_ROWS: [&str; 5] =
    ["outbox, of API accepts", "pinned snapshot", "pinned, 51 endpoints", "2 nodes", "2 workers"];

#[expect(clippy::disallowed_methods, reason = "`cargo xtask test` tells the tests about their surroundings")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `cargo xtask test`"))
}

/// Runs all scenarios on one store. Expects every row, with no message lost, invented or duplicated.
fn check(store: &str, wanted: &[&str], arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everhook-bench"));
    command.args(["--server", &variable("EVERHOOK_TEST_BINARY"), "--store", store, "--json"]).args(arguments);
    let output = command.args(["--runs", "1", "--scale", "0.0001", "--pinned-seconds", "0"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let found: BTreeSet<&str> = rows.iter().map(|row| row["scenario"].as_str().unwrap()).collect();
    assert_eq!(found, wanted.iter().copied().collect(), "{errors}");
    for row in rows {
        assert_eq!(row["store"], store);
        for fault in ["lost", "invented", "duplicated"] {
            assert_eq!(row["checked"][fault], 0, "{row}\n{errors}");
        }
    }
}

#[test]
fn the_bench_runs_every_scenario_on_the_embedded_store() {
    check("sqlite", ROWS, &[]);
}

#[test]
fn the_bench_runs_every_scenario_on_postgres() {
    let database = variable("EVERHOOK_TEST_DATABASE");
    check("postgres", &[ROWS, &SHARED_ROWS].concat(), &["--database", &database]);
}
