//! Remote workers: the engine renews their sessions, leases jobs to them and records their reports.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::SessionId;
use everhook_core::job::report::{KeptResult, Note, Report};
use everhook_core::job::{Job, JobState, LeaseLost, LeaseProof, OperatorCommand};
use everhook_core::scope::Scope;
use everhook_engine::node::Node;
use everhook_engine::remote::{Ending, HeldJob, WorkerRefused};
use everhook_sqlite::SqliteStore;
use everhook_store::lease::Leased;
use everhook_store::steer::Steer;
use everhook_store::store::Store;
use everhook_store::worker::{Takes, WorkerRecord};

use crate::engine::fixture::LEASE;
use crate::engine::jobs::stage::{
    ENVIRONMENT, QUEUE, attempts, classes, enqueue, job, server, simulated_store, store, until,
};

const LONG: Duration = Duration::from_secs(600);

async fn open(engine: &Node) -> WorkerRecord {
    let takes = Takes { environment: ENVIRONMENT, queues: vec![QUEUE.parse().unwrap()], kinds: Vec::new() };
    engine.open_worker("python".to_owned(), takes, LONG).await.unwrap()
}

/// Starts a server on a new store, and opens a worker.
async fn with_worker() -> (Arc<SqliteStore>, Arc<Node>, WorkerRecord) {
    let store = store();
    let engine = server(&store, 1).await;
    let worker = open(&engine).await;
    (store, engine, worker)
}

async fn lease(engine: &Node, worker: &WorkerRecord) -> Vec<Leased> {
    engine.lease_for(worker, 10, LONG, None).await.unwrap().unwrap()
}

fn held(leased: &Leased) -> HeldJob {
    HeldJob { id: leased.job().unwrap().id, epoch: leased.task.epoch }
}

fn by(worker: &WorkerRecord, leased: &Leased) -> LeaseProof {
    LeaseProof { session: worker.session.id, epoch: leased.task.epoch }
}

fn ending(report: Report) -> Ending {
    Ending { report, note: Note::new("", ["line"]), result: Some(Bytes::from_static(b"7")) }
}

/// Reports the end of a leased job.
async fn end(engine: &Node, worker: &WorkerRecord, leased: &Leased, report: Report) -> Result<JobState, LeaseLost> {
    let id = leased.job().unwrap().id;
    engine.end_job(ENVIRONMENT, id, by(worker, leased), ending(report)).await.unwrap()
}

