//! The outbox in a customer's file.

use std::path::PathBuf;

use async_trait::async_trait;
use everhook_sqlite::SqliteOutbox;
use everhook_store::conformance::outbox::{OutboxStage, check};
use everhook_store::outbox::Outbox;
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
}

#[tokio::test]
async fn an_outbox_in_a_file_keeps_the_promises_of_every_outbox() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("till.db");
    // Nobody else's file is made by looking.
    let outbox = SqliteOutbox::in_file(&path);
    assert!(outbox.status().await.is_err() && !path.exists());
    SqliteOutbox::install(&path).unwrap();
    SqliteOutbox::install(&path).unwrap();
    check(&File { outbox, path }).await;
}
