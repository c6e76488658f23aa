//! The plans of the hot path, on tables that filled while the statistics still say that they are empty.
//!
//! As the store's own connections are opened, whose plans are kept; and, for the largest table, without any setting, as
//! behind a pooler, where statements are planned each time.

use tokio_postgres::Client;

use crate::postgres::database::Database;

const APPEND_DIRECT: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/append_direct.sql"),
    "int[], bytea[], int8[], int[], bytea[], int[], int2[], bytea[], bytea[], bytea[], int8[], int[], bytea[], bytea[], text[], \
     text[], text[], text[], bytea[], int[], bytea[], bytea[], bytea[], int2[], int2[], int2[], int[], bytea[], int2[]",
);
const SETTLE_GONE: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/settle_task_gone.sql"),
    "int[], bytea[], bytea[], bytea[], int[], bytea[], bytea[], int2[], int2[], int2[], text[], int[], bytea[], int8[], int8[]",
);
const SETTLE_PENDING: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/settle_task_pending.sql"),
    "int[], bytea[], bytea[], bytea[], int[], bytea[], bytea[], int2[], int2[], int2[], text[], int[], bytea[], int8[], int8[], \
     int2[], int[], int[], int8[]",
);
const LEASE: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/lease_task.sql"),
    "int[], bytea[], int8[], int8[], int8[], int2, int8, bytea",
);
const REFILL: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/refill_lane.sql"), "int[], bytea[], int8[], int8[], int2");
const NEXT_DUE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/next_due.sql"), "int[], bytea[], int2, int8");
const NEXT_LANE: (&str, &str) = (include_str!("../../../../everhook-postgres/queries/next_lane.sql"), "bytea[], int8");
const TOUCH: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/touch_lane.sql"), "int[], bytea[], int8[], bool[]");
const HOLD: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/hold_lane.sql"), "int[], bytea[], int8[], int8[]");
const DRAIN: (&str, &str) = (include_str!("../../../../everhook-postgres/queries/drain_lane.sql"), "int[], bytea[]");
const CLAIM_ONCE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/claim_once.sql"), "int[], bytea[], text[]");
const REPLACE_ONCE: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/replace_once.sql"),
    "int[], bytea[], text[], int8[], bytea[], int8[], int8",
);
const LIST_ONCE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/list_once.sql"), "int, bytea, text, text, int8");
const FIND_DEDUP: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/find_dedup.sql"), "int[], int2[], bytea[]");

const TOUCH_QUEUE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/touch_lane_queue.sql"), "int[], bytea[], int8[]");
const SETTLE_JOB_GONE: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/settle_job_gone.sql"),
    "int[], bytea[], bytea[], bytea[], int[], bytea[], bytea[], int2[], int2[], int[], bytea[], int8[], int8[]",
);
const SETTLE_JOB_PENDING: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/settle_job_pending.sql"),
    "int[], bytea[], bytea[], bytea[], int[], bytea[], bytea[], int2[], int2[], int[], bytea[], int8[], int8[], int2[], int[], \
     int[], int8[]",
);
const LEASE_JOB: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/lease_job.sql"),
    "int[], int8[], int[], bytea[], int[], int8[], bytea[], int8, int8, bytea, bool",
);
const LEASE_JOB_KIND: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/lease_job_kind.sql"),
    "int[], int8[], int[], bytea[], int[], int8[], bytea[], int8, int8, bytea, bool, int8, int[]",
);
const FIND_JOB_LEASED: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/find_job_leased.sql"), "int[], bytea[]");
const PUT_BACK_JOB: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/put_back_job.sql"), "int[], bytea[], bytea[]");
const REFILL_QUEUE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/refill_lane_queue.sql"), "int[], bytea[]");
const NEXT_LANE_QUEUE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/next_lane_queue.sql"), "int[], text[], int8, bool");
const NEXT_READY_QUEUE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/next_ready_queue.sql"), "int[], text[], bytea[]");
const NEXT_QUEUE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/next_queue.sql"), "int[], text[]");
const COUNT_GATE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/count_gate.sql"), "bytea[], bytea[], bytea[], int8[]");
const RECLAIM: (&str, &str) = (include_str!("../../../../everhook-postgres/queries/reclaim_task.sql"), "bytea, int8");
const RECLAIM_JOB: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/reclaim_job.sql"), "bytea, int8");
const LOCK_TASK_JOB: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/lock_task_job.sql"), "int[], bytea[]");
const FIND_JOB_END: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/find_job_end.sql"), "int[], bytea[]");
const END_JOB: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/end_job.sql"),
    "int[], bytea[], bytea[], bytea[], bytea, int2, int2, int8",
);
const MOVE_TASK_JOB: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/move_task_job.sql"),
    "int[], bytea[], bytea[], int8[], bool[]",
);
const LOCK_BATCH: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/lock_batch.sql"), "int[], bytea[]");
const LIST_JOB_DEAD: (&str, &str) = (
    include_str!("../../../../everhook-postgres/queries/list_job_dead.sql"),
    "int, bytea, bytea, text, text, text, bytea, int8, int8, bytea, int2, int8",
);
const LIST_JOB_FAILED: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/list_job_failed.sql"), "int, bytea, int8");
const PRUNE_PAYLOAD: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/prune_payload.sql"), "int8, int8");
const NEXT_SCHEDULE: (&str, &str) =
    (include_str!("../../../../everhook-postgres/queries/next_schedule.sql"), "int8, int8");

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

