//! Event types.

use everhook_core::event_type::EventType;
use everhook_core::id::{EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_store::catalog::{ArchivedTypes, Created, Replaced, Slice, event_type_bytes};
use everhook_store::dedup::DedupKey;
use everhook_store::piece::Piece;
use rusqlite::{Connection, params};

use crate::catalog::{Claim, NAME_ENDS, bounds, claim, directed, limit, release};
use crate::failure::Fault;
use crate::rows;
use crate::writer::Tx;

const CREATE_EVENT_TYPE: &str = include_str!("../../queries/create_event_type.sql");
const FIND_EVENT_TYPE: &str = include_str!("../../queries/find_event_type.sql");
const LIST_EVENT_TYPE: &str = include_str!("../../queries/list_event_type.sql");
const REPLACE_EVENT_TYPE: &str = include_str!("../../queries/replace_event_type.sql");
const DELETE_EVENT_TYPE: &str = include_str!("../../queries/delete_event_type.sql");

/// What a key of an event type points to: event types have names, no ids.
const OBJECT: Id = Id::MIN;

pub(crate) fn create(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    event_type: &EventType,
    key: Option<&DedupKey>,
) -> Result<Created<EventType>, Fault> {
    let claimed = claim(tx, environment, key, OBJECT)?;
    let existing = find(tx.conn, environment, &event_type.name)?;
    match (claimed, existing) {
        (Claim::Reused, _) => return Ok(Created::KeyReused),
        (Claim::Repeated(_), Some(existing)) => return Ok(Created::Repeated(existing)),
        (Claim::Won, Some(existing)) => {
            release(tx, environment, key, OBJECT)?;
            return Ok(Created::Taken(existing));
        }
        // It was removed since the same request made it: it is made again.
        (Claim::Won | Claim::Repeated(_), None) => {}
    }
    tx.conn.prepare_cached(CREATE_EVENT_TYPE)?.execute(params![
        environment.0,
        event_type.name.as_str(),
        event_type.description,
        event_type.archived,
        event_type.deprecated,
        event_type.schemas,
        event_type.feature_flag.as_ref().map(Name::as_str),
        event_type.group_name,
        tx.now.as_micros(),
    ])?;
    Ok(Created::New(EventType { created_at: tx.now, updated_at: tx.now, revision: 1, ..event_type.clone() }))
}

pub(crate) fn find(conn: &Connection, environment: EnvironmentId, name: &Name) -> Result<Option<EventType>, Fault> {
    let mut find = conn.prepare_cached(FIND_EVENT_TYPE)?;
    let mut rows = find.query(params![environment.0, name.as_str()])?;
    rows.next()?.map(rows::event_type).transpose()
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    archived: ArchivedTypes,
    slice: &Slice<Name>,
) -> Result<Piece<EventType, Name>, Fault> {
    let (above, below) = bounds(slice.after.as_ref().map(Name::as_str), slice.order, NAME_ENDS);
    let archived = archived == ArchivedTypes::Included;
    let mut list = conn.prepare_cached(&directed(LIST_EVENT_TYPE, slice.order))?;
    let params = params![environment.0, above, below, archived, limit(slice.limit)];
    let rows = list.query_and_then(params, rows::event_type)?;
    Piece::gather(rows, slice.limit, event_type_bytes, |row| row.name.clone(), None)
}

pub(crate) fn replace(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    event_type: &EventType,
) -> Result<Replaced<EventType>, Fault> {
    let current = match find(tx.conn, environment, &event_type.name)? {
        Some(current) if current.revision == event_type.revision => current,
        _ => return Ok(Replaced::Stale),
    };
    tx.conn.prepare_cached(REPLACE_EVENT_TYPE)?.execute(params![
        environment.0,
        event_type.name.as_str(),
        event_type.revision,
        event_type.description,
        event_type.archived,
        event_type.deprecated,
        event_type.schemas,
        event_type.feature_flag.as_ref().map(Name::as_str),
        event_type.group_name,
        tx.now.as_micros(),
    ])?;
    let (created_at, revision) = (current.created_at, current.revision + 1);
    Ok(Replaced::Done(EventType { created_at, updated_at: tx.now, revision, ..event_type.clone() }))
}

pub(crate) fn delete(tx: &Tx<'_>, environment: EnvironmentId, name: &Name) -> Result<bool, Fault> {
    let mut delete = tx.conn.prepare_cached(DELETE_EVENT_TYPE)?;
    Ok(delete.execute(params![environment.0, name.as_str()])? == 1)
}

/// Those of `names` that are not event types an endpoint may ask for.
pub(crate) fn unknown(conn: &Connection, environment: EnvironmentId, names: Vec<Name>) -> Result<Vec<Name>, Fault> {
    let mut known =
        conn.prepare_cached("select 1 from event_type where environment = ?1 and name = ?2 and not archived")?;
    let mut unknown = Vec::new();
    for name in names {
        if !known.exists(params![environment.0, name.as_str()])? {
            unknown.push(name);
        }
    }
    Ok(unknown)
}
