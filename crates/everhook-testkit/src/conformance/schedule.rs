//! A schedule starts its job or message once for each of its times, whichever node polls.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{JobId, ScheduleId};
use everhook_core::job::{Job, Unique};
use everhook_core::schedule::{Cadence, Overlap, Schedule};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Order, Replaced, Slice};
use everhook_store::made::Made;
use everhook_store::query;
use everhook_store::resource::ResourceKey;
use everhook_store::schedule::{MessageTemplate, Run, RunKind, ScheduleRecord, Starts};
use everhook_store::store::Resources;

use crate::conformance::fixture::{Fixture, HOUR, PLENTY, name, request_key};
use crate::conformance::job_stage::ids;
use crate::conformance::race::at_once;

const SECOND: Duration = Duration::from_secs(1);

fn every(fx: &Fixture, text: &str, every: Duration) -> ScheduleRecord {
    let id = ScheduleId(fx.id());
    let anchor = Timestamp::from_micros(1_700_000_000_000_000);
    let job = Job::new(JobId(everhook_core::id::Id::MIN), name("q"), name("k"), Bytes::from_static(b"{\"a\": 1.0}"));
    ScheduleRecord::new(name(text), Schedule::new(id, Cadence::Every { every, anchor }), Starts::Job(Box::new(job)))
}

async fn create(fx: &Fixture, record: &ScheduleRecord) -> ScheduleRecord {
    match fx.other.create(fx.scope(), record.clone(), None).await.unwrap() {
        Created::New(record) => record,
        other => panic!("{other:?}"),
    }
}

/// Polls until a run was started.
async fn fire(fx: &Fixture) {
    for _ in 0..1_000 {
        let fired = fx.store.fire_due(PLENTY).await.unwrap();
        if fired.started > 0 {
            return;
        }
        tokio::time::sleep(fired.next_look.expect("there is a schedule").min(SECOND)).await;
    }
    panic!("nothing was started");
}

async fn runs(fx: &Fixture, record: &ScheduleRecord) -> Vec<Run> {
    fx.read(query::Runs { scope: fx.scope(), id: record.schedule.id, limit: PLENTY }).await
}

pub(super) async fn a_schedule_starts_its_job_and_tells(fx: &Fixture) {
    let record = create(fx, &every(fx, "tick", SECOND)).await;
    assert!(record.state.next.is_some() && record.revision > 0, "{record:?}");
    fire(fx).await;
    let runs = runs(fx, &record).await;
    // A test that is stalled for a second misses times. The last of them is logged.
    let is_late = runs.iter().any(|run| run.kind == RunKind::Missed);
    let first = runs.last().map(|run| run.nominal);
    assert!(is_late || first == record.state.next, "the first of its times is not left out: {runs:?}");
    let fired = runs.iter().rfind(|run| run.kind == RunKind::Fired).expect("a run was started");
    let jobs = fx.lease_jobs(fx.session().await).await;
    assert_eq!(jobs[0].task.key.subject, fired.object.expect("a job"));
    let job = jobs[0].job().unwrap();
    assert_eq!((job.payload.as_deref(), job.schedule), (Some(&b"{\"a\": 1.0}"[..]), Some(record.schedule.id)));
    let found = fx.read(query::FindSchedule { scope: fx.scope(), name: record.name.clone() }).await.unwrap();
    assert!(found.state.next > record.state.next);
    assert_eq!(fx.read(query::FindSchedule { scope: Scope::of(fx.there), name: record.name.clone() }).await, None);
}

/// Returns a schedule that sends a message every second.
fn sending(fx: &Fixture, text: &str) -> ScheduleRecord {
    let message = MessageTemplate {
        application: fx.application,
        event_type: name("tick"),
        payload: Bytes::from_static(b"{\"n\": 1e2}"),
        channels: Vec::new(),
        tags: vec![name("t")],
    };
    ScheduleRecord { starts: Starts::Message(Box::new(message)), ..every(fx, text, SECOND) }
}

