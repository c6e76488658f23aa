//! A job is accepted once, leased in order within the limits of its queue, and shown with its current state.

use std::time::Duration;

use everhook_core::exchange::StoredExchange;
use everhook_core::id::JobId;
use everhook_core::job::report::{KeptResult, Progress};
use everhook_core::job::{
    JobAction, JobState, LeaseLost, LeaseProof, OperatorCommand, Priority, RunAt, Unique, kind_hash,
};
use everhook_core::lifecycle::EndState;
use everhook_core::limits::LEASE_LANES_MAX;
use everhook_core::name::Metadata;
use everhook_core::outcome::Class;
use everhook_core::retry::{Backoff, RetryPolicy};
use everhook_core::scope::Scope;
use everhook_core::task::{TaskKind, TaskState};
use everhook_store::catalog::{Order, Slice};
use everhook_store::job::{Enqueued, JobFilter, NewJob, ProgressReport};
use everhook_store::lease::{LeaseAsk, Reclaim, ReclaimAsk, Reclaimed, Settled, Settlement};
use everhook_store::query;

use crate::conformance::fixture::{Fixture, HOUR, PLENTY, exchange, name, request_key};
use crate::conformance::job_stage::{Ends, ids, kinds};

pub(super) async fn a_job_is_leased_as_it_was_enqueued(fx: &Fixture) {
    let mut new = fx.job();
    let backoff = Backoff::List(vec![Duration::from_secs(1), Duration::from_secs(60)]);
    new.job.name = Some("Söhne".to_owned());
    new.job.priority = Priority::new(0).unwrap();
    new.job.retry = RetryPolicy::with(backoff, 3).unwrap();
    new.job.timeout = Duration::from_secs(7);
    new.job.unique = Some(Unique { key: "u".to_owned(), window: HOUR });
    new.job.concurrency_key = Some("acme".to_owned());
    new.job.tags = vec![name("a"), name("b.c")];
    new.job.metadata = Metadata::from([("a".to_owned(), "b".to_owned())]);
    let id = fx.accept(new.clone()).await;
    let leased = fx.lease_job(fx.session().await).await;
    assert_eq!(*leased.job().cloned().expect("it was just enqueued"), new.job);
    assert_eq!((leased.task.key.subject, leased.task.kind, leased.task.epoch), (id.0, TaskKind::Job, 1));
    assert_eq!((leased.task.priority, leased.task.tries, leased.task.cancel), (0, 0, false));
    assert_eq!(leased.task.lane, new.job.lane(fx.here));
    let found = fx.found(id).await;
    assert_eq!((found.job, found.state, found.last), (new.job, JobState::Leased, None));
}

pub(super) async fn a_job_that_ended_is_shown_with_its_attempt_and_result(fx: &Fixture) {
    let id = fx.work().await;
    let session = fx.session().await;
    let leased = fx.lease_job(session).await;
    let result = Some(KeptResult::Whole(bytes::Bytes::from_static(b"[1]")));
    let mut end = Settlement { result: result.clone(), ..fx.job_end(&leased.task, session, Ends::Well) };
    end.attempt.as_mut().expect("an attempt").exchange = StoredExchange::of(&exchange());
    assert_eq!(fx.settle(&end).await, Settled::Done);
    assert_eq!(fx.settle(&end).await, Settled::Done, "said again, it counts as before");
    let found = fx.found(id).await;
    assert_eq!((found.state, found.open, found.result), (JobState::Succeeded, None, result));
    let attempts = fx.read(query::JobAttempts { scope: fx.scope(), id, limit: PLENTY }).await;
    let [attempt] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!(found.last.as_ref(), Some(attempt));
    assert_eq!(attempt.exchange, Some(exchange()), "the steps of a push");
    assert_eq!((attempt.session, attempt.epoch, attempt.class), (session, 1, Class::Success));
    assert_eq!((attempt.end, &attempt.note[..]), (EndState::Succeeded, &b"{\"error\":\"No Paper\"}"[..]));
    assert_eq!(
        fx.read(query::FindJob { scope: Scope::of(fx.there), id }).await.map(|job| job.state),
        Some(JobState::Pending)
    );
    assert_eq!(fx.lease_jobs(session).await.len(), 0);
}

