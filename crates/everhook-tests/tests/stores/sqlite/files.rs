//! The database file: exclusive access, durability, and accepted schemas.

use std::path::Path;
use std::sync::Arc;

use everhook_core::id::{EndpointId, Id, MessageId, OrgId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::role::Role;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_sqlite::{OpenAs, SqliteMigrationReport, SqliteOpenError, SqliteStore, migrate};
use everhook_store::catalog::{Created, Locator};
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::lease::{Append, NewSession, Reclaim, Renewed, Settled};
use everhook_store::query;
use everhook_store::resource::New;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::store::{Reads, Resources, Store};
use everhook_store::worker::{REMOTE, Takes};
use everhook_testkit::conformance::fixture::{HOUR, new_endpoint};
use rusqlite::Connection;

use crate::sqlite::stage::Stage;

fn open(folder: &Path, open_as: OpenAs) -> Result<SqliteStore, SqliteOpenError> {
    SqliteStore::open(folder, open_as, Arc::new(Ids::from_system()))
}

fn raw(folder: &Path) -> Connection {
    Connection::open(folder.join("everhook.db")).unwrap()
}

#[tokio::test]
async fn a_second_server_is_refused_until_the_first_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path(), OpenAs::Server).unwrap();
    let refused = open(folder.path(), OpenAs::Server).err().unwrap();
    let text = refused.to_string();
    assert!(matches!(refused, SqliteOpenError::InUse { .. }));
    assert!(text.contains("everhook.db") && text.contains(&format!("pid {}", std::process::id())), "{text}");
    first.close();
    open(folder.path(), OpenAs::Server).unwrap();
}

#[tokio::test]
async fn a_command_beside_the_server_sees_and_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let session = stage.session().await;
    let beside = open(folder.path(), OpenAs::Beside).unwrap();
    let environments = beside.read(query::Environments {}).await.unwrap();
    assert_eq!(environments.iter().map(|environment| environment.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    // The server has cached these endpoints. An endpoint created by another process must count for the next message.
    stage.endpoint().await;
    stage.send(1).await;
    let endpoint = new_endpoint(EndpointId(stage.id()), stage.application);
    let created = beside
        .create(Scope::of(stage.environment), New { record: endpoint.clone(), max: ENDPOINTS_MAX }, None)
        .await
        .unwrap();
    assert!(matches!(created, Created::New(_)));
    drop(beside);
    stage.send(1).await;
    assert_eq!(stage.lease(session).await.len(), 3);
    assert!(matches!(stage.store.renew_session(session).await.unwrap(), Renewed::Open(_)));
}

#[tokio::test]
async fn writes_from_both_sides_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let beside = open(folder.path(), OpenAs::Beside).unwrap();
    for n in 0..20 {
        let name = format!("e{n}");
        let (sent, ensured) =
            tokio::join!(stage.send(3), beside.ensure_environment(OrgId(stage.id()), name.to_owned()));
        let () = sent;
        ensured.unwrap();
    }
    assert_eq!(stage.store.read(query::Environments {}).await.unwrap().len(), 22);
}

#[tokio::test]
async fn what_was_written_survives_and_earlier_lives_end() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    stage.endpoint().await;
    stage.send(2).await;
    let session = stage.session().await;
    let tasks = stage.lease(session).await;
    let Stage { store, ids, environment, other, application } = stage;
    drop(store);
    let store = open(folder.path(), OpenAs::Server).unwrap();
    let stage = Stage { store, ids, environment, other, application };
    assert_eq!(stage.store.renew_session(session).await.unwrap(), Renewed::Closed);
    // Settling works until the epoch has changed.
    assert_eq!(stage.settle(&stage.settlement(&tasks[0].task, session, NextRow::Gone)).await, Settled::Done);
    let sweeper = stage.session().await;
    let reclaimed = stage.reclaim(sweeper, Reclaim::Orphaned).await;
    assert_eq!(reclaimed.iter().map(|taken| taken.task.key).collect::<Vec<_>>(), [tasks[1].task.key]);
}

#[tokio::test]
async fn a_remote_worker_keeps_its_session_and_its_jobs_when_the_server_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let id = SessionId(stage.id());
    let worker =
        NewSession { id, node: "mailer".into(), role: Role::Worker, version: REMOTE.into(), lease: HOUR, takes: None };
    let takes = Takes { environment: stage.environment, queues: Vec::new(), kinds: Vec::new() };
    stage.store.open_session(NewSession { takes: Some(takes.clone()), ..worker.clone() }).await.unwrap();
    stage.enqueue(1).await;
    let held = stage.lease_jobs(id).await.remove(0).task;
    let Stage { store, ids, environment, other, application } = stage;
    drop(store);
    let store = open(folder.path(), OpenAs::Server).unwrap();
    let stage = Stage { store, ids, environment, other, application };
    assert!(stage.reclaim(stage.session().await, Reclaim::Orphaned).await.is_empty());
    assert!(matches!(stage.store.renew_session(id).await.unwrap(), Renewed::Open(_)));
    assert_eq!(stage.store.read(query::HeldJobs { session: id }).await.unwrap(), [held]);
}

