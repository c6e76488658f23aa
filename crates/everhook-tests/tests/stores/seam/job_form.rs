//! The stored form of jobs.

use std::time::Duration;

use everhook_core::id::{Id, JobId, ScheduleId};
use everhook_core::job::{Job, Priority, Unique};
use everhook_core::name::{Metadata, Name};
use everhook_core::retry::{Backoff, RetryPolicy};
use everhook_core::schedule::{Cadence, Schedule};
use everhook_core::time::Timestamp;
use everhook_store::job::encoding::{extra_json, plain, with_extra_json};
use everhook_store::schedule::Starts;
use everhook_store::schedule::encoding::{read_spec, spec};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[test]
fn a_plain_job_has_no_rest() {
    let job = plain(JobId(Id::MIN), name("email"), name("email.send"));
    assert_eq!(extra_json(&job), None);
    assert_eq!(with_extra_json(job.clone(), None), Some(job));
}

#[test]
fn whatever_a_job_says_is_read_as_it_was_written() {
    let backoff = Backoff::List(vec![Duration::from_secs(1), Duration::from_secs(60)]);
    let job = Job {
        name: Some("to Ada".to_owned()),
        priority: Priority::new(0).unwrap(),
        retry: RetryPolicy::with(backoff, 3).unwrap(),
        timeout: Duration::from_secs(7),
        unique: Some(Unique { key: "k".to_owned(), window: Duration::from_secs(60) }),
        concurrency_key: Some("ada".to_owned()),
        tags: vec![name("a")],
        metadata: Metadata::from([("a".to_owned(), "b".to_owned())]),
        schedule: Some(ScheduleId(Id::MAX)),
        ..plain(JobId(Id::MIN), name("email"), name("email.send"))
    };
    let bare = Job {
        retry: plain(job.id, job.queue.clone(), job.kind.clone()).retry,
        timeout: plain(job.id, job.queue.clone(), job.kind.clone()).timeout,
        unique: None,
        metadata: Metadata::new(),
        schedule: None,
        ..job.clone()
    };
    assert_eq!(with_extra_json(bare, extra_json(&job).as_deref()), Some(job.clone()));
    let job = Starts::Job(Box::new(Job { id: JobId(Id::MIN), ..job }));
    let every = Cadence::Every { every: Duration::from_secs(60), anchor: Timestamp::default() };
    let schedule = Schedule::new(ScheduleId(Id::MAX), every);
    let read = read_spec(schedule.id, &spec(&schedule, &job));
    assert_eq!(read, Some((schedule, job)), "a schedule keeps all of it");
}
