//! Every statement of the hot path uses the index that was made for it.

use everhook_sqlite::{migrate, statement_text};
use rusqlite::Connection;

/// The whole key of a resource.
const RESOURCE_KEY: &str = "(environment=? AND kind=? AND parent=? AND id=?)";

#[track_caller]
fn check(conn: &Connection, sql: &str, wants: &[&str]) {
    let plan = plan(conn, sql);
    for want in wants {
        assert!(plan.contains(want), "wanted {want:?} in:\n{plan}\nof:\n{sql}");
    }
    for scan in ["SCAN task", "SCAN message", "SCAN attempt", "SCAN lane", "SCAN job"] {
        assert!(!plan.contains(scan), "{plan}\nof:\n{sql}");
    }
}

/// The text of a statement with named parameters, as it is sent.
fn declared(name: &str) -> &'static str {
    statement_text(name).expect("there is such a statement")
}

fn plan(conn: &Connection, sql: &str) -> String {
    let mut statement = conn.prepare(&format!("explain query plan {sql}")).unwrap();
    for index in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(index, rusqlite::types::Null).unwrap();
    }
    let mut rows = statement.raw_query();
    let mut plan = String::new();
    while let Some(row) = rows.next().unwrap() {
        plan.push_str(&row.get::<_, String>(3).unwrap());
        plan.push('\n');
    }
    plan
}

fn schema() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    migrate(folder.path()).unwrap();
    let conn = Connection::open(folder.path().join("everhook.db")).unwrap();
    (folder, conn)
}

macro_rules! query {
    ($name:literal) => {
        include_str!(concat!("../../../../everhook-sqlite/queries/", $name, ".sql"))
    };
}

const TASK_KEY: &str = "USING PRIMARY KEY (environment=? AND subject=? AND id=?)";

#[test]
fn a_lease_walks_ready_lanes_and_due_rows_only() {
    let (_folder, conn) = schema();
    let lane_ready = "lane USING INDEX lane_ready (feed=? AND (ready_at,environment,id)>(?,?,?) AND ready_at<?)";
    check(&conn, declared("next_lane"), &[lane_ready]);
    check(&conn, declared("next_task"), &["task_ready (environment=? AND lane=? AND priority=? AND due_at<?)"]);
    check(&conn, declared("lease_task"), &[TASK_KEY]);
    check(&conn, declared("recompute_lane_due"), &["task_ready (environment=? AND lane=? AND priority=?)"]);
    check(&conn, declared("count_leased"), &["COVERING INDEX task_limit_group (limit_group=?)"]);
    check(
        &conn,
        declared("count_leased_lane"),
        &["COVERING INDEX task_limit_group (limit_group=? AND lane=? AND environment=?)"],
    );
    check(&conn, declared("find_job_record"), &["(environment=? AND id=?)"]);
    for sorted in [declared("next_lane"), declared("next_task"), declared("recompute_lane_due")] {
        assert!(!plan(&conn, sorted).contains("TEMP B-TREE"), "what is found in order needs no sorting: {sorted}");
    }
}

#[test]
fn a_settle_is_driven_by_the_primary_key() {
    let (_folder, conn) = schema();
    for sql in [declared("settle_gone"), declared("settle_kept")] {
        check(&conn, sql, &[TASK_KEY]);
        assert!(!plan(&conn, sql).contains("task_owner"));
    }
    check(&conn, declared("find_settled"), &["(environment=? AND subject=? AND task=? AND epoch=?)"]);
    check(&conn, declared("lower_lane_due"), &["USING PRIMARY KEY (environment=? AND id=?)"]);
    check(&conn, declared("hold_lane"), &["USING PRIMARY KEY (environment=? AND id=?)"]);
}

#[test]
fn a_sweep_hops_over_owners() {
    let (_folder, conn) = schema();
    check(&conn, declared("next_orphan"), &["task_owner (owner=?)", "task_owner (owner>?)"]);
    check(&conn, declared("reclaim_task"), &[TASK_KEY]);
}

#[test]
fn lists_walk_their_keys() {
    let (_folder, conn) = schema();
    check(&conn, declared("list_message"), &["(environment=? AND application=? AND id>? AND id<?)"]);
    check(
        &conn,
        declared("list_attempt_endpoint"),
        &["INDEX attempt_endpoint (environment=? AND endpoint=? AND id>? AND id<?)"],
    );
    check(&conn, declared("list_attempt_message"), &["(environment=? AND subject=?)"]);
    check(&conn, declared("list_destination"), &["task USING PRIMARY KEY (environment=? AND subject=?)"]);
    let one = "USING PRIMARY KEY (environment=? AND subject=?)";
    check(&conn, declared("redrive_task"), &["INDEX task_dead (environment=? AND lane=?)", one, TASK_KEY]);
    check(&conn, declared("find_key"), &["(hash=?)"]);
    let calls = "once_suppression_slot (environment=? AND application=? AND key=?)";
    check(&conn, declared("list_once"), &["(environment=? AND application=? AND key>? AND key<?)", calls]);
    check(&conn, declared("find_once"), &["(environment=? AND application=? AND key=?)", calls]);
}

