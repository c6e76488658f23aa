//! Checks jobs and batches: compares the answers to clients and the reports of handlers with the store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everhook_core::batch::{Announcement, Intake};
use everhook_core::id::{BatchId, JobId};
use everhook_core::job::JobState;
use everhook_core::job::report::{KeptResult, Note};
use everhook_core::lifecycle::EndState;
use everhook_core::limits::CRASHES_MAX;
use everhook_core::outcome::Class;
use everhook_core::retry::Jitter;
use everhook_store::job::JobRecord;
use everhook_store::lease::NewAttempt;
use everhook_testkit::mem::Tables;

use crate::check::Evidence;
use crate::job::{Fate, Run, job_retry};
use crate::network::{JOBS, Receipt};
use crate::producer::Asked;

/// All evidence about the jobs of a finished world.
pub(crate) struct JobEvidence<'a> {
    pub(crate) fates: &'a [Fate],
    pub(crate) asked: &'a [Asked],
    pub(crate) records: &'a [JobRecord],
    pub(crate) runs: &'a [Run],
    /// Jobs that an operator tried to change.
    pub(crate) steered: &'a BTreeSet<JobId>,
}

/// All evidence about one job.
struct Story<'a> {
    record: &'a JobRecord,
    number: usize,
    fate: &'a Fate,
    attempts: Vec<&'a NewAttempt>,
    /// The numbers of its runs.
    runs: Vec<usize>,
    receipts: Vec<&'a Receipt>,
    steered: bool,
    /// The time of the client's first request.
    asked_at: Duration,
}

impl Story<'_> {
    /// Counts the attempts of remote workers that the store ended after their timeout.
    fn overdue(&self) -> usize {
        let is_overdue = |attempt: &&&NewAttempt| attempt.class == Class::Timeout && run_of(attempt).is_none();
        if self.fate.is_pushed() { 0 } else { self.attempts.iter().filter(is_overdue).count() }
    }
}

/// Checks the jobs of one finished world.
pub(crate) fn check(evidence: &Evidence<'_>, violations: &mut Vec<String>) {
    let jobs = &evidence.jobs;
    check_clients(evidence, violations);
    for record in jobs.records {
        let Some(asked) = jobs.asked.iter().find(|asked| asked.ids.contains(&record.job.id)) else {
            violations.push(format!("invented: no client enqueued {}", record.job.id));
            continue;
        };
        let id = record.job.id;
        let receipts = evidence.receipts.iter().filter(|receipt| receipt.endpoint == JOBS);
        let runs = jobs.runs.iter().enumerate().filter(|(_, run)| run.job == id);
        let story = Story {
            record,
            number: asked.number,
            fate: &jobs.fates[asked.number],
            attempts: attempts(evidence.tables, id),
            runs: runs.map(|(number, _)| number).collect(),
            receipts: receipts.filter(|receipt| receipt.message == id.to_string()).collect(),
            steered: jobs.steered.contains(&id),
            asked_at: asked.at,
        };
        check_ends(&story, violations);
        check_fate(&story, jobs.runs, violations);
        check_runs(&story, evidence, violations);
        check_pushes(&story, evidence.faults, violations);
        check_times(&story, evidence, violations);
    }
    check_batches(evidence, violations);
}

fn attempts(tables: &Tables, id: JobId) -> Vec<&NewAttempt> {
    tables.attempts.iter().filter(|((key, _), _)| key.subject == id.0).map(|(_, row)| &row.attempt).collect()
}

/// Checks that no job is lost or invented, and that each key and each unique key has one job.
fn check_clients(evidence: &Evidence<'_>, violations: &mut Vec<String>) {
    let jobs = &evidence.jobs;
    let accepted = jobs.records.iter().map(|record| record.job.id).collect::<BTreeSet<_>>();
    let mut unique = BTreeMap::<_, BTreeSet<JobId>>::new();
    for asked in jobs.asked {
        let ids = asked.ids.iter().filter(|id| accepted.contains(id)).collect::<Vec<_>>();
        if ids.len() > 1 {
            violations.push(format!("job {} was accepted as {ids:?}", asked.number));
        }
        if let Some(id) = asked.acknowledged.filter(|id| !accepted.contains(id)) {
            violations.push(format!("lost: job {id} was acknowledged and is not stored"));
        }
    }
    for record in jobs.records {
        if let Some(key) = &record.job.unique {
            unique.entry((&record.job.queue, &key.key)).or_default().insert(record.job.id);
        }
    }
    for ((queue, key), ids) in unique.iter().filter(|(_, ids)| ids.len() > 1) {
        violations.push(format!("the unique key {key} of {queue} has {} jobs", ids.len()));
    }
    let known = |id: JobId| jobs.asked.iter().find(|asked| asked.ids.contains(&id));
    for run in jobs.runs {
        let asked = known(run.job).filter(|_| accepted.contains(&run.job));
        if asked.is_none_or(|asked| run.body.as_ref() != Some(&crate::job::body(asked.number))) {
            violations.push(format!("invented: {} ran, and was not accepted as it is", run.job));
        }
    }
}

