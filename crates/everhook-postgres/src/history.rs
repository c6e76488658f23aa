//! Messages, attempts and delivery states.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use everhook_core::delivery::{self, DeliveryTrace, EndpointPresence};
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, MessageId, TaskId};
use everhook_core::lifecycle::EndState;
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::task::TaskState;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Locator, Order};
use everhook_store::dedup::DedupKey;
use everhook_store::history::{
    Attempt, AttemptFilter, AttemptResult, AttemptsOf, Destination, MessageFilter, attempt_bytes, message_bytes,
};
use everhook_store::piece::Piece;
use everhook_store::{fields, row, statement};

use crate::dedup;
use crate::error::Fault;
use crate::lease::{FindMessage, MessageKey};
use crate::store::PostgresStore;

fields! {
    /// The filter of a list of attempts; `of` is a message or an endpoint.
    AttemptSearch<'a> {
        environment: EnvironmentId,
        of: Id,
        above: &'a [u8],
        below: &'a [u8],
        succeeded: Option<bool>,
        status_from: i32,
        status_to: i32,
        before: Timestamp,
        after: Timestamp,
        channel: Option<&'a str>,
        tag: Option<&'a str>,
        event_types: Option<Vec<&'a str>>,
        application: ApplicationId,
        limit: usize,
        order: Order,
    }
}

statement! {
    ListMessage<'a> = "list_message" {
        environment: EnvironmentId, application: ApplicationId, above: &'a [u8], below: &'a [u8], before: Timestamp,
        after: Timestamp, channel: Option<&'a str>, tag: Option<&'a str>, event_types: Option<Vec<&'a str>>,
        text: Option<&'a [u8]>, limit: usize, bytes_max: usize, order: Order,
    } -> Vec<(EnvironmentId, Message)>;
    // A search reads a bounded number of rows: this finds the last one.
    ScanMessage<'a> = "scan_message" {
        environment: EnvironmentId, application: ApplicationId, above: &'a [u8], below: &'a [u8], skipped: usize,
        order: Order,
    } -> Option<Id>;
    ScanAttempt<'a> = "scan_attempt" {
        environment: EnvironmentId, endpoint: EndpointId, above: &'a [u8], below: &'a [u8], skipped: usize,
        order: Order,
    } -> Option<Id>;
    ExpungeMessage = "expunge_message" { environment: EnvironmentId, application: ApplicationId, id: MessageId };
    ListAttemptEndpoint<'a> = "list_attempt_endpoint" { search: AttemptSearch<'a> } -> Vec<Attempt>;
    ListAttemptMessage<'a> = "list_attempt_message" { search: AttemptSearch<'a>, endpoint: Option<EndpointId> }
        -> Vec<Attempt>;
    FindAttempt = "find_attempt" { environment: EnvironmentId, message: MessageId, id: AttemptId } -> Option<Attempt>;
    ExpungeAttempt = "expunge_attempt" { environment: EnvironmentId, message: MessageId, id: AttemptId };
    ListDestination = "list_destination" {
        environment: EnvironmentId, application: ApplicationId, message: MessageId,
    } -> Vec<(Endpoint, Option<Timestamp>, TraceRow)>;
}

row! {
    /// An open task, or an attempt that ended one.
    struct TraceRow in "task" {
        task: TaskId,
        epoch: i32,
        state: Option<TaskState>,
        due_at: Option<Timestamp>,
        end_state: Option<EndState>,
    }
}

