//! Bulk work advances in slices, each done once by the holder of its job.

use bytes::Bytes;
use everhook_core::background::replay::{AttemptedFilter, Pick, Replay};
use everhook_core::background::selection::BulkSelection;
use everhook_core::background::{BACKGROUND_QUEUE, BackgroundStatus, Effect, Position, Purge};
use everhook_core::delivery::{DeliveryCommand, DeliveryState};
use everhook_core::endpoint::EndpointState;
use everhook_core::filter::expression::Expression;
use everhook_core::id::{EndpointId, EnvironmentId, JobId, SERVER_ENVIRONMENT, SessionId};
use everhook_core::job::{Job, LeaseLost, LeaseProof, OperatorCommand, RunAt};
use everhook_core::lifecycle::NextRow;
use everhook_core::limits::SCAN_ROWS_MAX;
use everhook_core::scope::Scope;
use everhook_core::task::Trigger;
use everhook_core::time::Timestamp;
use everhook_store::background::{Advance, Advanced, BackgroundFilter, BulkWork, owner_key};
use everhook_store::catalog::{Order, Slice};
use everhook_store::job::NewJob;
use everhook_store::lease::{FeedAsk, LeaseAsk, Settled, Settlement};
use everhook_store::query;
use everhook_store::steer::Steer;
use everhook_store::store::Reads;

use crate::conformance::fixture::{Fixture, HOUR, PLENTY, name};

/// A background task, held by a session.
#[derive(Clone, Copy)]
struct Held {
    job: JobId,
    by: LeaseProof,
}

/// Enqueues the job of a background task of an environment.
async fn enqueue(fx: &Fixture, environment: EnvironmentId, kind: &str) -> JobId {
    let job = JobId(fx.id());
    let job = Job {
        concurrency_key: Some(owner_key(environment)),
        tags: vec![name(&fx.application.to_string())],
        ..Job::new(job, name(BACKGROUND_QUEUE), name(kind), Bytes::from_static(b"{}"))
    };
    let new = NewJob { environment: SERVER_ENVIRONMENT, job: job.clone(), run_at: RunAt::Now, key: None };
    fx.store.enqueue([new].into()).await.unwrap();
    job.id
}

async fn held(fx: &Fixture) -> Held {
    let job = enqueue(fx, fx.here, "endpoint.recover").await;
    let session = fx.session().await;
    Held { job, by: lease(fx, session, job).await }
}

async fn lease(fx: &Fixture, session: SessionId, job: JobId) -> LeaseProof {
    let feeds = vec![FeedAsk::queue(SERVER_ENVIRONMENT, name(BACKGROUND_QUEUE), PLENTY)];
    let leased = fx.store.lease(LeaseAsk::new(session, PLENTY, feeds)).await.unwrap().tasks;
    let task = leased.into_iter().map(|leased| leased.task).find(|task| task.key.subject == job.0);
    LeaseProof { session, epoch: task.expect("the job is due").epoch }
}

/// Returns a replay of everything up to now.
async fn replay(fx: &Fixture, endpoint: EndpointId, pick: Pick) -> BulkWork {
    let now = fx.store.now().await.unwrap();
    let (since, until) = (now.minus(HOUR), now.plus(HOUR));
    BulkWork::Replay(Replay { application: fx.application, endpoint, since, until, pick })
}

async fn advance(
    fx: &Fixture,
    held: Held,
    work: &BulkWork,
    from: Position,
    limit: usize,
) -> Result<Option<Advanced>, LeaseLost> {
    let advance = Advance { job: held.job, by: held.by, work: work.clone(), effect: Effect::Apply, from, limit };
    fx.store.advance(fx.scope(), advance).await.unwrap()
}

/// Counts in one slice what the work would change.
async fn count(fx: &Fixture, work: &BulkWork) -> usize {
    let Held { job, by } = held(fx).await;
    let (work, effect, from, limit) = (work.clone(), Effect::Count, Position::default(), PLENTY);
    let advance = Advance { job, by, work, effect, from, limit };
    fx.store.advance(fx.scope(), advance).await.unwrap().unwrap().unwrap().changed
}