pub(super) async fn a_result_that_was_too_large_is_told(fx: &Fixture) {
    let id = fx.work().await;
    let session = fx.session().await;
    let leased = fx.lease_job(session).await;
    let result = Some(KeptResult::TooLarge { bytes: 70_000 });
    fx.settle(&Settlement { result: result.clone(), ..fx.job_end(&leased.task, session, Ends::Well) }).await;
    assert_eq!(fx.found(id).await.result, result);
}

pub(super) async fn a_failed_job_is_tried_again_and_keeps_its_attempts(fx: &Fixture) {
    let id = fx.work().await;
    let session = fx.session().await;
    for tries in 0..3 {
        let leased = fx.lease_job(session).await;
        assert_eq!((leased.task.tries, leased.task.epoch), (tries, tries + 1));
        fx.end_job(&leased.task, session, Ends::Again).await;
        assert_eq!(fx.job_state(id).await, JobState::Pending);
    }
    let leased = fx.lease_job(session).await;
    fx.end_job(&leased.task, session, Ends::Dead).await;
    let found = fx.found(id).await;
    assert_eq!((found.state, found.open.map(|open| open.state)), (JobState::Dead, Some(TaskState::Dead)));
    let epochs: Vec<_> =
        fx.read(query::JobAttempts { scope: fx.scope(), id, limit: 3 }).await.iter().map(|a| a.epoch).collect();
    assert_eq!(epochs, [4, 3, 2], "the latest ones, newest first");
}

pub(super) async fn an_abandoned_attempt_is_logged_for_the_holder_that_died(fx: &Fixture) {
    let id = fx.work().await;
    let (dead, sweeper) = (fx.session().await, fx.session().await);
    let before = fx.store.now().await.unwrap();
    fx.lease_job(dead).await;
    let after = fx.store.now().await.unwrap();
    let holder = fx.read(query::FindJob { scope: fx.scope(), id }).await.unwrap().open.unwrap().holder.unwrap();
    assert_eq!(holder.session, dead);
    assert!(before <= holder.since && holder.since <= after);
    fx.store.close_session(dead).await.unwrap();
    let ask = ReclaimAsk { session: sweeper, limit: PLENTY, what: Reclaim::Orphaned };
    let Reclaimed { task, from, .. } = fx.store.reclaim(ask).await.unwrap().remove(0);
    assert_eq!(from, holder);
    let mut end = fx.job_end(&task, sweeper, Ends::Again);
    end.attempt.as_mut().unwrap().holder = Some(from.session);
    assert_eq!(fx.settle(&end).await, Settled::Done);
    let again = fx.lease_job(sweeper).await.task;
    fx.end_job(&again, sweeper, Ends::Well).await;
    let attempts = fx.read(query::JobAttempts { scope: fx.scope(), id, limit: PLENTY }).await;
    assert_eq!(attempts.iter().map(|attempt| attempt.session).collect::<Vec<_>>(), [sweeper, dead], "newest first");
}

pub(super) async fn a_late_word_of_a_former_holder_changes_nothing(fx: &Fixture) {
    let id = fx.work().await;
    let (slow, other) = (fx.session().await, fx.session().await);
    let leased = fx.lease_job(slow).await;
    fx.store.close_session(slow).await.unwrap();
    let taken = fx.reclaim(other, PLENTY).await;
    assert_eq!((taken.len(), taken[0].kind), (1, TaskKind::Job));
    assert_eq!(fx.settle(&fx.job_end(&leased.task, slow, Ends::Well)).await, Settled::Lost);
    assert_eq!(fx.job_state(id).await, JobState::Leased);
    fx.end_job(&taken[0], other, Ends::Again).await;
    assert_eq!(fx.job_state(id).await, JobState::Pending);
}

pub(super) async fn the_lowest_priority_number_goes_first_and_then_the_oldest(fx: &Fixture) {
    let mut want = Vec::new();
    for priority in [5, 0, 9, 5, 0] {
        let mut new = fx.job();
        new.job.priority = Priority::new(priority).unwrap();
        want.push((priority, fx.accept(new).await));
    }
    want.sort_by_key(|(priority, _)| *priority);
    let want: Vec<_> = want.into_iter().map(|(_, id)| id).collect();
    let session = fx.session().await;
    let mut got = Vec::new();
    for _ in 0..5 {
        let grant = fx.lease_jobs_with(&LeaseAsk { limit: 1, ..fx.job_ask(session) }).await;
        got.extend(ids(&grant.tasks));
    }
    assert_eq!(got, want);
}

