//! What happened: messages, attempts, where a message stands.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use everhook_core::delivery::{self, DeliveryTrace, EndpointPresence};
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, ID_BYTES, Id, MessageId, TaskId};
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
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::catalog::count;
use crate::error::Fault;
use crate::rows::{self, ENDPOINT_COLUMNS, Reader};
use crate::sql;
use crate::statement::Params;
use crate::store::PostgresStore;

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
        let application = application.as_bytes().as_slice();
        let (environments, applications, ids) = ([environment.0], [application], [id.as_bytes().as_slice()]);
        let params: Params<'_> = &[&environments.as_slice(), &applications.as_slice(), &ids.as_slice()];
        let found = self.database.read(&sql::FIND_MESSAGE, params).await?;
        found.first().map(|row| rows::message(row).map(|(_, message)| message)).transpose()
    }

    /// Which message an event id stands for.
    async fn find_event(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        event_id: &Name,
    ) -> Result<Option<MessageId>, Fault> {
        let key = DedupKey::event_id(application, event_id);
        let (environments, scopes, hashes) = ([environment.0], [key.scope.to_db()], [key.hash.as_slice()]);
        let params: Params<'_> = &[&environments.as_slice(), &scopes.as_slice(), &hashes.as_slice()];
        let found = self.database.read(&sql::FIND_DEDUP, params).await?;
        found.first().map(|row| Reader::from(row, "dedup", 3).id("object").map(MessageId)).transpose()
    }

    pub(crate) async fn list_messages_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &MessageFilter,
    ) -> Result<Piece<Message, MessageId>, Fault> {
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        if filter.is_selective() {
            let params: Params<'_> =
                &[&environment.0, &application.as_bytes().as_slice(), &range.above, &range.below, &scan(filter.scan)];
            scanned = self.scan_end(&sql::SCAN_MESSAGE, slice.order, params).await?;
            range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
        }
        let (before, after) = times(filter.before, filter.after);
        let (channel, tag) = (text(filter.channel.as_ref()), text(filter.tag.as_ref()));
        let types = texts(&filter.event_types);
        let params: Params<'_> = &[
            &environment.0,
            &application.as_bytes().as_slice(),
            &range.above,
            &range.below,
            &before,
            &after,
            &channel,
            &tag,
            &types,
            &count(slice.limit),
            &count(PAGE_BYTES_MAX),
        ];
        let sql = sql::directed(&sql::LIST_MESSAGE, slice.order);
        let found = self.database.read_as(&sql::LIST_MESSAGE, &sql, params).await?;
        let read = found.iter().map(|row| rows::message(row).map(|(_, message)| message));
        Piece::gather(read, slice.limit, message_bytes, |row| row.id, scanned.map(MessageId))
    }

    /// How far a search looks: the id of the last row, or none if there are not so many.
    pub(crate) async fn scan_end(
        &self,
        sql: &'static sql::Sql,
        order: Order,
        params: Params<'_>,
    ) -> Result<Option<Id>, Fault> {
        let found = self.database.read_as(sql, &sql::directed(sql, order), params).await?;
        found.first().map(|row| Reader::new(row, "scan").id("id")).transpose()
    }

    pub(crate) async fn expunge_once(
        &self,
        sql: &'static sql::Sql,
        environment: EnvironmentId,
        [owner, id]: [&[u8]; 2],
    ) -> Result<bool, Fault> {
        self.database.change(sql, &[&environment.0, &owner, &id]).await.map(|changed| changed > 0)
    }

    pub(crate) async fn list_attempts_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &AttemptFilter,
    ) -> Result<Piece<Attempt, AttemptId>, Fault> {
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        let (list, of, only): (_, &[u8; ID_BYTES], Option<&[u8]>) = match &filter.of {
            AttemptsOf::Message(message, endpoint) => {
                let only = endpoint.as_ref().map(|endpoint| endpoint.as_bytes().as_slice());
                (&sql::LIST_ATTEMPT_MESSAGE, message.as_bytes(), only)
            }
            AttemptsOf::Endpoint(endpoint) => (&sql::LIST_ATTEMPT_ENDPOINT, endpoint.as_bytes(), None),
        };
        // The few attempts of one message are sorted: there is no way to look at some of them only.
        if filter.is_selective() && matches!(filter.of, AttemptsOf::Endpoint(_)) {
            let params: Params<'_> = &[&environment.0, &of.as_slice(), &range.above, &range.below, &scan(filter.scan)];
            scanned = self.scan_end(&sql::SCAN_ATTEMPT, slice.order, params).await?;
            range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
        }
        let succeeded = filter.result.map(|result| result == AttemptResult::Succeeded);
        let (status_from, status_to) = statuses(filter.status_class);
        let (before, after) = times(filter.before, filter.after);
        let (channel, tag) = (text(filter.channel.as_ref()), text(filter.tag.as_ref()));
        let (types, of, application) = (texts(&filter.event_types), of.as_slice(), application.as_bytes().as_slice());
        let limit = count(slice.limit);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &environment.0,
            &of,
            &range.above,
            &range.below,
            &succeeded,
            &status_from,
            &status_to,
            &before,
            &after,
            &channel,
            &tag,
            &types,
            &application,
            &limit,
        ];
        if let AttemptsOf::Message(..) = filter.of {
            params.push(&only);
        }
        let found = self.database.read_as(list, &sql::directed(list, slice.order), &params).await?;
        Piece::gather(found.iter().map(rows::attempt), slice.limit, attempt_bytes, |row| row.id, scanned.map(AttemptId))
    }

    pub(crate) async fn find_attempt_once(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        id: AttemptId,
    ) -> Result<Option<Attempt>, Fault> {
        let params: Params<'_> = &[&environment.0, &message.as_bytes().as_slice(), &id.as_bytes().as_slice()];
        self.database.read(&sql::FIND_ATTEMPT, params).await?.first().map(rows::attempt).transpose()
    }

    pub(crate) async fn list_destinations_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Result<Vec<Destination>, Fault> {
        let params: Params<'_> = &[&environment.0, &application.as_bytes().as_slice(), &message.as_bytes().as_slice()];
        let mut newest: BTreeMap<EndpointId, Trace> = BTreeMap::new();
        for row in self.database.read(&sql::LIST_DESTINATION, params).await? {
            let trace = Trace::read(&row)?;
            match newest.entry(trace.endpoint.id) {
                Entry::Vacant(vacant) => drop(vacant.insert(trace)),
                Entry::Occupied(mut occupied) if trace.rank() > occupied.get().rank() => drop(occupied.insert(trace)),
                Entry::Occupied(_) => {}
            }
        }
        Ok(newest.into_values().map(Trace::destination).collect())
    }
}