#[test]
fn a_job_is_enqueued_settled_and_steered_by_primary_keys() {
    let (_folder, conn) = schema();
    check(&conn, declared("create_lane_queue"), &[]);
    check(&conn, declared("stop_queue"), &["lane USING PRIMARY KEY (environment=? AND id=?)"]);
    let of_job = "(environment=? AND subject=? AND task=? AND epoch=?)";
    check(&conn, declared("find_job"), &["job USING", "task USING PRIMARY KEY (environment=? AND subject=?)", of_job]);
    for sql in [declared("cancel_task"), declared("reschedule_task")] {
        check(&conn, sql, &[TASK_KEY]);
    }
    check(&conn, declared("next_overdue"), &["task_deadline (deadline<?)"]);
    check(&conn, declared("find_task_open"), &["task USING PRIMARY KEY (environment=? AND subject=?)"]);
    check(&conn, declared("list_task_held"), &["task_owner (owner=?)"]);
    check(&conn, declared("list_job_failed"), &["task_dead_batch (environment=? AND batch=?)"]);
    assert!(!plan(&conn, declared("list_job_failed")).contains("TEMP B-TREE"));
}

#[test]
fn lists_of_jobs_walk_their_keys() {
    let (_folder, conn) = schema();
    check(&conn, declared("list_job"), &["(environment=? AND id>? AND id<?)"]);
    check(&conn, declared("list_job_batch"), &["job_batch (environment=? AND batch=? AND id>? AND id<?)"]);
    check(&conn, declared("list_job_open"), &["PRIMARY KEY (environment=? AND subject>? AND subject<?)"]);
    check(&conn, declared("list_job_dead"), &["task_dead_job (environment=? AND subject>? AND subject<?)"]);
    for sorted in ["list_job", "list_job_batch", "list_job_open", "list_job_dead", "list_job_attempt"] {
        assert!(
            !plan(&conn, declared(sorted)).contains("TEMP B-TREE"),
            "what is found in order needs no sorting: {sorted}"
        );
    }
    check(
        &conn,
        declared("list_queue"),
        &["resource_name (environment=? AND kind=? AND parent=? AND name>? AND name<?)", "INDEX lane_queue"],
    );
    check(&conn, declared("next_schedule"), &["schedule_look (look_at<?)", RESOURCE_KEY]);
}

#[test]
fn resources_are_found_by_key_and_name() {
    let (_folder, conn) = schema();
    let by_name = "resource_name (environment=? AND kind=? AND parent=? AND name=?)";
    check(&conn, declared("find_resource"), &[RESOURCE_KEY]);
    check(&conn, declared("find_resource_name"), &[by_name]);
    check(&conn, declared("resolve_application"), &[by_name, "lane_group USING PRIMARY KEY (environment=? AND id=?)"]);
    check(&conn, declared("list_resource"), &["(environment=? AND kind=? AND parent=? AND id>? AND id<?)"]);
    let names = "resource_name (environment=? AND kind=? AND parent=? AND name>? AND name<?)";
    check(&conn, declared("list_resource_name"), &[names]);
    check(&conn, declared("list_endpoint_application"), &["resource_open (environment=? AND kind=? AND parent=?)"]);
    let targets = plan(&conn, declared("list_queue_target"));
    assert!(targets.contains("lane_group_pushes") && targets.contains(RESOURCE_KEY), "{targets}");
    check(&conn, declared("find_group"), &["lane_group USING PRIMARY KEY (environment=? AND id=?)"]);
}