/// Advances to the end in slices of `limit`, and returns the number of messages that each slice changed.
async fn finish(fx: &Fixture, held: Held, work: &BulkWork, limit: usize) -> Vec<usize> {
    let (mut changed, mut from) = (Vec::new(), Position::default());
    loop {
        let advanced = advance(fx, held, work, from, limit).await.unwrap().unwrap();
        changed.push(advanced.changed);
        from = advanced.position;
        let record = fx.store.read(query::FindJob { scope: Scope::of(SERVER_ENVIRONMENT), id: held.job }).await;
        assert_eq!(Position::of(record.unwrap().unwrap().progress.as_ref()), from, "the position is stored");
        if advanced.is_last {
            assert_eq!(from.count, changed.iter().sum::<usize>() as u64);
            return changed;
        }
    }
}

/// Ends all due deliveries.
async fn end_all(fx: &Fixture, row: NextRow) -> usize {
    let session = fx.session().await;
    let leased = fx.lease(session).await;
    for leased in &leased {
        fx.end(&leased.task, session, row).await;
    }
    leased.len()
}

pub(super) async fn dead_deliveries_are_recovered_once_in_slices(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send_many(3).await;
    assert_eq!(end_all(fx, NextRow::Dead).await, 3);
    let (held, work) = (held(fx).await, replay(fx, endpoint, Pick::Failed).await);
    assert_eq!(finish(fx, held, &work, 2).await, [2, 1]);
    for message in &sent {
        assert_eq!(fx.state(*message).await, DeliveryState::Pending);
    }
    assert_eq!(fx.redrive(endpoint).await, 0, "a dead delivery is replaced by the new one");
    let leased = fx.lease(fx.session().await).await;
    assert_eq!(leased.len(), 3);
    assert!(leased.iter().all(|leased| leased.task.trigger == Trigger::Scheduled && leased.task.tries == 0));
}

pub(super) async fn a_dry_run_counts_and_changes_nothing(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send_many(3).await;
    assert_eq!(end_all(fx, NextRow::Dead).await, 3);
    assert!(fx.other.drop_payload(fx.here, fx.application, sent[0]).await);
    let recover = replay(fx, endpoint, Pick::Failed).await;
    let until = fx.store.now().await.unwrap().plus(HOUR);
    let purge = BulkWork::Purge(Purge { application: fx.application, until });
    for _ in 0..2 {
        assert_eq!((count(fx, &recover).await, count(fx, &purge).await), (2, 2));
    }
    for message in &sent {
        assert_eq!(fx.state(*message).await, DeliveryState::Dead);
    }
    let before = BulkWork::Purge(Purge { application: fx.application, until: until.minus(2 * HOUR) });
    assert_eq!(count(fx, &before).await, 0, "later messages are not counted");
    let held = held(fx).await;
    assert_eq!(finish(fx, held, &recover, PLENTY).await, [2], "the same work then changes as many");
}

pub(super) async fn what_arrived_or_is_under_way_is_not_recovered(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send_many(4).await;
    end_all(fx, NextRow::Dead).await;
    // One arrives by a resend, one waits for a resend, one has lost its payload. A failed resend leaves two dead ones.
    fx.resend(sent[0], endpoint).await;
    end_all(fx, NextRow::Gone).await;
    fx.resend(sent[3], endpoint).await;
    end_all(fx, NextRow::Dead).await;
    fx.resend(sent[1], endpoint).await;
    assert!(fx.other.drop_payload(fx.here, fx.application, sent[2]).await);
    let (held, work) = (held(fx).await, replay(fx, endpoint, Pick::Failed).await);
    assert_eq!(finish(fx, held, &work, PLENTY).await, [1], "only the last message, and once");
    assert_eq!(fx.state(sent[3]).await, DeliveryState::Pending);
    let BulkWork::Replay(replay) = work else { panic!("{work:?}") };
    let earlier = BulkWork::Replay(Replay { since: Timestamp::default(), until: replay.since, ..replay });
    let held = self::held(fx).await;
    assert_eq!(finish(fx, held, &earlier, PLENTY).await, [0]);
}