/// How many rows are skipped to come to the last one that a search looks at.
pub(crate) fn scan(rows: usize) -> i64 {
    count(rows.saturating_sub(1))
}

fn times(before: Option<Timestamp>, after: Option<Timestamp>) -> (i64, i64) {
    (before.map_or(i64::MAX, Timestamp::as_micros), after.map_or(i64::MIN, Timestamp::as_micros))
}

fn text(name: Option<&Name>) -> Option<&str> {
    name.map(Name::as_str)
}

fn texts(names: &[Name]) -> Option<Vec<&str>> {
    (!names.is_empty()).then(|| names.iter().map(Name::as_str).collect())
}

/// From which status on, and below which. 0 is no status at all, and not the hundred behind it.
fn statuses(class: Option<u16>) -> (i32, i32) {
    match class {
        None => (i32::MIN, i32::MAX),
        Some(0) => (0, 1),
        Some(class) => (i32::from(class), i32::from(class) + 100),
    }
}

/// What is known of one life of a delivery.
struct Trace {
    endpoint: Endpoint,
    deleted: bool,
    task: TaskId,
    epoch: i32,
    trace: DeliveryTrace,
    due_at: Option<Timestamp>,
}

impl Trace {
    fn read(row: &Row) -> Result<Trace, Fault> {
        let mut rest = Reader::from(row, "task", ENDPOINT_COLUMNS);
        let deleted = rest.get::<Option<i64>>("deleted_at")?.is_some();
        let (task, epoch) = (TaskId(rest.id("task")?), rest.get("epoch")?);
        let state: Option<i16> = rest.get("state")?;
        let due_at = rest.get::<Option<i64>>("due_at")?.map(Timestamp::from_micros);
        let trace = match state {
            Some(state) => {
                let state = TaskState::from_db(state).ok_or(Fault::Corrupt { table: "task", column: "state" })?;
                DeliveryTrace::Open(state)
            }
            None => DeliveryTrace::Ended(rest.coded("end_state", EndState::from_db)?),
        };
        Ok(Trace { endpoint: rows::endpoint(row, 0)?, deleted, task, epoch, trace, due_at })
    }

    /// The newest life counts, an open task before its attempts, the last attempt before earlier ones.
    fn rank(&self) -> (TaskId, bool, i32) {
        (self.task, matches!(self.trace, DeliveryTrace::Open(_)), self.epoch)
    }

    fn destination(self) -> Destination {
        let presence = match self.endpoint.state {
            _ if self.deleted => EndpointPresence::Deleted,
            EndpointState::Enabled => EndpointPresence::Enabled,
            EndpointState::Disabled | EndpointState::Gone => EndpointPresence::Disabled,
        };
        let pending = matches!(self.trace, DeliveryTrace::Open(TaskState::Pending));
        Destination {
            state: delivery::state(self.trace, presence),
            next_attempt: self.due_at.filter(|_| pending && presence == EndpointPresence::Enabled),
            endpoint: self.endpoint,
        }
    }
}