#[test]
fn what_is_counted_or_forgotten_is_found_by_what_was_made_for_it() {
    let (_folder, conn) = schema();
    let due = "task_ready (environment=? AND lane=? AND priority=? AND due_at<?)";
    let lanes = "lane USING INDEX lane_ready (feed=? AND ready_at<?)";
    check(&conn, declared("list_queue_kind"), &[lanes, due]);
    let counted = plan(&conn, declared("count_queue"));
    for want in [lanes, due, "task USING INDEX task_owner", "task_dead_job (environment=?)"] {
        assert!(counted.contains(want), "wanted {want:?} in:\n{counted}");
    }
    // These statements walk in insertion order and stop at the first row that has not expired.
    for walked in [query!("list_expired_message"), declared("list_expired_job")] {
        let plan = plan(&conn, walked);
        assert!(
            !plan.contains("TEMP B-TREE") && plan.contains("task USING PRIMARY KEY (environment=? AND subject=?)"),
            "{plan}"
        );
    }
    let open = "task USING PRIMARY KEY (environment=? AND subject=?)";
    check(&conn, query!("prune_message"), &["message USING", open]);
    check(&conn, query!("prune_attempt"), &["(environment=? AND subject=?)"]);
    check(&conn, query!("prune_job"), &["job USING", open]);
    check(&conn, query!("list_expired_payload"), &["payload_expiry USING PRIMARY KEY (due_at<?)"]);
    check(&conn, query!("erase_payload"), &["message USING INDEX"]);
    check(&conn, query!("prune_session"), &["task_owner (owner=?)"]);
    check(
        &conn,
        declared("prune_lane"),
        &["task_ready (environment=? AND lane=?)", "task_dead (environment=? AND lane=?)"],
    );
    // Nodes read changed quotas every two seconds, and count stored messages by their keys alone.
    check(&conn, declared("list_quota"), &["quota USING INDEX resource_quota (updated_at>?)"]);
    check(&conn, declared("count_message"), &["message USING COVERING INDEX"]);
    check(&conn, declared("count_endpoint_open"), &["resource USING INDEX resource_open (environment=? AND kind=?"]);
}

#[test]
fn bulk_work_finds_its_rows_by_key() {
    let (_folder, conn) = schema();
    let messages = "sqlite_autoindex_message_1 (environment=? AND application=? AND id>? AND id<?)";
    check(&conn, declared("list_message_id"), &[messages]);
    check(&conn, declared("list_task_dead"), &["task_dead (environment=? AND lane=? AND id>?)"]);
    let (tasks, attempts) = ("PRIMARY KEY (environment=? AND subject=?)", "attempt_1 (environment=? AND subject=?)");
    check(&conn, declared("find_candidate"), &[tasks, attempts]);
    check(&conn, declared("delete_task_dead"), &[tasks]);
    check(&conn, declared("count_attempt"), &[attempts]);
    let message = "sqlite_autoindex_message_1 (environment=? AND application=? AND id=?)";
    check(&conn, declared("purge_content"), &[message]);
    for listed in [declared("list_background"), declared("scan_background")] {
        check(&conn, listed, &["job_background (concurrency_key=? AND id>? AND id<?)"]);
        assert!(!plan(&conn, listed).contains("TEMP B-TREE"), "{listed}");
    }
}

#[test]
fn an_overview_reads_by_index_however_many_tasks_there_are() {
    let (_folder, conn) = schema();
    check(&conn, declared("list_traffic"), &["PRIMARY KEY (environment=? AND span=? AND start>?)"]);
    check(&conn, query!("list_expired_traffic"), &["INDEX traffic_start (span>? AND span<?)"]);
    let counted =
        ["INDEX task_ready (environment=?)", "INDEX task_dead (environment=?)", "PRIMARY KEY (environment=? AND id=?)"];
    check(&conn, declared("count_dead"), &["INDEX task_dead (environment=? AND lane=?)", "task=? AND epoch=?"]);
    check(&conn, declared("list_dead_lane"), &["INDEX task_dead (environment=? AND lane>?)"]);
    check(&conn, declared("list_failure_mark"), &["PRIMARY KEY (environment=? AND endpoint=?)"]);
    check(&conn, declared("find_endpoint_placed"), &["PRIMARY KEY (environment=? AND id=?)", RESOURCE_KEY]);
    check(&conn, declared("list_endpoint_placed"), &["(environment=? AND kind=? AND (parent,id)>(?,?)", RESOURCE_KEY]);
    assert!(!plan(&conn, declared("list_endpoint_placed")).contains("TEMP B-TREE"), "the index sorts");
    check(&conn, declared("find_message_application"), &["(environment=? AND application=? AND id=?)"]);
    let within = "(environment=? AND application=? AND id>? AND id<?)";
    let placed = ["SEARCH placed USING COVERING INDEX", within, RESOURCE_KEY];
    check(&conn, declared("list_message_placed"), &placed);
    // The leased tasks are few. Their index is scanned for those of the environment.
    let open = plan(&conn, declared("count_open"));
    assert!(counted.iter().all(|index| open.contains(index)) && open.contains("INDEX task_owner"), "{open}");
}
