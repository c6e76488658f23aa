//! The plans of the hot path, on tables that filled while the statistics still say that they are empty.
//!
//! As the store's own connections are opened, whose plans are kept; and, for the largest table, without any setting, as
//! behind a pooler, where statements are planned each time.

use tokio_postgres::Client;

use crate::database::Database;

const APPEND_DIRECT: (&str, &str) = (
    include_str!("../../queries/append_direct.sql"),
    "int[], bytea[], int8[], int[], bytea[], int[], int2[], bytea[], bytea[], bytea[], int8[], int[], bytea[], bytea[], text[], \
     text[], text[], text[], bytea[], int[], bytea[], bytea[], bytea[], int2[], int2[], int2[], int[], bytea[], int2[]",
);
const SETTLE_GONE: (&str, &str) = (
    include_str!("../../queries/settle_task_gone.sql"),
    "int[], bytea[], bytea[], bytea[], int[], bytea[], bytea[], int2[], int2[], int2[], text[], int[], bytea[], int8[], int8[]",
);
const SETTLE_PENDING: (&str, &str) = (
    include_str!("../../queries/settle_task_pending.sql"),
    "int[], bytea[], bytea[], bytea[], int[], bytea[], bytea[], int2[], int2[], int2[], text[], int[], bytea[], int8[], int8[], \
     int2[], int[], int[], int8[]",
);
const LEASE: (&str, &str) =
    (include_str!("../../queries/lease_task.sql"), "int[], bytea[], int8[], int8[], int2, int8, bytea");
const REFILL: (&str, &str) = (include_str!("../../queries/refill_lane.sql"), "int[], bytea[], int2");
const NEXT_LANE: (&str, &str) = (include_str!("../../queries/next_lane.sql"), "bytea[], int8");
const TOUCH: (&str, &str) = (include_str!("../../queries/touch_lane.sql"), "int[], bytea[], int8[]");
const HOLD: (&str, &str) = (include_str!("../../queries/hold_lane.sql"), "int[], bytea[], int8[], int8[]");
const DRAIN: (&str, &str) = (include_str!("../../queries/drain_lane.sql"), "int[], bytea[]");
const CLAIM_ONCE: (&str, &str) = (include_str!("../../queries/claim_once.sql"), "int[], bytea[], text[]");
const REPLACE_ONCE: (&str, &str) =
    (include_str!("../../queries/replace_once.sql"), "int[], bytea[], text[], int8[], bytea[], int8[], int8");
const LIST_ONCE: (&str, &str) = (include_str!("../../queries/list_once.sql"), "int, bytea, text, text, int8");
const FIND_DEDUP: (&str, &str) = (include_str!("../../queries/find_dedup.sql"), "int[], int2[], bytea[]");