pub(super) async fn a_job_for_later_waits_and_keeps_no_other_waiting(fx: &Fixture) {
    let mut urgent = NewJob { run_at: RunAt::In(HOUR), ..fx.job() };
    urgent.job.priority = Priority::new(0).unwrap();
    let later = fx.accept(urgent).await;
    let session = fx.session().await;
    let grant = fx.lease_jobs_with(&fx.job_ask(session)).await;
    assert!(grant.tasks.is_empty() && grant.next_ready.is_some_and(|wait| wait > HOUR / 2), "{grant:?}");
    let now = fx.work().await;
    assert_eq!(ids(&fx.lease_jobs(session).await), [now]);
    let grant = fx.lease_jobs_with(&fx.job_ask(session)).await;
    assert!(grant.next_ready.is_some_and(|wait| wait > HOUR / 2), "it is not forgotten: {grant:?}");
    assert_eq!(fx.steer_job(later, OperatorCommand::RunAt(RunAt::Now)).await, Some(JobAction::Reschedule(RunAt::Now)));
    assert_eq!(ids(&fx.lease_jobs(session).await), [later]);
}

pub(super) async fn concurrency_keys_take_turns(fx: &Fixture) {
    for key in ["a", "a", "a", "a", "b", "b"] {
        let mut new = fx.job();
        new.job.concurrency_key = Some(key.to_owned());
        fx.accept(new).await;
    }
    let session = fx.session().await;
    let mut lanes = Vec::new();
    for _ in 0..3 {
        let mut ask = LeaseAsk { limit: 1, ..fx.job_ask(session) };
        ask.feeds[0].capacity = 1;
        lanes.extend(fx.lease_jobs_with(&ask).await.tasks.iter().map(|leased| leased.task.lane));
    }
    assert_eq!(lanes.len(), 3);
    assert!(lanes[0] != lanes[1] && lanes[0] == lanes[2], "{lanes:?}");
}

pub(super) async fn deliveries_and_jobs_never_meet(fx: &Fixture) {
    fx.endpoint().await;
    let (message, job) = (fx.send().await, fx.work().await);
    let session = fx.session().await;
    let deliveries = fx.lease(session).await;
    assert_eq!(deliveries.iter().map(|leased| leased.task.key.subject).collect::<Vec<_>>(), [message.0]);
    assert_eq!(ids(&fx.lease_jobs(session).await), [job]);
    let held = fx.read(query::HeldJobs { session }).await;
    assert_eq!(held.iter().map(|task| task.key.subject).collect::<Vec<_>>(), [job.0], "deliveries are no jobs");
}

pub(super) async fn only_queues_that_are_asked_for_give(fx: &Fixture) {
    let (a, b) = (fx.accept(fx.job_on("a")).await, fx.accept(fx.job_on("b")).await);
    fx.accept(fx.job_on("c")).await;
    let session = fx.session().await;
    assert_eq!(fx.lease_jobs(session).await.len(), 0);
    let mut got = ids(&fx.lease_jobs_with(&fx.job_ask_of(session, &["a", "b", "nobody"])).await.tasks);
    got.sort();
    assert_eq!(got, [a, b]);
}

pub(super) async fn a_worker_gets_the_kinds_it_takes(fx: &Fixture) {
    for kind in ["x", "y", "x", "z", "y"] {
        let mut new = fx.job();
        new.job.kind = name(kind);
        fx.accept(new).await;
    }
    let session = fx.session().await;
    let grant = fx.lease_jobs_with(&LeaseAsk { kinds: vec![name("y")], ..fx.job_ask(session) }).await;
    assert_eq!(kinds(&grant.tasks), [name("y"), name("y")]);
    let grant = fx.lease_jobs_with(&LeaseAsk { kinds: vec![name("y")], ..fx.job_ask(session) }).await;
    assert!(
        grant.tasks.is_empty() && grant.next_ready != Some(Duration::ZERO),
        "not to be asked for at once: {grant:?}"
    );
    assert_eq!(kinds(&fx.lease_jobs(session).await), [name("x"), name("x"), name("z")]);
}

