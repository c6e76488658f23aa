//! Schedules as stores keep them.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{ApplicationId, Id, JobId, ScheduleId};
use everhook_core::job::Job;
use everhook_core::schedule::{Cadence, Missed, Overlap, Schedule};
use everhook_core::time::Timestamp;
use everhook_store::schedule::encoding::{read_spec, read_starts, spec, starts};
use everhook_store::schedule::{MessageTemplate, Starts};

const ID: ScheduleId = ScheduleId(Id::MAX);

#[track_caller]
fn check_spec(schedule: &Schedule) {
    assert_eq!(read_spec(ID, &spec(schedule)).as_ref(), Some(schedule));
}

#[test]
fn a_schedule_is_read_as_it_was_written() {
    let cron = Cadence::Cron { cron: "0 3 * * mon".parse().unwrap(), zone: "Europe/Berlin".parse().unwrap() };
    check_spec(&Schedule::new(ID, cron));
    let anchor = Timestamp::from_micros(1_700_000_000_000_001);
    check_spec(&Schedule {
        starts_at: Some(anchor),
        ends_at: Some(Timestamp::from_micros(1_800_000_000_000_000)),
        jitter: Duration::from_millis(1500),
        overlap: Overlap::QueueOne,
        missed: Missed::CatchUp(7),
        grace: Duration::from_secs(5),
        ..Schedule::new(ID, Cadence::Every { every: Duration::from_secs(90), anchor })
    });
}

#[test]
fn what_is_started_is_read_as_it_was_written() {
    let job = Job::new(JobId(Id::MIN), "q".parse().unwrap(), "k".parse().unwrap(), Bytes::from_static(b"{\"a\": 1.0}"));
    let job = Starts::Job(Box::new(job));
    assert_eq!(read_starts(&starts(&job)), Some(job));
    let message = Starts::Message(Box::new(MessageTemplate {
        application: ApplicationId(Id::MAX),
        event_type: "tick".parse().unwrap(),
        payload: Bytes::from_static(b"[1e2]"),
        channels: vec!["c".parse().unwrap()],
        tags: Vec::new(),
    }));
    assert_eq!(read_starts(&starts(&message)), Some(message));
}

#[test]
fn a_text_that_makes_no_sense_is_no_schedule() {
    for text in ["", "{}", r#"{"cron":"x","overlap":0,"missed":[0,0],"graceUs":1}"#] {
        assert_eq!(read_spec(ID, text), None, "{text}");
    }
    assert_eq!(read_starts("null"), None);
}