/// The primary keys of a table's partitions.
async fn partitions(client: &Client, table: &str) -> Vec<String> {
    let sql =
        format!("select inhrelid::regclass::text from pg_inherits where inhparent = 'everhook.{table}'::regclass");
    let rows = client.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0).replace("everhook.", "") + "_pkey").collect()
}

async fn check_with(client: &Client, query: (&str, &str), indexes: &[String], condition: &str) {
    let indexes: Vec<&str> = indexes.iter().map(String::as_str).collect();
    check(client, query, &indexes, condition).await;
}

async fn check_tasks(client: &Client) {
    let by_key = "(environment = ANY (ARRAY[batch.environment])) AND (subject = batch.subject) AND (id = batch.task)";
    check(client, SETTLE_GONE, &["task_pkey"], by_key).await;
    check(client, SETTLE_PENDING, &["task_pkey"], by_key).await;
    let due = "(lane = lane.id) AND (priority = $6) AND (due_at >= lane.floor) AND (due_at <= lane.due_until)";
    check(client, LEASE, &["task_ready", "task_pkey"], due).await;
    let reclaim = plan(client, RECLAIM).await;
    assert!(reclaim.contains("Index Cond: ((owner > gap.above) AND (owner < gap.below))"), "{reclaim}");
    assert!(reclaim.contains("using task_pkey ") && !reclaim.contains("Seq Scan on task"), "{reclaim}");
    check(client, NEXT_DUE, &["task_ready"], "(lane = wanted.id) AND (priority = $3) AND (due_at > $4)").await;
}

async fn check_jobs(client: &Client) {
    let by_key = "(environment = ANY (ARRAY[batch.environment])) AND (subject = batch.subject) AND (id = batch.task)";
    check(client, SETTLE_JOB_GONE, &["task_pkey"], by_key).await;
    check(client, SETTLE_JOB_PENDING, &["task_pkey"], by_key).await;
    // The records are in one partition for each week.
    let records: Vec<String> = partitions(client, "job").await;
    let with_records = |first: &[&'static str]| -> Vec<String> {
        first.iter().map(|index| (*index).to_owned()).chain(records.iter().cloned()).collect()
    };
    let due = "(lane = lane.id) AND (priority = level.priority) AND (due_at <= $8)";
    check(client, LEASE_JOB, &["task_ready"], due).await;
    check(client, LEASE_JOB_KIND, &["task_ready"], due).await;
    check_with(client, FIND_JOB_LEASED, &with_records(&[]), "(environment = wanted.environment) AND (id = wanted.id)")
        .await;
    check(client, PUT_BACK_JOB, &["task_pkey"], "(subject = foreign_kind.subject)").await;
    check_with(client, RECLAIM_JOB, &with_records(&["task_deadline", "task_pkey"]), "Index Cond: (deadline <= ").await;
    check(client, COUNT_GATE, &["task_gate"], "(gate = wanted.gate) AND (lane >= wanted.low) AND (lane <= ").await;
    check(client, LOCK_TASK_JOB, &["task_pkey"], "(subject = wanted.subject)").await;
    check(client, END_JOB, &["task_pkey"], "(subject = ended.subject)").await;
    check(client, MOVE_TASK_JOB, &["task_pkey"], "(subject = moved.subject)").await;
}

async fn check_all(client: &Client) {
    check_tasks(client).await;
    check_jobs(client).await;
    check(client, TOUCH_QUEUE, &["lane_pkey"], "(id = wanted.id)").await;
    let first = "(lane = wanted.id) AND (priority = level.priority)";
    check(client, REFILL_QUEUE, &["task_ready", "lane_pkey"], first).await;
    let of_queue = "(environment = wanted.environment) AND (queue = wanted.name) AND (GREATEST(next_due, hold_until) <";
    check(client, NEXT_LANE_QUEUE, &["lane_queue", "queue_pkey"], of_queue).await;
    check(client, NEXT_READY_QUEUE, &["lane_queue"], of_queue).await;
    check(client, NEXT_QUEUE, &["queue_pkey"], "(name = wanted.name)").await;
    check(client, NEXT_SCHEDULE, &["schedule_look"], "(look_at <= $1)").await;
    check(client, LOCK_BATCH, &["batch_pkey"], "(id = wanted.id)").await;
    let payloads: Vec<String> =
        partitions(client, "message").await.into_iter().chain(["payload_expiry_pkey".to_owned()]).collect();
    check_with(client, PRUNE_PAYLOAD, &payloads, "Index Cond: (due_at <= $1)").await;
    let attempts = partitions(client, "job_attempt").await;
    let ends: Vec<String> = partitions(client, "job").await.into_iter().chain(attempts).collect();
    check_with(client, FIND_JOB_END, &ends, "(id = wanted.id)").await;
    let dead = plan(client, LIST_JOB_DEAD).await;
    assert!(dead.contains("using task_dead_job "), "{dead}");
    let failed = plan(client, LIST_JOB_FAILED).await;
    assert!(failed.contains("using task_dead_batch "), "{failed}");
    check(
        client,
        REFILL,
        &["task_ready", "lane_pkey"],
        "(lane = wanted.id) AND (priority = $5) AND (due_at >= wanted.floor)",
    )
    .await;
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
    // Makes the partitions.
    database.store().await.close().await;
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
