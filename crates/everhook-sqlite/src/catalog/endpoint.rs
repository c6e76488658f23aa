//! Endpoints and their lanes. Every change moves the application's revision, which is what caches compare.

use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_store::catalog::{Created, Locator, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::sql::rows::keys_text;
use rusqlite::{Connection, params};

use crate::catalog::{Claim, application, bounds, claim, directed, limit, release};
use crate::error::Fault;
use crate::rows::{self, ABOVE_IDS, BELOW_IDS, ENDPOINT_COLUMNS, Reader, to_json};
use crate::writer::Tx;

const CREATE_ENDPOINT: &str = include_str!("../../queries/create_endpoint.sql");
const COUNT_ENDPOINT: &str = include_str!("../../queries/count_endpoint.sql");
const CREATE_LANE: &str = include_str!("../../queries/create_lane.sql");
const FIND_ENDPOINT: &str = include_str!("../../queries/find_endpoint.sql");
const FIND_ENDPOINT_UID: &str = include_str!("../../queries/find_endpoint_uid.sql");
const LIST_ENDPOINT: &str = include_str!("../../queries/list_endpoint.sql");
const REPLACE_ENDPOINT: &str = include_str!("../../queries/replace_endpoint.sql");
const DELETE_ENDPOINT: &str = include_str!("../../queries/delete_endpoint.sql");
const SET_LANE_STATE: &str = include_str!("../../queries/set_lane_state.sql");
const MARK_LANE_EMPTY: &str = include_str!("../../queries/mark_lane_empty.sql");
const TOUCH_APPLICATION: &str = include_str!("../../queries/touch_application.sql");

pub(crate) fn create(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    endpoint: &Endpoint,
    max: usize,
    key: Option<&DedupKey>,
) -> Result<Created<Endpoint>, Fault> {
    match claim(tx, environment, key, endpoint.id.0)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Created::KeyReused),
        Claim::Repeated(object) => {
            let found = find_any(tx.conn, environment, endpoint.application, object)?;
            let corrupt = Fault::Corrupt { table: "dedup", column: "object" };
            return found.map(|(endpoint, _)| Created::Repeated(endpoint)).ok_or(corrupt);
        }
    }
    let refused = if !application::exists(tx.conn, environment, endpoint.application)? {
        Some(Created::NoParent)
    } else if let Some(holder) = find_by_uid(tx.conn, environment, endpoint.application, endpoint.uid.as_ref())? {
        Some(Created::Taken(holder))
    } else {
        is_full(tx, environment, endpoint.application, max)?.then_some(Created::Full)
    };
    if let Some(refused) = refused {
        release(tx, environment, key, endpoint.id.0)?;
        return Ok(refused);
    }
    insert(tx, environment, endpoint)?;
    touch_application(tx, environment, endpoint.application)?;
    Ok(Created::New(Endpoint { created_at: tx.now, updated_at: tx.now, revision: 1, ..endpoint.clone() }))
}

/// Whether an application has `max` endpoints.
fn is_full(tx: &Tx<'_>, environment: EnvironmentId, application: ApplicationId, max: usize) -> Result<bool, Fault> {
    let mut count = tx.conn.prepare_cached(COUNT_ENDPOINT)?;
    let params = params![environment.0, application.as_bytes(), limit(max)];
    let counted: i64 = count.query_row(params, |row| row.get(0))?;
    Ok(counted >= limit(max))
}

fn insert(tx: &Tx<'_>, environment: EnvironmentId, endpoint: &Endpoint) -> Result<(), Fault> {
    tx.conn.prepare_cached(CREATE_ENDPOINT)?.execute(params![
        environment.0,
        endpoint.application.as_bytes(),
        endpoint.id.as_bytes(),
        endpoint.uid.as_ref().map(Name::as_str),
        endpoint.url,
        endpoint.description,
        endpoint.state.to_db(),
        endpoint.event_types.as_ref().map(to_json).transpose()?,
        endpoint.channels.as_ref().map(to_json).transpose()?,
        to_json(&endpoint.headers)?,
        endpoint.throttle_rate,
        to_json(&endpoint.metadata)?,
        endpoint.version,
        keys_text(&endpoint.keys),
        tx.now.as_micros(),
    ])?;
    tx.conn.prepare_cached(CREATE_LANE)?.execute(params![
        environment.0,
        endpoint.id.as_bytes(),
        endpoint.application.as_bytes(),
        lane_state(endpoint.state),
    ])?;
    Ok(())
}

/// What the lane of an endpoint in this state is: open, or held.
fn lane_state(state: EndpointState) -> i16 {
    match state {
        EndpointState::Enabled => 0,
        EndpointState::Disabled | EndpointState::Gone => 1,
    }
}

pub(crate) fn find(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    locator: &Locator<EndpointId>,
) -> Result<Option<Endpoint>, Fault> {
    match locator {
        Locator::Uid(uid) => find_by_uid(conn, environment, application, Some(uid)),
        Locator::Id(id) => {
            let found = find_any(conn, environment, application, id.0)?;
            Ok(found.filter(|(_, deleted)| !deleted).map(|(endpoint, _)| endpoint))
        }
    }
}

