//! Slices of bulk work, and the background tasks of an environment.

use std::collections::BTreeSet;

use everhook_core::background::replay::Replay;
use everhook_core::background::selection::BulkSelection;
use everhook_core::background::{Effect, Purge};
use everhook_core::delivery::DeliveryCommand;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{EndpointId, EnvironmentId, Id, JobId, MessageId, SERVER_ENVIRONMENT, TaskId};
use everhook_core::job::{JobState, LeaseLost};
use everhook_core::limits::RESULT_BYTES_MAX;
use everhook_core::message::Message;
use everhook_core::policy::order::OrderKey;
use everhook_core::resource::ResourceKind;
use everhook_core::scope::AppScope;
use everhook_core::task::{TaskKey, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::{TakesPosition, new_delivery};
use everhook_store::background::{
    Advance, Advanced, AttemptCount, BackgroundFilter, BulkWork, SliceRead, SliceRows, owner_key,
};
use everhook_store::catalog::Order;
use everhook_store::job::{JobRecord, job_bytes};
use everhook_store::piece::{IdRange, Piece};
use everhook_store::query::CountAttempts;
use everhook_store::resource::{Parent, Resource};
use everhook_store::sql::rows::CandidateRow;
use everhook_store::sql::shared::{FindResource, ListMessageId, ListTaskDead, ScanBackground};
use everhook_store::statement;

use crate::append::lower_lanes_due;
use crate::columns::DueLane;
use crate::deliveries;
use crate::error::Fault;
use crate::job::query::FindJob;
use crate::job::steer::PutJobProgress;
use crate::lease::{MessageKey, MessageKeys};
use crate::order::{append_ordered, promote};
use crate::resource;
use crate::store::PostgresStore;
use crate::tx::{NO_TIME, Now, Tx};

/// Candidates that one statement reads with their payloads.
const PAYLOADS_AT_ONCE: usize = 16;

statement! {
    LockTaskHeld = "lock_task_held" { environment: EnvironmentId, job: JobId } -> Option<TaskId>;
    FindCandidate = ["find_candidate", "attempt_of_message"] {
        wanted: MessageKeys, endpoint: EndpointId, payload_bytes: usize,
    }
        -> Vec<(Message, CandidateRow)>;
    DeleteTaskDead = "delete_task_dead" { wanted: MessageKeys, lane: EndpointId } -> Vec<Option<OrderKey>>;
    PurgeContent = "purge_content" { wanted: MessageKeys, until: Timestamp };
    HasContent = "has_content" { wanted: MessageKeys, until: Timestamp } -> Vec<MessageId>;
    CountAttempt = "count_attempt" { wanted: MessageKeys, since: Timestamp, until: Timestamp } -> Option<u64>;
    ListBackground<'a> = "list_background" {
        owner: &'a str, above: &'a [u8], below: &'a [u8], kind: Option<&'a str>, tag: Option<&'a str>,
        states: Option<Vec<JobState>>, result_max: usize, limit: usize, order: Order,
    } -> Vec<JobRecord>;
}