impl PostgresStore {
    pub(crate) async fn find_message_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        locator: &Locator<MessageId>,
    ) -> Result<Option<Message>, Fault> {
        let id = match locator {
            Locator::Id(id) => *id,
            Locator::Uid(event_id) => match self.find_event(environment, application, event_id).await? {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        let wanted = [MessageKey { environment, application, id }].into_iter().collect();
        Ok(self.database.read(FindMessage { wanted }).await?.pop().map(|(_, message)| message))
    }

    /// Finds the message of an event id.
    async fn find_event(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        event_id: &Name,
    ) -> Result<Option<MessageId>, Fault> {
        let key = DedupKey::event_id(application, event_id);
        Ok(dedup::find(&self.database, environment, &key).await?.map(MessageId))
    }

    pub(crate) async fn list_messages_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &MessageFilter,
    ) -> Result<Piece<Message, MessageId>, Fault> {
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        if filter.is_selective() {
            let (above, below) = (range.above.as_slice(), range.below.as_slice());
            let (skipped, order) = (skipped(filter.scan), slice.order);
            scanned =
                self.database.read(ScanMessage { environment, application, above, below, skipped, order }).await?;
            range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
        }
        let list = ListMessage {
            environment,
            application,
            above: &range.above,
            below: &range.below,
            before: before(filter.before),
            after: after(filter.after),
            channel: text(filter.channel.as_ref()),
            tag: text(filter.tag.as_ref()),
            event_types: texts(&filter.event_types),
            text: filter.text.as_ref().map(|text| text.as_bytes()),
            limit: slice.limit,
            bytes_max: PAGE_BYTES_MAX,
            order: slice.order,
        };
        let found = self.database.read(list).await?.into_iter().map(|(_, message)| Ok(message));
        Piece::gather(found, slice.limit, message_bytes, |row| row.id, scanned.map(MessageId))
    }

    pub(crate) async fn expunge_message_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: MessageId,
    ) -> Result<bool, Fault> {
        let expunged = self.database.write(ExpungeMessage { environment, application, id }).await?;
        Ok(expunged > 0)
    }

    pub(crate) async fn expunge_attempt_once(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        id: AttemptId,
    ) -> Result<bool, Fault> {
        let expunged = self.database.write(ExpungeAttempt { environment, message, id }).await?;
        Ok(expunged > 0)
    }

    pub(crate) async fn list_attempts_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &AttemptFilter,
    ) -> Result<Piece<Attempt, AttemptId>, Fault> {
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        // A message has few attempts, which are sorted after the search. A part of them cannot be read in order.
        if let (true, AttemptsOf::Endpoint(endpoint)) = (filter.is_selective(), filter.of) {
            let (above, below) = (range.above.as_slice(), range.below.as_slice());
            let (skipped, order) = (skipped(filter.scan), slice.order);
            scanned = self.database.read(ScanAttempt { environment, endpoint, above, below, skipped, order }).await?;
            range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
        }
        let (status_from, status_to) = statuses(filter.status_class);
        let of = match filter.of {
            AttemptsOf::Message(message, _) => message.0,
            AttemptsOf::Endpoint(endpoint) => endpoint.0,
        };
        let search = AttemptSearch {
            environment,
            of,
            above: &range.above,
            below: &range.below,
            succeeded: filter.result.map(|result| result == AttemptResult::Succeeded),
            status_from,
            status_to,
            before: before(filter.before),
            after: after(filter.after),
            channel: text(filter.channel.as_ref()),
            tag: text(filter.tag.as_ref()),
            event_types: texts(&filter.event_types),
            application,
            limit: slice.limit,
            order: slice.order,
        };
        let found = match filter.of {
            AttemptsOf::Message(_, endpoint) => self.database.read(ListAttemptMessage { search, endpoint }).await?,
            AttemptsOf::Endpoint(_) => self.database.read(ListAttemptEndpoint { search }).await?,
        };
        let found = found.into_iter().map(Ok);
        Piece::gather(found, slice.limit, attempt_bytes, |row| row.id, scanned.map(AttemptId))
    }

    pub(crate) async fn find_attempt_once(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        id: AttemptId,
    ) -> Result<Option<Attempt>, Fault> {
        self.database.read(FindAttempt { environment, message, id }).await
    }

    pub(crate) async fn list_destinations_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Result<Vec<Destination>, Fault> {
        let mut newest: BTreeMap<EndpointId, Trace> = BTreeMap::new();
        let found = self.database.read(ListDestination { environment, application, message }).await?;
        for (endpoint, deleted_at, row) in found {
            let trace = Trace::new(endpoint, deleted_at, &row)?;
            match newest.entry(trace.endpoint.id) {
                Entry::Vacant(vacant) => drop(vacant.insert(trace)),
                Entry::Occupied(mut occupied) if trace.rank() > occupied.get().rank() => drop(occupied.insert(trace)),
                Entry::Occupied(_) => {}
            }
        }
        Ok(newest.into_values().map(Trace::destination).collect())
    }
}

/// Returns the number of rows before the last one that a search reads.
pub(crate) fn skipped(scan: usize) -> usize {
    scan.saturating_sub(1)
}

fn before(before: Option<Timestamp>) -> Timestamp {
    before.unwrap_or(Timestamp::from_micros(i64::MAX))
}

fn after(after: Option<Timestamp>) -> Timestamp {
    after.unwrap_or(Timestamp::from_micros(i64::MIN))
}

fn text(name: Option<&Name>) -> Option<&str> {
    name.map(Name::as_str)
}

fn texts(names: &[Name]) -> Option<Vec<&str>> {
    (!names.is_empty()).then(|| names.iter().map(Name::as_str).collect())
}

/// Returns the first status of the range, and the first one above it. Class 0 is only the status 0.
fn statuses(class: Option<u16>) -> (i32, i32) {
    match class {
        None => (i32::MIN, i32::MAX),
        Some(0) => (0, 1),
        Some(class) => (i32::from(class), i32::from(class) + 100),
    }
}

/// One life of a delivery: an open task, or an ended one.
struct Trace {
    endpoint: Endpoint,
    deleted: bool,
    task: TaskId,
    epoch: i32,
    trace: DeliveryTrace,
    due_at: Option<Timestamp>,
}

impl Trace {
    fn new(endpoint: Endpoint, deleted_at: Option<Timestamp>, row: &TraceRow) -> Result<Trace, Fault> {
        let trace = match (row.state, row.end_state) {
            (Some(state), _) => DeliveryTrace::Open(state),
            (None, Some(end)) => DeliveryTrace::Ended(end),
            (None, None) => return Err(Fault::Corrupt { table: "task", column: "end_state" }),
        };
        let (task, epoch, due_at) = (row.task, row.epoch, row.due_at);
        Ok(Trace { endpoint, deleted: deleted_at.is_some(), task, epoch, trace, due_at })
    }

    /// The newest life counts; within it an open task before attempts, and a later attempt before earlier ones.
    fn rank(&self) -> (TaskId, bool, i32) {
        (self.task, matches!(self.trace, DeliveryTrace::Open(_)), self.epoch)
    }

    fn destination(self) -> Destination {
        let presence = EndpointPresence::of(&self.endpoint, self.deleted);
        let pending = matches!(self.trace, DeliveryTrace::Open(TaskState::Pending));
        Destination {
            state: delivery::state(self.trace, presence),
            next_attempt: self
                .due_at
                .filter(|at| pending && presence == EndpointPresence::Enabled && *at < Timestamp::NEVER),
            endpoint: self.endpoint,
        }
    }
}
