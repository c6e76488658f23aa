//! Secrets in the file: sealed, bound to their rows, and sealed anew by a rotation.

use std::path::Path;
use std::sync::Arc;

use everhook_core::id::{ApplicationId, EndpointId};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::scope::AppScope;
use everhook_core::scope::Scope;
use everhook_core::seal::{NeededKey, SealKeyId, SealKeyState};
use everhook_sqlite::{OpenAs, SealSource, SqliteOpenError, SqliteStore, key_file};
use everhook_store::catalog::{Locator, Order, Slice};
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::query;
use everhook_store::resource::New;
use everhook_store::seal::{add_key, generate_key};
use everhook_store::store::{Reads, Resources};
use everhook_testkit::conformance::fixture::new_endpoint;
use rusqlite::{Connection, params};

use crate::secrets::{Planted, has_canary, plant};
use crate::sqlite::stage::Stage;

fn open(folder: &Path, open_as: OpenAs) -> Result<SqliteStore, SqliteOpenError> {
    SqliteStore::open(folder, open_as, Arc::new(Ids::from_system()))
}

fn raw(folder: &Path) -> Connection {
    Connection::open(folder.join("everhook.db")).unwrap()
}

async fn planted(stage: &Stage) -> Planted {
    plant(&stage.store, stage.environment, stage.application, || stage.id()).await
}

/// All bytes of the folder, without the key file.
fn bytes(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| *file != key_file(folder)).flat_map(|file| std::fs::read(file).unwrap()).collect()
}

#[tokio::test]
async fn the_files_contain_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let planted = planted(&stage).await;
    assert!(!has_canary(&bytes(folder.path())), "in the log of the database");
    planted.check(&stage.store).await;
    stage.store.close();
    assert!(!has_canary(&bytes(folder.path())), "in the database");
    planted.check(&open(folder.path(), OpenAs::Server).unwrap()).await;
    #[cfg(unix)]
    {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(key_file(folder.path())).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_store_does_not_open_without_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let planted = planted(&stage).await;
    stage.store.close();
    let (keys, aside) = (key_file(folder.path()), folder.path().join("aside"));
    std::fs::rename(&keys, &aside).unwrap();
    for open_as in [OpenAs::Server, OpenAs::Beside] {
        let refused = open(folder.path(), open_as).err().unwrap();
        assert!(matches!(refused, SqliteOpenError::KeyFileLost { .. }), "{refused}");
        assert!(refused.to_string().contains("put the file back"), "{refused}");
    }
    assert!(!keys.exists(), "no new key hides the loss");
    add_key(&keys, &generate_key()).unwrap();
    let refused = open(folder.path(), OpenAs::Server).err().unwrap().to_string();
    assert!(refused.contains("restore the key file"), "{refused}");
    std::fs::write(&keys, "no key").unwrap();
    let refused = open(folder.path(), OpenAs::Server).err().unwrap().to_string();
    assert!(refused.contains("line 1: a key must start with"), "{refused}");
    std::fs::remove_file(&keys).unwrap();
    let elsewhere = SealSource::File(aside);
    let ids = Arc::new(Ids::from_system());
    planted.check(&SqliteStore::open_sealed(folder.path(), OpenAs::Server, ids, &elsewhere).unwrap()).await;
}

#[tokio::test]
async fn plain_secrets_of_an_earlier_version_are_sealed_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    // Without a key in the table, the store writes plain text, as earlier versions did.
    raw(folder.path()).execute("delete from seal_key", []).unwrap();
    let planted = planted(&stage).await;
    planted.check(&stage.store).await;
    assert!(has_canary(&bytes(folder.path())), "the test is able to find plain text");
    stage.store.close();
    let store = open(folder.path(), OpenAs::Server).unwrap();
    planted.check(&store).await;
    let sealed = "select (select count(*) from resource where kind in (1, 3, 12) and spec not like 'sealed:%') \
        + (select count(*) from token_key where substr(secret, 1, 7) <> cast('sealed:' as blob)) \
        + (select count(*) from request where substr(answer, 1, 7) <> cast('sealed:' as blob))";
    let plain: i64 = raw(folder.path()).query_row(sealed, [], |row| row.get(0)).unwrap();
    assert_eq!(plain, 0);
}

