//! Expired payloads are erased; their messages stay.

use everhook_core::time::Timestamp;
use everhook_store::lease::Append;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::store::Store;
use rusqlite::Connection;

use crate::sqlite::stage::Stage;

#[tokio::test]
async fn the_bytes_of_due_payloads_are_erased() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let probe = Connection::open(folder.path().join("everhook.db")).unwrap();
    let count = |what: &str| probe.query_row(what, [], |row| row.get::<_, i64>(0)).unwrap();
    let mut messages: Vec<_> = (0..4).map(|_| stage.message(Vec::new())).collect();
    for new in &mut messages[1..] {
        new.message.rest.payload_until = Some(Timestamp::from_millis(1));
    }
    stage.store.append(Append { fast: None, messages }).await.unwrap();
    const KEPT: &str = "select count(*) from message where payload is not null";
    const EXPIRIES: &str = "select count(*) from payload_expiry";
    assert_eq!((count(KEPT), count(EXPIRIES)), (4, 3), "a message without a period has no row");
    let prune = async || {
        stage.store.prune(Prune { what: Prunable::Payloads, before: Timestamp::default(), limit: 2 }).await.unwrap()
    };
    assert_eq!((prune().await, prune().await), (2, 1));
    assert_eq!((count(KEPT), count(EXPIRIES)), (1, 0));
    assert_eq!(count("select count(*) from message"), 4, "the messages stay");
}
