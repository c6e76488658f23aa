//! Every hot statement is driven by the index that was made for it.

use everhook_sqlite::migrate;
use rusqlite::Connection;

#[track_caller]
fn check(conn: &Connection, sql: &str, wants: &[&str]) {
    let plan = plan(conn, sql);
    for want in wants {
        assert!(plan.contains(want), "wanted {want:?} in:\n{plan}\nof:\n{sql}");
    }
    for scan in ["SCAN task", "SCAN message", "SCAN attempt"] {
        assert!(!plan.contains(scan), "{plan}\nof:\n{sql}");
    }
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
        include_str!(concat!("../../queries/", $name, ".sql"))
    };
}

const TASK_KEY: &str = "USING PRIMARY KEY (environment=? AND subject=? AND id=?)";

#[test]
fn a_lease_walks_ready_lanes_and_due_rows_only() {
    let (_folder, conn) = schema();
    check(&conn, query!("next_lane"), &["lane USING INDEX lane_ready"]);
    let due = "task_ready (environment=? AND lane=? AND priority=? AND due_at<?)";
    check(&conn, query!("lease_task"), &[TASK_KEY, due]);
    check(&conn, query!("refill_lane"), &["task_ready (environment=? AND lane=? AND priority=?)"]);
    for sorted in [query!("next_lane"), query!("lease_task"), query!("refill_lane")] {
        assert!(!plan(&conn, sorted).contains("TEMP B-TREE"), "what is found in order needs no sorting: {sorted}");
    }
}

#[test]
fn a_settle_is_driven_by_the_primary_key() {
    let (_folder, conn) = schema();
    for sql in [query!("settle_task_gone"), query!("settle_task_pending")] {
        check(&conn, sql, &[TASK_KEY]);
        assert!(!plan(&conn, sql).contains("task_owner"));
    }
    check(&conn, query!("find_attempt_settled"), &["(environment=? AND subject=? AND task=? AND epoch=?)"]);
    check(&conn, query!("touch_lane"), &["USING PRIMARY KEY (environment=? AND id=?)"]);
    check(&conn, query!("hold_lane"), &["USING PRIMARY KEY (environment=? AND id=?)"]);
}

#[test]
fn a_sweep_hops_over_owners() {
    let (_folder, conn) = schema();
    check(&conn, query!("reclaim_task"), &["task_owner (owner=?)", "task_owner (owner>?)", TASK_KEY]);
}

#[test]
fn lists_walk_their_keys() {
    let (_folder, conn) = schema();
    check(&conn, query!("list_message"), &["(environment=? AND application=? AND id>? AND id<?)"]);
    check(
        &conn,
        query!("list_attempt_endpoint"),
        &["INDEX attempt_endpoint (environment=? AND endpoint=? AND id>? AND id<?)"],
    );
    check(&conn, query!("list_attempt_message"), &["(environment=? AND subject=?)"]);
    check(&conn, query!("list_destination"), &["task USING PRIMARY KEY (environment=? AND subject=?)"]);
    let one = "USING PRIMARY KEY (environment=? AND subject=?)";
    check(&conn, query!("redrive_task"), &["INDEX task_dead (environment=? AND lane=?)", one, TASK_KEY]);
    check(&conn, query!("find_key"), &["(hash=?)"]);
    let calls = "once_suppression_slot (environment=? AND application=? AND key=?)";
    check(&conn, query!("list_once"), &["(environment=? AND application=? AND key>? AND key<?)", calls]);
    check(&conn, query!("find_once"), &["(environment=? AND application=? AND key=?)", calls]);
}
