//! The information that appends and leases exchange through a lane: when the next task is due, and where to search for
//! it.
//!
//! The floor rises when tasks are leased. Leases then skip dead rows that a long transaction keeps from being removed.
//! The floor must not hide any task.

use std::time::Duration;

use everhook_core::id::EndpointId;
use everhook_core::lifecycle::NextRow;
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::scope::Scope;
use everhook_core::task::Task;
use everhook_store::history::Redrive;
use everhook_store::resource::New;
use everhook_store::steer::Steer;
use everhook_store::store::{Resources, Store};
use everhook_testkit::conformance::fixture::{HOUR, new_endpoint};
use tokio_postgres::Client;

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

/// Returns whether a lease starts its search exactly at the first pending task, or does not search at all.
async fn is_exact(client: &Client) -> bool {
    let sql = "select floor = next_due and floor = coalesce(\
        (select min(due_at) from everhook.task where state = 0), 9223372036854775807) from everhook.lane";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn leased(stage: &Stage, count: usize) -> Vec<Task> {
    stage.append((0..count).map(|_| stage.message(vec![])).collect()).await.unwrap();
    let tasks = stage.lease(count + 1).await.unwrap();
    assert_eq!(tasks.len(), count);
    tasks
}

async fn end(stage: &Stage, task: &Task, row: NextRow) {
    stage.store.settle([stage.settlement(task, row)].into()).await.unwrap();
}

/// Returns a stage whose only lane was drained, while a retry is due in an hour.
async fn risen(database: &Database) -> (Stage, Task) {
    let stage = Stage::new(database.store().await).await;
    let tasks = leased(&stage, 2).await;
    end(&stage, &tasks[0], NextRow::Pending { due_in: HOUR }).await;
    stage.append(vec![stage.message(vec![])]).await.unwrap();
    assert_eq!(stage.lease(10).await.unwrap().len(), 1);
    assert!(is_exact(&database.client().await).await);
    (stage, tasks[1])
}

#[tokio::test]
async fn the_floor_rises_to_what_is_left() {
    let database = Database::migrated().await;
    let (stage, client) = (Stage::new(database.store().await).await, database.client().await);
    for _ in 0..3 {
        stage.append(vec![stage.message(vec![])]).await.unwrap();
    }
    assert_eq!(stage.lease(10).await.unwrap().len(), 3);
    assert!(is_exact(&client).await);
}

/// While a long transaction is open, every version of a lane row makes reading the lane slower.
#[tokio::test]
async fn a_lane_with_a_backlog_is_not_written_by_every_lease() {
    let database = Database::migrated().await;
    let (stage, client) = (Stage::new(database.store().await).await, database.client().await);
    stage.append((0..5).map(|_| stage.message(vec![])).collect()).await.unwrap();
    let version =
        async || -> String { client.query_one("select ctid::text from everhook.lane", &[]).await.unwrap().get(0) };
    let before = version().await;
    for _ in 0..5 {
        assert_eq!(stage.lease(1).await.unwrap().len(), 1);
    }
    assert_eq!(version().await, before);
    assert_eq!(stage.lease(1).await.unwrap().len(), 0);
    assert!(version().await != before && is_exact(&client).await, "it has nothing more");
}

/// A node caches its search position in a lane. A transaction that commits later than expected may insert a task behind
/// it.
#[tokio::test]
async fn what_was_committed_late_is_found_before_a_lane_is_called_empty() {
    let database = Database::migrated().await;
    let (stage, client) = (Stage::new(database.store().await).await, database.client().await);
    for _ in 0..3 {
        stage.append(vec![stage.message(vec![])]).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!((stage.lease(1).await.unwrap().len(), stage.lease(1).await.unwrap().len()), (1, 1));
    let late = "update everhook.task set due_at = (select floor from everhook.lane) where state = 0";
    assert_eq!(client.execute(late, &[]).await.unwrap(), 1);
    assert_eq!(stage.lease(1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_dead_delivery_that_is_put_back_below_the_floor_is_found() {
    let database = Database::migrated().await;
    let (stage, task) = risen(&database).await;
    end(&stage, &task, NextRow::Dead).await;
    let endpoint = EndpointId(task.lane.0);
    let redrive = Redrive { endpoint, message: None, since: None, until: None, limit: 10 };
    assert_eq!(
        stage.store.steer(Scope::of(stage.environment), Steer::Redrive(redrive.clone())).await.unwrap().answer.redriven,
        1
    );
    let found = stage.lease(10).await.unwrap();
    assert_eq!(found.iter().map(|task| task.key).collect::<Vec<_>>(), [task.key]);
}

#[tokio::test]
async fn a_retry_that_is_due_below_the_floor_is_found() {
    let database = Database::migrated().await;
    let (stage, task) = risen(&database).await;
    end(&stage, &task, NextRow::Pending { due_in: Duration::ZERO }).await;
    let found = stage.lease(10).await.unwrap();
    assert_eq!(found.iter().map(|task| task.key).collect::<Vec<_>>(), [task.key]);
}

/// Waits until a transaction waits for a lock.
async fn wait_until_blocked(client: &Client) {
    let sql = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while client.query(sql, &[]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// An append that waits for the lock of one lane sees the next lane in an old snapshot. A write without a lock conflict
/// or a drain may have happened since.
#[tokio::test]
async fn an_append_that_had_to_wait_sees_what_a_drain_has_left() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let endpoint = EndpointId(stage.id());
    stage
        .store
        .create(
            Scope::of(stage.environment),
            New { record: new_endpoint(endpoint, stage.application), max: ENDPOINTS_MAX },
            None,
        )
        .await
        .unwrap();
    stage.append(vec![stage.message(vec![])]).await.unwrap();
    let (first, other, lease) = (database.client().await, database.client().await, database.client().await);
    let run = async |client: &Client, sql: &str| client.batch_execute(sql).await.unwrap();
    let first_lane = "id = (select id from everhook.lane order by id limit 1)";
    let next_lane = "id = (select id from everhook.lane order by id desc limit 1)";
    run(&first, &format!("begin; select from everhook.lane where {first_lane} for update")).await;
    let append = stage.append(vec![stage.message(vec![])]);
    let drained = async {
        wait_until_blocked(&other).await;
        run(&other, &format!("update everhook.lane set next_due = next_due + 1 where {next_lane}")).await;
        run(&other, &format!("begin; select from everhook.lane where {next_lane} for key share")).await;
        run(&lease, &format!("begin; select from everhook.lane where {next_lane} for no key update")).await;
        run(&other, "commit").await;
        run(&lease, &format!("select from everhook.lane where {next_lane} for update")).await;
        run(&lease, &format!("update everhook.lane set next_due = 9223372036854775807 where {next_lane}; commit"))
            .await;
        run(&first, "commit").await;
    };
    let (appended, ()) = tokio::join!(append, drained);
    appended.unwrap();
    let sql = "select count(*) from everhook.lane where next_due <= everhook.now_us()";
    assert_eq!(other.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 2, "both lanes are ready");
}

/// The result of one lease must fit into its time limit and into memory.
#[tokio::test]
async fn a_lease_that_brought_too_many_bytes_is_followed_by_a_smaller_one() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    for _ in 0..20 {
        let mut large = stage.message(vec![]);
        large.message.payload = Some(vec![b' '; 1024 * 1024].into());
        stage.append(vec![large]).await.unwrap();
    }
    assert_eq!(stage.lease(10).await.unwrap().len(), 10);
    assert_eq!(stage.lease(10).await.unwrap().len(), 8, "8 MiB");
    assert_eq!(stage.lease(10).await.unwrap().len(), 2);
}
