//! Applications.

use everhook_core::application::Application;
use everhook_core::id::{ApplicationId, EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_store::catalog::{Created, Having, Locator, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use rusqlite::{Connection, params};

use crate::catalog::{Claim, bounds, claim, directed, endpoint, limit, release};
use crate::failure::Fault;
use crate::rows::{self, ABOVE_IDS, BELOW_IDS, Record, to_json};
use crate::writer::Tx;

const CREATE_APPLICATION: &str = include_str!("../../queries/create_application.sql");
const FIND_APPLICATION: &str = include_str!("../../queries/find_application.sql");
const FIND_APPLICATION_UID: &str = include_str!("../../queries/find_application_uid.sql");
const LIST_APPLICATION: &str = include_str!("../../queries/list_application.sql");
const REPLACE_APPLICATION: &str = include_str!("../../queries/replace_application.sql");
const DELETE_APPLICATION: &str = include_str!("../../queries/delete_application.sql");

/// Where `find_application` says whether it is deleted.
const DELETED_AT: usize = 8;

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
    tx.conn.prepare_cached(CREATE_APPLICATION)?.execute(params![
        environment.0,
        application.id.as_bytes(),
        application.uid.as_ref().map(Name::as_str),
        application.name,
        application.throttle_rate,
        to_json(&application.metadata)?,
        tx.now.as_micros(),
    ])?;
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
    let mut find = conn.prepare_cached(FIND_APPLICATION)?;
    let mut rows = find.query(params![environment.0, id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let deleted = !Record::new(row, "application").is_null(DELETED_AT)?;
    Ok(Some((rows::application(row)?, deleted)))
}

fn find_by_uid(
    conn: &Connection,
    environment: EnvironmentId,
    uid: Option<&Name>,
) -> Result<Option<Application>, Fault> {
    let Some(uid) = uid else { return Ok(None) };
    let mut find = conn.prepare_cached(FIND_APPLICATION_UID)?;
    let mut rows = find.query(params![environment.0, uid.as_str()])?;
    rows.next()?.map(rows::application).transpose()
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    having: Having,
    slice: &Slice<ApplicationId>,
) -> Result<Vec<Application>, Fault> {
    let after = slice.after.as_ref().map(|id| id.as_bytes().as_slice());
    let (above, below) = bounds(after, slice.order, (BELOW_IDS, ABOVE_IDS));
    let mut list = conn.prepare_cached(&directed(LIST_APPLICATION, slice.order))?;
    let params = params![environment.0, above, below, limit(slice.limit), having.to_db()];
    list.query_and_then(params, rows::application)?.collect()
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
    tx.conn.prepare_cached(REPLACE_APPLICATION)?.execute(params![
        environment.0,
        application.id.as_bytes(),
        application.revision,
        application.uid.as_ref().map(Name::as_str),
        application.name,
        application.throttle_rate,
        to_json(&application.metadata)?,
        tx.now.as_micros(),
    ])?;
    let (created_at, revision) = (current.created_at, current.revision + 1);
    Ok(Replaced::Done(Application { created_at, updated_at: tx.now, revision, ..application.clone() }))
}

pub(crate) fn delete(tx: &Tx<'_>, environment: EnvironmentId, id: ApplicationId) -> Result<bool, Fault> {
    let mut delete = tx.conn.prepare_cached(DELETE_APPLICATION)?;
    if delete.execute(params![environment.0, id.as_bytes(), tx.now.as_micros()])? == 0 {
        return Ok(false);
    }
    endpoint::delete_range(tx, environment, id, (Id::MIN, Id::MAX))?;
    Ok(true)
}

/// Whether an application is there and not deleted.
pub(crate) fn exists(conn: &Connection, environment: EnvironmentId, id: ApplicationId) -> Result<bool, Fault> {
    let mut exists =
        conn.prepare_cached("select 1 from application where environment = ?1 and id = ?2 and deleted_at is null")?;
    Ok(exists.exists(params![environment.0, id.as_bytes()])?)
}