impl PostgresStore {
    /// Does one slice and stores its position, if the caller still holds the job.
    pub(crate) async fn advance_once(
        &self,
        environment: EnvironmentId,
        advance: &Advance,
    ) -> Result<Result<Option<Advanced>, LeaseLost>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        // The second statement sees the position that an earlier holder committed while the first waited for its lock.
        let (environment_of_job, job) = (SERVER_ENVIRONMENT, advance.job);
        let lock = LockTaskHeld { environment: environment_of_job, job };
        let (_, record, now) = tx.run((lock, FindJob { environment: environment_of_job, id: job }, Now {})).await?;
        let now = now.ok_or(NO_TIME)?;
        let checked = advance.check(record.as_ref());
        if !matches!(checked, Ok(None)) {
            tx.roll_back().await?;
            return Ok(checked);
        }
        let advanced = match &advance.work {
            BulkWork::Replay(wanted) => self.replay(&tx, environment, advance, wanted, now).await?,
            BulkWork::Purge(wanted) => Some(purge(&tx, environment, advance, wanted).await?),
            BulkWork::Steer(wanted, command) => {
                self.steer_slice(&tx, environment, advance, (wanted, *command), now).await?
            }
        };
        let Some(advanced) = advanced else {
            tx.roll_back().await?;
            return Ok(Ok(None));
        };
        let progress = advance.progress(&advanced);
        let put = PutJobProgress {
            environment: environment_of_job,
            job,
            owner: advance.by.session,
            epoch: advance.by.epoch,
            progress: i16::from(progress.percent()),
            text: progress.text(),
        };
        tx.finish((advance.reset_crashes(record.as_ref()), put)).await?;
        Ok(Ok(Some(advanced)))
    }

    /// Adds a delivery for each message of the slice that the replay wants. Returns none if the endpoint does not
    /// exist.
    async fn replay(
        &self,
        tx: &Tx<'_>,
        environment: EnvironmentId,
        advance: &Advance,
        wanted: &Replay,
        now: Timestamp,
    ) -> Result<Option<Advanced>, Fault> {
        let (scope, lane) = (AppScope::of(environment, wanted.application), wanted.endpoint);
        let Some(endpoint) = find_endpoint(tx, scope, lane).await? else { return Ok(None) };
        let rows = advance.replay_rows(wanted);
        let read = read_rows(tx, scope, lane, &rows, advance.limit).await?;
        let ids = &read.messages;
        let payload_bytes = wanted.payload_bytes(&endpoint);
        // Payloads are read a few at a time, because each may be large.
        let at_once = if payload_bytes > 0 { PAYLOADS_AT_ONCE } else { ids.len().max(1) };
        let mut messages = Vec::new();
        for ids in ids.chunks(at_once) {
            let found = tx.run(FindCandidate { wanted: keys(scope, ids), endpoint: lane, payload_bytes }).await?;
            let candidates = found.into_iter().map(|(message, row)| row.of(message));
            let chosen = candidates.filter(|candidate| wanted.wants(&endpoint, candidate, now));
            messages.extend(chosen.map(|candidate| candidate.message.id));
        }
        if !messages.is_empty() && advance.effect == Effect::Apply {
            let task = |message: &MessageId| {
                let key = TaskKey { environment, subject: message.0, id: TaskId(self.ids.next(now)) };
                (new_delivery(key, lane.lane(), Trigger::Scheduled, now), None)
            };
            let append = append_ordered(&messages.iter().map(task).collect::<Vec<_>>(), TakesPosition::Behind);
            let due = [DueLane::new(environment, lane.lane(), now)].into_iter().collect();
            let delete = DeleteTaskDead { wanted: keys(scope, &messages), lane };
            // Later deliveries may overtake these: the lane is not marked as waiting.
            let (deleted, ..) = tx.run((delete, append, lower_lanes_due(due))).await?;
            // The append has locked the lane.
            tx.run(promote(deleted.into_iter().filter_map(|key| Some((environment, lane.lane(), key?))))).await?;
        }
        Ok(Some(advance.done(&read, messages.len())))
    }

    /// Carries out a command for each chosen delivery of the slice. Returns none if the endpoint does not exist.
    async fn steer_slice(
        &self,
        tx: &Tx<'_>,
        environment: EnvironmentId,
        advance: &Advance,
        (wanted, command): (&BulkSelection, DeliveryCommand),
        now: Timestamp,
    ) -> Result<Option<Advanced>, Fault> {
        let (scope, endpoint) = (AppScope::of(environment, wanted.application), wanted.endpoint);
        if find_endpoint(tx, scope, endpoint).await?.is_none() {
            return Ok(None);
        }
        let rows = advance.steer_rows(wanted, command);
        let read = read_rows(tx, scope, endpoint, &rows, advance.limit).await?;
        let find = FindCandidate { wanted: keys(scope, &read.messages), endpoint, payload_bytes: 0 };
        let candidates = tx.run(find).await?.into_iter().map(|(message, row)| row.of(message));
        let chosen = candidates.filter(|candidate| wanted.wants(command, candidate, now));
        let chosen: Vec<MessageId> = chosen.map(|candidate| candidate.message.id).collect();
        let changed = match advance.effect {
            Effect::Apply if !chosen.is_empty() => {
                let steered = self.steer_locked(tx, environment, (&chosen, Some(endpoint)), command, now).await?;
                let changed = steered.into_iter().filter(|(_, action)| action.is_change());
                changed.map(|(task, _)| task.key.subject).collect::<BTreeSet<Id>>().len()
            }
            Effect::Apply | Effect::Count => chosen.len(),
        };
        Ok(Some(advance.done(&read, changed)))
    }

    /// Counts the attempts of the next messages of a window.
    pub(crate) async fn count_attempts_once(&self, count: &CountAttempts) -> Result<AttemptCount, Fault> {
        let CountAttempts { scope, since, until, limit, .. } = *count;
        let (range, order) = (count.range(), Order::Ascending);
        let ids = self.database.read(ListMessageId { scope, step: range.step(limit, order) }).await?;
        let next = ids.last().copied().filter(|_| ids.len() == limit);
        let count = self.database.read(CountAttempt { wanted: keys(scope, &ids), since, until }).await?;
        Ok(AttemptCount { attempts: count.unwrap_or_default(), next })
    }

    pub(crate) async fn list_background_once(
        &self,
        environment: EnvironmentId,
        filter: &BackgroundFilter,
    ) -> Result<Piece<JobRecord, JobId>, Fault> {
        let (owner, slice, mut range) = (&*owner_key(environment), &filter.slice, filter.range());
        let mut scanned = None;
        if filter.is_selective() {
            let scan = range.scan(filter.scan, slice.order);
            scanned = self.database.read(ScanBackground { owner, scan }).await?;
            range = range.until(scanned, slice.order);
        }
        let list = ListBackground {
            owner,
            above: &range.above,
            below: &range.below,
            kind: filter.kind.as_ref().map(|kind| kind.as_str()),
            tag: filter.tag.as_ref().map(|tag| tag.as_str()),
            states: filter.status.map(|status| status.states().to_vec()),
            result_max: RESULT_BYTES_MAX,
            limit: slice.limit,
            order: slice.order,
        };
        let found = self.database.read(list).await?.into_iter().map(Ok);
        Piece::gather(found, slice.limit, job_bytes, |record| record.job.id, scanned.map(JobId))
    }
}

