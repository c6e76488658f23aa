//! What happened, and the operator's ways to have it happen again. Messages here, attempts and deliveries in files of their own.

use async_trait::async_trait;
use everhook_core::id::{ApplicationId, AttemptId, EnvironmentId, MessageId};
use everhook_core::message::Message;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Locator;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::history::{
    Attempt, AttemptFilter, Destination, History, MessageFilter, Redrive, Resend, Resent, message_bytes,
};
use everhook_store::piece::Piece;
use rusqlite::{Connection, ToSql, params};

use crate::SqliteStore;
use crate::catalog::{directed, limit, scan_end};
use crate::failure::Fault;
use crate::rows::{self, Record};
use crate::writer::{Ask, Class, Tx};

mod attempt;
mod delivery;

const FIND_MESSAGE: &str = include_str!("../queries/find_message.sql");
const FIND_DEDUP: &str = include_str!("../queries/find_dedup.sql");
const LIST_MESSAGE: &str = include_str!("../queries/list_message.sql");
const SCAN_MESSAGE: &str = include_str!("../queries/scan_message.sql");
const EXPUNGE_MESSAGE: &str = include_str!("../queries/expunge_message.sql");

#[async_trait]
impl History for SqliteStore {
    async fn find_message(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        locator: &Locator<MessageId>,
    ) -> Result<Option<Message>, StoreError> {
        let locator = locator.clone();
        self.read("find_message", move |conn| find(conn, environment, application, &locator)).await
    }

    async fn list_messages(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &MessageFilter,
    ) -> Result<Piece<Message, MessageId>, StoreError> {
        let filter = filter.clone();
        self.search(environment, "list_messages", move |conn| list(conn, environment, application, &filter)).await
    }

    async fn expunge_message(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: MessageId,
    ) -> Result<bool, StoreError> {
        self.change("expunge_message", move |tx| expunge(tx, environment, application, id)).await
    }

    async fn list_attempts(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &AttemptFilter,
    ) -> Result<Piece<Attempt, AttemptId>, StoreError> {
        let filter = filter.clone();
        self.search(environment, "list_attempts", move |conn| attempt::list(conn, environment, application, &filter))
            .await
    }

    async fn find_attempt(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        id: AttemptId,
    ) -> Result<Option<Attempt>, StoreError> {
        self.read("find_attempt", move |conn| attempt::find(conn, environment, message, id)).await
    }

    async fn expunge_attempt(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        id: AttemptId,
    ) -> Result<bool, StoreError> {
        self.change("expunge_attempt", move |tx| attempt::expunge(tx, environment, message, id)).await
    }

    async fn list_destinations(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    ) -> Result<Vec<Destination>, StoreError> {
        let list = move |conn: &Connection| delivery::list(conn, environment, application, message);
        self.search(environment, "list_destinations", list).await
    }

    async fn resend(&self, environment: EnvironmentId, resend: &Resend) -> Result<Resent, StoreError> {
        let resend = resend.clone();
        self.change("resend", move |tx| delivery::resend(tx, environment, &resend)).await
    }

    async fn redrive(&self, environment: EnvironmentId, redrive: &Redrive) -> Result<usize, StoreError> {
        let redrive = redrive.clone();
        let ask = Ask { op: "redrive", class: Class::Change, rows: redrive.limit };
        self.write(ask, move |tx| delivery::redrive(tx, environment, &redrive)).await
    }
}

/// Instants that bound a list: before everything that has a time, and after it.
pub(crate) fn time_bounds(after: Option<Timestamp>, before: Option<Timestamp>) -> (i64, i64) {
    (after.map_or(i64::MIN, Timestamp::as_micros), before.map_or(i64::MAX, Timestamp::as_micros))
}

fn find(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    locator: &Locator<MessageId>,
) -> Result<Option<Message>, Fault> {
    let id = match locator {
        Locator::Id(id) => *id,
        Locator::Uid(event_id) => {
            let key = DedupKey::event_id(application, event_id);
            let mut find = conn.prepare_cached(FIND_DEDUP)?;
            let mut rows = find.query(params![environment.0, key.scope.to_db(), key.hash])?;
            match rows.next()? {
                Some(row) => MessageId(Record::new(row, "dedup").id(0, "object")?),
                None => return Ok(None),
            }
        }
    };
    let mut find = conn.prepare_cached(FIND_MESSAGE)?;
    let mut rows = find.query(params![environment.0, application.as_bytes(), id.as_bytes()])?;
    rows.next()?.map(|row| rows::message(row, application)).transpose()
}

fn list(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    filter: &MessageFilter,
) -> Result<Piece<Message, MessageId>, Fault> {
    let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
    if filter.is_selective() {
        let params: [&dyn ToSql; 4] = [&environment.0, application.as_bytes(), &range.above, &range.below];
        scanned = scan_end(conn, SCAN_MESSAGE, slice.order, &params, filter.scan)?;
        range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
    }
    let (later_than, earlier_than) = time_bounds(filter.after, filter.before);
    let mut list = conn.prepare_cached(&directed(LIST_MESSAGE, slice.order))?;
    let params = params![
        environment.0,
        application.as_bytes(),
        range.above,
        range.below,
        earlier_than,
        later_than,
        filter.channel.as_ref().map(|name| name.as_str()),
        filter.tag.as_ref().map(|name| name.as_str()),
        rows::names_to_json(&filter.event_types)?,
        limit(slice.limit),
    ];
    let rows = list.query_and_then(params, |row| rows::message(row, application))?;
    Piece::gather(rows, slice.limit, message_bytes, |row| row.id, scanned.map(MessageId))
}

fn expunge(tx: &Tx<'_>, environment: EnvironmentId, application: ApplicationId, id: MessageId) -> Result<bool, Fault> {
    let mut expunge = tx.conn.prepare_cached(EXPUNGE_MESSAGE)?;
    Ok(expunge.execute(params![environment.0, application.as_bytes(), id.as_bytes()])? == 1)
}
