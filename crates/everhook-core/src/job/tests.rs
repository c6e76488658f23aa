use super::report::Report;
use super::*;
use crate::id::TaskId;
use crate::lifecycle::{Decision, Verdict, decide};
use crate::outcome::Outcome;
use crate::retry::Jitter;
use crate::task::{Task, TaskKey, TaskKind};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn job() -> Job {
    Job::new(JobId(Id::MIN), name("mail"), name("email.send"), Bytes::from_static(b"{}"))
}

fn task(job: &Job) -> Task {
    let key = TaskKey { environment: EnvironmentId(1), subject: job.id.0, id: TaskId(Id::MIN) };
    let task = Task::new(key, job.lane(EnvironmentId(1)), TaskKind::Job, Timestamp::default());
    Task { priority: job.priority.get(), epoch: 1, ..task }
}

#[track_caller]
fn refuse(job: &Job, field: &str) {
    assert_eq!(job.check().unwrap_err().field(), field);
}

#[test]
fn a_plain_job_has_the_defaults() {
    let job = job();
    assert_eq!(job.check(), Ok(()));
    assert_eq!((job.priority.get(), job.retry.attempts_max(), job.timeout.as_secs()), (5, 10, 900));
    let delays = [1, 2, 3, 9].map(|tries| job.retry.delay(tries, Jitter::NONE).unwrap().as_secs());
    assert_eq!(delays, [5, 10, 20, 1280]);
}

#[test]
fn a_job_that_breaks_a_rule_is_refused_with_the_field() {
    refuse(&Job { timeout: Duration::from_millis(999), ..job() }, "timeoutSeconds");
    refuse(&Job { timeout: JOB_TIMEOUT_MAX + Duration::from_secs(1), ..job() }, "timeoutSeconds");
    refuse(&Job { name: Some("x".repeat(257)), ..job() }, "name");
    refuse(&Job { name: Some("a\0".into()), ..job() }, "name");
    refuse(&Job { concurrency_key: Some(String::new()), ..job() }, "concurrencyKey");
    refuse(&Job { tags: vec![name("t"); 9], ..job() }, "tags");
    refuse(&Job { metadata: Metadata::from([("a".into(), "x".repeat(5000))]), ..job() }, "metadata");
    refuse(&Job { payload: Some(Bytes::from("[".repeat(200))), ..job() }, "payload");
    let unique = |key: &str, secs| Some(Unique { key: key.into(), window: Duration::from_secs(secs) });
    refuse(&Job { unique: unique("", 5), ..job() }, "uniqueKey");
    refuse(&Job { unique: unique("k", 0), ..job() }, "uniqueSeconds");
    refuse(&Job { unique: unique("k", 91 * 86_400), ..job() }, "uniqueSeconds");
    assert_eq!(Job { unique: unique("k", 60), payload: Some(Bytes::from_static(b"[1]")), ..job() }.check(), Ok(()));
}

#[test]
fn a_priority_is_a_digit() {
    assert_eq!([0, 9].map(|number| Priority::new(number).map(Priority::get)), [Ok(0), Ok(9)]);
    assert_eq!([-1, 10, 70_000].map(Priority::new), [Err(BadJob::Priority); 3]);
    assert!(Priority::new(0).unwrap() < Priority::default());
}

#[test]
fn a_run_time_that_has_passed_is_now() {
    let now = Timestamp::from_millis(1_750_000_000_000);
    let second = Duration::from_secs(1);
    assert_eq!(RunAt::Now.due_at(now), Ok(now));
    assert_eq!(RunAt::At(now.minus(second)).due_at(now), Ok(now));
    assert_eq!(RunAt::At(now.plus(second)).due_at(now), Ok(now.plus(second)));
    assert_eq!(RunAt::In(second).due_at(now), Ok(now.plus(second)));
    assert_eq!(RunAt::In(Duration::MAX).due_at(now), Err(BadJob::RunAt));
    assert_eq!(RunAt::At(Timestamp::NEVER).due_at(now), Err(BadJob::RunAt));
}

#[test]
fn a_lane_is_the_same_for_everyone_and_another_for_everything_else() {
    let lane = |environment, queue: &str, key| lane(EnvironmentId(environment), &name(queue), key);
    // Fixed values: rows of earlier versions contain them.
    assert_eq!(lane(1, "mail", Some("acme")).to_string(), "lane_JBX9VbvUPqBrsxtSK2vqMYA5qZi");
    assert_eq!(lane(1, "mail", None).to_string(), "lane_CfOF0dC07ftWzwfLBKw0vcND7fL");
    let lanes = [
        lane(1, "mail", None),
        lane(1, "mail", Some("acme")),
        lane(1, "mail", Some("mail")),
        lane(2, "mail", None),
        lane(2, "mail", Some("acme")),
        lane(1, "mailacme", None),
        lane(1, "mai", Some("lacme")),
    ];
    let distinct: std::collections::BTreeSet<_> = lanes.iter().collect();
    assert_eq!(distinct.len(), lanes.len());
}

