//! What happened: messages, attempts, where a message stands.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use async_trait::async_trait;
use everhook_core::delivery::{self, DeliveryTrace, EndpointPresence};
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, ID_BYTES, MessageId, TaskId};
use everhook_core::lifecycle::EndState;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::task::TaskState;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Locator;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::history::{
    Attempt, AttemptFilter, AttemptResult, AttemptsOf, Destination, History, MessageFilter, Redrive, Resend, Resent,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::catalog::{count, id_bounds};
use crate::error::Fault;
use crate::rows::{self, ENDPOINT_COLUMNS, Reader};
use crate::sql;
use crate::statement::Params;
use crate::store::PostgresStore;

#[async_trait]
impl History for PostgresStore {
    async fn find_message(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        locator: &Locator<MessageId>,
    ) -> Result<Option<Message>, StoreError> {
        self.run_plain("find a message", || self.find_message_once(environment, application, locator)).await
    }

    async fn list_messages(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &MessageFilter,
    ) -> Result<Vec<Message>, StoreError> {
        self.run_plain("list messages", || self.list_messages_once(environment, application, filter)).await
    }

    async fn expunge_message(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: MessageId,
    ) -> Result<bool, StoreError> {
        let (application, id) = (application.as_bytes().as_slice(), id.as_bytes().as_slice());
        self.run_plain("expunge a message", || self.expunge(&sql::EXPUNGE_MESSAGE, environment, [application, id]))
            .await
    }

    async fn list_attempts(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &AttemptFilter,
    ) -> Result<Vec<Attempt>, StoreError> {
        self.run_plain("list attempts", || self.list_attempts_once(environment, application, filter)).await
    }

    async fn find_attempt(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        id: AttemptId,
    ) -> Result<Option<Attempt>, StoreError> {
        self.run_plain("find an attempt", || self.find_attempt_once(environment, message, id)).await
    }

    async fn expunge_attempt(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        id: AttemptId,
    ) -> Result<bool, StoreError> {
        let (message, id) = (message.as_bytes().as_slice(), id.as_bytes().as_slice());
        self.run_plain("expunge an attempt", || self.expunge(&sql::EXPUNGE_ATTEMPT, environment, [message, id])).await
    }

    async fn list_destinations(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Result<Vec<Destination>, StoreError> {
        self.run_plain("list destinations", || self.list_destinations_once(environment, application, message)).await
    }

    async fn resend(&self, environment: EnvironmentId, resend: &Resend) -> Result<Resent, StoreError> {
        self.run_plain("resend", || self.resend_once(environment, resend)).await
    }

    async fn redrive(&self, environment: EnvironmentId, redrive: &Redrive) -> Result<usize, StoreError> {
        self.run_plain("redrive", || self.redrive_once(environment, redrive)).await
    }
}

impl PostgresStore {
    async fn find_message_once(
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

    async fn list_messages_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &MessageFilter,
    ) -> Result<Vec<Message>, Fault> {
        let slice = &filter.slice;
        let (low, high) = id_bounds(slice.order, slice.after.as_ref().map(MessageId::as_bytes));
        let (before, after) = times(filter.before, filter.after);
        let (channel, tag) = (text(filter.channel.as_ref()), text(filter.tag.as_ref()));
        let types = texts(&filter.event_types);
        let params: Params<'_> = &[
            &environment.0,
            &application.as_bytes().as_slice(),
            &low,
            &high,
            &before,
            &after,
            &channel,
            &tag,
            &types,
            &count(slice.limit),
        ];
        let sql = sql::directed(&sql::LIST_MESSAGE, slice.order);
        let found = self.database.read_as(&sql::LIST_MESSAGE, &sql, params).await?;
        found.iter().map(|row| rows::message(row).map(|(_, message)| message)).collect()
    }

    async fn expunge(
        &self,
        sql: &'static sql::Sql,
        environment: EnvironmentId,
        [owner, id]: [&[u8]; 2],
    ) -> Result<bool, Fault> {
        self.database.change(sql, &[&environment.0, &owner, &id]).await.map(|changed| changed > 0)
    }

    async fn list_attempts_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &AttemptFilter,
    ) -> Result<Vec<Attempt>, Fault> {
        let slice = &filter.slice;
        let (list, of, only): (_, &[u8; ID_BYTES], Option<&[u8]>) = match &filter.of {
            AttemptsOf::Message(message, endpoint) => {
                let only = endpoint.as_ref().map(|endpoint| endpoint.as_bytes().as_slice());
                (&sql::LIST_ATTEMPT_MESSAGE, message.as_bytes(), only)
            }
            AttemptsOf::Endpoint(endpoint) => (&sql::LIST_ATTEMPT_ENDPOINT, endpoint.as_bytes(), None),
        };
        let (low, high) = id_bounds(slice.order, slice.after.as_ref().map(AttemptId::as_bytes));
        let succeeded = filter.result.map(|result| result == AttemptResult::Succeeded);
        let (status_from, status_to) = statuses(filter.status_class);
        let (before, after) = times(filter.before, filter.after);
        let (channel, tag) = (text(filter.channel.as_ref()), text(filter.tag.as_ref()));
        let (types, of, application) = (texts(&filter.event_types), of.as_slice(), application.as_bytes().as_slice());
        let limit = count(slice.limit);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &environment.0,
            &of,
            &low,
            &high,
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
        found.iter().map(rows::attempt).collect()
    }

    async fn find_attempt_once(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        id: AttemptId,
    ) -> Result<Option<Attempt>, Fault> {
        let params: Params<'_> = &[&environment.0, &message.as_bytes().as_slice(), &id.as_bytes().as_slice()];
        self.database.read(&sql::FIND_ATTEMPT, params).await?.first().map(rows::attempt).transpose()
    }

    async fn list_destinations_once(
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
        let (state, tries): (Option<i16>, Option<i32>) = (rest.get("state")?, rest.get("tries")?);
        let due_at = rest.get::<Option<i64>>("due_at")?.map(Timestamp::from_micros);
        let trace = match state {
            Some(state) => {
                let state = TaskState::from_db(state).ok_or(Fault::Corrupt { table: "task", column: "state" })?;
                DeliveryTrace::Open { state, tried: tries.is_some_and(|tries| tries > 0) }
            }
            None => DeliveryTrace::Ended(rest.coded("end_state", EndState::from_db)?),
        };
        Ok(Trace { endpoint: rows::endpoint(row, 0)?, deleted, task, epoch, trace, due_at })
    }

    /// The newest life counts, an open task before its attempts, the last attempt before earlier ones.
    fn rank(&self) -> (TaskId, bool, i32) {
        (self.task, matches!(self.trace, DeliveryTrace::Open { .. }), self.epoch)
    }

    fn destination(self) -> Destination {
        let presence = match self.endpoint.state {
            _ if self.deleted => EndpointPresence::Deleted,
            EndpointState::Enabled => EndpointPresence::Enabled,
            EndpointState::Disabled | EndpointState::Gone => EndpointPresence::Disabled,
        };
        let pending = matches!(self.trace, DeliveryTrace::Open { state: TaskState::Pending, .. });
        Destination {
            state: delivery::state(self.trace, presence),
            next_attempt: self.due_at.filter(|_| pending && presence == EndpointPresence::Enabled),
            endpoint: self.endpoint,
        }
    }
}