pub(super) async fn messages_without_a_delivery_are_replayed_in_slices(fx: &Fixture) {
    let before = fx.send_many(3).await;
    let endpoint = fx.endpoint().await;
    let after = fx.send().await;
    fx.switch(endpoint, EndpointState::Disabled).await;
    let disabled = fx.send().await;
    assert_eq!(fx.states(disabled).await, [], "a disabled endpoint gets no new messages");
    fx.switch(endpoint, EndpointState::Enabled).await;
    let (held, work) = (held(fx).await, replay(fx, endpoint, Pick::Missing).await);
    assert_eq!(finish(fx, held, &work, 2).await, [2, 1, 1]);
    for message in before.iter().chain([&disabled, &after]) {
        assert_eq!(fx.states(*message).await, [(endpoint, DeliveryState::Pending)]);
    }
    assert_eq!(end_all(fx, NextRow::Gone).await, 5, "each is delivered once");
    let held = self::held(fx).await;
    assert_eq!(finish(fx, held, &work, PLENTY).await, [0], "nothing is missing any more");
    let picky = fx.endpoint_with(|endpoint| endpoint.event_types = Some(vec![name("other").into()])).await;
    let held = self::held(fx).await;
    assert_eq!(finish(fx, held, &replay(fx, picky, Pick::Missing).await, PLENTY).await, [0]);
    // An expression needs the payloads.
    for (text, want) in [("has(payload.absent)", 0), ("!has(payload.absent)", 5)] {
        let filter = Some(Expression::compile(text).unwrap());
        let by_payload = fx.endpoint_with(|endpoint| endpoint.filter = filter).await;
        let held = self::held(fx).await;
        assert_eq!(finish(fx, held, &replay(fx, by_payload, Pick::Missing).await, PLENTY).await, [want], "{text}");
    }
}

pub(super) async fn attempted_messages_are_replayed_as_new_deliveries(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send_many(2).await;
    assert_eq!(end_all(fx, NextRow::Gone).await, 2);
    let open = fx.send().await;
    let work = replay(fx, endpoint, Pick::Attempted(AttemptedFilter::default())).await;
    let held = held(fx).await;
    assert_eq!(finish(fx, held, &work, 1).await, [1, 1, 0, 0]);
    assert_eq!(fx.state(open).await, DeliveryState::Pending);
    assert_eq!(end_all(fx, NextRow::Gone).await, 3, "a delivery that is open stays alone");
    assert_eq!(fx.attempts(sent[0]).await.len(), 2);
    let other = AttemptedFilter { tag: Some(name("other")), ..AttemptedFilter::default() };
    let held = self::held(fx).await;
    assert_eq!(finish(fx, held, &replay(fx, endpoint, Pick::Attempted(other)).await, PLENTY).await, [0]);
}

pub(super) async fn a_slice_that_was_done_is_not_done_again(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    fx.send_many(2).await;
    end_all(fx, NextRow::Gone).await;
    let work = replay(fx, endpoint, Pick::Attempted(AttemptedFilter::default())).await;
    let held = held(fx).await;
    let first = advance(fx, held, &work, Position::default(), 1).await.unwrap().unwrap();
    assert_eq!(end_all(fx, NextRow::Gone).await, 1);
    // The reply to the commit was lost, and the delivery has already ended.
    let again = advance(fx, held, &work, Position::default(), 1).await.unwrap().unwrap();
    assert_eq!(again, Advanced { changed: 0, is_last: false, ..first });
    assert_eq!(end_all(fx, NextRow::Gone).await, 0);
}

pub(super) async fn crashes_before_a_slice_no_longer_count(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    fx.send_many(2).await;
    end_all(fx, NextRow::Dead).await;
    let (job, work) = (enqueue(fx, fx.here, "endpoint.recover").await, replay(fx, endpoint, Pick::Failed).await);
    let crashes = async || {
        let record = fx.store.read(query::FindJob { scope: Scope::of(SERVER_ENVIRONMENT), id: job }).await.unwrap();
        record.and_then(|record| record.open).expect("the job is open").task.crashes
    };
    for crashed in 1..3 {
        let session = fx.session().await;
        lease(fx, session, job).await;
        fx.store.close_session(session).await.unwrap();
        let sweeper = fx.session().await;
        let task = fx.reclaim(sweeper, PLENTY).await.into_iter().find(|task| task.key.subject == job.0).unwrap();
        let abandoned = Settlement { crashes: task.crashes + 1, ..Settlement::of(&task, sweeper) };
        assert_eq!(fx.store.settle([abandoned].into()).await.unwrap().answer, [Settled::Done]);
        assert_eq!(crashes().await, crashed);
    }
    let session = fx.session().await;
    let held = Held { job, by: lease(fx, session, job).await };
    assert_eq!(crashes().await, 2, "a lease alone is no progress");
    advance(fx, held, &work, Position::default(), 1).await.unwrap().unwrap();
    assert_eq!(crashes().await, 0);
}

