//! Expired payloads are erased, in whichever week their messages are.

use everhook_core::id::Id;
use everhook_core::time::Timestamp;
use everhook_store::lease::NewMessage;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::store::Store;

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

#[tokio::test]
async fn the_bytes_of_due_payloads_are_erased_in_every_week() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let client = database.client().await;
    let count = async |what: &str| client.query_one(what, &[]).await.unwrap().get::<_, i64>(0);
    let weeks =
        [1_500_000_000_000, 1_600_000_000_000, 1_700_000_000_000].map(|at| Id::floor(Timestamp::from_millis(at)));
    let over = |id| {
        let mut new: NewMessage = stage.message_with_id(id, Vec::new());
        new.message.rest.payload_until = Some(Timestamp::from_millis(1));
        new
    };
    let mut messages: Vec<_> = weeks.into_iter().map(over).collect();
    messages.push(stage.message(Vec::new()));
    stage.append_fast(messages).await.unwrap();
    const KEPT: &str = "select count(*) from everhook.message where payload is not null";
    const EXPIRIES: &str = "select count(*) from everhook.payload_expiry";
    assert_eq!((count(KEPT).await, count(EXPIRIES).await), (4, 3), "a message without a period has no row");
    // A payload whose message is gone is counted as well, so that a caller that counts rows continues.
    client.execute("delete from everhook.message where id = $1", &[&weeks[0].as_bytes().as_slice()]).await.unwrap();
    let prune = async || {
        stage.store.prune(Prune { what: Prunable::Payloads, before: Timestamp::default(), limit: 2 }).await.unwrap()
    };
    assert_eq!((prune().await, prune().await), (2, 1));
    assert_eq!((count(KEPT).await, count(EXPIRIES).await), (1, 0));
    assert_eq!(count("select count(*) from everhook.message").await, 3, "the messages stay");
}
