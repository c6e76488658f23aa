//! The rows of both SQL stores, each with its columns in the order in which statements return them.

use std::ops::Deref;

use bytes::Bytes;
use everhook_core::api_key::{KeyAccess, KeyRecord};
use everhook_core::application::{Application, Environment, EnvironmentPolicy};
use everhook_core::audit::{AuditEntry, AuditFacts};
use everhook_core::background::replay::{AttemptEnding, Candidate};
use everhook_core::batch::{Batch, BatchCounts};
use everhook_core::delivery::DeliveryTrace;
use everhook_core::egress::EgressPause;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{
    ApplicationId, BatchId, EnvironmentId, Id, JobId, KeyId, MessageId, SessionId, TaskId, TokenKeyId,
};
use everhook_core::job::report::{KeptResult, Progress};
use everhook_core::job::{Job, Priority};
use everhook_core::lane::HoldKind;
use everhook_core::lifecycle::EndState;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::once::OnceSlot;
use everhook_core::outcome::Class;
use everhook_core::policy::breaker::Breaker;
use everhook_core::queue::Queue;
use everhook_core::resource::ResourceKind;
use everhook_core::right::{ExtraRights, Grants, KeyScope};
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::seal::{NeededKey, is_sealed};
use everhook_core::task::{Task, TaskKey, TaskState};
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenKey, TokenSecret};
use serde::Serialize;

use crate::backlog::{LaneCounts, OpenCounts};
use crate::batch::BatchRecord;
use crate::delivery::{BreakerRecord, DeliveryRecord, DeliveryRow, EndpointCounts, LastAttempt, VisitedTask};
use crate::directory::{PlacedEndpoint, PlacedMessage};
use crate::history::{Attempt, DeliveryLife};
use crate::job::{self, JobAttempt, JobRecord, OpenTask, state_of};
use crate::lease::{Holding, SessionRecord};
use crate::once::OnceRecord;
use crate::queue::LaneGroup;
use crate::resource::{Parent, encoding};
use crate::schedule::Run;
use crate::seal::{ResourceAt, token_place};
use crate::sql::cell::{Cells, FromCells, Json, JsonOrDefault, Part};
use crate::worker::{Takes, WorkerRecord};

row! { Environment in "environment" { id, org, name } }

row! { EgressPause in "egress_pause" { since, reason } }

row! {
    struct TokenKeyRow in "token_key" {
        id: TokenKeyId,
        secret: Bytes,
        created_at: Timestamp,
        superseded_at: Option<Timestamp>,
    }
}

impl FromCells for TokenKey {
    const WIDTH: usize = TokenKeyRow::WIDTH;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let TokenKeyRow { id, secret, created_at, superseded_at } = TokenKeyRow::read(cells, column)?;
        let opened = cells.seal().open(token_place(&id), &secret);
        let secret = opened.map_err(|error| cells.corrupt(error.column()))?;
        let secret = TokenSecret(secret.as_ref().try_into().map_err(|_| cells.corrupt("secret"))?);
        Ok(TokenKey { id, secret, created_at, superseded_at })
    }

    fn columns() -> Vec<&'static str> {
        TokenKeyRow::columns()
    }

    fn parts() -> Vec<Part> {
        vec![Part { name: "TokenKey", columns: Self::columns() }]
    }
}

row! { NeededKey in "seal_key" { id, state } }

row! {
    AuditFacts in "audit" {
        operation, phase, actor, key = key_id, principal, action, object, reason, status, request = request_hash,
        before = before_hash, after = after_hash,
    }
}

row! { AuditEntry in "audit" { seq, at, facts: AuditFacts, hash } }

row! {
    /// An API key, decoded by [`KeyRow::record`].
    pub struct KeyRow in "api_key" {
        id: KeyId,
        name: String,
        environment: Option<EnvironmentId>,
        application: Option<ApplicationId>,
        scope: KeyScope,
        rights: i16,
        hint: String,
        created_at: Timestamp,
        expires_at: Option<Timestamp>,
        last_used_at: Option<Timestamp>,
        revoked_at: Option<Timestamp>,
    }
}

row! { KeyRecord from KeyRow else "scope": |row| Some(row.record()) }