pub(super) async fn kinds_that_stand_for_the_same_number_are_told_apart(fx: &Fixture) {
    let (mine, other) = (name("kind.31648"), name("kind.36387"));
    assert_eq!(
        kind_hash(&mine),
        kind_hash(&other),
        "found by trying; if kinds are numbered otherwise, look for another two"
    );
    fx.configure("q", |queue| queue.limit = Some(3)).await;
    for kind in [&other, &mine, &other] {
        let mut new = fx.job();
        new.job.kind = kind.clone();
        fx.accept(new).await;
    }
    let session = fx.session().await;
    let ask = LeaseAsk { kinds: vec![mine.clone()], watched: true, ..fx.job_ask(session) };
    assert_eq!(kinds(&fx.lease_jobs_with(&ask).await.tasks), [mine]);
    assert_eq!(fx.lease_jobs_with(&ask).await.tasks.len(), 0);
    assert_eq!(fx.read(query::CountQueue { scope: fx.scope(), name: name("q") }).await.running, 1);
    assert_eq!(kinds(&fx.lease_jobs(session).await), [other.clone(), other], "and they take up no room");
}

pub(super) async fn lanes_with_nothing_for_a_worker_do_not_keep_it_from_the_others(fx: &Fixture) {
    /// Two leases see every lane. More may be needed if several lanes became ready in the same microsecond.
    const LEASES_MAX: usize = 4;
    let foreign = |n: usize| {
        let mut new = fx.job();
        (new.job.kind, new.job.concurrency_key) = (name("x"), Some(n.to_string()));
        new
    };
    // More lanes than one lease considers, all ready before the lane that matters.
    let others: Vec<NewJob> = (0..LEASE_LANES_MAX + 50).map(foreign).collect();
    fx.store.enqueue(others.clone().into()).await.unwrap();
    let wanted = fx.work().await;
    let session = fx.session().await;
    let ask = LeaseAsk { kinds: vec![name("k")], ..fx.job_ask(session) };
    let mut got = Vec::new();
    for _ in 0..LEASES_MAX {
        let grant = fx.lease_jobs_with(&ask).await;
        got.extend(ids(&grant.tasks));
        if !got.is_empty() {
            break;
        }
        assert_eq!(grant.next_ready, Some(Duration::ZERO), "there are lanes that it has not seen");
    }
    assert_eq!(got, [wanted]);
    let mut left = 0;
    for _ in 0..others.len().div_ceil(PLENTY) + LEASES_MAX {
        left += fx.lease_jobs(session).await.len();
    }
    assert_eq!(left, others.len(), "whoever takes every kind finds the others where they were");
}

pub(super) async fn a_queue_that_is_named_twice_is_counted_once(fx: &Fixture) {
    fx.configure("q", |queue| queue.limit = Some(2)).await;
    for key in ["a", "b", "c", "d", "e"] {
        let mut new = fx.job();
        new.job.concurrency_key = Some(key.to_owned());
        fx.accept(new).await;
    }
    let session = fx.session().await;
    let mut ask = fx.job_ask_of(session, &["q", "q", "q"]);
    (ask.feeds[0].capacity, ask.feeds[1].capacity) = (0, 1);
    assert_eq!(fx.lease_jobs_with(&ask).await.tasks.len(), 1, "the first that has room says how much");
    ask.feeds[1].capacity = PLENTY;
    assert_eq!(fx.lease_jobs_with(&ask).await.tasks.len(), 1, "and its limit is one");
}

fn unique(fx: &Fixture, key: &str) -> NewJob {
    let mut new = fx.job();
    new.job.unique = Some(Unique { key: key.to_owned(), window: HOUR });
    new
}

pub(super) async fn a_unique_job_is_accepted_once_per_queue(fx: &Fixture) {
    let first = fx.accept(unique(fx, "u")).await;
    assert_eq!(fx.enqueue(&unique(fx, "u")).await, Enqueued::Existing(first));
    fx.accept(unique(fx, "v")).await;
    let mut elsewhere = unique(fx, "u");
    elsewhere.job.queue = name("elsewhere");
    fx.accept(elsewhere).await;
    assert_eq!(fx.end_jobs(Ends::Well).await, 2);
    assert_eq!(fx.enqueue(&unique(fx, "u")).await, Enqueued::Existing(first), "whatever became of the first");
}

pub(super) async fn a_unique_key_counts_within_its_window_only(fx: &Fixture) {
    let mut short = unique(fx, "u");
    short.job.unique = Some(Unique { key: "u".to_owned(), window: Duration::ZERO });
    fx.accept(short).await;
    fx.accept(unique(fx, "u")).await;
}

pub(super) async fn the_same_request_again_is_the_same_job(fx: &Fixture) {
    let keyed = |key: &str, body: &str| NewJob { key: Some(request_key(key, body)), ..fx.job() };
    let first = fx.accept(keyed("a", "body")).await;
    assert_eq!(fx.enqueue(&keyed("a", "body")).await, Enqueued::Existing(first));
    assert_eq!(fx.enqueue(&keyed("a", "other")).await, Enqueued::KeyReused);
    assert_eq!(fx.lease_jobs(fx.session().await).await.len(), 1);
}

