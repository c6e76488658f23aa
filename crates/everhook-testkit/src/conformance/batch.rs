//! A batch announces its outcome once per phase, whichever job decides it.

use everhook_core::batch::{BadSelection, Intake, Resolution};
use everhook_core::id::{BatchId, JobId};
use everhook_core::job::{JobAction, JobState, OperatorCommand};
use everhook_core::name::Metadata;
use everhook_core::scope::Scope;
use everhook_store::batch::{BatchRecord, NewBatch, Resolve, Resolved};
use everhook_store::catalog::{Created, Order, Slice};
use everhook_store::job::{Enqueued, NewJob};
use everhook_store::lease::Settled;
use everhook_store::made::Made;
use everhook_store::query;
use everhook_store::steer::Steer;

use crate::conformance::fixture::{Fixture, PLENTY, name, request_key};
use crate::conformance::job_stage::Ends;

fn new_batch(fx: &Fixture) -> BatchRecord {
    let batch = BatchRecord::new(BatchId(fx.id()), fx.application, "nightly".to_owned(), name("pipeline"));
    BatchRecord { metadata: Metadata::from([("run".to_owned(), "7".to_owned())]), ..batch }
}

async fn open(fx: &Fixture) -> BatchId {
    fx.endpoint().await;
    let batch = new_batch(fx);
    for environment in [fx.there, fx.here] {
        let created =
            fx.other.create_batch(Scope::of(environment), NewBatch { batch: batch.clone(), key: None }).await.unwrap();
        assert!(matches!(created, Created::New(_)), "{created:?}");
    }
    batch.id
}

async fn add(fx: &Fixture, batch: BatchId) -> JobId {
    let mut new = fx.job();
    new.job.batch = Some(batch);
    fx.accept(new).await
}

async fn seal(fx: &Fixture, batch: BatchId) {
    let sealed = fx.other.seal_batch(fx.scope(), batch).await.unwrap().answer.expect("it is there");
    assert_eq!(sealed.batch.intake, Intake::Sealed);
}

/// Returns the announcements since the last call, as event types and payloads.
async fn announced(fx: &Fixture) -> Vec<(String, serde_json::Value)> {
    let session = fx.session().await;
    let mut announced = Vec::new();
    for leased in fx.lease(session).await {
        let message = leased.message().cloned().expect("it was just appended");
        let payload = serde_json::from_slice(message.payload.as_deref().unwrap()).unwrap();
        announced.push((message.event_type.to_string(), payload));
        fx.end(&leased.task, session, everhook_core::lifecycle::NextRow::Gone).await;
    }
    announced
}

async fn types(fx: &Fixture) -> Vec<String> {
    announced(fx).await.into_iter().map(|(event_type, _)| event_type).collect()
}

async fn resolve(fx: &Fixture, batch: BatchId, jobs: &[JobId], how: Resolution) -> Resolved {
    fx.other.resolve_batch(fx.scope(), Resolve { batch, jobs: jobs.to_vec(), how }).await.unwrap().answer
}