pub(super) async fn what_schedules_create_is_counted(fx: &Fixture) {
    let jobs = create(fx, &every(fx, "jobs", SECOND)).await;
    let messages = create(fx, &sending(fx, "messages")).await;
    let mut unique = every(fx, "unique", SECOND);
    let Starts::Job(job) = &mut unique.starts else { panic!("{unique:?}") };
    job.unique = Some(Unique { key: "one".to_owned(), window: HOUR });
    let unique = create(fx, &unique).await;
    let run =
        async |record: &ScheduleRecord| fx.other.run_schedule(fx.scope(), record.name.clone()).await.unwrap().made;
    assert_eq!(run(&jobs).await, Made { messages: 0, jobs: 1 });
    assert_eq!(run(&messages).await, Made { messages: 1, jobs: 0 });
    assert_eq!(run(&unique).await, Made { messages: 0, jobs: 1 });
    assert_eq!(run(&unique).await, Made::default(), "the unique job exists already");
    let mut made = Made::default();
    for _ in 0..1_000 {
        let fired = fx.store.fire_due(PLENTY).await.unwrap();
        made += fired.made;
        assert_eq!(fired.messages, vec![fx.here; fired.made.messages], "each with its environment");
        assert_eq!(fired.lateness.is_empty(), fired.started == 0);
        if made.jobs > 0 && made.messages > 0 {
            break;
        }
        tokio::time::sleep(fired.next_look.expect("there are schedules").min(SECOND)).await;
    }
    let fired = async |record: &ScheduleRecord| {
        runs(fx, record).await.iter().filter(|run| run.kind == RunKind::Fired && run.object.is_some()).count()
    };
    assert_eq!(made, Made { messages: fired(&messages).await, jobs: fired(&jobs).await });
}

pub(super) async fn a_schedule_sends_its_message(fx: &Fixture) {
    fx.endpoint().await;
    let record = create(fx, &sending(fx, "tick")).await;
    let run = fx.other.run_schedule(fx.scope(), record.name.clone()).await.unwrap().answer.expect("it is there");
    let leased = fx.lease_one(fx.session().await).await;
    let sent = leased.message().cloned().unwrap();
    assert_eq!((sent.payload.as_deref(), &sent.event_type), (Some(&b"{\"n\": 1e2}"[..]), &name("tick")));
    assert_eq!((run.kind, run.object), (RunKind::Manual, Some(sent.id.0)));
}