pub(super) async fn only_the_holder_of_the_job_advances_it(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    fx.send_many(1).await;
    end_all(fx, NextRow::Dead).await;
    let (held, work) = (held(fx).await, replay(fx, endpoint, Pick::Failed).await);
    let stale = Held { by: LeaseProof { epoch: held.by.epoch + 1, ..held.by }, ..held };
    assert_eq!(advance(fx, stale, &work, Position::default(), 1).await, Err(LeaseLost::Lost));
    let nobody = Held { job: JobId(fx.id()), ..held };
    assert_eq!(advance(fx, nobody, &work, Position::default(), 1).await, Err(LeaseLost::NotRunning));
    assert_eq!(end_all(fx, NextRow::Gone).await, 0);
    assert_eq!(finish(fx, held, &work, 1).await, [1, 0]);
}

pub(super) async fn a_replay_needs_its_endpoint(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    fx.send_many(1).await;
    end_all(fx, NextRow::Dead).await;
    let (held, work) = (held(fx).await, replay(fx, endpoint, Pick::Failed).await);
    fx.delete(endpoint).await;
    assert_eq!(advance(fx, held, &work, Position::default(), 1).await, Ok(None));
}

pub(super) async fn payloads_of_an_application_are_purged_in_slices(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send_many(3).await;
    end_all(fx, NextRow::Gone).await;
    assert!(fx.other.drop_payload(fx.here, fx.application, sent[0]).await);
    let now = fx.store.now().await.unwrap();
    let purge = |until| BulkWork::Purge(Purge { application: fx.application, until });
    let early = held(fx).await;
    assert_eq!(finish(fx, early, &purge(now.minus(HOUR)), PLENTY).await, [0], "later messages keep theirs");
    let held = held(fx).await;
    assert_eq!(finish(fx, held, &purge(now.plus(HOUR)), 2).await, [1, 1]);
    let bulk = Pick::Attempted(AttemptedFilter::default());
    let held = self::held(fx).await;
    assert_eq!(finish(fx, held, &replay(fx, endpoint, bulk).await, PLENTY).await, [0], "there is nothing to send");
}

/// Returns a command for every delivery of the endpoint up to now.
async fn steer(fx: &Fixture, endpoint: EndpointId, command: DeliveryCommand) -> BulkWork {
    let now = fx.store.now().await.unwrap();
    let selection = BulkSelection {
        application: fx.application,
        endpoint,
        since: now.minus(HOUR),
        until: now.plus(HOUR),
        event_types: Vec::new(),
        channel: None,
        tag: None,
    };
    BulkWork::Steer(selection, command)
}

pub(super) async fn open_deliveries_to_one_endpoint_are_cancelled_in_slices(fx: &Fixture) {
    let (endpoint, other) = (fx.endpoint().await, fx.endpoint().await);
    let sent = fx.send_many(3).await;
    assert_eq!(fx.lease(fx.session().await).await.len(), 6, "all are being sent");
    let waiting = fx.send_many(2).await;
    let cancel = steer(fx, endpoint, DeliveryCommand::Cancel).await;
    assert_eq!(count(fx, &cancel).await, 5);
    // The slice ends between the two tasks of a message.
    let held = held(fx).await;
    assert_eq!(finish(fx, held, &cancel, 1).await.iter().sum::<usize>(), 5);
    for message in &waiting {
        let mut states = fx.states(*message).await;
        states.sort_by_key(|(at, _)| *at);
        let mut want = [(endpoint, DeliveryState::Cancelled), (other, DeliveryState::Pending)];
        want.sort_by_key(|(at, _)| *at);
        assert_eq!(states, want);
    }
    assert!(fx.states(sent[0]).await.contains(&(endpoint, DeliveryState::Sending)), "its attempt goes on");
    assert_eq!(count(fx, &steer(fx, other, DeliveryCommand::Cancel).await).await, 5);
    fx.delete(endpoint).await;
    let held = self::held(fx).await;
    assert_eq!(advance(fx, held, &cancel, Position::default(), 1).await, Ok(None));
}

