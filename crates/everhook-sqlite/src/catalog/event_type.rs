//! Event types.

use everhook_core::event_type::EventType;
use everhook_core::id::{EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{ArchivedTypes, Created, Order, Replaced, Slice, event_type_bytes};
use everhook_store::dedup::DedupKey;
use everhook_store::piece::Piece;
use everhook_store::{fields, statement};
use rusqlite::Connection;

use crate::catalog::{Claim, NAME_ENDS, bounds, claim, release};
use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

fields! {
    /// The fields of an event type that users set.
    EventTypeFields<'a> {
        description: &'a str,
        archived: bool,
        deprecated: bool,
        schemas: Option<&'a str>,
        feature_flag: Option<&'a str>,
        group_name: Option<&'a str>,
    }
}

statement! {
    CreateEventType<'a> = "create_event_type" {
        environment: EnvironmentId, name: &'a str, fields: EventTypeFields<'a>, now: Timestamp,
    };
    FindEventType<'a> = "find_event_type" { environment: EnvironmentId, name: &'a str } -> Option<EventType>;
    ListEventType<'a> = "list_event_type" {
        environment: EnvironmentId, above: &'a str, below: &'a str, archived: bool, limit: usize, order: Order,
    } -> Vec<EventType>;
    ReplaceEventType<'a> = "replace_event_type" {
        environment: EnvironmentId, name: &'a str, revision: i64, fields: EventTypeFields<'a>, now: Timestamp,
    };
    DeleteEventType<'a> = "delete_event_type" { environment: EnvironmentId, name: &'a str };
    KnownEventType<'a> = (
        "known_event_type",
        "select 1 from event_type where environment = :environment and name = :name and not archived"
    ) { environment: EnvironmentId, name: &'a str } -> Option<i64>;
}

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
    let create = CreateEventType {
        environment,
        name: event_type.name.as_str(),
        fields: EventTypeFields::new(event_type),
        now: tx.now,
    };
    run(tx.conn, create)?;
    Ok(Created::New(EventType { created_at: tx.now, updated_at: tx.now, revision: 1, ..event_type.clone() }))
}

pub(crate) fn find(conn: &Connection, environment: EnvironmentId, name: &Name) -> Result<Option<EventType>, Fault> {
    run(conn, FindEventType { environment, name: name.as_str() })
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    archived: ArchivedTypes,
    slice: &Slice<Name>,
) -> Result<Piece<EventType, Name>, Fault> {
    let (above, below) = bounds(slice.after.as_ref().map(Name::as_str), slice.order, NAME_ENDS);
    let archived = archived == ArchivedTypes::Included;
    let (limit, order) = (slice.limit, slice.order);
    let found = run(conn, ListEventType { environment, above, below, archived, limit, order })?;
    Piece::gather(found.into_iter().map(Ok), slice.limit, event_type_bytes, |row| row.name.clone(), None)
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
    let replace = ReplaceEventType {
        environment,
        name: event_type.name.as_str(),
        revision: event_type.revision,
        fields: EventTypeFields::new(event_type),
        now: tx.now,
    };
    run(tx.conn, replace)?;
    let (created_at, revision) = (current.created_at, current.revision + 1);
    Ok(Replaced::Done(EventType { created_at, updated_at: tx.now, revision, ..event_type.clone() }))
}

pub(crate) fn delete(tx: &Tx<'_>, environment: EnvironmentId, name: &Name) -> Result<bool, Fault> {
    run(tx.conn, DeleteEventType { environment, name: name.as_str() }).map(|deleted| deleted == 1)
}

/// Those of `names` that are not event types an endpoint may ask for.
pub(crate) fn unknown(conn: &Connection, environment: EnvironmentId, names: Vec<Name>) -> Result<Vec<Name>, Fault> {
    let mut unknown = Vec::new();
    for name in names {
        if run(conn, KnownEventType { environment, name: name.as_str() })?.is_none() {
            unknown.push(name);
        }
    }
    Ok(unknown)
}

impl<'a> EventTypeFields<'a> {
    fn new(event_type: &'a EventType) -> EventTypeFields<'a> {
        EventTypeFields {
            description: &event_type.description,
            archived: event_type.archived,
            deprecated: event_type.deprecated,
            schemas: event_type.schemas.as_deref(),
            feature_flag: event_type.feature_flag.as_ref().map(Name::as_str),
            group_name: event_type.group_name.as_deref(),
        }
    }
}
