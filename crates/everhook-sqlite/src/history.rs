//! Messages as users see them. Attempts and deliveries have files of their own.

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::message::Message;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Locator;
use everhook_store::dedup::DedupKey;
use everhook_store::history::{MessageFilter, message_bytes};
use everhook_store::piece::Piece;
use rusqlite::{ToSql, params};

use crate::connection::Connection;
use crate::error::Fault;
use crate::rows::{self, Reader};
use crate::sql::{directed, limit, scan_end};
use crate::writer::Tx;

pub(crate) mod attempt;
pub(crate) mod delivery;

const FIND_MESSAGE: &str = include_str!("../queries/find_message.sql");
const FIND_DEDUP: &str = include_str!("../queries/find_dedup.sql");
const LIST_MESSAGE: &str = include_str!("../queries/list_message.sql");
const SCAN_MESSAGE: &str = include_str!("../queries/scan_message.sql");
const EXPUNGE_MESSAGE: &str = include_str!("../queries/expunge_message.sql");

/// Returns bounds for times; a missing bound includes everything.
pub(crate) fn time_bounds(after: Option<Timestamp>, before: Option<Timestamp>) -> (i64, i64) {
    (after.map_or(i64::MIN, Timestamp::as_micros), before.map_or(i64::MAX, Timestamp::as_micros))
}

pub(crate) fn find(
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
                Some(row) => MessageId(Reader::new(row, "dedup").id(0, "object")?),
                None => return Ok(None),
            }
        }
    };
    let mut find = conn.prepare_cached(FIND_MESSAGE)?;
    let mut rows = find.query(params![environment.0, application.as_bytes(), id.as_bytes()])?;
    rows.next()?.map(|row| rows::message(row, application)).transpose()
}

pub(crate) fn list(
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
        filter.text.as_ref().map(|text| text.as_bytes()),
        limit(slice.limit),
    ];
    let rows = list.query_and_then(params, |row| rows::message(row, application))?;
    Piece::gather(rows, slice.limit, message_bytes, |row| row.id, scanned.map(MessageId))
}

pub(crate) fn expunge(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    id: MessageId,
) -> Result<bool, Fault> {
    let mut expunge = tx.conn.prepare_cached(EXPUNGE_MESSAGE)?;
    Ok(expunge.execute(params![environment.0, application.as_bytes(), id.as_bytes()])? == 1)
}
