//! The fault suite in the test command: short.
//!
//! Long runs are `cargo xtask chaos`. Every test here hurts real processes and has `crash` in its name, so that they
//! run one after the other.

use std::time::Duration;

use everhook_chaos::cluster::{Cluster, Standby};
use everhook_chaos::event::Event;
use everhook_chaos::run::{Logs, Outcome, Plan, Store, describe, run};

use crate::binary::environment::{binary, variable};

const LEASE: Duration = Duration::from_secs(1);

fn plan(store: Store, events: Vec<Event>, seconds: u64) -> Plan {
    let seed = variable("EVERHOOK_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let span = Duration::from_secs(seconds);
    let (binary, patience) = (binary(), Duration::from_secs(60));
    Plan {
        binary,
        store,
        nodes: 3,
        span,
        events,
        seed,
        lease: LEASE,
        patience,
        rate: 60,
        print: true,
        logs: Logs::KeptIfBad,
    }
}

/// A database that may be stopped, where PostgreSQL's programs are installed; else the one that the tests are given.
fn own_or_given(events: Vec<Event>) -> (Store, Vec<Event>) {
    if Cluster::is_possible() {
        return (Store::Own(Standby::Sync), events);
    }
    let given = variable("EVERHOOK_TEST_DATABASE").expect("EVERHOOK_TEST_DATABASE is not set: run `cargo xtask test`");
    (Store::Given(given), events.into_iter().filter(|event| !event.is_of_database()).collect())
}

fn hurt(plan: &Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = runtime.block_on(run(plan)).unwrap();
    eprintln!("{}", describe(plan, &outcome));
    outcome
}

#[test]
fn no_crash_pause_cut_or_failover_breaks_a_promise() {
    // The silent one takes too long for a smoke test.
    let events = Event::of_replicas().into_iter().filter(|event| *event != Event::SilentFailover).collect();
    let (store, events) = own_or_given(events);
    let outcome = hurt(&plan(store, events, 25));
    assert!(outcome.is_good() && outcome.report.acknowledged > 50 && outcome.jobs.acknowledged > 20, "{outcome:?}");
}

#[test]
fn no_crash_or_full_disk_breaks_a_promise_of_the_embedded_store() {
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    if !is_root {
        eprintln!("left out: a disk that can be filled needs root");
        return;
    }
    let outcome = hurt(&plan(Store::Embedded, Event::of_embedded(), 12));
    assert!(outcome.is_good() && outcome.report.acknowledged > 50 && outcome.jobs.acknowledged > 10, "{outcome:?}");
}

#[test]
fn a_crash_with_an_asynchronous_standby_is_seen_to_lose_messages() {
    if !Cluster::is_possible() {
        eprintln!("left out: PostgreSQL's programs are not installed here, so there is none that may be stopped");
        return;
    }
    let plan = plan(Store::Own(Standby::Async), vec![Event::Failover], 4);
    // A lost message stays lost, however long one waits.
    let outcome = hurt(&Plan { patience: Duration::from_secs(5), logs: Logs::Dropped, ..plan });
    assert!(outcome.report.lost > 0, "the checker does not see what is lost: {outcome:?}");
}
