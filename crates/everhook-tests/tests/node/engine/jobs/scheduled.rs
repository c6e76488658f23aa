//! Schedules that engines start, and the schedules of retention.

use std::collections::BTreeSet;
use std::time::Duration;

use everhook_core::id::{JobId, SERVER_ENVIRONMENT, ScheduleId};
use everhook_core::job::{Job, JobState};
use everhook_core::name::Name;
use everhook_core::schedule::{Cadence, Schedule};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_engine::node::Node;
use everhook_store::catalog::{Order, Slice};
use everhook_store::job::JobFilter;
use everhook_store::query;
use everhook_store::schedule::{RunKind, ScheduleRecord, Starts};
use everhook_store::store::{Reads, Resources, Store};

use crate::engine::jobs::stage::{ENVIRONMENT, job, pause, server, store};

/// The time limit for a few runs of a schedule.
const PATIENCE: Duration = Duration::from_secs(30);

/// Creates a schedule that starts a job every second.
async fn tick(store: &dyn Store, engine: &Node) -> ScheduleId {
    let id = ScheduleId(engine.new_id());
    let record = ScheduleRecord::new(
        "tick".parse().unwrap(),
        Schedule::new(id, Cadence::Every { every: Duration::from_secs(1), anchor: Timestamp::default() }),
        Starts::Job(Box::new(Job { ..job(engine) })),
    );
    store.create(Scope::of(ENVIRONMENT), record, None).await.unwrap();
    id
}

#[tokio::test]
async fn jobs_that_schedules_start_are_counted() {
    let store = store();
    let engine = server(&store, 1).await;
    let id = tick(&*store, &engine).await;
    let enqueued = || -> usize {
        let page = engine.metrics();
        let line = page.lines().find_map(|line| line.strip_prefix("everhook_jobs_enqueued_total "));
        line.expect("the page has the counter").parse().unwrap()
    };
    let counted = async {
        while enqueued() < 2 {
            pause().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, counted).await.is_ok(), "no run was counted");
    assert!(store.read(query::Runs { scope: Scope::of(ENVIRONMENT), id, limit: 100 }).await.unwrap().len() >= 2);
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn two_nodes_never_fire_a_schedule_twice() {
    let store = store();
    let (first, second) = (server(&store, 1).await, server(&store, 2).await);
    let id = tick(&*store, &first).await;
    let runs = loop {
        let runs = store.read(query::Runs { scope: Scope::of(ENVIRONMENT), id, limit: 100 }).await.unwrap();
        if runs.len() >= 3 {
            break runs;
        }
        pause().await;
    };
    first.drain(Duration::ZERO).await;
    second.drain(Duration::ZERO).await;
    let nominal = runs.iter().map(|run| run.nominal).collect::<BTreeSet<_>>();
    assert_eq!(nominal.len(), runs.len(), "{runs:?}");
    // A machine that is stalled for a second misses times, which are logged as well.
    assert!(runs.iter().all(|run| run.kind == RunKind::Missed || run.object.is_some()), "{runs:?}");
    let slice = Slice { after: None, order: Order::Ascending, limit: 100 };
    let jobs =
        store.read(query::Jobs { scope: Scope::of(ENVIRONMENT), filter: JobFilter::all(slice) }).await.unwrap().rows;
    let runs = store.read(query::Runs { scope: Scope::of(ENVIRONMENT), id, limit: 100 }).await.unwrap();
    assert_eq!(jobs.len(), runs.iter().filter(|run| run.kind == RunKind::Fired).count());
}

#[tokio::test]
async fn a_server_forgets_what_is_old_as_jobs_of_schedules_that_everyone_can_see() {
    let store = store();
    let engine = server(&store, 1).await;
    let name: Name = "everhook.prune-jobs".parse().unwrap();
    let run = loop {
        if let Some(run) = store.run_schedule(Scope::of(SERVER_ENVIRONMENT), name.clone()).await.unwrap().answer {
            break run;
        }
        pause().await;
    };
    loop {
        let found = store
            .read(query::FindJob { scope: Scope::of(SERVER_ENVIRONMENT), id: JobId(run.object.unwrap()) })
            .await
            .unwrap()
            .unwrap();
        if found.state == JobState::Succeeded {
            break;
        }
        assert!(matches!(found.state, JobState::Pending | JobState::Leased), "{found:?}");
        pause().await;
    }
    engine.drain(Duration::ZERO).await;
}