/// Applies the reports until the job ends; returns "verdict after n attempts".
fn run(job: &Job, reports: impl Iterator<Item = Option<Report>>) -> String {
    let mut task = task(job);
    for (n, report) in reports.enumerate() {
        // `None` stands for a crashed worker.
        let outcome = report.map_or(Outcome::Abandoned, |report| report.classify().1);
        let Decision { verdict, tries, crashes, .. } = decide(&task, outcome, &job.retry, Jitter::NONE);
        if !matches!(verdict, Verdict::RetryIn(_)) {
            return format!("{verdict} after {}", n + 1);
        }
        task = Task { tries, crashes, epoch: task.epoch + 1, ..task };
    }
    "open".into()
}

#[test]
fn a_job_ends_whatever_its_attempts_do() {
    use std::iter::repeat_n;
    let job = job();
    let failed = Report::Failed { retry_after: None };
    assert_eq!(run(&job, repeat_n(Some(failed), 50)), "die: attempts exhausted after 10");
    assert_eq!(run(&job, repeat_n(Some(Report::TimedOut), 50)), "die: attempts exhausted after 10");
    assert_eq!(run(&job, repeat_n(Some(Report::Panicked), 50)), "die: attempts exhausted after 10");
    // The job crashes its worker each time.
    assert_eq!(run(&job, repeat_n(None, 50)), "die: poison after 5");
    let snoozed = Report::Snoozed { wait: Duration::from_secs(1) };
    assert_eq!(run(&job, repeat_n(Some(snoozed), 500)), "open");
    let reports = repeat_n(Some(snoozed), 20).chain(repeat_n(Some(failed), 9)).chain([Some(Report::Completed)]);
    assert_eq!(run(&job, reports), "succeed after 30");
    let once = Job { retry: RetryPolicy::with(Backoff::List(Vec::new()), 1).unwrap(), ..job };
    assert_eq!(run(&once, repeat_n(Some(failed), 5)), "die: attempts exhausted after 1");
}

#[test]
fn what_an_operator_asks_for_depends_on_the_state() {
    use JobState::{Cancelled, Dead, Leased, Pending, Succeeded};
    let states = [Pending, Leased, Dead, Succeeded, Cancelled];
    let cancel =
        [JobAction::Cancel, JobAction::RequestCancel, JobAction::Cancel, JobAction::Refuse, JobAction::Nothing];
    let retry = [JobAction::RunNow, JobAction::Nothing, JobAction::Redrive, JobAction::Refuse, JobAction::Refuse];
    assert_eq!(states.map(|state| state.on(OperatorCommand::Cancel)), cancel);
    assert_eq!(states.map(|state| state.on(OperatorCommand::Retry)), retry);
}

#[test]
fn only_the_holder_is_heard() {
    let proof = |byte, epoch| LeaseProof { session: SessionId(Id::from_bytes([byte; 20])), epoch };
    assert_eq!(check_lease_proof(Some(proof(1, 3)), proof(1, 3)), Ok(()));
    assert_eq!(check_lease_proof(Some(proof(1, 4)), proof(1, 3)), Err(LeaseLost::Lost));
    assert_eq!(check_lease_proof(Some(proof(2, 3)), proof(1, 3)), Err(LeaseLost::Lost));
    assert_eq!(check_lease_proof(None, proof(1, 3)), Err(LeaseLost::NotRunning));
}

#[test]
fn an_ended_job_took_the_attempts_that_count() {
    use Class::{Abandoned, Cancelled, Failed, Snoozed, Success, Timeout};
    let open = |class| (class, EndState::Open);
    let done = (Success, EndState::Succeeded);
    assert_eq!(tries_of([done]), 1);
    assert_eq!(tries_of([done, open(Failed), open(Timeout)]), 3);
    assert_eq!(tries_of([done, open(Snoozed), open(Abandoned), open(Failed)]), 2);
    let (dead, cancelled) = ((Failed, EndState::Dead), (Cancelled, EndState::Cancelled));
    assert_eq!(tries_of([done, dead, open(Failed)]), 1, "it was put back with fresh tries");
    assert_eq!(tries_of([cancelled, dead, open(Failed)]), 2);
    assert_eq!(tries_of([cancelled]), 0);
    assert_eq!(tries_of([]), 0);
}