#[tokio::test]
async fn a_worker_that_waits_gets_a_job_when_there_is_one_and_ends_it_once() {
    let (store, engine, worker) = with_worker().await;
    let (leased, id) = tokio::join!(lease(&engine, &worker), enqueue(&engine, job(&engine)));
    assert_eq!(leased.iter().map(|leased| leased.job().unwrap().id).collect::<Vec<_>>(), [id]);
    let by = by(&worker, &leased[0]);
    let end = |by, report| engine.end_job(ENVIRONMENT, id, by, ending(report));
    let late = LeaseProof { epoch: by.epoch - 1, ..by };
    assert_eq!(end(late, Report::Completed).await.unwrap(), Err(LeaseLost::Lost));
    assert_eq!(end(by, Report::Completed).await.unwrap(), Ok(JobState::Succeeded));
    assert_eq!(end(by, Report::Completed).await.unwrap(), Ok(JobState::Succeeded), "its answer may have been lost");
    assert_eq!(end(late, Report::Completed).await.unwrap(), Err(LeaseLost::NotRunning));
    let found = until(&store, id, JobState::Succeeded).await;
    assert_eq!(found.result, Some(KeptResult::Whole(Bytes::from_static(b"7"))));
    let attempts = attempts(&store, id).await;
    assert_eq!((attempts.len(), attempts[0].session), (1, worker.session.id));
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_worker_may_fail_and_snooze_a_job() {
    let (store, engine, worker) = with_worker().await;
    let id = enqueue(&engine, job(&engine)).await;
    for report in [Report::Snoozed { wait: Duration::ZERO }, Report::Failed { retry_after: None }, Report::Completed] {
        let leased = lease(&engine, &worker).await;
        end(&engine, &worker, &leased[0], report).await.unwrap();
    }
    assert_eq!(classes(&store, id).await, ["snoozed", "failed", "success"]);
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_heartbeat_tells_what_was_lost_and_what_is_cancelled() {
    let (store, engine, worker) = with_worker().await;
    let (mine, theirs) = (enqueue(&engine, job(&engine)).await, enqueue(&engine, job(&engine)).await);
    let mut leased = lease(&engine, &worker).await;
    while leased.len() < 2 {
        leased.extend(lease(&engine, &worker).await);
    }
    let (mut mine_held, mut theirs_held) = (held(&leased[0]), held(&leased[1]));
    if mine_held.id != mine {
        std::mem::swap(&mut mine_held, &mut theirs_held);
    }
    store
        .steer(Scope::of(ENVIRONMENT), Steer::Jobs { ids: vec![mine], command: OperatorCommand::Cancel })
        .await
        .unwrap();
    let held = [mine_held, HeldJob { epoch: theirs_held.epoch + 1, ..theirs_held }];
    let heartbeat = engine.heartbeat(worker.session.id, Some(&held)).await.unwrap().unwrap();
    assert_eq!((heartbeat.lost, heartbeat.cancelled), (vec![theirs], vec![mine]));
    let by = LeaseProof { session: worker.session.id, epoch: mine_held.epoch };
    let end = engine.end_job(ENVIRONMENT, mine, by, ending(Report::Failed { retry_after: None })).await.unwrap();
    assert_eq!(end, Ok(JobState::Cancelled));
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_worker_whose_session_was_closed_is_told_and_what_it_says_does_not_count() {
    let (store, engine, worker) = with_worker().await;
    let other = open(&engine).await;
    let id = enqueue(&engine, job(&engine)).await;
    let leased = lease(&engine, &worker).await;
    store.close_session(worker.session.id).await.unwrap();
    assert_eq!(engine.heartbeat(worker.session.id, None).await.unwrap(), Err(WorkerRefused::Closed));
    let asked = engine.lease_for(&worker, 1, LONG, None).await.unwrap();
    assert_eq!(asked.map(|jobs| jobs.len()), Err(WorkerRefused::Closed));
    let again = lease(&engine, &other).await;
    let late = end(&engine, &worker, &leased[0], Report::Completed).await;
    assert_eq!(late, Err(LeaseLost::Lost));
    assert_eq!(end(&engine, &other, &again[0], Report::Completed).await, Ok(JobState::Succeeded));
    assert_eq!(classes(&store, id).await, ["abandoned", "success"]);
    let sessions = attempts(&store, id).await.into_iter().map(|attempt| attempt.session).collect::<Vec<_>>();
    assert_eq!(
        sessions,
        [worker.session.id, other.session.id],
        "it died with the first, not with the node that found out"
    );
    engine.drain(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_found_no_server_for_longer_than_its_lease_has_one_lease_to_come_back() {
    let store = simulated_store();
    let engine = server(&store, 1).await;
    let (worker, silent) = (open(&engine).await, open(&engine).await);
    let long = Job { timeout: 10 * LONG, ..job(&engine) };
    let (id, other) =
        (enqueue(&engine, long.clone()).await, enqueue(&engine, Job { id: job(&engine).id, ..long }).await);
    let mut leased = lease(&engine, &worker).await;
    assert_eq!(leased.len(), 2);
    engine.drain(Duration::ZERO).await;
    tokio::time::sleep(2 * LONG).await;

    let engine = server(&store, 2).await;
    tokio::time::sleep(LONG - LEASE).await;
    let held: Vec<_> = leased.iter().map(held).collect();
    let heartbeat = engine.heartbeat(worker.session.id, Some(&held)).await.unwrap().unwrap();
    assert_eq!(heartbeat.lost, []);
    for leased in leased.drain(..) {
        assert_eq!(end(&engine, &worker, &leased, Report::Completed).await, Ok(JobState::Succeeded));
    }
    assert_eq!([classes(&store, id).await, classes(&store, other).await], [["success"], ["success"]]);
    let attempt = attempts(&store, id).await.remove(0);
    assert!(attempt.duration >= 3 * LONG - LEASE, "since the other node leased it: {:?}", attempt.duration);
    // A crashed worker is noticed shortly after its lease.
    tokio::time::sleep(2 * LEASE).await;
    assert_eq!(engine.heartbeat(silent.session.id, None).await.unwrap(), Err(WorkerRefused::Closed));
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn one_lease_call_of_a_worker_at_a_time_and_an_answer_that_was_lost_costs_nothing() {
    let (_store, engine, worker) = with_worker().await;
    {
        let first = lease(&engine, &worker);
        let second = engine.lease_for(&worker, 1, LONG, None);
        tokio::select! {
            biased;
            _ = first => panic!("there is nothing to lease"),
            second = second => assert!(matches!(second.unwrap(), Err(WorkerRefused::Busy))),
        }
    }
    let id = enqueue(&engine, job(&engine)).await;
    let lost = lease(&engine, &worker).await;
    let again = engine.lease_for(&worker, 1, LONG, Some(&[])).await.unwrap().unwrap();
    assert_eq!(held(&again[0]).id, id);
    assert!(again[0].task.epoch > lost[0].task.epoch);
    assert_eq!((again[0].task.tries, again[0].task.crashes), (0, 0));
    let kept = engine.lease_for(&worker, 1, Duration::ZERO, Some(&[held(&again[0])])).await.unwrap().unwrap();
    assert!(kept.is_empty(), "what it knows of stays its own");
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_job_whose_time_is_over_is_taken_from_a_worker_that_lives() {
    let (store, engine, worker) = with_worker().await;
    let id = enqueue(&engine, Job { timeout: Duration::from_millis(1), ..job(&engine) }).await;
    let leased = lease(&engine, &worker).await;
    while classes(&store, id).await.is_empty() {
        crate::engine::jobs::stage::pause().await;
    }
    assert_eq!(classes(&store, id).await, ["timeout"]);
    let late = end(&engine, &worker, &leased[0], Report::Completed).await;
    assert!(late.is_err(), "{late:?}");
    engine.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_worker_that_nobody_knows_gets_nothing() {
    let store = store();
    let engine = server(&store, 1).await;
    let unknown = engine.heartbeat(SessionId(everhook_core::id::Id::MAX), None).await.unwrap();
    assert_eq!(unknown, Err(WorkerRefused::Closed));
    engine.drain(Duration::ZERO).await;
}
