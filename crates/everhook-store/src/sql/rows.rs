//! The rows of both SQL stores, each with its columns in the order in which statements return them.

use bytes::Bytes;
use everhook_core::api_key::{KeyRecord, KeyScope};
use everhook_core::application::{Application, Environment};
use everhook_core::batch::{Announcement, Batch, BatchCounts, Intake};
use everhook_core::endpoint::Endpoint;
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, BatchId, EnvironmentId, Id, JobId, ScheduleId, SessionId};
use everhook_core::job::report::{KeptResult, Progress};
use everhook_core::job::{Job, Priority};
use everhook_core::message::Message;
use everhook_core::name::{Metadata, Name};
use everhook_core::once::OnceSlot;
use everhook_core::queue::{Queue, QueueState, Rate, Target};
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::signing::SigningKeys;
use everhook_core::task::{Task, TaskKey, TaskState};
use everhook_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::batch::BatchRecord;
use crate::history::Attempt;
use crate::job::{JobAttempt, JobRecord, OpenTask, encoding, state_of};
use crate::lease::{Holding, SessionRecord};
use crate::once::OnceRecord;
use crate::row;
use crate::schedule::{self, Run, ScheduleRecord};
use crate::sql::cell::{Cells, Json, JsonOrDefault, Part, Read};
use crate::worker::{Takes, WorkerRecord};

row! { Environment in "environment" { id, org, name } }

row! { KeyRecord in "api_key" { id, scope = environment, hint, created_at, revoked_at } }

row! {
    Application in "application" {
        id, uid, name, throttle_rate, metadata as Json, created_at, updated_at, revision,
    }
}

row! {
    Endpoint in "endpoint" {
        id, application, uid, url, description, state, event_types as JsonOrDefault, channels as JsonOrDefault,
        headers as Json, throttle_rate, metadata as Json, version, keys, created_at, updated_at, revision,
    }
}

row! {
    EventType in "event_type" {
        name, description, archived, deprecated, schemas, feature_flag, group_name, created_at, updated_at, revision,
    }
}

row! {
    Message in "message" {
        application, id, event_type, event_id, channels as JsonOrDefault, tags as JsonOrDefault, payload, created_at,
        rest as JsonOrDefault,
    }
}

row! { TaskKey in "task" { environment, subject, id } }

row! {
    Task in "task" {
        key: TaskKey, lane, kind, trigger, priority, due_at, tries, crashes, epoch, cancel, batch,
    }
}

row! { Holding in "task" { session = owner, since = leased_at } }

row! {
    SessionRecord in "session" {
        id, node, role, version, lease = lease_us, started_at, renewed_at, closed_at, held,
    }
}

row! { Takes in "worker" { environment, queues as Json, kinds as JsonOrDefault } }

row! { WorkerRecord in "worker" { session: SessionRecord, takes: Takes } }

row! {
    Attempt in "attempt" {
        id, message = subject, endpoint, epoch, class, end = end_state, trigger, url, status, reply, started_at,
        duration = duration_us,
    }
}

row! {
    JobAttempt in "attempt" {
        id, task, epoch, session, class, end = end_state, status, note = reply, started_at, duration = duration_us,
    }
}

row! { OnceSlot in "once_slot" { phase, winner, winner_phase } }

row! { OnceRecord in "once_slot" { key, slot: OnceSlot, created_at, claimed_at, updated_at, suppressed } }

row! { Run in "schedule_run" { nominal, at, kind, object } }

row! {
    struct JobRow in "job" {
        id: JobId,
        queue: Name,
        kind: Name,
        name: Option<String>,
        payload: Option<Bytes>,
        priority: Priority,
        concurrency_key: Option<String>,
        tags: JsonOrDefault<Vec<Name>>,
        batch: Option<BatchId>,
        rest: Option<String>,
    }
}

row! {
    Job from JobRow else "rest": |row| {
        let job = Job {
            name: row.name,
            payload: row.payload,
            priority: row.priority,
            concurrency_key: row.concurrency_key,
            tags: row.tags.0,
            batch: row.batch,
            ..encoding::plain(row.id, row.queue, row.kind)
        };
        encoding::with_extra_json(job, row.rest.as_deref())
    }
}

row! {
    struct QueueRow in "queue" {
        name: Name,
        state: QueueState,
        limit_max: Option<u32>,
        key_limit_max: Option<u32>,
        rate_us: Option<i64>,
        target_url: Option<String>,
        target_keys: Option<SigningKeys>,
        updated_at: Timestamp,
        revision: i64,
    }
}

row! {
    Queue from QueueRow else "name": |row| {
        let target = row.target_url.zip(row.target_keys).map(|(url, keys)| Target { url, keys });
        Some(Queue {
            state: row.state,
            limit: row.limit_max,
            key_limit: row.key_limit_max,
            rate: row.rate_us.and_then(Rate::from_db),
            target,
            updated_at: row.updated_at,
            revision: row.revision,
            ..Queue::new(row.name)
        })
    }
}