/// Checks that the last attempt explains the end of a job, and that only an operator can make an ended job pending
/// again.
fn check_ends(story: &Story<'_>, violations: &mut Vec<String>) {
    let id = story.record.job.id;
    let (mut tries, mut crashes, mut ended) = (0, 0, None);
    for attempt in &story.attempts {
        if ended.is_some() && (ended != Some(EndState::Dead) || !story.steered) {
            violations.push(format!("{id} was changed after its end"));
        }
        if ended.is_some() {
            (tries, crashes) = (0, 0);
        }
        crashes += u32::from(attempt.class == Class::Abandoned);
        tries += u32::from(uses_try(attempt.class));
        let gave_up = tries >= job_retry().attempts_max() || crashes >= CRASHES_MAX;
        let explained = match attempt.end {
            EndState::Open => !gave_up,
            EndState::Succeeded => attempt.class == Class::Success,
            EndState::Dead => gave_up,
            EndState::Cancelled => story.steered,
        };
        if !explained {
            let NewAttempt { class, end, .. } = attempt;
            violations.push(format!("{id}: {class} after {tries} tries and {crashes} crashes left it {end:?}"));
        }
        ended = Some(attempt.end).filter(|end| *end != EndState::Open);
    }
    let said = ended.map(JobState::from);
    if said != Some(story.record.state) {
        violations.push(format!("{id} is {:?}, and its attempts say {said:?}", story.record.state));
    }
}

fn uses_try(class: Class) -> bool {
    !matches!(class, Class::Abandoned | Class::Interrupted | Class::Cancelled | Class::Snoozed)
}

/// Checks that a job without operator actions ends as its plan says.
fn check_fate(story: &Story<'_>, runs: &[Run], violations: &mut Vec<String>) {
    let count = |class| story.attempts.iter().filter(|attempt| attempt.class == class).count();
    let poisoned = count(Class::Abandoned) >= CRASHES_MAX as usize;
    // A remote worker may report only after its timeout; such a run is not recorded.
    let heard = story.attempts.iter().filter_map(|attempt| run_of(attempt)).collect::<BTreeSet<_>>();
    let late = story.overdue() > 0 && story.runs.iter().any(|run| runs[*run].said.is_some() && !heard.contains(run));
    if story.steered || story.fate.is_pushed() || poisoned || late {
        return;
    }
    let want = if story.fate.ends_well() { JobState::Succeeded } else { JobState::Dead };
    if story.record.state != want {
        violations.push(format!("job {} is {:?} instead of {want:?}", story.number, story.record.state));
    }
}

/// Checks that every attempt matches its handler's report, that every run is logged or was lost in a crash, and that
/// only the run that ended the job left a result.
fn check_runs(story: &Story<'_>, evidence: &Evidence<'_>, violations: &mut Vec<String>) {
    let id = story.record.job.id;
    let runs = evidence.jobs.runs;
    let mut logged = BTreeSet::new();
    for attempt in &story.attempts {
        let Some(number) = run_of(attempt) else { continue };
        let run = runs.get(number).filter(|run| run.job == id);
        let said = run.map(|run| run.said);
        let fits = match said {
            None => false,
            Some(Some(class)) => class == attempt.class,
            Some(None) => matches!(attempt.class, Class::Timeout | Class::Interrupted),
        };
        if !fits || !logged.insert(number) {
            violations.push(format!("{id}: {} is logged for run {number}, which said {said:?}", attempt.class));
        }
        if attempt.end == EndState::Succeeded {
            let want = KeptResult::Whole(format!("{{\"run\":{number}}}").into());
            if story.record.result.as_ref() != Some(&want) {
                violations.push(format!("{id}: run {number} ended it, its result is {:?}", story.record.result));
            }
        }
    }
    let count = |class| story.attempts.iter().filter(|it| it.class == class && run_of(it).is_none()).count();
    // The late reports of remote workers after a timeout are not recorded.
    let overdue = story.overdue();
    let lost = story.runs.iter().filter(|run| !logged.contains(run)).count().saturating_sub(overdue);
    let crashes = count(Class::Abandoned);
    if lost > crashes {
        violations.push(format!("{id}: {lost} runs are not logged, and {crashes} crashes are"));
    }
    if !evidence.faults && crashes + lost > 0 {
        violations.push(format!("{id}: ran {} times without any fault, {crashes} crashes", story.runs.len()));
    }
}

/// Returns the run of an attempt, from the attempt's log.
fn run_of(attempt: &NewAttempt) -> Option<usize> {
    Note::from_bytes(&attempt.reply).log().find_map(|line| line.strip_prefix("run ")?.parse().ok())
}

