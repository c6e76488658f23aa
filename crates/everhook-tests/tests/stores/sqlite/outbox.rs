//! The outbox in a customer's file.

use std::path::PathBuf;

use async_trait::async_trait;
use everhook_sqlite::SqliteOutbox;
use everhook_store::outbox::Outbox;
use everhook_testkit::conformance::outbox::{OutboxStage, check};
use rusqlite::Connection;

struct File {
    outbox: SqliteOutbox,
    path: PathBuf,
}

#[async_trait]
impl OutboxStage for File {
    fn outbox(&self) -> &dyn Outbox {
        &self.outbox
    }

    async fn write(&self, payloads: &[String]) {
        let mut connection = Connection::open(&self.path).unwrap();
        let transaction = connection.transaction().unwrap();
        for payload in payloads {
            let insert = "insert into everhook_outbox (application, event_type, payload, tags) values ('acme', 'a.b', ?1, '[\"x\",\"y\"]')";
            transaction.execute(insert, [payload]).unwrap();
        }
        transaction.commit().unwrap();
    }

    async fn write_under(&self, id: i64, payload: &str) {
        let connection = Connection::open(&self.path).unwrap();
        let insert =
            "insert into everhook_outbox (id, application, event_type, payload) values (?1, 'acme', 'a.b', ?2)";
        connection.execute(insert, rusqlite::params![id, payload]).unwrap();
    }

    async fn write_unreadable(&self) -> Vec<&'static str> {
        const TOO_LARGE: &str = "the row is larger than the 1114112 bytes that are relayed";
        let rows = [
            ("environment", "cast(x'ff61' as text)", "environment is not UTF-8"),
            ("tags", "cast(x'ff61' as text)", "tags is not UTF-8"),
            ("deliver_at", "9223372036854775807", "deliverAt must be from 1970 to 9998"),
            ("created_at", "-9223372036854775808", "created_at must be from 1970 to 9998"),
            ("event_id", "hex(zeroblob(1000000))", TOO_LARGE),
            ("tags", "hex(zeroblob(1000000))", TOO_LARGE),
        ];
        let connection = Connection::open(&self.path).unwrap();
        for (column, value, _) in rows {
            let insert = format!(
                "insert into everhook_outbox (application, event_type, payload, {column}) values ('acme', 'a.b', 'bad', {value})"
            );
            connection.execute(&insert, []).unwrap();
        }
        rows.map(|(_, _, reason)| reason).to_vec()
    }
}

#[tokio::test]
async fn an_outbox_in_a_file_keeps_the_promises_of_every_outbox() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("till.db");
    // Opening an outbox must not create the customer's file.
    let outbox = SqliteOutbox::in_file(&path);
    assert!(outbox.status().await.is_err() && !path.exists());
    SqliteOutbox::install(&path).unwrap();
    SqliteOutbox::install(&path).unwrap();
    check(&File { outbox, path }).await;
}

#[cfg(unix)]
#[test]
fn a_new_file_is_this_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    SqliteOutbox::install(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