pub(super) async fn a_batch_completes_when_all_its_jobs_have_succeeded(fx: &Fixture) {
    let batch = open(fx).await;
    add(fx, batch).await;
    add(fx, batch).await;
    fx.end_jobs(Ends::Well).await;
    assert_eq!(types(fx).await, [""; 0], "more may come");
    add(fx, batch).await;
    seal(fx, batch).await;
    assert_eq!(types(fx).await, [""; 0], "one is open");
    fx.end_jobs(Ends::Well).await;
    let said = announced(fx).await;
    let [(event_type, payload)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(event_type, "pipeline.completed");
    assert_eq!(payload["batchId"], batch.to_string());
    assert_eq!((&payload["name"], &payload["phase"]), (&"nightly".into(), &1.into()));
    assert_eq!((&payload["counts"]["succeeded"], &payload["metadata"]["run"]), (&3.into(), &"7".into()));
    seal(fx, batch).await;
    assert_eq!(types(fx).await, [""; 0], "said once");
}

pub(super) async fn the_first_death_is_announced_at_once_and_with_its_job(fx: &Fixture) {
    let batch = open(fx).await;
    let mut new = fx.job();
    new.job.batch = Some(batch);
    new.job.name = Some("extract".to_owned());
    new.job.metadata = Metadata::from([("table".to_owned(), "t".to_owned())]);
    let first = fx.accept(new).await;
    fx.end_jobs(Ends::Dead).await;
    let said = announced(fx).await;
    let [(event_type, payload)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(event_type, "pipeline.failed");
    let failed = &payload["failed"][0];
    assert_eq!((&failed["id"], &failed["name"]), (&first.to_string().into(), &"extract".into()));
    assert_eq!((&failed["kind"], &failed["error"]), (&"k".into(), &"No Paper".into()));
    assert_eq!(failed["metadata"]["table"], "t");
    add(fx, batch).await;
    fx.end_jobs(Ends::Dead).await;
    seal(fx, batch).await;
    assert_eq!(types(fx).await, [""; 0], "one announcement per phase");
}

pub(super) async fn an_empty_batch_completes_when_it_is_sealed(fx: &Fixture) {
    let batch = open(fx).await;
    seal(fx, batch).await;
    assert_eq!(types(fx).await, ["pipeline.completed"]);
    let mut new = fx.job();
    new.job.batch = Some(batch);
    assert_eq!(fx.enqueue(&new).await, Enqueued::BatchSealed);
    new.job.batch = Some(BatchId(fx.id()));
    assert_eq!(fx.store.enqueue([new.clone()].into()).await.unwrap(), [Enqueued::NoBatch]);
    assert_eq!(fx.read(query::FindJob { scope: fx.scope(), id: new.job.id }).await, None);
}

pub(super) async fn a_job_that_is_refused_by_its_batch_keeps_no_key(fx: &Fixture) {
    let keyed = NewJob { key: Some(request_key("a", "body")), ..fx.job() };
    let mut refused = keyed.clone();
    refused.job.batch = Some(BatchId(fx.id()));
    assert_eq!(fx.store.enqueue([refused].into()).await.unwrap(), [Enqueued::NoBatch]);
    let answer = fx.store.enqueue([keyed].into()).await.unwrap();
    assert!(matches!(answer[..], [Enqueued::Accepted { .. }]), "{answer:?}");
}

pub(super) async fn a_retry_opens_a_phase_that_is_announced_again(fx: &Fixture) {
    let batch = open(fx).await;
    let job = add(fx, batch).await;
    add(fx, batch).await;
    seal(fx, batch).await;
    let session = fx.session().await;
    let jobs = fx.lease_jobs(session).await;
    fx.end_job(&jobs[0].task, session, Ends::Dead).await;
    fx.end_job(&jobs[1].task, session, Ends::Well).await;
    assert_eq!(types(fx).await, ["pipeline.failed"]);
    for phase in 2..4 {
        let Resolved::Done(record) = resolve(fx, batch, &[job], Resolution::Retried).await else { panic!() };
        assert_eq!((record.batch.phase, record.batch.counts.pending), (phase, 1));
        assert_eq!(types(fx).await, [""; 0]);
        assert_eq!(fx.end_jobs(Ends::Dead).await, 1);
        assert_eq!(types(fx).await, ["pipeline.failed"], "in phase {phase}");
    }
    // A retry of the job itself has the same effect.
    assert_eq!(fx.steer_job(job, OperatorCommand::Retry).await, Some(JobAction::Redrive));
    assert_eq!(fx.end_jobs(Ends::Well).await, 1);
    assert_eq!(types(fx).await, ["pipeline.completed"]);
}

pub(super) async fn a_batch_goes_on_without_what_is_skipped_cancelled_or_deleted(fx: &Fixture) {
    let batch = open(fx).await;
    let (skipped, cancelled, deleted, waiting) =
        (add(fx, batch).await, add(fx, batch).await, add(fx, batch).await, add(fx, batch).await);
    seal(fx, batch).await;
    let session = fx.session().await;
    for leased in fx.lease_jobs(session).await {
        let ends = if leased.task.key.subject == waiting.0 { Ends::Again } else { Ends::Dead };
        fx.end_job(&leased.task, session, ends).await;
    }
    assert_eq!(types(fx).await, ["pipeline.failed"]);
    assert!(matches!(resolve(fx, batch, &[skipped], Resolution::Skipped).await, Resolved::Done(_)));
    assert_eq!(fx.job_state(skipped).await, JobState::Cancelled);
    for (job, command) in [(cancelled, OperatorCommand::Cancel), (deleted, OperatorCommand::Delete)] {
        assert!(
            fx.other.steer(fx.scope(), Steer::Jobs { ids: vec![job], command }).await.unwrap().answer.plans[0]
                .is_some()
        );
    }
    assert_eq!(types(fx).await, [""; 0], "one is open");
    fx.steer_job(waiting, OperatorCommand::Cancel).await;
    let said = announced(fx).await;
    let [(event_type, payload)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(event_type, "pipeline.completed");
    assert_eq!((&payload["counts"]["skipped"], &payload["counts"]["cancelled"]), (&1.into(), &3.into()));
}

pub(super) async fn a_bad_selection_changes_nothing(fx: &Fixture) {
    let batch = open(fx).await;
    let (dead, waiting) = (add(fx, batch).await, fx.work().await);
    let session = fx.session().await;
    for leased in fx.lease_jobs(session).await {
        let ends = if leased.task.key.subject == dead.0 { Ends::Dead } else { Ends::Again };
        fx.end_job(&leased.task, session, ends).await;
    }
    let pending = add(fx, batch).await;
    for (jobs, want) in [
        (vec![], BadSelection::Empty),
        (vec![dead, waiting], BadSelection::Foreign(waiting)),
        (vec![dead, pending], BadSelection::NotDead(pending)),
    ] {
        assert_eq!(resolve(fx, batch, &jobs, Resolution::Retried).await, Resolved::Bad(want));
    }
    assert_eq!(resolve(fx, BatchId(fx.id()), &[dead], Resolution::Skipped).await, Resolved::NoBatch);
    let record = fx.read(query::FindBatch { scope: fx.scope(), id: batch }).await.unwrap();
    assert_eq!((record.batch.phase, record.batch.counts.dead, record.batch.counts.pending), (1, 1, 1));
    assert_eq!(fx.job_state(dead).await, JobState::Dead);
}

pub(super) async fn a_repeated_end_is_counted_once(fx: &Fixture) {
    let batch = open(fx).await;
    // The end of the first job could be counted again in place of the second one.
    let jobs = [add(fx, batch).await, add(fx, batch).await];
    seal(fx, batch).await;
    let session = fx.session().await;
    let leased = fx.lease_jobs(session).await.into_iter().find(|leased| leased.task.key.subject == jobs[0].0).unwrap();
    assert_eq!(leased.task.batch, Some(batch));
    let end = fx.job_end(&leased.task, session, Ends::Dead);
    for _ in 0..2 {
        assert_eq!(fx.settle(&end).await, Settled::Done);
    }
    let other = fx.session().await;
    assert_eq!(fx.settle(&fx.job_end(&leased.task, other, Ends::Dead)).await, Settled::Lost);
    let record = fx.read(query::FindBatch { scope: fx.scope(), id: batch }).await.unwrap();
    assert_eq!((record.batch.counts.dead, record.batch.counts.pending), (1, 1));
    assert_eq!(types(fx).await, ["pipeline.failed"]);
}

pub(super) async fn announcements_are_counted_whatever_causes_them(fx: &Fixture) {
    const NONE: Made = Made { messages: 0, jobs: 0 };
    const ONE: Made = Made { messages: 1, jobs: 0 };
    let batch = open(fx).await;
    let (first, second, third) = (add(fx, batch).await, add(fx, batch).await, add(fx, batch).await);
    let session = fx.session().await;
    let jobs = fx.lease_jobs(session).await;
    let end = async |id: JobId, ends| {
        let leased = jobs.iter().find(|leased| leased.task.key.subject == id.0).expect("it was leased");
        let end = fx.job_end(&leased.task, session, ends);
        let made = fx.store.settle([end.clone()].into()).await.unwrap().made;
        assert_eq!(fx.store.settle([end].into()).await.unwrap().made, NONE, "a repeated end makes nothing");
        made
    };
    assert_eq!(end(first, Ends::Dead).await, ONE, "the first failure of the phase");
    assert_eq!(end(second, Ends::Dead).await, NONE, "the phase is announced already");
    assert_eq!(end(third, Ends::Well).await, NONE);
    assert_eq!(fx.other.seal_batch(fx.scope(), batch).await.unwrap().made, NONE);
    let steer =
        async |job, command| fx.other.steer(fx.scope(), Steer::Jobs { ids: vec![job], command }).await.unwrap().made;
    assert_eq!(steer(first, OperatorCommand::Delete).await, NONE, "one is dead still");
    let skipped = fx
        .other
        .resolve_batch(fx.scope(), Resolve { batch, jobs: vec![second], how: Resolution::Skipped })
        .await
        .unwrap();
    assert_eq!(skipped.made, ONE);
    let other = open(fx).await;
    let only = add(fx, other).await;
    seal(fx, other).await;
    assert_eq!(steer(only, OperatorCommand::Cancel).await, ONE);
    let empty = open(fx).await;
    assert_eq!(fx.other.seal_batch(fx.scope(), empty).await.unwrap().made, ONE);
    assert_eq!(fx.other.seal_batch(fx.scope(), empty).await.unwrap().made, NONE);
}

pub(super) async fn a_job_that_a_sweep_ends_is_announced(fx: &Fixture) {
    let batch = open(fx).await;
    add(fx, batch).await;
    let (dying, sweeper) = (fx.session().await, fx.session().await);
    fx.lease_job(dying).await;
    fx.store.close_session(dying).await.unwrap();
    let taken = fx.reclaim(sweeper, PLENTY).await;
    assert_eq!(taken.iter().map(|task| task.batch).collect::<Vec<_>>(), [Some(batch)]);
    fx.end_job(&taken[0], sweeper, Ends::Dead).await;
    assert_eq!(types(fx).await, ["pipeline.failed"]);
}

pub(super) async fn the_ends_of_many_jobs_in_one_transaction_are_one_announcement(fx: &Fixture) {
    let (one, two) = (open(fx).await, open(fx).await);
    for _ in 0..5 {
        add(fx, one).await;
        add(fx, two).await;
    }
    seal(fx, one).await;
    seal(fx, two).await;
    let session = fx.session().await;
    let ends = |leased: &everhook_store::lease::Leased| {
        let ends = if leased.task.batch == Some(one) { Ends::Dead } else { Ends::Well };
        fx.job_end(&leased.task, session, ends)
    };
    let ends: Vec<_> = fx.lease_jobs(session).await.iter().map(ends).collect();
    assert_eq!(ends.len(), 10);
    assert!(fx.settle_all(&ends).await.iter().all(|settled| *settled == Settled::Done));
    let mut said = announced(fx).await;
    said.sort_by(|a, b| a.0.cmp(&b.0));
    // Both batches have their own endpoint, and every announcement goes to both.
    let types: Vec<_> = said.iter().map(|(event_type, _)| event_type.as_str()).collect();
    assert_eq!(types, ["pipeline.completed", "pipeline.completed", "pipeline.failed", "pipeline.failed"]);
    assert_eq!(said[2].1["failed"].as_array().map(Vec::len), Some(5));
}

pub(super) async fn a_batch_whose_application_is_gone_goes_on_silently(fx: &Fixture) {
    let application = everhook_core::id::ApplicationId(fx.id());
    fx.other.stage_application(fx.here, &crate::conformance::fixture::new_application(application)).await;
    let batch = BatchRecord { application, ..new_batch(fx) };
    assert!(matches!(
        fx.other.create_batch(fx.scope(), NewBatch { batch: batch.clone(), key: None }).await.unwrap(),
        Created::New(_)
    ));
    let job = add(fx, batch.id).await;
    assert!(fx.other.drop_application(fx.here, application).await);
    assert_eq!(fx.end_jobs(Ends::Dead).await, 1);
    assert_eq!(fx.job_state(job).await, JobState::Dead);
    let record = fx.read(query::FindBatch { scope: fx.scope(), id: batch.id }).await.unwrap();
    assert_eq!(record.batch.counts.dead, 1);
    let gone = fx
        .other
        .create_batch(fx.scope(), NewBatch { batch: BatchRecord { application, ..new_batch(fx) }, key: None })
        .await
        .unwrap();
    assert_eq!(gone, Created::NoParent);
}

pub(super) async fn a_batch_is_created_once_per_request_and_found_again(fx: &Fixture) {
    let (batch, key) = (new_batch(fx), request_key("a", "body"));
    let created =
        fx.other.create_batch(fx.scope(), NewBatch { batch: batch.clone(), key: Some(key.clone()) }).await.unwrap();
    let Created::New(created) = created else { panic!("{created:?}") };
    let again =
        fx.other.create_batch(fx.scope(), NewBatch { batch: new_batch(fx), key: Some(key.clone()) }).await.unwrap();
    assert_eq!(again, Created::Repeated(created.clone()));
    let reused = fx
        .other
        .create_batch(fx.scope(), NewBatch { batch: batch.clone(), key: Some(request_key("a", "other")) })
        .await
        .unwrap();
    assert_eq!(reused, Created::KeyReused);
    assert_eq!(fx.read(query::FindBatch { scope: fx.scope(), id: batch.id }).await, Some(created.clone()));
    assert_eq!(fx.read(query::FindBatch { scope: Scope::of(fx.there), id: batch.id }).await, None);
    let slice = |after| Slice { after, order: Order::Descending, limit: PLENTY };
    assert_eq!(fx.read(query::Batches { scope: fx.scope(), slice: slice(None) }).await, [created]);
    assert_eq!(fx.read(query::Batches { scope: fx.scope(), slice: slice(Some(batch.id)) }).await, []);
    assert_eq!(fx.other.seal_batch(fx.scope(), BatchId(fx.id())).await.unwrap().answer, None);
}
