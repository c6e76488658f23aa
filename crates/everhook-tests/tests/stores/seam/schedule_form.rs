//! The stored form of schedules.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{ApplicationId, Id, JobId, ScheduleId};
use everhook_core::job::Job;
use everhook_core::schedule::{Cadence, Missed, Overlap, Schedule};
use everhook_core::time::Timestamp;
use everhook_store::schedule::encoding::{read_spec, spec};
use everhook_store::schedule::{MessageTemplate, Starts};

const ID: ScheduleId = ScheduleId(Id::MAX);

#[track_caller]
fn check(schedule: &Schedule, starts: &Starts) {
    assert_eq!(read_spec(ID, &spec(schedule, starts)), Some((schedule.clone(), starts.clone())));
}

fn job() -> Starts {
    let payload = Bytes::from_static(b"{\"a\": 1.0}");
    Starts::Job(Box::new(Job::new(JobId(Id::MIN), "q".parse().unwrap(), "k".parse().unwrap(), payload)))
}

fn hourly() -> Schedule {
    let cron = Cadence::Cron { cron: "0 * * * *".parse().unwrap(), zone: "Europe/Berlin".parse().unwrap() };
    Schedule::new(ID, cron)
}

#[test]
fn a_schedule_is_read_as_it_was_written() {
    let cron = Cadence::Cron { cron: "0 3 * * mon".parse().unwrap(), zone: "Europe/Berlin".parse().unwrap() };
    check(&Schedule::new(ID, cron), &job());
    let anchor = Timestamp::from_micros(1_700_000_000_000_001);
    let every = Schedule {
        starts_at: Some(anchor),
        ends_at: Some(Timestamp::from_micros(1_800_000_000_000_000)),
        jitter: Duration::from_millis(1500),
        overlap: Overlap::QueueOne,
        missed: Missed::CatchUp(7),
        grace: Duration::from_secs(5),
        ..Schedule::new(ID, Cadence::Every { every: Duration::from_secs(90), anchor })
    };
    check(&every, &job());
}

#[test]
fn what_is_started_is_read_as_it_was_written() {
    check(&hourly(), &job());
    let message = Starts::Message(Box::new(MessageTemplate {
        application: ApplicationId(Id::MAX),
        event_type: "tick".parse().unwrap(),
        payload: Bytes::from_static(b"[1e2]"),
        channels: vec!["c".parse().unwrap()],
        tags: Vec::new(),
    }));
    check(&hourly(), &message);
}

#[test]
fn a_text_that_makes_no_sense_is_no_schedule() {
    let whole = spec(&hourly(), &job());
    let (no_cron, no_starts) = (whole.replace("0 * * * *", "x"), whole.replace("\"job\":{", "\"errand\":{"));
    for text in ["", "{}", &no_cron, &no_starts] {
        assert_eq!(read_spec(ID, text), None, "{text}");
    }
}