#[tokio::test]
async fn a_secret_that_was_copied_to_another_row_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let planted = planted(&stage).await;
    let victim = stage.endpoint().await;
    let moved = "update resource set spec = (select spec from resource where id = ?1) where id = ?2";
    let ids = [planted.endpoint.id, victim].map(|id| id.as_bytes().to_vec());
    assert_eq!(raw(folder.path()).execute(moved, params![ids[0], ids[1]]).unwrap(), 1);
    let scope = AppScope { environment: stage.environment, application: stage.application };
    let found = stage.store.read(query::FindEndpoint { scope, locator: Locator::Id(victim) }).await;
    let Err(StoreError::Corrupt { table: "resource", column }) = found else { panic!("{found:?}") };
    assert_eq!(column, "sealed secret (changed, or copied from another row)");
    // The owner of another application gets nothing by a copy of the whole row either.
    let copied = "insert into resource select environment, kind, ?2, id, name, state, revision, created_at, updated_at, \
        deleted_at, spec, info from resource where id = ?1";
    let thief = ApplicationId(stage.id());
    raw(folder.path()).execute(copied, params![ids[0], thief.as_bytes().to_vec()]).unwrap();
    let slice = Slice { after: None, order: Order::Ascending, limit: 10 };
    let scope = AppScope { application: thief, ..scope };
    assert!(matches!(stage.store.read(query::Endpoints { scope, slice }).await, Err(StoreError::Corrupt { .. })));
}

#[tokio::test]
async fn a_rotation_beside_a_running_server_replaces_every_key() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let planted = planted(&stage).await;
    let old = stage.store.needed_keys().await.unwrap();
    add_key(&key_file(folder.path()), &generate_key()).unwrap();
    let beside = open(folder.path(), OpenAs::Beside).unwrap();
    // The server writes all the time, with the old key and then with the new one, which it finds in the file.
    let writes = async {
        for _ in 0..300 {
            let endpoint = new_endpoint(EndpointId(stage.id()), stage.application);
            let new = New { record: endpoint, max: ENDPOINTS_MAX * 1000 };
            stage.store.create(Scope::of(stage.environment), new, None).await.unwrap();
        }
    };
    let (rotated, ()) = tokio::join!(beside.rotate_secrets(), writes);
    let rotated = rotated.unwrap();
    assert!(rotated.sealed >= 5, "{rotated:?}");
    assert_eq!(rotated.retired, [old[0].id]);
    let current = [NeededKey { id: rotated.key, state: SealKeyState::Current }];
    assert_eq!(stage.store.needed_keys().await.unwrap(), current);
    planted.check(&stage.store).await;
    assert_eq!(sealed_otherwise(folder.path(), rotated.key), 0);
    stage.store.close();
    // The old key can go.
    let text = std::fs::read_to_string(key_file(folder.path())).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| line.starts_with("ehs_")).take(1).collect();
    std::fs::write(key_file(folder.path()), kept.join("\n")).unwrap();
    planted.check(&open(folder.path(), OpenAs::Server).unwrap()).await;
}

fn sealed_otherwise(folder: &Path, key: SealKeyId) -> i64 {
    let count = "select count(*) from resource where kind in (1, 3, 12) and spec not like ?1";
    raw(folder).query_row(count, [format!("sealed:1:{key}:%")], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_new_first_key_is_used_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let planted = planted(&stage).await;
    stage.store.close();
    let new = generate_key();
    add_key(&key_file(folder.path()), &new).unwrap();
    let store = open(folder.path(), OpenAs::Server).unwrap();
    planted.check(&store).await;
    assert_eq!(store.needed_keys().await.unwrap(), [NeededKey { id: new.id(), state: SealKeyState::Current }]);
    assert_eq!(sealed_otherwise(folder.path(), new.id()), 0);
}