/// Checks that the log explains every request to the target of a pushed job.
fn check_pushes(story: &Story<'_>, faults: bool, violations: &mut Vec<String>) {
    let (id, receipts) = (story.record.job.id, story.receipts.len());
    let count = |classes: &[Class]| story.attempts.iter().filter(|attempt| classes.contains(&attempt.class)).count();
    let taken = story.receipts.iter().filter(|receipt| receipt.taken).count();
    let unsure = count(&[Class::Abandoned, Class::Interrupted, Class::Reset, Class::Timeout]);
    if receipts > story.attempts.len() - count(&[Class::Connect, Class::Cancelled]) {
        violations.push(format!("{id}: {receipts} receipts, {} attempts", story.attempts.len()));
    }
    if taken > 1 + unsure {
        violations.push(format!("{id}: taken {taken} times without a cause"));
    }
    if story.fate.is_pushed() && story.record.state == JobState::Succeeded && taken == 0 {
        violations.push(format!("lost: {id} succeeded, and its target never took it"));
    }
    if !faults && receipts > 1 {
        violations.push(format!("{id}: {receipts} receipts without any fault"));
    }
}

/// Checks that no job runs before it is due in virtual time. Exceptions are a clock set forward, a crashed holder, and
/// an operator's request.
fn check_times(story: &Story<'_>, evidence: &Evidence<'_>, violations: &mut Vec<String>) {
    let id = story.record.job.id;
    let unsure = [Class::Abandoned, Class::Interrupted];
    if story.steered || story.overdue() > 0 || story.attempts.iter().any(|attempt| unsure.contains(&attempt.class)) {
        return;
    }
    let jumped = |from: Duration, to: Duration| evidence.jumps.iter().any(|at| (from..=to).contains(at));
    let runs = story.runs.iter().map(|number| &evidence.jobs.runs[*number]).collect::<Vec<_>>();
    if let Some(first) = runs.first().filter(|first| !jumped(story.asked_at, first.at))
        && first.at.saturating_sub(story.asked_at) < story.fate.delay
    {
        violations.push(format!("{id} ran after {:?}", first.at.saturating_sub(story.asked_at)));
    }
    let least = job_retry().delay(1, Jitter::from_bits(0)).unwrap_or_default();
    for pair in runs.windows(2) {
        let Some(ended) = pair[0].ended.filter(|ended| !jumped(*ended, pair[1].at)) else { continue };
        if pair[1].at.saturating_sub(ended) < least {
            violations.push(format!("{id} was tried again after {:?}", pair[1].at.saturating_sub(ended)));
        }
    }
}

/// Checks that each phase of a batch has at most one announcement, and that the result of the last phase was announced.
fn check_batches(evidence: &Evidence<'_>, violations: &mut Vec<String>) {
    let mut announced = BTreeMap::<String, usize>::new();
    for message in evidence.tables.messages.values() {
        let Some(event_id) = &message.event_id else { continue };
        let phase = event_id.as_str().rsplit_once('.').map(|(phase, _)| phase.to_owned()).unwrap_or_default();
        *announced.entry(phase).or_default() += 1;
    }
    for (phase, count) in announced.iter().filter(|(_, count)| **count > 1) {
        violations.push(format!("phase {phase} was announced {count} times"));
    }
    let has = |id: BatchId, phase: u32, what: Announcement| {
        let event_id = what.event_id(id, phase).ok();
        evidence.tables.messages.values().any(|message| message.event_id == event_id)
    };
    for ((_, id), record) in &evidence.tables.batches {
        let (batch, counts) = (record.batch, record.batch.counts);
        let over = batch.intake == Intake::Sealed && counts.pending == 0 && counts.dead == 0;
        if counts.pending > 0 {
            violations.push(format!("stuck: batch {id} waits for {} jobs", counts.pending));
        }
        if over != has(*id, batch.phase, Announcement::Completed) {
            violations.push(format!("batch {id} is {batch:?}, and its completion is announced or not"));
        }
        let of_batch = evidence.jobs.records.iter().filter(|record| record.job.batch == Some(*id));
        let died = of_batch.flat_map(|record| attempts(evidence.tables, record.job.id));
        let died = died.filter(|attempt| attempt.end == EndState::Dead).count();
        let failed = (1..=batch.phase).filter(|phase| has(*id, *phase, Announcement::Failed)).count();
        if (died > 0) != (failed > 0) || failed > died {
            violations.push(format!("batch {id}: {died} deaths, {failed} of them announced"));
        }
    }
    for asked in evidence.jobs.asked {
        let record = evidence.jobs.records.iter().find(|record| asked.ids.contains(&record.job.id));
        if record.is_some_and(|record| record.job.batch != asked.batch) {
            violations.push(format!("job {} is in another batch", asked.number));
        }
    }
}