/// A hundred thousand tasks, half of them leased by one session, in a thousand lanes; statistics from before.
const FILL: &str = "
    alter table everhook.task set (autovacuum_enabled = off);
    alter table everhook.lane set (autovacuum_enabled = off);
    alter table everhook.dedup set (autovacuum_enabled = off);
    vacuum analyze everhook.task;
    vacuum analyze everhook.lane;
    vacuum analyze everhook.dedup;
    insert into everhook.lane (environment, id, application, state, next_due)
    select 1, int8send(n), '\\x01', 0, n from generate_series(1, 1000) as n;
    insert into everhook.task
        (environment, subject, id, lane, kind, \"trigger\", priority, due_at, tries, crashes, epoch, owner, cancel, state)
    select 1, int8send(n), int8send(n), int8send(n % 1000 + 1), 0, 0, 5, n, 0, 0, 1,
        case n % 2 when 0 then '\\x0a'::bytea end, false, case n % 2 when 0 then 1 else 0 end
    from generate_series(1, 100000) as n;
    insert into everhook.dedup (environment, scope, hash, object, body, expires_at)
    select 1, 0, int8send(n), '', '', 0 from generate_series(1, 10000) as n;
";

async fn plan(client: &Client, (sql, types): (&str, &str)) -> String {
    let params = vec!["null"; types.split(',').count()].join(", ");
    let prepare = format!("set plan_cache_mode = force_generic_plan; prepare planned ({types}) as {sql}");
    client.batch_execute(&prepare).await.unwrap();
    let rows = client.query(&format!("explain (costs off) execute planned ({params})"), &[]).await.unwrap();
    client.batch_execute("deallocate planned").await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// Every table is reached through exactly these indexes, and through the first one with its full key.
async fn check(client: &Client, query: (&str, &str), indexes: &[&str], condition: &str) {
    let plan = plan(client, query).await;
    for index in indexes {
        assert!(plan.contains(&format!("using {index} ")), "{index} is not used:\n{plan}");
    }
    for line in plan.lines().filter(|line| line.contains(" using ")) {
        assert!(indexes.iter().any(|index| line.contains(&format!("using {index} "))), "{line}\n{plan}");
    }
    assert!(plan.contains(condition), "no {condition:?}:\n{plan}");
    assert!(!plan.contains("Join Filter"), "a join without an index:\n{plan}");
    for bad in ["Seq Scan", "Hash Join", "Merge Join", "Bitmap"] {
        assert!(!plan.contains(bad), "{bad}:\n{plan}");
    }
}

async fn check_tasks(client: &Client) {
    let by_key = "(environment = ANY (ARRAY[batch.environment])) AND (subject = batch.subject) AND (id = batch.task)";
    check(client, SETTLE_GONE, &["task_pkey"], by_key).await;
    check(client, SETTLE_PENDING, &["task_pkey"], by_key).await;
    let due = "(lane = lane.id) AND (priority = $5) AND (due_at <= lane.due_until)";
    check(client, LEASE, &["task_ready", "task_pkey"], due).await;
}

async fn check_all(client: &Client) {
    check_tasks(client).await;
    check(client, REFILL, &["task_ready", "lane_pkey"], "(lane = wanted.id) AND (priority = $3)").await;
    check(client, NEXT_LANE, &["lane_ready", "application_pkey"], "(ready_at <= ").await;
    check(client, APPEND_DIRECT, &["application_pkey", "lane_pkey"], "(id = wanted.id)").await;
    check(client, TOUCH, &["lane_pkey"], "(id = wanted.id)").await;
    check(client, HOLD, &["lane_pkey"], "(id = wanted.id)").await;
    check(client, DRAIN, &["lane_pkey"], "(id = wanted.id)").await;
    check(client, CLAIM_ONCE, &["once_slot_pkey"], "(application = wanted.application) AND (key = ").await;
    check(client, REPLACE_ONCE, &["once_slot_pkey"], "(application = decided.application) AND (key = ").await;
    check(client, LIST_ONCE, &["once_slot_pkey", "once_suppression_slot"], "(key > $3) AND (key < $4)").await;
    check(client, FIND_DEDUP, &["dedup_pkey"], "(scope = wanted.scope) AND (hash = wanted.hash)").await;
}

#[tokio::test]
async fn a_batch_is_looked_up_by_key_whatever_the_statistics_say() {
    let database = Database::migrated().await;
    let client = database.client().await;
    let settings = "set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off";
    let steps: Vec<&str> = FILL.split(';').filter(|step| !step.trim().is_empty()).collect();
    let (empty, full) = steps.split_at(6);
    for step in empty {
        client.batch_execute(step).await.unwrap();
    }
    client.batch_execute(settings).await.unwrap();
    check_all(&client).await;
    client.batch_execute("reset all").await.unwrap();
    for step in full {
        client.batch_execute(step).await.unwrap();
    }
    check_tasks(&client).await;
    client.batch_execute(settings).await.unwrap();
    check_all(&client).await;
    client.batch_execute("reset all; analyze").await.unwrap();
    check_tasks(&client).await;
    client.batch_execute(settings).await.unwrap();
    check_all(&client).await;
}