/// Returns a store with some rows, and one more message for it.
async fn in_use(folder: &Path) -> (Stage, Append) {
    let stage = Stage::in_folder(folder).await;
    stage.send(1).await;
    let next = Append { fast: None, messages: vec![stage.message(Vec::new())] };
    assert_eq!(stage.store.broken(), None);
    (stage, next)
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_whose_files_are_deleted_or_replaced_acknowledges_nothing() {
    for name in ["everhook.db", "everhook.db-wal", "everhook.db-shm"] {
        for replaced in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (stage, next) = in_use(folder.path()).await;
            let (path, copy) = (folder.path().join(name), folder.path().join("copy"));
            if replaced {
                std::fs::copy(&path, &copy).unwrap();
                std::fs::rename(&copy, &path).unwrap();
            } else {
                std::fs::remove_file(&path).unwrap();
            }
            let refused = stage.store.append(next).await.unwrap_err();
            assert!(matches!(refused, StoreError::Unavailable { .. }), "{name}: {refused:?}");
            let why = stage.store.broken().unwrap();
            assert!(why.contains("deleted or replaced") && why.contains("backup"), "{why}");
            // The file that now has the name must neither be read nor written.
            assert!(stage.store.read(query::Environments {}).await.is_err());
            stage.store.close();
            assert_eq!(path.exists(), replaced);
        }
    }
}

#[tokio::test]
async fn a_lost_database_is_not_taken_for_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let (stage, _) = in_use(folder.path()).await;
    stage.store.close();
    let (file, marker) = (folder.path().join("everhook.db"), folder.path().join("everhook.used"));
    let lost = |what: &str| {
        for refused in [open(folder.path(), OpenAs::Server).err(), open(folder.path(), OpenAs::Beside).err()] {
            let refused = refused.unwrap_or_else(|| panic!("{what} was taken for a new store"));
            let text = refused.to_string();
            assert!(matches!(refused, SqliteOpenError::Lost { .. }), "{what}: {text}");
            assert!(text.contains("backup") && text.contains("everhook.used"), "{text}");
        }
        assert!(matches!(migrate(folder.path()), Err(SqliteOpenError::Lost { .. })), "{what}");
    };
    std::fs::write(&file, "").unwrap();
    lost("an empty file");
    std::fs::remove_file(&file).unwrap();
    lost("a missing file");
    // An earlier version left no marker file, but perhaps the log.
    std::fs::remove_file(&marker).unwrap();
    std::fs::write(folder.path().join("everhook.db-wal"), "a log").unwrap();
    lost("a log without its database");
    std::fs::remove_file(folder.path().join("everhook.db-wal")).unwrap();
    open(folder.path(), OpenAs::Server).unwrap();
    assert!(marker.exists(), "the operator started over");
}

/// A power failure during the first start.
#[test]
fn a_first_start_that_was_cut_short_may_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("everhook.lock"), "123").unwrap();
    std::fs::write(folder.path().join("everhook.db"), "").unwrap();
    open(folder.path(), OpenAs::Server).unwrap();
}

#[tokio::test]
async fn closing_leaves_one_file_with_everything_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    stage.send(10).await;
    stage.store.close();
    let log = std::fs::metadata(folder.path().join("everhook.db-wal")).map_or(0, |metadata| metadata.len());
    assert_eq!(log, 0);
    let count: i64 = raw(folder.path()).query_row("select count(*) from message", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 10);
}

#[test]
fn a_fresh_file_is_migrated_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = migrate(&folder.path().join("new")).unwrap();
    assert_eq!(first.applied, ["0001_catalog", "0002_history", "0003_work"]);
    assert_eq!(first.from, 0);
    let second = migrate(&folder.path().join("new")).unwrap();
    assert_eq!(second, SqliteMigrationReport { from: first.to, to: first.to, applied: Vec::new() });
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_folder_and_the_files_in_it_are_this_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("a/b");
    let stage = Stage::in_folder(&folder).await;
    stage.send(1).await;
    assert_eq!(mode(&folder), 0o700);
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    assert!(files.iter().any(|file| file.ends_with("everhook.db-wal")), "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_command_beside_the_server_creates_nothing_and_says_where_it_looked() {
    let folder = tempfile::tempdir().unwrap();
    let missing = |folder: &Path| {
        let refused = open(folder, OpenAs::Beside).err().unwrap();
        assert!(matches!(refused, SqliteOpenError::Missing { .. }), "{refused:?}");
        let file = folder.join("everhook.db");
        assert!(refused.to_string().contains(file.to_str().unwrap()), "{refused}");
    };
    let elsewhere = folder.path().join("elsewhere");
    missing(&elsewhere);
    assert!(!elsewhere.exists());
    missing(folder.path());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::write(folder.path().join("everhook.db"), "").unwrap();
    missing(folder.path());
    assert_eq!(std::fs::metadata(folder.path().join("everhook.db")).unwrap().len(), 0);
}