pub(super) async fn a_bulk_is_judged_one_by_one(fx: &Fixture) {
    let jobs = [unique(fx, "u"), fx.job(), unique(fx, "u"), fx.job()];
    let answers = fx.store.enqueue(jobs.clone().into()).await.unwrap();
    let accepted = |answer: &Enqueued| matches!(answer, Enqueued::Accepted { .. });
    assert_eq!(answers.iter().map(accepted).collect::<Vec<_>>(), [true, true, false, true], "{answers:?}");
    assert_eq!(answers[2], Enqueued::Existing(jobs[0].job.id));
    assert_eq!(fx.lease_jobs(fx.session().await).await.len(), 3);
    assert_eq!(fx.store.enqueue([].into()).await.unwrap(), []);
}

pub(super) async fn only_the_holder_reports_progress(fx: &Fixture) {
    let id = fx.work().await;
    let (session, other) = (fx.session().await, fx.session().await);
    let progress = Progress::new(40, "two of five").unwrap();
    let report = async |session, epoch| {
        let (by, progress) = (LeaseProof { session, epoch }, progress.clone());
        fx.store.report_progress(fx.scope(), ProgressReport { job: id, by, progress }).await.unwrap()
    };
    assert_eq!(report(session, 1).await, Err(LeaseLost::NotRunning));
    let leased = fx.lease_job(session).await;
    assert_eq!(report(other, 1).await, Err(LeaseLost::Lost));
    assert_eq!(report(session, 2).await, Err(LeaseLost::Lost));
    assert_eq!(fx.found(id).await.progress, None);
    assert_eq!(report(session, leased.task.epoch).await, Ok(()));
    assert_eq!(fx.found(id).await.progress, Some(progress.clone()));
    let result = Some(KeptResult::Whole(bytes::Bytes::from_static(b"{}")));
    fx.settle(&Settlement { result: result.clone(), ..fx.job_end(&leased.task, session, Ends::Well) }).await;
    let found = fx.found(id).await;
    assert_eq!((found.progress, found.result), (Some(progress.clone()), result), "both are kept");
    assert_eq!(report(session, 1).await, Err(LeaseLost::NotRunning));
}

pub(super) async fn a_watched_job_is_taken_back_when_its_time_is_over(fx: &Fixture) {
    let mut over = fx.job();
    over.job.timeout = Duration::ZERO;
    let id = fx.accept(over.clone()).await;
    let (hung, sweeper) = (fx.session().await, fx.session().await);
    let before = fx.store.now().await.unwrap();
    let leased = fx.lease_jobs_with(&LeaseAsk { watched: true, ..fx.job_ask(hung) }).await.tasks;
    fx.work().await;
    assert_eq!(fx.lease_jobs_with(&LeaseAsk { watched: true, ..fx.job_ask(hung) }).await.tasks.len(), 1);
    let taken = fx.store.reclaim(ReclaimAsk { session: sweeper, limit: PLENTY, what: Reclaim::Overdue }).await.unwrap();
    assert_eq!(taken.iter().map(|taken| taken.from.session).collect::<Vec<_>>(), [hung]);
    let since = taken[0].from.since;
    assert!(before <= since && since <= fx.store.now().await.unwrap());
    let task = taken[0].task;
    assert_eq!((JobId(task.key.subject), task.epoch), (id, 2), "the other one has time");
    assert_eq!(taken[0].job.as_ref().map(|job| job.timeout), Some(Duration::ZERO));
    assert_eq!(fx.settle(&fx.job_end(&leased[0].task, hung, Ends::Well)).await, Settled::Lost);
    fx.end_job(&taken[0].task, sweeper, Ends::Again).await;
    assert_eq!(fx.lease_job(hung).await.task.epoch, 3, "leased again by someone who watches for himself");
    assert!(
        fx.store
            .reclaim(ReclaimAsk { session: sweeper, limit: PLENTY, what: Reclaim::Overdue })
            .await
            .unwrap()
            .is_empty()
    );
}

