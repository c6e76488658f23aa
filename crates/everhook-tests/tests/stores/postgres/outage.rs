//! Broken connections: a transaction that was not committed is repeated, one that may have been is reported as in
//! doubt.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::lifecycle::NextRow;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::lease::{Appended, LeaseAsk, Renewed, Settled};
use everhook_store::store::Store;
use everhook_testkit::proxy::{Cut, Proxy};
use tokio_postgres::Client;

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

/// Terminates all connections of the store.
const KILL: &str = "select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'everhook'";
/// Counts the connections of the store that wait for a lock.
const WAITING: &str = "select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'everhook' and wait_event_type = 'Lock'";

/// Waits until the store waits for a lock that the test holds.
async fn until_blocked(client: &Client) {
    loop {
        let waiting: i64 = client.query_one(WAITING, &[]).await.unwrap().get(0);
        if waiting > 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn killed_connections_are_replaced() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let client = database.client().await;
    for _ in 0..5 {
        assert!(matches!(stage.store.renew_session(stage.session).await.unwrap(), Renewed::Open(_)));
        client.execute(KILL, &[]).await.unwrap();
        // The first statement may use a connection that is being terminated. It must neither lose data nor hang.
        stage.append(vec![stage.message(Vec::new())]).await.unwrap();
    }
    assert_eq!(stage.lease(10).await.unwrap().len(), 5);
}

/// Takes an idempotency key in another transaction.
async fn take(lock: &tokio_postgres::Transaction<'_>, stage: &Stage, key: &DedupKey) {
    let take =
        "insert into everhook.dedup (environment, scope, hash, object, body, expires_at) values ($1, 0, $2, $3, $3, 0)";
    let (hash, nobody) = (key.hash.as_slice(), [0_u8; 20].as_slice());
    lock.execute(take, &[&stage.environment.0, &hash, &nobody]).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_dies_before_the_commit_costs_nothing() {
    let database = Database::migrated().await;
    let stage = Arc::new(Stage::new(database.store().await).await);
    let (client, mut blocker) = (database.client().await, database.client().await);
    let key = DedupKey::request("POST", "/msg", "key", b"body");
    // Another transaction is using the same key.
    let lock = blocker.transaction().await.unwrap();
    take(&lock, &stage, &key).await;
    let append = async { stage.append(vec![stage.message(vec![key])]).await };
    let kill = async {
        until_blocked(&client).await;
        client.execute(KILL, &[]).await.unwrap();
        until_blocked(&client).await;
        lock.rollback().await.unwrap();
    };
    let (answers, ()) = tokio::join!(append, kill);
    assert!(matches!(answers.unwrap()[..], [Appended::Accepted { .. }]));
    assert_eq!(stage.lease(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_connection_that_dies_in_a_statement_that_commits_leaves_doubt() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let (client, mut blocker) = (database.client().await, database.client().await);
    let tasks = stage.append_fast(vec![stage.message(Vec::new())]).await.unwrap();
    let lock = blocker.transaction().await.unwrap();
    lock.execute("select 1 from everhook.task for update", &[]).await.unwrap();
    let batch = [stage.settlement(&tasks[0], NextRow::Gone)];
    let kill = async {
        until_blocked(&client).await;
        client.execute(KILL, &[]).await.unwrap();
    };
    let (settled, ()) = tokio::join!(stage.store.settle(batch.clone().into()), kill);
    assert!(matches!(settled, Err(StoreError::InDoubt { .. })), "{settled:?}");
    lock.rollback().await.unwrap();
    assert_eq!(stage.store.settle(batch.clone().into()).await.unwrap().answer, [Settled::Done]);
    assert_eq!(stage.store.settle(batch.clone().into()).await.unwrap().answer, [Settled::Done]);
}

#[tokio::test]
async fn transactions_that_deadlock_are_run_again() {
    let database = Database::migrated().await;
    let stage = Arc::new(Stage::new(database.store().await).await);
    let tasks = stage.append_fast((0..2).map(|_| stage.message(Vec::new())).collect()).await.unwrap();
    let (client, mut blocker) = (database.client().await, database.client().await);
    let retry = NextRow::Pending { due_in: Default::default() };
    let batch = [stage.settlement(&tasks[0], NextRow::Gone), stage.settlement(&tasks[1], retry)];
    // The test locks the second row. The store then holds the first one and waits for the second.
    let lock = blocker.transaction().await.unwrap();
    let row = "select 1 from everhook.task where id = $1 for update";
    lock.execute("set local deadlock_timeout = '1h'", &[]).await.unwrap();
    lock.execute(row, &[&tasks[1].key.id.as_bytes().as_slice()]).await.unwrap();
    let cross = async {
        until_blocked(&client).await;
        lock.execute(row, &[&tasks[0].key.id.as_bytes().as_slice()]).await.unwrap();
        lock.rollback().await.unwrap();
    };
    let (settled, ()) = tokio::join!(stage.store.settle(batch.clone().into()), cross);
    assert_eq!(settled.unwrap().answer, [Settled::Done, Settled::Done]);
    assert_eq!(stage.lease(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_append_that_nobody_waits_for_leaves_no_open_transaction() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store_with(|config| config.pool_size = 1).await).await;
    let (client, mut blocker) = (database.client().await, database.client().await);
    let key = DedupKey::request("POST", "/msg", "key", b"body");
    let lock = blocker.transaction().await.unwrap();
    take(&lock, &stage, &key).await;
    tokio::select! {
        answers = stage.append(vec![stage.message(vec![key.clone()])]) => panic!("{answers:?}"),
        () = until_blocked(&client) => {}
    }
    lock.rollback().await.unwrap();
    // The only connection of the pool works again, and the key is free.
    let answers = stage.append(vec![stage.message(vec![key])]).await.unwrap();
    assert!(matches!(answers[..], [Appended::Accepted { .. }]), "{answers:?}");
    assert_eq!(stage.lease(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_stops_is_told_and_its_return_is_noticed() {
    let database = Database::migrated().await;
    let proxy = proxy_to(&database);
    let stage = Stage::new(database.store_with(|config| config.url = through(&proxy, &database)).await).await;
    let tasks = stage.append_fast(vec![stage.message(Vec::new())]).await.unwrap();
    proxy.refuse(true);
    let batch = [stage.settlement(&tasks[0], NextRow::Gone)];
    let is_out = |error| matches!(error, StoreError::Unavailable { .. } | StoreError::InDoubt { .. });
    for _ in 0..3 {
        assert!(is_out(stage.store.now().await.unwrap_err()));
        assert!(is_out(stage.append(vec![stage.message(Vec::new())]).await.unwrap_err()));
        assert!(is_out(stage.lease(1).await.unwrap_err()));
        assert!(is_out(stage.store.settle(batch.clone().into()).await.unwrap_err()));
        assert!(is_out(stage.store.renew_session(stage.session).await.unwrap_err()));
    }
    proxy.refuse(false);
    assert_eq!(stage.store.settle(batch.clone().into()).await.unwrap().answer, [Settled::Done]);
    assert!(matches!(stage.store.renew_session(stage.session).await.unwrap(), Renewed::Open(_)));
    stage.append(vec![stage.message(Vec::new())]).await.unwrap();
    assert_eq!(stage.lease(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_is_in_doubt() {
    let database = Database::migrated().await;
    let proxy = proxy_to(&database);
    let stage = Stage::new(database.store_with(|config| config.url = through(&proxy, &database)).await).await;
    for cut in [Cut::AfterCommit, Cut::Warn] {
        proxy.arm(cut);
        let appended = stage.append(vec![stage.message(Vec::new())]).await;
        assert!(matches!(appended, Err(StoreError::InDoubt { .. })), "{appended:?}");
        stage.store.now().await.unwrap();
    }
}

#[tokio::test]
async fn a_node_that_vanishes_within_a_transaction_does_not_keep_its_locks() {
    for pooler in [false, true] {
        let database = Database::migrated().await;
        let proxy = proxy_to(&database);
        let stage = Stage::new(database.store().await).await;
        let lost =
            database.store_with(|config| (config.url, config.pooler) = (through(&proxy, &database), pooler)).await;
        stage.append(vec![stage.message(Vec::new())]).await.unwrap();
        proxy.arm(Cut::Freeze);
        let ask = LeaseAsk { per_lane: 10, ..LeaseAsk::deliveries(stage.session, 10) };
        let live = async {
            let client = database.client().await;
            let idle = "select count(*) from pg_stat_activity
                where datname = current_database() and state = 'idle in transaction'
                    and state_change < clock_timestamp() - interval '200 ms'";
            while client.query_one(idle, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::task::yield_now().await;
            }
            // The lane is drained and locked by then: no task can be added to it or leased from it.
            stage.append(vec![stage.message(Vec::new())]).await.unwrap();
            stage.lease(10).await.unwrap().len()
        };
        let frozen = async {
            let lost = lost.lease(ask).await;
            assert!(matches!(lost, Err(StoreError::InDoubt { .. })), "{lost:?}");
            std::future::pending::<()>().await;
        };
        let leased = tokio::select! {
            () = frozen => unreachable!(),
            leased = tokio::time::timeout(Duration::from_secs(60), live) => leased,
        };
        assert_eq!(leased.expect("the lane stays locked"), 2);
    }
}

/// Starts a proxy to the server of a database.
fn proxy_to(database: &Database) -> Proxy {
    Proxy::start(&[server_of(database)]).unwrap()
}

/// The URL of the database through the proxy.
fn through(proxy: &Proxy, database: &Database) -> String {
    database.url().replacen(&server_of(database), &proxy.addresses[0], 1)
}

fn server_of(database: &Database) -> String {
    let config: tokio_postgres::Config = database.url().parse().unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
        panic!("EVERHOOK_TEST_DATABASE names a TCP server")
    };
    format!("{host}:{}", config.get_ports().first().copied().unwrap_or(5432))
}