impl KeyRow {
    fn record(self) -> KeyRecord {
        // A binary from before scopes writes no scope. Its keys without an environment are admin keys.
        let grants = match self.environment {
            None => Grants::of(KeyScope::Admin),
            Some(_) => Grants { scope: self.scope, extra: ExtraRights::from_db(self.rights) },
        };
        KeyRecord {
            id: self.id,
            name: self.name,
            access: KeyAccess { environment: self.environment, application: self.application, grants },
            hint: self.hint,
            created_at: self.created_at,
            expires_at: self.expires_at,
            last_used_at: self.last_used_at,
            revoked_at: self.revoked_at,
        }
    }
}

row! {
    /// A resource of any kind as it is stored.
    pub struct ResourceCells in "resource" {
        environment: EnvironmentId,
        kind: ResourceKind,
        parent: Parent,
        id: Id,
        name: Option<Name>,
        state: i16,
        revision: i64,
        created_at: Timestamp,
        updated_at: Timestamp,
        deleted_at: Option<Timestamp>,
        spec: String,
        info: String,
    }
}

/// A resource of any kind with its `spec` opened, decoded by [`Resource::read`](crate::resource::Resource::read).
pub struct ResourceRow(pub ResourceCells);

impl Deref for ResourceRow {
    type Target = ResourceCells;

    fn deref(&self) -> &ResourceCells {
        &self.0
    }
}

impl FromCells for ResourceRow {
    const WIDTH: usize = ResourceCells::WIDTH;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let mut row = ResourceCells::read(cells, column)?;
        if is_sealed(row.spec.as_bytes()) {
            let ResourceCells { environment, kind, parent, id, .. } = row;
            let at = ResourceAt { environment, kind, parent, id };
            let opened = cells.seal().open_text(at.place(&at.row()), std::mem::take(&mut row.spec));
            row.spec = opened.map_err(|error| cells.corrupt(error.column()))?;
        }
        Ok(ResourceRow(row))
    }

    fn columns() -> Vec<&'static str> {
        ResourceCells::columns()
    }

    fn parts() -> Vec<Part> {
        vec![Part { name: "ResourceRow", columns: Self::columns() }]
    }
}

row! { Endpoint from ResourceRow else "spec": |row| encoding::endpoint::read(&row).ok() }

row! { Application from ResourceRow else "spec": |row| encoding::application(&row).ok() }

row! { PlacedEndpoint in "resource" { endpoint: Endpoint, application: Application } }

row! { PlacedMessage in "message" { message: Message, application: Application } }

row! { EnvironmentPolicy from ResourceRow else "spec": |row| encoding::environment_policy(&row).ok() }

row! { Queue from ResourceRow else "spec": |row| encoding::queue(&row).ok() }

row! {
    /// The state of a schedule, and the last job that it started by its rule.
    pub struct FiringRow in "schedule" {
        look_at: Timestamp,
        next: Option<Timestamp>,
        queued: Option<Timestamp>,
        last_job: Option<Id>,
    }
}

impl FiringRow {
    /// Returns the state from which `core::schedule::fire` decides.
    pub fn state(&self) -> ScheduleState {
        ScheduleState { next: self.next, queued: self.queued, look_at: self.look_at }
    }
}

row! {
    LaneGroup in "lane_group" {
        version, state, limit = limit_max, lane_limit = lane_limit_max, rate = rate_us, booked_until, pushes,
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
        order_key,
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
        duration = duration_us, exchange as JsonOrDefault,
    }
}

row! {
    LastAttempt in "attempt" {
        id, task, epoch, class, end = end_state, status, note = reply, started_at, duration = duration_us,
    }
}

row! {
    struct LifeRow in "task" {
        task: TaskId,
        epoch: u32,
        state: Option<TaskState>,
        due_at: Option<Timestamp>,
        end_state: Option<EndState>,
    }
}

row! {
    DeliveryLife from LifeRow else "end_state": |row| {
        let trace = row.state.map(DeliveryTrace::Open).or(row.end_state.map(DeliveryTrace::Ended))?;
        Some(DeliveryLife { task: row.task, epoch: row.epoch, trace, due_at: row.due_at })
    }
}

