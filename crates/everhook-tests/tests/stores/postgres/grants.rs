//! The service as a role that may only change rows, with the grants of the documentation.

use std::sync::Arc;

use everhook_core::id::Id;
use everhook_core::lifecycle::NextRow;
use everhook_core::time::Timestamp;
use everhook_postgres::{PostgresConfig, PostgresOpenError, PostgresStore};
use everhook_store::ids::Ids;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::seal::Seal;
use everhook_store::store::Store;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::postgres::database::{Database, random};
use crate::postgres::stage::Stage;

const DOCUMENTATION: &str = include_str!("../../../../../docs/high-availability.md");
const PLENTY: usize = 100;

/// A role with the documented grants, dropped at the end of the test.
struct Service {
    database: Database,
    owner: Client,
    role: String,
}

impl Service {
    async fn new() -> Service {
        let (database, role) = (Database::migrated().await, format!("everhook_test_{}", random()));
        let owner = database.client().await;
        let blocks = DOCUMENTATION.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
        let grants = blocks.filter(|block| block.contains("grant usage on schema")).collect::<String>();
        assert!(grants.contains("everhook_service"), "the documentation has the grants");
        owner.batch_execute(&format!("create role {role}")).await.expect("the user may create roles");
        owner.batch_execute(&grants.replace("everhook_service", &role)).await.unwrap();
        Service { database, owner, role }
    }

    fn config(&self) -> PostgresConfig {
        let url = self.database.url();
        let mark = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{mark}options=-c%20role%3D{}", self.role);
        PostgresConfig { url, direct_url: None, pool_size: 4, pooler: false, tenant_role: None, seal: Seal::default() }
    }

    async fn connect(&self) -> Result<PostgresStore, PostgresOpenError> {
        PostgresStore::connect(self.config(), Arc::new(Ids::from_system())).await
    }

    async fn weeks(&self) -> i64 {
        let count = "select count(*) from pg_inherits where inhparent = 'everhook.message'::regclass";
        self.owner.query_one(count, &[]).await.unwrap().get(0)
    }

    async fn end(self) {
        let drop_role = format!("drop owned by {role}; drop role {role}", role = self.role);
        self.owner.batch_execute(&drop_role).await.unwrap();
    }
}

/// Delivers a message with an old id.
async fn deliver_old(stage: &Stage) {
    let id = Id::floor(Timestamp::from_millis(1_500_000_000_000));
    let task = stage.append_fast(vec![stage.message_with_id(id, Vec::new())]).await.unwrap().remove(0);
    stage.end(&task, NextRow::Gone).await;
}

#[tokio::test]
async fn a_role_without_rights_to_the_schema_serves_makes_partitions_and_drops_them() {
    let service = Service::new().await;
    let stage = Stage::new(service.connect().await.unwrap()).await;
    assert_eq!(service.weeks().await, 3, "this week and two ahead");
    service.owner.batch_execute(&format!("set role {}", service.role)).await.unwrap();
    for ddl in ["create table everhook.mine ()", "drop table everhook.lane", "alter table everhook.lane add mine int"] {
        let refused = service.owner.batch_execute(ddl).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{ddl}");
    }
    service.owner.batch_execute("reset role").await.unwrap();
    deliver_old(&stage).await;
    assert_eq!(service.weeks().await, 4, "a missing one is made when it is needed");
    let before = Timestamp::from_millis(1_600_000_000_000);
    stage.store.prune(Prune { what: Prunable::Messages, before, limit: PLENTY }).await.unwrap();
    assert_eq!(service.weeks().await, 3, "an old one is dropped");
    // Without this right, the rows are deleted one by one.
    let revoke = format!("revoke execute on function everhook.drop_week(text, integer) from {}", service.role);
    service.owner.batch_execute(&revoke).await.unwrap();
    deliver_old(&stage).await;
    assert_eq!(stage.store.prune(Prune { what: Prunable::Messages, before, limit: PLENTY }).await.unwrap(), 1);
    assert_eq!(service.weeks().await, 4);
    service.end().await;
}

#[tokio::test]
async fn a_role_that_may_not_make_partitions_is_told_what_to_grant() {
    let service = Service::new().await;
    let revoke = format!("revoke execute on function everhook.make_week(integer) from {}", service.role);
    service.owner.batch_execute(&revoke).await.unwrap();
    let refused = service.connect().await.err().unwrap();
    assert!(!refused.may_pass());
    assert!(refused.to_string().contains("grant execute on function everhook.make_week(integer)"), "{refused}");
    service.end().await;
}

/// Programs that write to the outbox may use the schema, but not its partitions.
#[tokio::test]
async fn others_make_and_drop_no_partitions() {
    let service = Service::new().await;
    let other = format!("everhook_test_{}", random());
    service
        .owner
        .batch_execute(&format!("create role {other}; grant usage on schema everhook to {other}"))
        .await
        .unwrap();
    service.owner.batch_execute(&format!("set role {other}")).await.unwrap();
    for call in ["select everhook.make_week(1)", "select everhook.drop_week('message', 1)"] {
        let refused = service.owner.batch_execute(call).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{call}");
    }
    service.owner.batch_execute(&format!("reset role; drop owned by {other}; drop role {other}")).await.unwrap();
    for call in
        ["select everhook.make_week(-1)", "select everhook.make_week(8000)", "select everhook.drop_week('task', 1)"]
    {
        assert!(service.owner.batch_execute(call).await.is_err(), "{call}");
    }
    service.end().await;
}