pub(super) async fn lists_have_what_is_asked_for(fx: &Fixture) {
    let session = fx.session().await;
    let dead = fx.work().await;
    fx.end_jobs(Ends::Dead).await;
    let mut tagged = fx.job();
    tagged.job.tags = vec![name("t")];
    let done = fx.accept(tagged).await;
    fx.end_jobs(Ends::Well).await;
    let running = fx.work().await;
    fx.lease_job(session).await;
    let mut other = fx.job_on("other");
    other.job.kind = name("z");
    let waiting = fx.accept(other).await;
    let gone = fx.work().await;
    fx.steer_job(gone, OperatorCommand::Cancel).await;
    let all = |limit| JobFilter::all(Slice { after: None, order: Order::Ascending, limit });
    let list = async |filter: JobFilter| {
        let records = fx.read(query::Jobs { scope: fx.scope(), filter: filter.clone() }).await.rows;
        assert!(records.iter().all(|record| record.job.payload.is_none()), "lists have no payloads");
        records.iter().map(|record| record.job.id).collect::<Vec<_>>()
    };
    assert_eq!(list(all(PLENTY)).await, [dead, done, running, waiting, gone]);
    assert_eq!(list(all(2)).await, [dead, done]);
    let from = |after| Slice { after: Some(after), order: Order::Descending, limit: PLENTY };
    assert_eq!(list(JobFilter::all(from(running))).await, [done, dead]);
    for (state, want) in [
        (JobState::Dead, dead),
        (JobState::Succeeded, done),
        (JobState::Leased, running),
        (JobState::Pending, waiting),
        (JobState::Cancelled, gone),
    ] {
        assert_eq!(list(JobFilter { state: Some(state), ..all(PLENTY) }).await, [want], "{state:?}");
    }
    assert_eq!(list(JobFilter { queue: Some(name("other")), ..all(PLENTY) }).await, [waiting]);
    assert_eq!(list(JobFilter { kind: Some(name("z")), ..all(PLENTY) }).await, [waiting]);
    assert_eq!(list(JobFilter { tag: Some(name("t")), ..all(PLENTY) }).await, [done]);
    let says = |text: &str| JobFilter { error: Some(text.to_owned()), ..all(PLENTY) };
    assert_eq!(list(says("no paper")).await, [dead, done], "in whatever case");
    assert_eq!(list(JobFilter { state: Some(JobState::Dead), ..says("PAPER") }).await, [dead]);
    assert_eq!(list(says("100%")).await, [], "nothing in it is a pattern");
    assert_eq!(list(says("no_paper")).await, []);
    let created = fx.found(running).await.created_at;
    assert_eq!(list(JobFilter { before: Some(created), ..all(PLENTY) }).await, [dead, done]);
    let later = list(JobFilter { after: Some(created), ..all(PLENTY) }).await;
    assert!(!later.contains(&dead) && later.contains(&running), "the time itself is not too early: {later:?}");
}

pub(super) async fn a_search_of_jobs_looks_at_a_few_and_goes_on(fx: &Fixture) {
    let mut wanted = Vec::new();
    for number in 0..7 {
        let mut job = fx.job();
        job.job.tags = if number % 3 == 0 { vec![name("t")] } else { Vec::new() };
        let id = fx.accept(job).await;
        wanted.extend((number % 3 == 0).then_some(id));
    }
    for order in [Order::Ascending, Order::Descending] {
        let (mut ids, mut pieces, mut after) = (Vec::new(), 0, None);
        loop {
            let slice = Slice { after, order, limit: PLENTY };
            let filter = JobFilter { tag: Some(name("t")), scan: 2, ..JobFilter::all(slice) };
            let piece = fx.read(query::Jobs { scope: fx.scope(), filter: filter.clone() }).await;
            assert!(piece.rows.len() <= 2, "{piece:?}");
            ids.extend(piece.rows.iter().map(|record| record.job.id));
            pieces += 1;
            match piece.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!((&ids, pieces), (&wanted, 4), "{order:?}");
        wanted.reverse();
    }
    for state in [None, Some(JobState::Pending), Some(JobState::Dead), Some(JobState::Succeeded)] {
        let all = JobFilter::all(Slice { after: None, order: Order::Ascending, limit: PLENTY });
        let says = JobFilter { state, error: Some("zzz".to_owned()), scan: 2, ..all };
        let piece = fx.read(query::Jobs { scope: fx.scope(), filter: says.clone() }).await;
        assert_eq!(piece.rows.len(), 0);
        assert_eq!(piece.next.is_some(), state != Some(JobState::Dead), "{state:?}: there are two and more to look at");
    }
}