row! { BreakerRecord in "lane" { breaker, hold_until, hold_kind } }

row! { EndpointCounts in "attempt" { succeeded, failed, cancelled, pending, sending, is_capped } }

/// A message and its endpoint, the time of the endpoint's deletion, the hold of its lane, the newest open task and the
/// newest attempt.
type DeliveryCells = (
    Message,
    Endpoint,
    Option<Timestamp>,
    (Option<Timestamp>, Option<HoldKind>, Option<Breaker>, Option<MessageId>),
    Option<OpenTask>,
    Option<LastAttempt>,
);

impl FromCells for DeliveryRecord {
    const WIDTH: usize = DeliveryCells::WIDTH;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let (message, endpoint, deleted_at, hold, open, last) = DeliveryCells::read(cells, column)?;
        let (hold_until, hold_kind, breaker, head) = hold;
        let row = DeliveryRow { message, endpoint, deleted_at, hold_until, hold_kind, breaker, head, open, last };
        DeliveryRecord::new(row).ok_or_else(|| cells.corrupt("end_state"))
    }

    fn parts() -> Vec<Part> {
        DeliveryCells::parts()
    }
}

row! {
    JobAttempt in "attempt" {
        id, task, epoch, session, class, end = end_state, status, note = reply, started_at, duration = duration_us,
        exchange as JsonOrDefault,
    }
}

row! {
    /// The history of a message at an endpoint, without the message.
    pub struct CandidateRow in "attempt" {
        is_open: bool,
        is_dead: bool,
        has_succeeded: bool,
        end_state: Option<EndState>,
        class: Option<Class>,
        status: Option<u16>,
        started_at: Option<Timestamp>,
    }
}

impl CandidateRow {
    pub fn of(self, message: Message) -> Candidate {
        let last = self.end_state.zip(self.class).zip(self.status.zip(self.started_at));
        let last = last.map(|((end, class), (status, started_at))| AttemptEnding { end, class, status, started_at });
        let CandidateRow { is_open, is_dead, has_succeeded, .. } = self;
        Candidate { message, is_open, is_dead, has_succeeded, last }
    }
}

row! { VisitedTask in "task" { subject, kind, lane, state, has_class } }

row! { OpenCounts in "task" { pending, due, retrying, leased, dead, dead_jobs, oldest_due } }

row! { LaneCounts in "task" { due, dead, oldest_due } }

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
            ..job::encoding::plain(row.id, row.queue, row.kind)
        };
        job::encoding::with_extra_json(job, row.rest.as_deref())
    }
}

row! { BatchCounts in "batch" { pending, succeeded, dead, cancelled, skipped } }

row! { Batch in "batch" { intake, phase, announced, counts: BatchCounts } }

row! { BatchRecord in "batch" { id, application, name, prefix, metadata as Json, created_at, batch: Batch } }

row! {
    struct OutputRow in "job_output" {
        progress: Option<i64>,
        progress_text: Option<String>,
        result: Option<Bytes>,
        result_bytes: Option<usize>,
    }
}

/// A job's open task: the task, its state, its holder and the time of its lease.
type OpenTaskRow = (Task, TaskState, Option<SessionId>, Timestamp);

impl FromCells for OpenTask {
    const WIDTH: usize = OpenTaskRow::WIDTH;

    fn read<C: Cells>(cells: &mut C, column: &'static str) -> Result<Self, C::Fault> {
        let (task, state, owner, since) = OpenTaskRow::read(cells, column)?;
        Ok(OpenTask { task, state, holder: owner.map(|session| Holding { session, since }) })
    }

    fn parts() -> Vec<Part> {
        OpenTaskRow::parts()
    }
}

/// A job with its open task, last attempt and output.
type JobRecordRow = (Job, Timestamp, Option<OpenTask>, Option<JobAttempt>, OutputRow);

impl FromCells for JobRecord {
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

/// Encodes a value as the JSON text of a column.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("maps of strings and lists of names are always JSON")
}

/// Encodes a list of names as JSON; none if it is empty.
pub fn names(list: &[Name]) -> Option<String> {
    (!list.is_empty()).then(|| json(&list))
}
