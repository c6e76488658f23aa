//! The log of attempts.

use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, MessageId};
use everhook_store::history::{Attempt, AttemptFilter, AttemptResult, AttemptsOf, attempt_bytes};
use everhook_store::piece::Piece;
use rusqlite::{Row, ToSql, params};

use crate::connection::Connection;
use crate::error::Fault;
use crate::history::time_bounds;
use crate::rows::names_to_json;
use crate::sql::read_at;
use crate::sql::{directed, limit, scan_end};
use crate::writer::Tx;

const LIST_ATTEMPT_MESSAGE: &str = include_str!("../../queries/list_attempt_message.sql");
const LIST_ATTEMPT_ENDPOINT: &str = include_str!("../../queries/list_attempt_endpoint.sql");
const SCAN_ATTEMPT: &str = include_str!("../../queries/scan_attempt.sql");
const FIND_ATTEMPT: &str = include_str!("../../queries/find_attempt.sql");
const EXPUNGE_ATTEMPT: &str = include_str!("../../queries/expunge_attempt.sql");

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    filter: &AttemptFilter,
) -> Result<Piece<Attempt, AttemptId>, Fault> {
    let (sql, of, endpoint) = match &filter.of {
        AttemptsOf::Message(message, endpoint) => (LIST_ATTEMPT_MESSAGE, message.as_bytes(), endpoint.as_ref()),
        AttemptsOf::Endpoint(endpoint) => (LIST_ATTEMPT_ENDPOINT, endpoint.as_bytes(), None),
    };
    let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
    // A message has few attempts, which are sorted after the search. A part of them cannot be read in order.
    if filter.is_selective() && sql == LIST_ATTEMPT_ENDPOINT {
        let params: [&dyn ToSql; 4] = [&environment.0, of, &range.above, &range.below];
        scanned = scan_end(conn, SCAN_ATTEMPT, slice.order, &params, filter.scan)?;
        range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
    }
    let (later_than, earlier_than) = time_bounds(filter.after, filter.before);
    let (status_from, status_below) = match filter.status_class {
        None => (0, u32::MAX),
        Some(0) => (0, 1),
        Some(class) => (u32::from(class), u32::from(class) + 100),
    };
    let succeeded = filter.result.map(|result| result == AttemptResult::Succeeded);
    let event_types = names_to_json(&filter.event_types)?;
    let (channel, tag) = (filter.channel.as_ref(), filter.tag.as_ref());
    let (channel, tag) = (channel.map(|name| name.as_str()), tag.map(|name| name.as_str()));
    let limit = limit(slice.limit);
    let endpoint = endpoint.map(EndpointId::as_bytes);
    let shared: [&dyn ToSql; 14] = [
        &environment.0,
        of,
        &range.above,
        &range.below,
        &succeeded,
        &status_from,
        &status_below,
        &earlier_than,
        &later_than,
        &channel,
        &tag,
        &event_types,
        application.as_bytes(),
        &limit,
    ];
    let mut params = shared.to_vec();
    if sql == LIST_ATTEMPT_MESSAGE {
        params.push(&endpoint);
    }
    let mut list = conn.prepare_cached(&directed(sql, slice.order))?;
    let rows = list.query_and_then(params.as_slice(), read)?;
    Piece::gather(rows, slice.limit, attempt_bytes, |row| row.id, scanned.map(AttemptId))
}

pub(crate) fn find(
    conn: &Connection,
    environment: EnvironmentId,
    message: MessageId,
    id: AttemptId,
) -> Result<Option<Attempt>, Fault> {
    let mut find = conn.prepare_cached(FIND_ATTEMPT)?;
    let mut rows = find.query(params![environment.0, message.as_bytes(), id.as_bytes()])?;
    rows.next()?.map(read).transpose()
}

pub(crate) fn expunge(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    message: MessageId,
    id: AttemptId,
) -> Result<bool, Fault> {
    let mut expunge = tx.conn.prepare_cached(EXPUNGE_ATTEMPT)?;
    Ok(expunge.execute(params![environment.0, message.as_bytes(), id.as_bytes()])? == 1)
}

fn read(row: &Row<'_>) -> Result<Attempt, Fault> {
    read_at(row, 0)
}