#[test]
fn a_newer_schema_is_refused_only_if_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    migrate(folder.path()).unwrap();
    let newer = |compatible_from: i64| {
        let sql = "insert or replace into schema_version values (99, ?1, '0099_future', 0)";
        raw(folder.path()).execute(sql, [compatible_from]).unwrap();
    };
    newer(3);
    open(folder.path(), OpenAs::Server).unwrap();
    newer(99);
    let text = open(folder.path(), OpenAs::Server).err().unwrap().to_string();
    assert!(text.contains("schema is newer than this binary") && text.contains("99"), "{text}");
}

/// Creates a file as left by a binary that knew the first `version` migrations.
fn left_behind(folder: &Path, version: i64) -> Connection {
    let conn = raw(folder);
    let table = "create table schema_version (
        version integer primary key, compatible_from integer not null, name text not null, applied_at integer not null
    ) strict";
    conn.execute_batch(table).unwrap();
    let migrations = [
        ("0001_catalog", include_str!("../../../../everhook-sqlite/migrations/0001_catalog.sql")),
        ("0002_history", include_str!("../../../../everhook-sqlite/migrations/0002_history.sql")),
    ];
    for (number, (name, sql)) in (1..=version).zip(migrations) {
        conn.execute_batch(sql).unwrap();
        conn.execute("insert into schema_version values (?1, 1, ?2, 0)", (number, name)).unwrap();
    }
    conn
}

#[test]
fn an_older_schema_is_migrated_by_the_server_and_refused_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    left_behind(folder.path(), 2);
    let text = open(folder.path(), OpenAs::Beside).err().unwrap().to_string();
    assert!(text.contains("schema is older than this binary"), "{text}");
    open(folder.path(), OpenAs::Server).unwrap();
    open(folder.path(), OpenAs::Beside).unwrap();
}

#[test]
fn a_schema_from_before_the_first_release_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    migrate(folder.path()).unwrap();
    raw(folder.path()).execute("update schema_version set name = '0002_message' where version = 2", []).unwrap();
    for open_as in [OpenAs::Server, OpenAs::Beside] {
        let text = open(folder.path(), open_as).err().unwrap().to_string();
        assert!(text.contains("before the first release") && text.contains("0002_message"), "{text}");
    }
}

#[test]
fn what_is_not_a_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("everhook.db"), "not a database, but long enough to be taken for one").unwrap();
    let text = open(folder.path(), OpenAs::Server).err().unwrap().to_string();
    assert!(text.contains("everhook.db"), "{text}");
}

#[tokio::test]
async fn a_store_beyond_its_size_loses_its_oldest_messages_and_shrinks() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let mut ids = Vec::new();
    for number in 0..100 {
        let mut new = stage.message(Vec::new());
        new.message.id = MessageId(Id::floor(Timestamp::from_millis(1_700_000_000_000 + number * 3_600_000)));
        new.message.payload = Some(vec![b'x'; 50_000].into());
        ids.push(new.message.id);
        stage.append(None, vec![new]).await;
    }
    let pages = || raw(folder.path()).query_row("pragma page_count", [], |row| row.get::<_, i64>(0)).unwrap();
    let (full, bytes_max) = (pages(), 3_000_000);
    let cut = async || stage.store.read(query::FindSizeCut { bytes_max }).await.unwrap();
    let mut pruned = 0;
    while let Some(before) = cut().await {
        let gone = stage.store.prune(Prune { what: Prunable::Messages, before, limit: 200 }).await.unwrap();
        assert!(gone > 0, "it gets closer");
        pruned += gone;
    }
    assert!((40..95).contains(&pruned), "{pruned}");
    let scope = AppScope::of(stage.environment, stage.application);
    let find = async |id| stage.store.read(query::FindMessage { scope, locator: Locator::Id(id) }).await.unwrap();
    assert!(find(ids[0]).await.is_none() && find(ids[99]).await.is_some(), "the oldest go first");
    // The file gives its space back a little at a time.
    for _ in 0..20 {
        stage.store.prune(Prune { what: Prunable::Keys, before: Timestamp::default(), limit: 200 }).await.unwrap();
    }
    assert!(pages() < full * 3 / 4, "{} of {full} pages", pages());
}
