//! The keys that seal secrets: which one seals, and the rotation to another one.
//!
//! A server makes the key file of its folder at its first start, and seals everything that is still plain text or
//! sealed with another key than the first one. `everhook secrets rotate` does the same beside a running server.

use std::path::{Path, PathBuf};

use everhook_core::id::EnvironmentId;
use everhook_core::seal::{NeededKey, OpenError, SealKeyId, SealRefusal, SealRing, current as current_of};
use everhook_store::dedup::HASH_BYTES;
use everhook_store::error::StoreError;
use everhook_store::seal::{
    KeyFileError, RESEAL_PAGE, ResourceAt, Rotated, Seal, add_key, answer_place, generate_key, token_place,
};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{
    DeleteSealKey, ListSealKey, ListSealedRequest, ListSealedResource, ListSealedToken, PutSealKey, ResealRequest,
    ResealResource, ResealToken, RetireSealKey,
};
use everhook_store::statement;
use everhook_store::store::Op;
use tracing::info;

use crate::SqliteStore;
use crate::clock;
use crate::connection::Connection;
use crate::error::Fault;
use crate::open::{OpenAs, SqliteOpenError};
use crate::sql::{run, run_plain};

/// The key file in the data folder.
const KEY_FILE: &str = "everhook.keys";

/// The place of the keys.
#[derive(Clone, Debug, Default)]
pub enum SealSource {
    /// The file `everhook.keys` in the data folder, which the first start makes.
    #[default]
    Folder,
    /// Another file, which must exist.
    File(PathBuf),
    Ring(SealRing),
}

statement! {
    FindSealKey = ("find_seal_key", "select id from seal_key where state = 0") {} -> Option<SealKeyId>;
}

/// The path of the key file in a data folder.
pub fn key_file(folder: &Path) -> PathBuf {
    folder.join(KEY_FILE)
}

impl SqliteStore {
    /// Returns the keys that the store needs. Empty: secrets are plain text.
    pub async fn needed_keys(&self) -> Result<Vec<NeededKey>, StoreError> {
        self.read(Op::Maintain, |conn| run(conn, ListSealKey {})).await
    }

    /// Seals every secret with the first key, in short transactions beside other work. Repeatable: an interrupted
    /// rotation continues.
    pub async fn rotate_secrets(&self) -> Result<Rotated, StoreError> {
        let (key, needed) = self.change(Op::Maintain, |tx| begin(tx.conn)).await?;
        let (mut position, mut sealed) = (Some(Position::Resources(ResourceAt::START)), 0);
        while let Some(at) = position {
            let (next, count) = self.change(Op::Maintain, move |tx| reseal(tx.conn, key, at)).await?;
            (position, sealed) = (next, sealed + count);
        }
        let retired = self.change(Op::Maintain, move |tx| end(tx.conn, &needed, key)).await?;
        Ok(Rotated { key, sealed, retired })
    }
}

/// The next secrets of a rotation.
#[derive(Clone, Copy)]
enum Position {
    Resources(ResourceAt),
    Requests(EnvironmentId, [u8; HASH_BYTES]),
    Tokens,
}

/// Returns the key that seals; none as long as secrets are plain text.
pub(crate) fn current(conn: &Connection) -> Result<Option<SealKeyId>, Fault> {
    run(conn, FindSealKey {})
}

/// The error for a secret that could not be sealed or opened.
pub(crate) fn corrupt(table: &'static str) -> impl Fn(OpenError) -> Fault {
    move |error| Fault::Corrupt { table, column: error.column() }
}

/// Loads the keys of a store, and refuses to go on without one that the store needs. A server makes the key file of a
/// store that has none.
pub(crate) fn load(
    conn: &rusqlite::Connection,
    folder: &Path,
    source: &SealSource,
    open_as: OpenAs,
) -> Result<Seal, SqliteOpenError> {
    let needed = run_plain(conn, ListSealKey {}).map_err(|fault| failed(folder, fault))?;
    let seal = match source {
        SealSource::Ring(ring) => Seal::of(ring.clone()),
        SealSource::File(path) => Seal::from_file(path)?,
        SealSource::Folder => {
            let file = key_file(folder);
            match (file.exists(), needed.first(), open_as) {
                (true, _, _) => Seal::from_file(&file)?,
                (false, Some(key), _) => return Err(SqliteOpenError::KeyFileLost { path: file, key: key.id }),
                (false, None, OpenAs::Beside) => Seal::default(),
                (false, None, OpenAs::Server) => {
                    add_key(&file, &generate_key())?;
                    let shown = file.display();
                    info!("created {shown}, which seals the secrets in the database: keep a copy of it");
                    Seal::from_file(&file)?
                }
            }
        }
    };
    let refused = |refusal: SealRefusal| SqliteOpenError::Keys { path: folder.to_owned(), refusal };
    seal.check(&needed).map_err(refused)?;
    Ok(seal)
}

