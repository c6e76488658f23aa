//! An operator cancels, retries and deletes jobs.

use everhook_core::id::JobId;
use everhook_core::job::{JobAction, JobState, OperatorCommand, RunAt};
use everhook_core::lifecycle::EndState;
use everhook_core::scope::Scope;
use everhook_store::job::NewJob;
use everhook_store::lease::{Settled, Settlement};
use everhook_store::query;
use everhook_store::steer::Steer;

use crate::conformance::fixture::{Fixture, HOUR, PLENTY};
use crate::conformance::job_stage::{Ends, ids};

pub(super) async fn what_is_cancelled_ends_now_or_at_the_next_word(fx: &Fixture) {
    let cancel = async |id| fx.steer_job(id, OperatorCommand::Cancel).await;
    let waiting = fx.work().await;
    assert_eq!(cancel(waiting).await, Some(JobAction::Cancel));
    assert_eq!(fx.job_state(waiting).await, JobState::Cancelled);
    assert_eq!(cancel(waiting).await, Some(JobAction::Nothing));
    let session = fx.session().await;
    assert_eq!(fx.lease_jobs(session).await.len(), 0);
    let running = fx.work().await;
    let leased = fx.lease_job(session).await;
    assert_eq!(cancel(running).await, Some(JobAction::RequestCancel));
    let held = fx.read(query::HeldJobs { session }).await;
    assert_eq!(held.iter().map(|task| task.cancel).collect::<Vec<_>>(), [true]);
    assert_eq!(fx.job_state(running).await, JobState::Leased, "its worker is asked, not overruled");
    fx.end_job(&leased.task, session, Ends::Well).await;
    assert_eq!(cancel(running).await, Some(JobAction::Refuse), "it has succeeded");
    assert_eq!(cancel(JobId(fx.id())).await, None);
    let there = fx.read(query::FindJob { scope: Scope::of(fx.there), id: waiting }).await.unwrap();
    assert_eq!(there.state, JobState::Pending, "the other environment's is another job");
}

pub(super) async fn a_dead_job_is_retried_with_fresh_tries(fx: &Fixture) {
    let id = fx.work().await;
    fx.end_jobs(Ends::Dead).await;
    let retry = async |id| fx.steer_job(id, OperatorCommand::Retry).await;
    assert_eq!(retry(id).await, Some(JobAction::Redrive));
    let session = fx.session().await;
    let leased = fx.lease_job(session).await;
    assert_eq!((leased.task.tries, leased.task.crashes, leased.task.epoch), (0, 0, 2));
    assert_eq!(retry(id).await, Some(JobAction::Nothing));
    fx.end_job(&leased.task, session, Ends::Well).await;
    assert_eq!(retry(id).await, Some(JobAction::Refuse));
    assert_eq!(
        fx.read(query::JobAttempts { scope: fx.scope(), id, limit: PLENTY }).await.len(),
        2,
        "its history is one"
    );
    let later = fx.accept(NewJob { run_at: RunAt::In(HOUR), ..fx.job() }).await;
    assert_eq!(retry(later).await, Some(JobAction::RunNow));
    assert_eq!(ids(&fx.lease_jobs(session).await), [later]);
}

pub(super) async fn a_job_that_is_named_twice_is_changed_once(fx: &Fixture) {
    let change = async |ids: [JobId; 3], command| {
        fx.other.steer(fx.scope(), Steer::Jobs { ids: ids.to_vec(), command }).await.unwrap().answer.plans
    };
    let (id, other) = (fx.work().await, fx.accept(NewJob { run_at: RunAt::In(HOUR), ..fx.job() }).await);
    let session = fx.session().await;
    for _ in 0..2 {
        let task = fx.lease_job(session).await.task;
        let end = fx.job_end(&task, session, if task.epoch == 1 { Ends::Again } else { Ends::Dead });
        assert_eq!(fx.settle(&Settlement { tries: task.epoch, ..end }).await, Settled::Done);
    }
    let twice = [id, other, id];
    let [redriven, hastened] = [Some(JobAction::Redrive), Some(JobAction::RunNow)];
    assert_eq!(
        change(twice, OperatorCommand::Retry).await,
        [redriven, hastened, hastened],
        "it waits after the first time"
    );
    let leased = fx.lease_jobs(session).await;
    let task = leased.iter().map(|leased| leased.task).find(|task| task.key.subject == id.0).unwrap();
    assert_eq!((leased.len(), task.tries), (2, 0), "and has its fresh tries");
    let flag = Some(JobAction::RequestCancel);
    assert_eq!(change(twice, OperatorCommand::Cancel).await, [flag; 3]);
    for leased in &leased {
        fx.end_job(&leased.task, session, Ends::Dead).await;
    }
    let [end, nothing] = [Some(JobAction::Cancel), Some(JobAction::Nothing)];
    assert_eq!(change(twice, OperatorCommand::Cancel).await, [end, end, nothing]);
    let attempts = fx.read(query::JobAttempts { scope: fx.scope(), id, limit: PLENTY }).await;
    let cancelled = attempts.iter().filter(|attempt| attempt.end == EndState::Cancelled).count();
    assert_eq!(cancelled, 1, "{attempts:?}");
    let erase = Some(JobAction::Delete);
    assert_eq!(change(twice, OperatorCommand::Delete).await, [erase, erase, None]);
}

pub(super) async fn a_retry_is_not_cancelled_by_what_was_asked_of_the_life_before(fx: &Fixture) {
    let id = fx.work().await;
    let session = fx.session().await;
    let leased = fx.lease_job(session).await;
    fx.steer_job(id, OperatorCommand::Cancel).await;
    // The holder did not get the cancellation, and has used up the last attempt.
    fx.end_job(&leased.task, session, Ends::Dead).await;
    assert_eq!(fx.steer_job(id, OperatorCommand::Retry).await, Some(JobAction::Redrive));
    assert!(!fx.lease_job(session).await.task.cancel);
}

pub(super) async fn a_deleted_job_leaves_nothing_behind(fx: &Fixture) {
    let delete = async |id| fx.steer_job(id, OperatorCommand::Delete).await;
    let (done, session) = (fx.work().await, fx.session().await);
    let leased = fx.lease_job(session).await;
    assert_eq!(delete(done).await, Some(JobAction::Refuse), "someone runs it");
    fx.end_job(&leased.task, session, Ends::Well).await;
    assert_eq!(delete(done).await, Some(JobAction::Delete));
    let waiting = fx.work().await;
    assert_eq!(delete(waiting).await, Some(JobAction::Delete));
    for id in [done, waiting] {
        assert_eq!(fx.read(query::FindJob { scope: fx.scope(), id }).await, None);
        assert_eq!(fx.read(query::JobAttempts { scope: fx.scope(), id, limit: PLENTY }).await, []);
        assert!(fx.read(query::FindJob { scope: Scope::of(fx.there), id }).await.is_some());
    }
    assert_eq!(fx.lease_jobs(session).await.len(), 0);
}
