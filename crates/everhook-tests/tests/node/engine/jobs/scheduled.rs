//! Schedules that engines fire, and those that look after the store.

use std::collections::BTreeSet;
use std::time::Duration;

use everhook_core::id::{JobId, ScheduleId};
use everhook_core::job::{Job, JobState};
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::schedule::{Cadence, Schedule};
use everhook_core::time::Timestamp;
use everhook_engine::accept::Accept;
use everhook_engine::jobs::maintenance::MAINTENANCE_ENVIRONMENT;
use everhook_store::catalog::{Order, Slice};
use everhook_store::job::{JobFilter, JobStore};
use everhook_store::schedule::{RunKind, ScheduleRecord, ScheduleStore, Starts};

use crate::engine::jobs::stage::{ENVIRONMENT, job, pause, server, store};

#[tokio::test]
async fn two_nodes_never_fire_a_schedule_twice() {
    let store = store();
    let (first, second) = (server(&store, 1).await, server(&store, 2).await);
    let id = ScheduleId(first.new_id());
    let record = ScheduleRecord {
        name: "tick".parse().unwrap(),
        schedule: Schedule::new(id, Cadence::Every { every: Duration::from_secs(1), anchor: Timestamp::default() }),
        starts: Starts::Job(Box::new(Job { ..job(&first) })),
        paused: false,
        state: ScheduleState::paused(),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        revision: 0,
    };
    store.create_schedule(ENVIRONMENT, &record, None).await.unwrap();
    let runs = loop {
        let runs = store.list_runs(ENVIRONMENT, id, 100).await.unwrap();
        if runs.len() >= 3 {
            break runs;
        }
        pause().await;
    };
    first.drain(Duration::ZERO).await;
    second.drain(Duration::ZERO).await;
    let nominal = runs.iter().map(|run| run.nominal).collect::<BTreeSet<_>>();
    assert_eq!(nominal.len(), runs.len(), "{runs:?}");
    assert!(runs.iter().all(|run| run.kind == RunKind::Fired && run.object.is_some()), "{runs:?}");
    let slice = Slice { after: None, order: Order::Ascending, limit: 100 };
    let jobs = store.list_jobs(ENVIRONMENT, &JobFilter::all(slice)).await.unwrap().rows;
    let runs = store.list_runs(ENVIRONMENT, id, 100).await.unwrap();
    assert_eq!(jobs.len(), runs.len());
}

#[tokio::test]
async fn a_server_forgets_what_is_old_as_jobs_of_schedules_that_everyone_can_see() {
    let store = store();
    let engine = server(&store, 1).await;
    let name = "everhook.prune-jobs".parse().unwrap();
    let run = loop {
        if let Some(run) = store.run_schedule(MAINTENANCE_ENVIRONMENT, &name).await.unwrap() {
            break run;
        }
        pause().await;
    };
    loop {
        let found = store.find_job(MAINTENANCE_ENVIRONMENT, JobId(run.object.unwrap())).await.unwrap().unwrap();
        if found.state == JobState::Succeeded {
            break;
        }
        assert!(matches!(found.state, JobState::Pending | JobState::Leased), "{found:?}");
        pause().await;
    }
    engine.drain(Duration::ZERO).await;
}