/// Seals everything with the first key, before a server starts.
pub(crate) fn prepare(conn: &Connection, folder: &Path) -> Result<(), SqliteOpenError> {
    let named = |fault| failed(folder, fault);
    let Some(ring) = conn.seal().ring() else { return Ok(()) };
    let needed = run(conn, ListSealKey {}).map_err(named)?;
    if needed.len() == 1 && current_of(&needed) == Some(ring.first()) {
        return Ok(());
    }
    let (key, needed) = in_transaction(conn, begin).map_err(named)?;
    let (mut position, mut sealed) = (Some(Position::Resources(ResourceAt::START)), 0);
    while let Some(at) = position {
        let (next, count) = in_transaction(conn, |conn| reseal(conn, key, at)).map_err(named)?;
        (position, sealed) = (next, sealed + count);
    }
    in_transaction(conn, |conn| end(conn, &needed, key)).map_err(named)?;
    if sealed > 0 {
        info!("sealed {sealed} secrets with the key {key}");
    }
    Ok(())
}

fn in_transaction<T>(conn: &Connection, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
    let transaction = conn.unchecked_transaction()?;
    let done = work(conn)?;
    transaction.commit()?;
    Ok(done)
}

/// Makes the first key the one that seals. Returns it, and the keys that were needed before.
fn begin(conn: &Connection) -> Result<(SealKeyId, Vec<NeededKey>), Fault> {
    let ring = conn.seal().ring().ok_or(Fault::Corrupt { table: "seal_key", column: "key (none is configured)" })?;
    let (id, needed) = (ring.first(), run(conn, ListSealKey {})?);
    run(conn, PutSealKey { id: &id, now: StoreClock::At(clock::wall()) })?;
    run(conn, RetireSealKey { id: &id })?;
    Ok((id, needed))
}

/// Seals a page of secrets anew. Returns the position of the next page, and the number of changed rows.
fn reseal(conn: &Connection, key: SealKeyId, at: Position) -> Result<(Option<Position>, u64), Fault> {
    match at {
        Position::Resources(at) => reseal_resources(conn, key, at),
        Position::Requests(environment, hash) => reseal_requests(conn, key, environment, &hash),
        Position::Tokens => reseal_tokens(conn, key).map(|changed| (None, changed)),
    }
}

fn reseal_resources(conn: &Connection, key: SealKeyId, at: ResourceAt) -> Result<(Option<Position>, u64), Fault> {
    let ResourceAt { environment, kind, parent, id } = at;
    let rows = run(conn, ListSealedResource { environment, kind, parent, id, limit: RESEAL_PAGE })?;
    let (mut changed, mut last) = (0, None);
    for (environment, kind, parent, id, old) in &rows {
        let at = ResourceAt { environment: *environment, kind: *kind, parent: *parent, id: *id };
        last = Some(Position::Resources(at));
        if !kind.has_secrets() {
            continue;
        }
        let sealed = conn.seal().reseal(key, at.place(&at.row()), old.as_bytes()).map_err(corrupt("resource"))?;
        if let Some(sealed) = sealed {
            let sealed = &String::from_utf8_lossy(&sealed);
            let ResourceAt { environment, kind, parent, id } = at;
            changed += run(conn, ResealResource { environment, kind, parent, id, old, sealed })?;
        }
    }
    let rest = Position::Requests(EnvironmentId(i32::MIN), [0; HASH_BYTES]);
    Ok((Some(last.unwrap_or(rest)), changed))
}

fn reseal_requests(
    conn: &Connection,
    key: SealKeyId,
    environment: EnvironmentId,
    hash: &[u8; HASH_BYTES],
) -> Result<(Option<Position>, u64), Fault> {
    let rows = run(conn, ListSealedRequest { environment, hash, limit: RESEAL_PAGE })?;
    let (mut changed, mut last) = (0, Position::Tokens);
    for (environment, hash, old) in rows {
        let sealed = conn.seal().reseal(key, answer_place(environment, &hash), &old).map_err(corrupt("request"))?;
        if let Some(sealed) = &sealed {
            changed += run(conn, ResealRequest { environment, hash: &hash, old: &old, sealed })?;
        }
        last = Position::Requests(environment, hash);
    }
    Ok((Some(last), changed))
}

fn reseal_tokens(conn: &Connection, key: SealKeyId) -> Result<u64, Fault> {
    let mut changed = 0;
    for (id, old) in run(conn, ListSealedToken {})? {
        let sealed = conn.seal().reseal(key, token_place(&id), &old).map_err(corrupt("token_key"))?;
        if let Some(sealed) = &sealed {
            changed += run(conn, ResealToken { id, old: &old, sealed })?;
        }
    }
    Ok(changed)
}

/// Ends a rotation that has sealed everything: the keys that were needed before it are needed no more.
fn end(conn: &Connection, before: &[NeededKey], key: SealKeyId) -> Result<Vec<SealKeyId>, Fault> {
    let retired: Vec<SealKeyId> = before.iter().map(|needed| needed.id).filter(|id| *id != key).collect();
    for id in &retired {
        run(conn, DeleteSealKey { id })?;
    }
    Ok(retired)
}

fn failed(folder: &Path, fault: Fault) -> SqliteOpenError {
    SqliteOpenError::Secrets { path: folder.to_owned(), source: Box::new(fault.into_store_error(Op::Maintain)) }
}

impl From<KeyFileError> for SqliteOpenError {
    fn from(error: KeyFileError) -> SqliteOpenError {
        SqliteOpenError::KeyFile(error)
    }
}