pub(super) async fn dead_deliveries_are_redriven_once_in_slices(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send_many(4).await;
    assert_eq!(end_all(fx, NextRow::Dead).await, 4);
    let other = fx.endpoint().await;
    let elsewhere = fx.send().await;
    assert_eq!(end_all(fx, NextRow::Dead).await, 2);
    // One waits for a resend, and one has lost its payload.
    fx.resend(sent[0], endpoint).await;
    assert!(fx.other.drop_payload(fx.here, fx.application, sent[1]).await);
    let redrive = steer(fx, endpoint, DeliveryCommand::RetryNow).await;
    assert_eq!(count(fx, &redrive).await, 3);
    let held = held(fx).await;
    assert_eq!(finish(fx, held, &redrive, 2).await, [0, 2, 1]);
    assert_eq!(fx.state(sent[1]).await, DeliveryState::Dead);
    assert!(fx.states(elsewhere).await.contains(&(other, DeliveryState::Dead)));
    let leased = fx.lease(fx.session().await).await;
    assert_eq!(leased.len(), 4, "three redriven and one resent");
    assert!(leased.iter().all(|leased| leased.task.tries == 0));
    assert_eq!(count(fx, &redrive).await, 0);
}

pub(super) async fn background_tasks_are_listed_by_environment_and_filter(fx: &Fixture) {
    let mut ours = Vec::new();
    for kind in ["endpoint.recover", "application.stats", "endpoint.recover"] {
        ours.push(enqueue(fx, fx.here, kind).await);
    }
    enqueue(fx, fx.there, "endpoint.recover").await;
    fx.work().await;
    let list = async |change: fn(&mut BackgroundFilter)| {
        let slice = Slice { after: None, order: Order::Ascending, limit: PLENTY };
        let mut filter = BackgroundFilter { slice, kind: None, tag: None, status: None, scan: SCAN_ROWS_MAX };
        change(&mut filter);
        let found = fx.read(query::BackgroundTasks { scope: fx.scope(), filter }).await;
        (found.rows.iter().map(|record| record.job.id).collect::<Vec<_>>(), found.next)
    };
    assert_eq!(list(|_| {}).await, (ours.clone(), None));
    assert_eq!(list(|filter| filter.slice.order = Order::Descending).await.0, [ours[2], ours[1], ours[0]]);
    assert_eq!(list(|filter| filter.slice.limit = 1).await.0, [ours[0]]);
    assert_eq!(list(|filter| filter.kind = Some(name("endpoint.recover"))).await.0, [ours[0], ours[2]]);
    assert_eq!(list(|filter| filter.tag = Some(name("other"))).await.0, []);
    let searched = list(|filter| (filter.kind, filter.scan) = (Some(name("application.stats")), 1)).await;
    assert_eq!(searched, (Vec::new(), Some(ours[0])), "a search reads a few and tells where to go on");
    let cancel = Steer::Jobs { ids: vec![ours[1]], command: OperatorCommand::Cancel };
    fx.store.steer(Scope::of(SERVER_ENVIRONMENT), cancel).await.unwrap();
    assert_eq!(list(|filter| filter.status = Some(BackgroundStatus::Failed)).await.0, [ours[1]]);
    assert_eq!(list(|filter| filter.status = Some(BackgroundStatus::Running)).await.0, [ours[0], ours[2]]);
    assert_eq!(list(|filter| filter.status = Some(BackgroundStatus::Finished)).await.0, []);
}

pub(super) async fn attempts_are_counted_by_the_time_of_their_messages(fx: &Fixture) {
    fx.endpoint().await;
    fx.endpoint().await;
    let sent = fx.send_many(2).await;
    assert_eq!(end_all(fx, NextRow::Gone).await, 4);
    let now = fx.store.now().await.unwrap();
    let count = async |after, (since, until), limit| {
        let scope = fx.app_scope();
        let count = fx.read(query::CountAttempts { scope, after, since, until, limit }).await;
        (count.attempts, count.next)
    };
    let today = (now.minus(HOUR), now.plus(HOUR));
    assert_eq!(count(None, today, PLENTY).await, (4, None));
    assert_eq!(count(None, today, 1).await, (2, Some(sent[0])));
    assert_eq!(count(Some(sent[0]), today, PLENTY).await, (2, None));
    assert_eq!(count(None, (now.minus(2 * HOUR), now.minus(HOUR)), PLENTY).await.0, 0);
}