async fn find_endpoint(
    tx: &Tx<'_>,
    AppScope { environment, application }: AppScope,
    endpoint: EndpointId,
) -> Result<Option<Endpoint>, Fault> {
    let (kind, parent) = (ResourceKind::Endpoint, Parent::of(application));
    let found = tx.run(FindResource { environment, kind, parent, id: endpoint.0 }).await?;
    let Some((row, _)) = found.filter(|(row, _)| row.deleted_at.is_none()) else { return Ok(None) };
    match resource::read(&row, None)? {
        Resource::Endpoint(endpoint) => Ok(Some(endpoint)),
        _ => Err(Fault::Corrupt { table: "resource", column: "kind" }),
    }
}

/// Reads the rows of a slice.
async fn read_rows(
    tx: &Tx<'_>,
    scope: AppScope,
    endpoint: EndpointId,
    rows: &SliceRows,
    limit: usize,
) -> Result<SliceRead, Fault> {
    let environment = scope.environment;
    Ok(match rows {
        SliceRows::Messages(range) => SliceRead::of_messages(list_messages(tx, scope, range, limit).await?),
        SliceRows::OpenTasks(range) => {
            SliceRead::of_open(&deliveries::list_open(tx, environment, range, limit).await?, endpoint)
        }
        SliceRows::DeadTasks { after } => {
            let dead = ListTaskDead { environment, lane: endpoint, after: *after, limit };
            SliceRead::of_dead(&tx.run(dead).await?)
        }
    })
}

async fn purge(tx: &Tx<'_>, environment: EnvironmentId, advance: &Advance, wanted: &Purge) -> Result<Advanced, Fault> {
    let (scope, until) = (AppScope::of(environment, wanted.application), wanted.until);
    let range = advance.purge_range(wanted);
    let read = SliceRead::of_messages(list_messages(tx, scope, &range, advance.limit).await?);
    let wanted = keys(scope, &read.messages);
    let purged = match advance.effect {
        Effect::Apply => usize::try_from(tx.run(PurgeContent { wanted, until }).await?).unwrap_or(usize::MAX),
        Effect::Count => tx.run(HasContent { wanted, until }).await?.len(),
    };
    Ok(advance.done(&read, purged))
}

async fn list_messages(tx: &Tx<'_>, scope: AppScope, range: &IdRange, limit: usize) -> Result<Vec<MessageId>, Fault> {
    tx.run(ListMessageId { scope, step: range.step(limit, Order::Ascending) }).await
}

fn keys(AppScope { environment, application }: AppScope, messages: &[MessageId]) -> MessageKeys {
    messages.iter().map(|id| MessageKey { environment, application, id: *id }).collect()
}
