//! Applications.

use everhook_core::application::Application;
use everhook_core::id::{ApplicationId, EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Having, Locator, Order, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::sql::rows::json;
use everhook_store::statement;
use rusqlite::Connection;

use crate::catalog::{Claim, bounds, claim, endpoint, release};
use crate::error::Fault;
use crate::rows::{ABOVE_IDS, BELOW_IDS};
use crate::sql::run;
use crate::writer::Tx;

statement! {
    CreateApplication<'a> = "create_application" {
        environment: EnvironmentId, id: ApplicationId, uid: Option<&'a str>, name: &'a str, throttle_rate: Option<u16>,
        metadata: String, now: Timestamp,
    };
    // An application and when it was deleted, if it was.
    FindApplication = "find_application" { environment: EnvironmentId, id: ApplicationId }
        -> Option<(Application, Option<Timestamp>)>;
    FindApplicationUid<'a> = "find_application_uid" { environment: EnvironmentId, uid: &'a str }
        -> Option<Application>;
    ListApplication<'a> = "list_application" {
        environment: EnvironmentId, above: &'a [u8], below: &'a [u8], limit: usize, having: Having, order: Order,
    } -> Vec<Application>;
    ReplaceApplication<'a> = "replace_application" {
        environment: EnvironmentId, id: ApplicationId, revision: i64, uid: Option<&'a str>, name: &'a str,
        throttle_rate: Option<u16>, metadata: String, now: Timestamp,
    };
    DeleteApplication = "delete_application" { environment: EnvironmentId, id: ApplicationId, now: Timestamp };
    ExistsApplication = (
        "exists_application",
        "select 1 from application where environment = :environment and id = :id and deleted_at is null"
    ) { environment: EnvironmentId, id: ApplicationId } -> Option<i64>;
}

pub(crate) fn create(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: &Application,
    key: Option<&DedupKey>,
) -> Result<Created<Application>, Fault> {
    match claim(tx, environment, key, application.id.0)? {
        Claim::Won => {}
        Claim::Reused => return Ok(Created::KeyReused),
        Claim::Repeated(object) => {
            let found = find_any(tx.conn, environment, object)?;
            let corrupt = Fault::Corrupt { table: "dedup", column: "object" };
            return found.map(|(application, _)| Created::Repeated(application)).ok_or(corrupt);
        }
    }
    if let Some(holder) = find_by_uid(tx.conn, environment, application.uid.as_ref())? {
        release(tx, environment, key, application.id.0)?;
        return Ok(Created::Taken(holder));
    }
    let create = CreateApplication {
        environment,
        id: application.id,
        uid: application.uid.as_ref().map(Name::as_str),
        name: &application.name,
        throttle_rate: application.throttle_rate,
        metadata: json(&application.metadata),
        now: tx.now,
    };
    run(tx.conn, create)?;
    Ok(Created::New(Application { created_at: tx.now, updated_at: tx.now, revision: 1, ..application.clone() }))
}

pub(crate) fn find(
    conn: &Connection,
    environment: EnvironmentId,
    locator: &Locator<ApplicationId>,
) -> Result<Option<Application>, Fault> {
    match locator {
        Locator::Uid(uid) => find_by_uid(conn, environment, Some(uid)),
        Locator::Id(id) => {
            let found = find_any(conn, environment, id.0)?;
            Ok(found.filter(|(_, deleted)| !deleted).map(|(application, _)| application))
        }
    }
}

/// The application and whether it is deleted.
fn find_any(conn: &Connection, environment: EnvironmentId, id: Id) -> Result<Option<(Application, bool)>, Fault> {
    let found = run(conn, FindApplication { environment, id: ApplicationId(id) })?;
    Ok(found.map(|(application, deleted_at)| (application, deleted_at.is_some())))
}

fn find_by_uid(
    conn: &Connection,
    environment: EnvironmentId,
    uid: Option<&Name>,
) -> Result<Option<Application>, Fault> {
    let Some(uid) = uid else { return Ok(None) };
    run(conn, FindApplicationUid { environment, uid: uid.as_str() })
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    having: Having,
    slice: &Slice<ApplicationId>,
) -> Result<Vec<Application>, Fault> {
    let after = slice.after.as_ref().map(|id| id.as_bytes().as_slice());
    let (above, below) = bounds(after, slice.order, (BELOW_IDS, ABOVE_IDS));
    let (limit, order) = (slice.limit, slice.order);
    run(conn, ListApplication { environment, above, below, limit, having, order })
}

pub(crate) fn replace(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: &Application,
) -> Result<Replaced<Application>, Fault> {
    let found = find_any(tx.conn, environment, application.id.0)?;
    let current = match found {
        Some((current, false)) if current.revision == application.revision => current,
        _ => return Ok(Replaced::Stale),
    };
    let holder = find_by_uid(tx.conn, environment, application.uid.as_ref())?;
    if holder.is_some_and(|holder| holder.id != application.id) {
        return Ok(Replaced::Taken);
    }
    let replace = ReplaceApplication {
        environment,
        id: application.id,
        revision: application.revision,
        uid: application.uid.as_ref().map(Name::as_str),
        name: &application.name,
        throttle_rate: application.throttle_rate,
        metadata: json(&application.metadata),
        now: tx.now,
    };
    run(tx.conn, replace)?;
    let (created_at, revision) = (current.created_at, current.revision + 1);
    Ok(Replaced::Done(Application { created_at, updated_at: tx.now, revision, ..application.clone() }))
}

pub(crate) fn delete(tx: &Tx<'_>, environment: EnvironmentId, id: ApplicationId) -> Result<bool, Fault> {
    if run(tx.conn, DeleteApplication { environment, id, now: tx.now })? == 0 {
        return Ok(false);
    }
    endpoint::delete_range(tx, environment, id, (Id::MIN, Id::MAX))?;
    Ok(true)
}

/// Whether an application is there and not deleted.
pub(crate) fn exists(conn: &Connection, environment: EnvironmentId, id: ApplicationId) -> Result<bool, Fault> {
    run(conn, ExistsApplication { environment, id }).map(|found| found.is_some())
}