pub(super) async fn whoever_looks_a_time_is_started_once(fx: &Fixture) {
    let mut records = Vec::new();
    for n in 0..5 {
        records.push(create(fx, &every(fx, &format!("tick-{n}"), SECOND)).await);
    }
    let nodes = [Arc::clone(&fx.store), Arc::clone(&fx.other)].into_iter().cycle().take(4);
    let look = nodes.map(|store| async move {
        let mut started = 0;
        for _ in 0..200 {
            started += store.fire_due(2).await.unwrap().started;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        started
    });
    let started: usize = at_once(look.collect()).await.into_iter().sum();
    let mut total = 0;
    for record in &records {
        let runs = runs(fx, record).await;
        let nominal: HashSet<_> = runs.iter().map(|run| run.nominal).collect();
        assert_eq!(nominal.len(), runs.len(), "a time was started twice: {runs:?}");
        // A node that is stalled for a second misses times, which are logged as well.
        total += runs.iter().filter(|run| run.kind == RunKind::Fired).count();
    }
    assert!(total >= 5 && total == started, "{total} of {started}");
    assert_eq!(fx.lease_jobs(fx.session().await).await.len(), total);
}

pub(super) async fn a_paused_schedule_starts_nothing_and_goes_on_from_now(fx: &Fixture) {
    let record = create(fx, &every(fx, "tick", SECOND)).await;
    let paused = ScheduleRecord { paused: true, ..record.clone() };
    let Replaced::Done(paused) = fx.other.replace(fx.scope(), paused.clone()).await.unwrap() else { panic!() };
    assert_eq!((paused.state.next, paused.state.look_at), (None, Timestamp::NEVER));
    let fired = fx.store.fire_due(PLENTY).await.unwrap();
    assert_eq!((fired.started, fired.next_look), (0, None));
    assert_eq!(fx.other.replace(fx.scope(), record.clone()).await.unwrap(), Replaced::Stale);
    let resumed = ScheduleRecord { paused: false, ..paused };
    let Replaced::Done(resumed) = fx.other.replace(fx.scope(), resumed.clone()).await.unwrap() else { panic!() };
    assert!(resumed.state.next > record.state.next.min(resumed.state.next.map(|at| at.minus(SECOND))));
    fire(fx).await;
}

pub(super) async fn a_run_on_request_changes_no_time(fx: &Fixture) {
    let record = create(fx, &every(fx, "rare", Duration::from_secs(86_400 * 300))).await;
    let run = fx.other.run_schedule(fx.scope(), record.name.clone()).await.unwrap().answer.unwrap();
    assert_eq!(ids(&fx.lease_jobs(fx.session().await).await), [JobId(run.object.unwrap())]);
    let found = fx.read(query::FindSchedule { scope: fx.scope(), name: record.name.clone() }).await.unwrap();
    assert_eq!(found.state.next, record.state.next);
    assert_eq!(runs(fx, &record).await.iter().map(|run| run.kind).collect::<Vec<_>>(), [RunKind::Manual]);
    assert_eq!(fx.other.run_schedule(fx.scope(), name("nobody")).await.unwrap().answer, None);
}

pub(super) async fn a_run_that_is_still_open_is_not_overlapped(fx: &Fixture) {
    let mut record = every(fx, "tick", SECOND);
    record.schedule.overlap = Overlap::Skip;
    let record = create(fx, &record).await;
    fire(fx).await;
    for _ in 0..1_000 {
        let fired = fx.store.fire_due(PLENTY).await.unwrap();
        assert_eq!(fired.started, 0, "the first one is open");
        if runs(fx, &record).await.iter().any(|run| run.kind == RunKind::Overlap && run.object.is_none()) {
            return;
        }
        tokio::time::sleep(fired.next_look.unwrap().min(SECOND)).await;
    }
    panic!("nothing was left out");
}

pub(super) async fn schedules_are_kept_listed_and_deleted(fx: &Fixture) {
    let (a, b) = (every(fx, "a", SECOND), every(fx, "b", 2 * SECOND));
    let key = request_key("k", "body");
    let created = fx.other.create(fx.scope(), a.clone(), Some(key.clone())).await.unwrap();
    let Created::New(created) = created else { panic!("{created:?}") };
    assert_eq!((&created.schedule, &created.starts), (&a.schedule, &a.starts));
    let again = fx.other.create(fx.scope(), every(fx, "a", SECOND), Some(key.clone())).await.unwrap();
    assert_eq!(again, Created::Repeated(created.clone()));
    let taken = fx.other.create(fx.scope(), every(fx, "a", SECOND), None).await.unwrap();
    assert!(matches!(taken, Created::Taken(_)), "{taken:?}");
    create(fx, &b).await;
    let slice = |after: Option<&str>| Slice { after: after.map(name), order: Order::Ascending, limit: PLENTY };
    let names = async |after| {
        let schedules = fx.read(query::Schedules { scope: fx.scope(), slice: slice(after) }).await.rows;
        schedules.into_iter().map(|record| record.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(None).await, ["a", "b"]);
    assert_eq!(names(Some("a")).await, ["b"]);
    assert!(!fx.other.delete(Scope::of(fx.there), ResourceKey::Schedule(a.name.clone())).await.unwrap().is_done());
    assert!(fx.other.delete(fx.scope(), ResourceKey::Schedule(a.name.clone())).await.unwrap().is_done());
    assert!(!fx.other.delete(fx.scope(), ResourceKey::Schedule(a.name.clone())).await.unwrap().is_done());
    assert_eq!(names(None).await, ["b"]);
}
