//! Reads of one environment behind row-level security, with the statements of the documentation.

use std::sync::Arc;

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId, OrgId};
use everhook_core::scope::{AppScope, Scope};
use everhook_postgres::{PostgresConfig, PostgresOpenError, PostgresStore};
use everhook_store::catalog::Locator;
use everhook_store::ids::Ids;
use everhook_store::lease::{Append, NewMessage};
use everhook_store::query;
use everhook_store::seal::Seal;
use everhook_store::store::{Reads, Resources, Store};
use everhook_testkit::conformance::fixture::{new_application, new_message};
use tokio_postgres::Client;

use crate::postgres::database::{Database, random};

const DOCUMENTATION: &str = include_str!("../../../../../docs/row-level-security.md");

/// A database with the documented role, dropped at the end of the test.
struct Walled {
    database: Database,
    owner: Client,
    role: String,
}

impl Walled {
    async fn new() -> Walled {
        let (database, role) = (Database::migrated().await, format!("everhook_test_{}", random()));
        let owner = database.client().await;
        let user: String = owner.query_one("select current_user::text", &[]).await.unwrap().get(0);
        let blocks = DOCUMENTATION.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
        let statements =
            blocks.collect::<String>().replace("everhook_tenant", &role).replace("everhook_service", &user);
        // Safe to repeat, except for the role.
        owner.batch_execute(&statements).await.unwrap();
        let repeated = statements.split_once("grant usage").unwrap().1;
        owner.batch_execute(&format!("grant usage{repeated}")).await.unwrap();
        Walled { database, owner, role }
    }

    async fn connect(&self) -> Result<PostgresStore, PostgresOpenError> {
        let (url, tenant_role) = (self.database.url().to_owned(), Some(self.role.clone()));
        let config =
            PostgresConfig { url, direct_url: None, pool_size: 2, pooler: false, tenant_role, seal: Seal::default() };
        PostgresStore::connect(config, Arc::new(Ids::from_system())).await
    }

    /// The rows of a table that a statement without a condition returns to the role.
    async fn seen(&self, environment: EnvironmentId, table: &str) -> (i64, i64) {
        let set = format!("set role {}; set everhook.environment = {}", self.role, environment.0);
        self.owner.batch_execute(&set).await.unwrap();
        let count = format!(
            "select count(*) filter (where environment = {id}), count(*) filter (where environment is distinct from {id}) \
             from everhook.{table}",
            id = environment.0
        );
        let row = self.owner.query_one(&count, &[]).await.unwrap();
        self.owner.batch_execute("reset role; reset everhook.environment").await.unwrap();
        (row.get(0), row.get(1))
    }

    async fn end(self) {
        let Walled { database, owner, role } = self;
        owner.batch_execute(&format!("drop owned by {role}; drop role {role}")).await.unwrap();
        drop(database);
    }
}

/// Creates an environment with an application and a message.
async fn tenant(store: &PostgresStore, name: &str) -> (EnvironmentId, ApplicationId, MessageId) {
    let (ids, now) = (Ids::from_system(), store.now().await.unwrap());
    let environment = store.ensure_environment(OrgId(ids.next(now)), name.to_owned()).await.unwrap().id;
    let (application, message) = (ApplicationId(ids.next(now)), MessageId(ids.next(now)));
    store.create(Scope::of(environment), new_application(application), None).await.unwrap();
    let new = NewMessage::new(environment, new_message(message, application));
    store.append(Append { fast: None, messages: vec![new] }).await.unwrap();
    (environment, application, message)
}

#[tokio::test]
async fn a_statement_without_a_condition_returns_rows_of_its_environment_only() {
    let walled = Walled::new().await;
    let store = walled.connect().await.unwrap();
    let (here, there) = (tenant(&store, "here").await, tenant(&store, "there").await);
    for (environment, application, id) in [here, there] {
        let scope = AppScope::of(environment, application);
        let found = store.read(query::FindMessage { scope, locator: Locator::Id(id) }).await.unwrap();
        assert_eq!(found.map(|message| message.id), Some(id), "the store reads its own rows");
        for table in ["message", "resource", "lane_group"] {
            assert_eq!(walled.seen(environment, table).await, (1, 0), "{table}");
        }
    }
    let tables = "select relname::text from pg_class join pg_attribute on attrelid = pg_class.oid \
        where attname = 'environment' and atttypid = 'integer'::regtype and relnamespace = 'everhook'::regnamespace and relkind in ('r', 'p') \
        and not relispartition";
    for row in walled.owner.query(tables, &[]).await.unwrap() {
        let table: String = row.get(0);
        assert_eq!(walled.seen(here.0, &table).await.1, 0, "{table}");
    }
    let unset = format!("set role {}; select * from everhook.message", walled.role);
    assert!(walled.owner.batch_execute(&unset).await.is_err(), "no environment is an error");
    store.read(query::Keys {}).await.unwrap();
    store.close().await;
    walled.owner.batch_execute("rollback; reset role").await.unwrap();
    walled.end().await;
}

#[tokio::test]
async fn a_table_without_a_policy_or_grant_stops_the_server() {
    let walled = Walled::new().await;
    for (breach, repair) in [
        ("alter table everhook.lane disable row level security", "alter table everhook.lane enable row level security"),
        ("create table everhook.fresh (environment integer)", "drop table everhook.fresh"),
    ] {
        walled.owner.batch_execute(breach).await.unwrap();
        let refused = walled.connect().await.err().unwrap();
        assert!(matches!(refused, PostgresOpenError::Unguarded { .. }), "{refused}");
        walled.owner.batch_execute(repair).await.unwrap();
    }
    walled.connect().await.unwrap().close().await;
    walled.end().await;
}
