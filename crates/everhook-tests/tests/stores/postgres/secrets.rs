//! Secrets in the database: sealed, bound to their rows, and sealed anew by a rotation beside replicas.

use std::sync::Arc;

use everhook_core::id::EndpointId;
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::queue::Queue;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::seal::{NeededKey, SEAL_KEY_BYTES, SealKey, SealKeyState, SealRing};
use everhook_postgres::{PostgresConfig, PostgresOpenError, PostgresStore};
use everhook_store::catalog::Locator;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::query;
use everhook_store::resource::New;
use everhook_store::seal::Seal;
use everhook_store::store::{Reads, Resources};
use everhook_testkit::conformance::fixture::new_endpoint;
use tokio_postgres::Client;

use crate::postgres::database::{Database, SEAL_KEY};
use crate::postgres::stage::Stage;
use crate::secrets::{Planted, has_canary, plant};

fn keys(keys: &[[u8; SEAL_KEY_BYTES]]) -> Seal {
    let lines: Vec<String> = keys.iter().map(|key| SealKey::new(*key).expose()).collect();
    Seal::of(SealRing::parse(&lines.join("\n")).unwrap())
}

async fn connect(database: &Database, seal: Seal) -> Result<PostgresStore, PostgresOpenError> {
    let url = database.url().to_owned();
    let config = PostgresConfig { url, direct_url: None, pool_size: 4, pooler: false, tenant_role: None, seal };
    PostgresStore::connect(config, Arc::new(Ids::from_system())).await
}

async fn planted(stage: &Stage) -> Planted {
    plant(&*stage.store, stage.environment, stage.application, || stage.id()).await
}

/// The text of every row of every table.
async fn dump(client: &Client) -> String {
    let tables = "select tablename::text from pg_tables where schemaname = 'everhook'";
    let mut text = String::new();
    for table in client.query(tables, &[]).await.unwrap() {
        let rows = format!("select t::text from everhook.\"{}\" as t", table.get::<_, &str>(0));
        for row in client.query(&rows, &[]).await.unwrap() {
            text.push_str(row.get(0));
            text.push('\n');
        }
    }
    text
}

#[tokio::test]
async fn the_tables_contain_no_secret() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let planted = planted(&stage).await;
    let dump = dump(&database.client().await).await;
    assert!(dump.contains("sealed:1:") && !has_canary(dump.as_bytes()), "{dump}");
    planted.check(&*stage.store).await;
    planted.check(&database.store().await).await;
}

#[tokio::test]
async fn a_node_does_not_start_without_the_key() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    planted(&stage).await;
    let refused = connect(&database, Seal::default()).await.err().unwrap();
    assert!(matches!(refused, PostgresOpenError::Keys { .. }) && !refused.may_pass());
    assert!(refused.to_string().contains("set secrets_key_file or EVERHOOK_SECRETS_KEYS"), "{refused}");
    let refused = connect(&database, keys(&[[1; SEAL_KEY_BYTES]])).await.err().unwrap().to_string();
    assert!(refused.contains("restore the key file"), "{refused}");
    connect(&database, keys(&[[1; SEAL_KEY_BYTES], SEAL_KEY])).await.unwrap();
}

#[tokio::test]
async fn an_existing_database_is_sealed_by_a_rotation_only() {
    let database = Database::migrated().await;
    let stage = Stage::new(connect(&database, Seal::default()).await.unwrap()).await;
    let planted = planted(&stage).await;
    let client = database.client().await;
    assert!(has_canary(dump(&client).await.as_bytes()), "the test is able to find plain text");
    // Replicas that already have the key write plain text, which the others can read.
    let sealing = connect(&database, keys(&[SEAL_KEY])).await.unwrap();
    let scope = Scope::of(stage.environment);
    planted.check(&sealing).await;
    sealing.replace(scope, Queue::new("plain".parse().unwrap())).await.unwrap();
    planted.check(&*stage.store).await;
    let rotated = sealing.rotate_secrets().await.unwrap();
    assert!(rotated.sealed >= 5 && rotated.retired.is_empty(), "{rotated:?}");
    assert!(!has_canary(dump(&client).await.as_bytes()));
    planted.check(&sealing).await;
    // The replica without the key fails, and says why.
    let scope = AppScope { environment: stage.environment, application: stage.application };
    let locator = Locator::Id(planted.endpoint.id);
    let found = stage.store.read(query::FindEndpoint { scope, locator }).await;
    let Err(StoreError::Corrupt { column, .. }) = found else { panic!("{found:?}") };
    assert_eq!(column, "sealed secret (its key is not in the key file)");
}

#[tokio::test]
async fn a_secret_that_was_copied_to_another_row_does_not_open() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let planted = planted(&stage).await;
    let victim = new_endpoint(EndpointId(stage.id()), stage.application);
    let id = victim.id;
    let new = New { record: victim, max: ENDPOINTS_MAX };
    stage.store.create(Scope::of(stage.environment), new, None).await.unwrap();
    let moved = "update everhook.resource set spec = (select spec from everhook.resource where id = $1) where id = $2";
    let [from, to] = [planted.endpoint.id, id].map(|id| id.as_bytes().to_vec());
    assert_eq!(database.client().await.execute(moved, &[&from, &to]).await.unwrap(), 1);
    let scope = AppScope { environment: stage.environment, application: stage.application };
    let found = stage.store.read(query::FindEndpoint { scope, locator: Locator::Id(id) }).await;
    let Err(StoreError::Corrupt { table: "resource", column }) = found else { panic!("{found:?}") };
    assert_eq!(column, "sealed secret (changed, or copied from another row)");
}

#[tokio::test]
async fn a_rotation_beside_writing_replicas_replaces_every_key() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let planted = planted(&stage).await;
    let new = [2; SEAL_KEY_BYTES];
    // Every replica has the new key before the rotation. The order in the others does not matter.
    let replica = connect(&database, keys(&[SEAL_KEY, new])).await.unwrap();
    let rotating = connect(&database, keys(&[new, SEAL_KEY])).await.unwrap();
    let writes = async {
        for _ in 0..100 {
            let endpoint = new_endpoint(EndpointId(stage.id()), stage.application);
            let new = New { record: endpoint, max: ENDPOINTS_MAX * 1000 };
            replica.create(Scope::of(stage.environment), new, None).await.unwrap();
        }
    };
    let (rotated, ()) = tokio::join!(rotating.rotate_secrets(), writes);
    let rotated = rotated.unwrap();
    let (old, id) = (SealKey::new(SEAL_KEY).id(), SealKey::new(new).id());
    assert_eq!((rotated.key, rotated.retired), (id, vec![old]));
    assert_eq!(replica.needed_keys().await.unwrap(), [NeededKey { id, state: SealKeyState::Current }]);
    planted.check(&replica).await;
    let dump = dump(&database.client().await).await;
    assert!(!dump.contains(&format!("sealed:1:{old}")) && dump.contains(&format!("sealed:1:{id}")));
    planted.check(&connect(&database, keys(&[new])).await.unwrap()).await;
}
