//! The query plans of the hot path, on full tables whose statistics still say that they are empty.
//!
//! The plans are checked with the settings of the store's own connections, which keep their plans. For the largest
//! table they are also checked without settings, as behind a pooler, where each statement is planned again.

use everhook_postgres::{StoreStatement, statements};
use tokio_postgres::Client;

use crate::postgres::database::Database;

/// A hundred thousand tasks in a thousand lanes, half of them leased by one session, with older statistics.
const FILL: &str = "
    alter table everhook.task set (autovacuum_enabled = off);
    alter table everhook.lane set (autovacuum_enabled = off);
    alter table everhook.dedup set (autovacuum_enabled = off);
    vacuum analyze everhook.task;
    vacuum analyze everhook.lane;
    vacuum analyze everhook.dedup;
    insert into everhook.lane (environment, id, application, feed, state, next_due)
    select 1, int8send(n), '\\x01', '\\x00', 0, n from generate_series(1, 1000) as n;
    insert into everhook.task
        (environment, subject, id, lane, kind, \"trigger\", priority, due_at, tries, crashes, epoch, owner, cancel, state)
    select 1, int8send(n), int8send(n), int8send(n % 1000 + 1), 0, 0, 5, n, 0, 0, 1,
        case n % 2 when 0 then '\\x0a'::bytea end, false, case n % 2 when 0 then 1 else 0 end
    from generate_series(1, 100000) as n;
    insert into everhook.dedup (environment, scope, hash, object, body, expires_at)
    select 1, 0, int8send(n), '', '', 0 from generate_series(1, 10000) as n;
";

async fn plan(client: &Client, name: &str) -> String {
    plan_with(client, name, &[]).await
}

/// Plans a query with these first parameters. A null as the bound of a partition key would remove all partitions.
async fn plan_with(client: &Client, name: &str, first: &[&str]) -> String {
    let statement = statements().into_iter().find(|statement| statement.name == name).expect("there is such a query");
    let StoreStatement { types, text: sql, .. } = statement;
    let rest = types.split(',').skip(first.len()).map(|_| "null");
    let params = first.iter().copied().chain(rest).collect::<Vec<_>>().join(", ");
    let prepare = format!("set plan_cache_mode = force_generic_plan; prepare planned ({types}) as {sql}");
    client.batch_execute(&prepare).await.unwrap();
    let rows = client.query(&format!("explain (costs off) execute planned ({params})"), &[]).await.unwrap();
    client.batch_execute("deallocate planned").await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// Checks that the plan uses exactly these indexes, and the first one with its full key.
async fn check(client: &Client, query: &str, indexes: &[&str], condition: &str) {
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

/// An id of the first partition of messages.
async fn first_message(client: &Client) -> String {
    let sql = "select substring(pg_get_expr(relpartbound, oid) from '\\\\x[0-9a-f]+') from pg_class where oid in \
        (select inhrelid from pg_inherits where inhparent = 'everhook.message'::regclass) order by relname limit 1";
    let bound: String = client.query_one(sql, &[]).await.unwrap().get(0);
    format!("'{bound}'")
}

async fn check_with(client: &Client, query: &str, indexes: &[String], condition: &str) {
    let indexes: Vec<&str> = indexes.iter().map(String::as_str).collect();
    check(client, query, &indexes, condition).await;
}

async fn check_tasks(client: &Client) {
    let by_key = "(environment = ANY (ARRAY[batch.environment])) AND (subject = batch.subject) AND (id = batch.task)";
    check(client, "settle_gone", &["task_pkey"], by_key).await;
    check(client, "settle_kept", &["task_pkey"], by_key).await;
    let due =
        "(lane = lane.id) AND (priority = level.priority) AND (due_at >= lane.floor) AND (due_at <= lane.due_until)";
    check(client, "lease_task", &["task_ready"], due).await;
    let reclaim = plan(client, "reclaim_orphaned").await;
    assert!(reclaim.contains("Index Cond: ((owner > gap.above) AND (owner < gap.below))"), "{reclaim}");
    assert!(reclaim.contains("using task_pkey ") && !reclaim.contains("Seq Scan on task"), "{reclaim}");
    check(client, "next_due", &["task_ready"], "(lane = wanted.id) AND (priority = level.priority) AND (due_at > $4)")
        .await;
}

async fn check_jobs(client: &Client) {
    // The records are partitioned by week.
    let records: Vec<String> = partitions(client, "job").await;
    let with_records = |first: &[&'static str]| -> Vec<String> {
        first.iter().map(|index| (*index).to_owned()).chain(records.iter().cloned()).collect()
    };
    check_with(
        client,
        "find_job_leased",
        &with_records(&[]),
        "(environment = wanted.environment) AND (id = wanted.id)",
    )
    .await;
    check(client, "release_task", &["task_pkey"], "(subject = foreign_kind.subject)").await;
    check_with(client, "reclaim_overdue", &with_records(&["task_deadline", "task_pkey"]), "Index Cond: (deadline <= ")
        .await;
    check(
        client,
        "count_leased",
        &["task_limit_group"],
        "(limit_group = wanted.limit_group) AND (lane >= wanted.low) AND (lane <= ",
    )
    .await;
    check(client, "lock_task_job", &["task_pkey"], "(subject = wanted.subject)").await;
    check(client, "cancel_task", &["task_pkey"], "(subject = ended.subject)").await;
    check(client, "reschedule_task", &["task_pkey"], "(subject = moved.subject)").await;
}

/// Bulk work reads the rows of a message by its key, however many rows its endpoint has.
async fn check_bulk_work(client: &Client) {
    check(client, "list_task_dead", &["task_dead"], "(environment = $1) AND (lane = $2) AND (id > $3)").await;
    for name in ["find_candidate", "delete_task_dead", "count_attempt", "purge_content"] {
        let plan = plan(client, name).await;
        assert!(plan.contains("_pkey ") && !plan.contains("Seq Scan"), "{plan}");
        assert!(!plan.contains("task_dead ") && !plan.contains("endpoint_id_idx"), "{plan}");
        assert!(plan.contains("= wanted.id)") && !plan.contains("Join Filter"), "{plan}");
    }
    for name in ["list_background", "scan_background"] {
        let plan = plan_with(client, name, &["'1'", "'\\x'", "'\\xffffffffff'"]).await;
        assert!(plan.contains("concurrency_key_id_idx") && !plan.contains("Seq Scan"), "{plan}");
    }
}

async fn check_polled(client: &Client) {
    check(client, "order_polled", &["polled_waiting"], "(endpoint = $2) AND (due_at <= $3)").await;
    let listed: Vec<String> =
        partitions(client, "message").await.into_iter().chain(["polled_position".to_owned()]).collect();
    check_with(client, "list_polled", &listed, "(id = polled.message)").await;
    check(client, "find_polled_bounds", &["polled_position", "poller_pkey"], "(endpoint = $2)").await;
    check(client, "find_polled_since", &["polled_pkey"], "(message >= $3)").await;
    check(client, "find_polled_waiting", &["polled_waiting"], "(endpoint = $2)").await;
    check(client, "prune_polled", &["polled_day"], "Index Cond: ((due_at / ").await;
    check(client, "prune_request", &["request_expires"], "Index Cond: (expires_at <= $1)").await;
}

/// The overview and the failure groups, however many tasks and applications there are.
async fn check_overview(client: &Client) {
    check(client, "put_failure_mark", &[], "Insert on failure_mark").await;
    check(client, "list_traffic", &["traffic_pkey"], "(environment = $1) AND (span = $2) AND (start >= $3)").await;
    check(client, "prune_traffic", &["traffic_start"], "(span = $1) AND (start < $2)").await;
    // Leased tasks may be read by a bitmap; there are no more of them than the nodes have places.
    let counted = plan(client, "count_open").await;
    for index in [" task_ready ", " task_owner", " task_dead ", " lane_pkey "] {
        assert!(counted.contains(index), "{index} is not used:\n{counted}");
    }
    assert!(counted.contains("(id = by_lane.lane)"), "{counted}");
    for bad in ["task_pkey", "Seq Scan", "Join Filter"] {
        assert!(!counted.contains(bad), "{bad}:\n{counted}");
    }
    check(client, "list_dead_lane", &["task_dead"], "AND (lane > found_1.lane)").await;
    let attempts: Vec<String> =
        partitions(client, "attempt_delivery").await.into_iter().chain(["task_dead".to_owned()]).collect();
    check_with(client, "count_dead", &attempts, "AND (task = task.id) AND (epoch <= task.epoch)").await;
    let placed = ["lane_pkey", "resource_pkey", "resource_open"];
    check(client, "find_endpoint_placed", &placed, "(parent = lane.application) AND (id = lane.id)").await;
    let message = first_message(client).await;
    let found = plan_with(client, "find_message_application", &["'1'", &message]).await;
    assert!(found.contains("(application = resource.id) AND (id = ") && !found.contains("Join Filter"), "{found}");
    check(client, "list_failure_mark", &["failure_mark_pkey"], "(endpoint = wanted.id)").await;
    let plan = self::plan(client, "list_endpoint_placed").await;
    assert!(plan.contains("(ROW(parent, id) > ROW(") && !plan.contains("Sort"), "{plan}");
}

/// The messages of all applications: one look-up for each application, and no scan.
async fn check_placed_messages(client: &Client) {
    let plan = self::plan(client, "list_message_placed").await;
    assert!(plan.contains("(application = resource.id)"), "{plan}");
    assert!(!plan.contains("Seq Scan") && !plan.contains("Join Filter"), "{plan}");
}

async fn check_all(client: &Client) {
    check_placed_messages(client).await;
    check_overview(client).await;
    check_polled(client).await;
    check_tasks(client).await;
    check_bulk_work(client).await;
    check_jobs(client).await;
    let of_feed = "(feed = wanted.feed) AND (ready_at <";
    check(client, "next_lane", &["lane_ready", "lane_group_pkey"], of_feed).await;
    let later = "Index Cond: ((feed = wanted.feed) AND (ready_at > ";
    check(client, "next_ready", &["lane_ready"], later).await;
    let page = "AND (ROW(ready_at, environment, id) > ROW(";
    check(client, "next_delivery_lane", &["lane_ready", "lane_pkey", "lane_group_pkey"], page).await;
    check(client, "next_group", &["lane_group_pkey"], "(id = wanted.id)").await;
    check(client, "list_queue_group", &["lane_group_pkey", "resource_pkey"], "(id = wanted.id)").await;
    check(client, "next_schedule", &["schedule_look"], "(look_at <= $1)").await;
    check(client, "lock_batch", &["batch_pkey"], "(id = wanted.id)").await;
    let payloads: Vec<String> =
        partitions(client, "message").await.into_iter().chain(["payload_expiry_pkey".to_owned()]).collect();
    check_with(client, "prune_payload", &payloads, "Index Cond: (due_at <= $1)").await;
    let attempts = partitions(client, "attempt_job").await;
    let ends: Vec<String> = partitions(client, "job").await.into_iter().chain(attempts).collect();
    check_with(client, "find_job_end", &ends, "(id = wanted.id)").await;
    let dead = plan(client, "list_job_dead").await;
    assert!(dead.contains("using task_dead_job "), "{dead}");
    let failed = plan(client, "list_job_failed").await;
    assert!(failed.contains("using task_dead_batch "), "{failed}");
    check(
        client,
        "recompute_lane_due",
        &["task_ready", "lane_pkey"],
        "(lane = wanted.id) AND (priority = level.priority) AND (due_at >= wanted.floor)",
    )
    .await;
    check(client, "append_direct", &["lane_group_pkey", "lane_pkey"], "(id = known.id)").await;
    check(client, "find_group_version", &["lane_group_pkey"], "(id = wanted.id)").await;
    let of_group = "(environment = lane_group.environment) AND (kind = 1) AND (parent = lane_group.id)";
    check(client, "list_endpoint_application", &["resource_pkey", "lane_group_pkey", "resource_open"], of_group).await;
    check(client, "lower_lane_due", &["lane_pkey"], "(id = wanted.id)").await;
    check(client, "lock_lane", &["lane_pkey"], "(id = wanted.id)").await;
    check(client, "mark_lane_empty", &["lane_pkey"], "(id = wanted.id)").await;
    check(client, "claim_once", &["once_slot_pkey"], "(application = wanted.application) AND (key = ").await;
    check(client, "replace_once", &["once_slot_pkey"], "(application = decided.application) AND (key = ").await;
    check(client, "list_once", &["once_slot_pkey", "once_suppression_slot"], "(key > $3) AND (key < $4)").await;
    check(client, "find_dedup", &["dedup_pkey"], "(scope = wanted.scope) AND (hash = wanted.hash)").await;
}

#[tokio::test]
async fn a_batch_is_looked_up_by_key_whatever_the_statistics_say() {
    let database = Database::migrated().await;
    // Opening the store creates the partitions.
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