/// The endpoint and whether it is deleted.
fn find_any(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    id: Id,
) -> Result<Option<(Endpoint, bool)>, Fault> {
    let mut find = conn.prepare_cached(FIND_ENDPOINT)?;
    let mut rows = find.query(params![environment.0, application.as_bytes(), id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let deleted = !Reader::new(row, "endpoint").is_null(ENDPOINT_COLUMNS)?;
    Ok(Some((rows::endpoint(row)?, deleted)))
}

fn find_by_uid(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    uid: Option<&Name>,
) -> Result<Option<Endpoint>, Fault> {
    let Some(uid) = uid else { return Ok(None) };
    let mut find = conn.prepare_cached(FIND_ENDPOINT_UID)?;
    let mut rows = find.query(params![environment.0, application.as_bytes(), uid.as_str()])?;
    rows.next()?.map(rows::endpoint).transpose()
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    slice: &Slice<EndpointId>,
) -> Result<Vec<Endpoint>, Fault> {
    let after = slice.after.as_ref().map(|id| id.as_bytes().as_slice());
    let (above, below) = bounds(after, slice.order, (BELOW_IDS, ABOVE_IDS));
    let mut list = conn.prepare_cached(&directed(LIST_ENDPOINT, slice.order))?;
    let params = params![environment.0, application.as_bytes(), above, below, limit(slice.limit)];
    let rows = list.query_and_then(params, rows::endpoint)?;
    rows.collect()
}

pub(crate) fn replace(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    endpoint: &Endpoint,
    key: Option<&DedupKey>,
) -> Result<Replaced<Endpoint>, Fault> {
    match claim(tx, environment, key, endpoint.id.0)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Replaced::KeyReused),
        Claim::Repeated(_) => return Ok(Replaced::Repeated),
    }
    let found = find_any(tx.conn, environment, endpoint.application, endpoint.id.0)?;
    let current = match found {
        Some((current, false)) if current.revision == endpoint.revision => current,
        _ => {
            release(tx, environment, key, endpoint.id.0)?;
            return Ok(Replaced::Stale);
        }
    };
    let holder = find_by_uid(tx.conn, environment, endpoint.application, endpoint.uid.as_ref())?;
    if holder.is_some_and(|holder| holder.id != endpoint.id) {
        release(tx, environment, key, endpoint.id.0)?;
        return Ok(Replaced::Taken);
    }
    update(tx, environment, endpoint)?;
    touch_application(tx, environment, endpoint.application)?;
    let (created_at, revision) = (current.created_at, current.revision + 1);
    Ok(Replaced::Done(Endpoint { created_at, updated_at: tx.now, revision, ..endpoint.clone() }))
}

fn update(tx: &Tx<'_>, environment: EnvironmentId, endpoint: &Endpoint) -> Result<(), Fault> {
    tx.conn.prepare_cached(REPLACE_ENDPOINT)?.execute(params![
        environment.0,
        endpoint.application.as_bytes(),
        endpoint.id.as_bytes(),
        endpoint.revision,
        endpoint.uid.as_ref().map(Name::as_str),
        endpoint.url,
        endpoint.description,
        endpoint.state.to_db(),
        endpoint.event_types.as_ref().map(to_json).transpose()?,
        endpoint.channels.as_ref().map(to_json).transpose()?,
        to_json(&endpoint.headers)?,
        endpoint.throttle_rate,
        to_json(&endpoint.metadata)?,
        endpoint.version,
        keys_text(&endpoint.keys),
        tx.now.as_micros(),
    ])?;
    let mut set_lane_state = tx.conn.prepare_cached(SET_LANE_STATE)?;
    set_lane_state.execute(params![environment.0, endpoint.id.as_bytes(), lane_state(endpoint.state)])?;
    Ok(())
}

pub(crate) fn delete(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    id: EndpointId,
) -> Result<bool, Fault> {
    let deleted = delete_range(tx, environment, application, (id.0, id.0))?;
    if deleted > 0 {
        touch_application(tx, environment, application)?;
    }
    Ok(deleted > 0)
}

/// Deletes the endpoints between two ids, both included, and closes their lanes. Answers how many there were.
pub(crate) fn delete_range(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    (first, last): (Id, Id),
) -> Result<usize, Fault> {
    let mut delete = tx.conn.prepare_cached(DELETE_ENDPOINT)?;
    let params = params![environment.0, application.as_bytes(), first.as_bytes(), last.as_bytes(), tx.now.as_micros(),];
    let read = |row: &rusqlite::Row<'_>| Reader::new(row, "endpoint").id(0, "id");
    let deleted = delete.query_and_then(params, read)?.collect::<Result<Vec<Id>, Fault>>()?;
    // Closing, and ready at once, so that a lease takes everything out to be cancelled.
    let mut set_lane_state = tx.conn.prepare_cached(SET_LANE_STATE)?;
    let mut mark_lane_empty = tx.conn.prepare_cached(MARK_LANE_EMPTY)?;
    for endpoint in &deleted {
        set_lane_state.execute(params![environment.0, endpoint.as_bytes(), 2])?;
        mark_lane_empty.execute(params![environment.0, endpoint.as_bytes(), 0])?;
    }
    Ok(deleted.len())
}

fn touch_application(tx: &Tx<'_>, environment: EnvironmentId, application: ApplicationId) -> Result<(), Fault> {
    tx.conn.prepare_cached(TOUCH_APPLICATION)?.execute(params![environment.0, application.as_bytes()])?;
    Ok(())
}