row! {
    struct BatchRow in "batch" {
        id: BatchId,
        application: ApplicationId,
        name: String,
        prefix: Name,
        metadata: Json<Metadata>,
        created_at: Timestamp,
        intake: Intake,
        phase: u32,
        announced: Option<Announcement>,
        pending: u32,
        succeeded: u32,
        dead: u32,
        cancelled: u32,
        skipped: u32,
    }
}

row! {
    BatchRecord from BatchRow else "id": |row| {
        let BatchRow { pending, succeeded, dead, cancelled, skipped, .. } = row;
        let counts = BatchCounts { pending, succeeded, dead, cancelled, skipped };
        Some(BatchRecord {
            id: row.id,
            application: row.application,
            name: row.name,
            prefix: row.prefix,
            metadata: row.metadata.0,
            created_at: row.created_at,
            batch: Batch { intake: row.intake, phase: row.phase, announced: row.announced, counts },
        })
    }
}

row! {
    /// A schedule as it is kept. One that this binary cannot understand is still a row, so that it can be put off.
    pub struct ScheduleRow in "schedule" {
        environment: EnvironmentId,
        id: ScheduleId,
        name: Name,
        spec: String,
        starts: String,
        paused: bool,
        next: Option<Timestamp>,
        queued: Option<Timestamp>,
        look_at: Timestamp,
        created_at: Timestamp,
        updated_at: Timestamp,
        revision: i64,
        last_job: Option<Id>,
    }
}

impl ScheduleRow {
    /// Reads what it starts and when; fails with the name of the column that it cannot read.
    pub fn record(&self) -> Result<ScheduleRecord, &'static str> {
        Ok(ScheduleRecord {
            name: self.name.clone(),
            schedule: schedule::encoding::read_spec(self.id, &self.spec).ok_or("spec")?,
            starts: schedule::encoding::read_starts(&self.starts).ok_or("starts")?,
            paused: self.paused,
            state: ScheduleState { next: self.next, queued: self.queued, look_at: self.look_at },
            created_at: self.created_at,
            updated_at: self.updated_at,
            revision: self.revision,
        })
    }
}

row! {
    struct OutputRow in "job_output" {
        progress: Option<i64>,
        progress_text: Option<String>,
        result: Option<Bytes>,
        result_bytes: Option<usize>,
    }
}

/// A job's open task: the task, its state, its holder and since when.
type OpenTaskRow = (Task, TaskState, Option<SessionId>, Timestamp);

impl Read for OpenTask {
    const WIDTH: usize = OpenTaskRow::WIDTH;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let (task, state, owner, since) = OpenTaskRow::read(cells, column)?;
        Ok(OpenTask { task, state, holder: owner.map(|session| Holding { session, since }) })
    }

    fn parts() -> Vec<Part> {
        OpenTaskRow::parts()
    }
}

/// A job with its open task, its last attempt, and what it reported.
type JobRecordRow = (Job, Timestamp, Option<OpenTask>, Option<JobAttempt>, OutputRow);

impl Read for JobRecord {
    const WIDTH: usize = JobRecordRow::WIDTH;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let (job, created_at, open, last, output) = JobRecordRow::read(cells, column)?;
        let text = output.progress_text.unwrap_or_default();
        let progress = output.progress.map(|percent| Progress::new(percent, &text)).transpose();
        let progress = progress.map_err(|_| cells.corrupt("progress"))?;
        let too_large = output.result_bytes.map(|bytes| KeptResult::TooLarge { bytes });
        let result = output.result.map(KeptResult::Whole).or(too_large);
        let state = state_of(open.map(|open| open.state), last.as_ref().map(|last| last.end));
        Ok(JobRecord { job, created_at, state, open, progress, result, last })
    }

    fn parts() -> Vec<Part> {
        JobRecordRow::parts()
    }
}

impl Read for KeyScope {
    const WIDTH: usize = 1;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let environment = Option::<EnvironmentId>::read(cells, column)?;
        Ok(environment.map_or(KeyScope::Admin, KeyScope::Environment))
    }
}

/// How the keys of an endpoint or a target are kept.
#[derive(Serialize, Deserialize)]
struct KeysForm {
    current: String,
    old: Vec<(String, i64)>,
}

impl Read for SigningKeys {
    const WIDTH: usize = 1;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let Json(form) = Json::<KeysForm>::read(cells, column)?;
        read_keys(&form).ok_or_else(|| cells.corrupt(column))
    }
}

fn read_keys(form: &KeysForm) -> Option<SigningKeys> {
    let mut keys = SigningKeys::new(form.current.parse().ok()?);
    for (key, until) in &form.old {
        keys.old.push((key.parse().ok()?, Timestamp::from_micros(*until)));
    }
    Some(keys)
}

/// Signing keys as the text that tables keep.
pub fn keys_text(keys: &SigningKeys) -> String {
    let old = keys.old.iter().map(|(key, until)| (key.expose(), until.as_micros())).collect();
    json(&KeysForm { current: keys.current.expose(), old })
}

/// A value as the JSON text that tables keep.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("maps of strings and lists of names are always JSON")
}

/// A list of names as JSON text; none if it is empty.
pub fn names(list: &[Name]) -> Option<String> {
    (!list.is_empty()).then(|| json(&list))
}
