//! The promises of every outbox.
//!
//! These cases are separate from the store's suite, because an outbox may be in another database. The test of an outbox
//! provides an empty one with functions to write rows, and calls [`check`].

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::Id;
use everhook_core::limits::{BODY_BYTES_MAX, OUTBOX_BATCH_MAX};
use everhook_core::time::Timestamp;
use everhook_store::outbox::{AsideChange, Done, Finished, Outbox, OutboxBatch, OutboxRow, Taken};

#[async_trait]
pub trait OutboxStage: Send + Sync {
    fn outbox(&self) -> &dyn Outbox;

    /// Writes rows in one transaction, each for the application `acme` with the event type `a.b`, the tags `x` and `y`,
    /// and this payload.
    async fn write(&self, payloads: &[String]);

    /// Writes such a row with an id that was used before.
    async fn write_under(&self, id: i64, payload: &str);

    /// Writes invalid rows, as far as the tables allow them: one for each returned reason, of which one is too large.
    async fn write_unreadable(&self) -> Vec<&'static str>;
}

/// Takes a batch and finishes it as `script` says; returns the batch if there was one.
async fn look(outbox: &dyn Outbox, script: impl Fn(&OutboxBatch) -> Done) -> Option<OutboxBatch> {
    match outbox.take().await.unwrap() {
        Taken::Nothing => None,
        Taken::Busy => panic!("nobody else relays"),
        Taken::Rows(claim, batch) => {
            assert_eq!(outbox.finish(claim, script(&batch)).await.unwrap(), Finished::Done);
            Some(batch)
        }
    }
}

fn all(batch: &OutboxBatch) -> Done {
    let relayed = batch.rows.iter().map(|row| row.id).collect();
    Done { relayed, set_aside: batch.unreadable.clone(), floor: None }
}

fn payloads(batch: &OutboxBatch) -> Vec<&str> {
    batch.rows.iter().map(|row| row.payload.as_str()).collect()
}

/// Checks every promise, each on the outbox when it is empty.
pub async fn check(stage: &dyn OutboxStage) {
    rows_come_as_written_and_leave_when_relayed(stage).await;
    rows_that_were_not_relayed_stay(stage).await;
    the_floor_is_kept_and_only_raised(stage).await;
    a_batch_is_bounded_in_rows_and_bytes(stage).await;
    what_is_set_aside_is_seen_changed_retried_and_discarded(stage).await;
    a_number_that_is_used_again_costs_no_row(stage).await;
    a_row_that_cannot_be_read_holds_up_nobody(stage).await;
    assert!(look(stage.outbox(), all).await.is_none());
}

async fn rows_come_as_written_and_leave_when_relayed(stage: &dyn OutboxStage) {
    let outbox = stage.outbox();
    assert!(look(outbox, all).await.is_none());
    assert_eq!(outbox.status().await.unwrap(), Default::default());
    stage.write(&["{ \"a\" : 1 }".to_owned(), "second".to_owned()]).await;
    let status = outbox.status().await.unwrap();
    assert_eq!((status.depth, status.set_aside, status.oldest_age.is_some()), (2, 0, true));
    let batch = look(outbox, all).await.unwrap();
    assert_eq!(payloads(&batch), ["{ \"a\" : 1 }", "second"]);
    assert!(batch.rows[0].id < batch.rows[1].id && batch.floor.is_none());
    let OutboxRow { application, event_type, tags, channels, event_id, deliver_at, .. } = &batch.rows[0];
    assert_eq!((application.as_str(), event_type.as_str()), ("acme", "a.b"));
    assert_eq!((tags.as_deref(), channels), (Some(["x".to_owned(), "y".to_owned()].as_slice()), &None));
    assert_eq!((event_id, deliver_at), (&None, &None));
}

async fn rows_that_were_not_relayed_stay(stage: &dyn OutboxStage) {
    stage.write(&["one".to_owned()]).await;
    let first = look(stage.outbox(), |_| Done::default()).await.unwrap();
    let second = look(stage.outbox(), all).await.unwrap();
    // The row must be equal to the microsecond, because its time is part of its deduplication key.
    assert_eq!((first.identity, first.rows[0].id), (second.identity, second.rows[0].id));
    assert_eq!(first.rows[0].created_at, second.rows[0].created_at);
}

async fn the_floor_is_kept_and_only_raised(stage: &dyn OutboxStage) {
    let at = |millis: i64| Some(Id::floor(Timestamp::from_millis(1_750_000_000_000 + millis)));
    for (found, given) in [(None, at(5)), (at(5), at(3)), (at(5), None), (at(5), at(9)), (at(9), None)] {
        stage.write(&["row".to_owned()]).await;
        let batch = look(stage.outbox(), |batch| Done { floor: given, ..all(batch) }).await;
        assert_eq!(batch.unwrap().floor, found);
    }
}

async fn a_batch_is_bounded_in_rows_and_bytes(stage: &dyn OutboxStage) {
    let many: Vec<String> = (0..OUTBOX_BATCH_MAX + 3).map(|number| number.to_string()).collect();
    stage.write(&many).await;
    let first = look(stage.outbox(), all).await;
    let second = look(stage.outbox(), all).await;
    assert_eq!([payloads(&first.unwrap()), payloads(&second.unwrap())].concat(), many);
    stage.write(&vec!["x".repeat(1024 * 1024); 20]).await;
    let mut sizes = Vec::new();
    while let Some(batch) = look(stage.outbox(), all).await {
        sizes.push(batch.len());
    }
    assert_eq!(sizes, [8, 8, 4], "eight mebibytes at a time");
}

async fn what_is_set_aside_is_seen_changed_retried_and_discarded(stage: &dyn OutboxStage) {
    let outbox = stage.outbox();
    stage.write(&["bad".to_owned(), "good".to_owned(), "worse".to_owned()]).await;
    let batch = look(outbox, |batch| {
        let aside = |index: usize| (batch.rows[index].id, format!("reason {index}"));
        Done { relayed: vec![batch.rows[1].id], set_aside: vec![aside(0), aside(2)], floor: None }
    })
    .await;
    let rows = batch.unwrap().rows;
    assert!(look(outbox, all).await.is_none());
    let status = outbox.status().await.unwrap();
    assert_eq!((status.depth, status.set_aside), (0, 2));
    let aside = outbox.list_aside(i64::MIN, 10).await.unwrap().rows;
    let seen: Vec<_> = aside.iter().map(|row| (row.row.id, row.error.as_str(), row.row.payload.as_str())).collect();
    assert_eq!(seen, [(rows[0].id, "reason 0", "bad"), (rows[2].id, "reason 2", "worse")]);
    let as_written = |row: &OutboxRow| OutboxRow { age: Duration::ZERO, ..row.clone() };
    assert_eq!(as_written(&aside[0].row), as_written(&rows[0]), "nothing of it is lost");
    assert_eq!(outbox.list_aside(rows[0].id, 10).await.unwrap().rows.len(), 1);

    let change = AsideChange { payload: Some("better".to_owned()), ..AsideChange::default() };
    assert!(outbox.replace_aside(rows[0].id, &change).await.unwrap());
    assert!(!outbox.replace_aside(rows[1].id, &change).await.unwrap());
    assert_eq!(outbox.retry_aside(&[rows[0].id, rows[1].id]).await.unwrap(), 1);
    let again = look(outbox, all).await;
    let again = &again.unwrap().rows[0];
    assert_eq!((again.id, again.created_at, again.payload.as_str()), (rows[0].id, rows[0].created_at, "better"));
    assert_eq!((&again.tags, &again.application), (&rows[0].tags, &rows[0].application));
    assert_eq!(outbox.discard_aside(&[rows[2].id, rows[1].id]).await.unwrap(), 1);
    assert_eq!(outbox.list_aside(i64::MIN, 10).await.unwrap().rows, []);
}

async fn a_number_that_is_used_again_costs_no_row(stage: &dyn OutboxStage) {
    let outbox = stage.outbox();
    let none = |batch: &OutboxBatch| {
        let aside = batch.rows.iter().map(|row| (row.id, format!("no {}", row.payload)));
        Done { set_aside: aside.collect(), ..Done::default() }
    };
    stage.write(&["old".to_owned()]).await;
    let batch = look(outbox, none).await;
    let id = batch.unwrap().rows[0].id;
    stage.write_under(id, "new").await;
    assert_eq!(outbox.retry_aside(&[id]).await.unwrap(), 0, "there is no place for it");
    let aside = outbox.list_aside(i64::MIN, 10).await.unwrap().rows;
    assert_eq!((aside.len(), aside[0].row.payload.as_str()), (1, "old"));
    let batch = look(outbox, none).await;
    assert_eq!(payloads(&batch.unwrap()), ["new"]);
    let aside = outbox.list_aside(i64::MIN, 10).await.unwrap().rows;
    assert_eq!((aside.len(), aside[0].row.payload.as_str(), aside[0].error.as_str()), (1, "new", "no new"));
    assert_eq!(outbox.discard_aside(&[id]).await.unwrap(), 1);
}

async fn a_row_that_cannot_be_read_holds_up_nobody(stage: &dyn OutboxStage) {
    let outbox = stage.outbox();
    stage.write(&["before".to_owned()]).await;
    let reasons = stage.write_unreadable().await;
    stage.write(&["after".to_owned()]).await;
    assert_eq!(outbox.status().await.unwrap().depth, reasons.len() as u64 + 2);
    let mut seen = Vec::new();
    while let Some(batch) = look(outbox, all).await {
        seen.extend(batch.rows.into_iter().map(|row| row.payload));
    }
    assert_eq!(seen, ["before", "after"]);
    let aside = outbox.list_aside(i64::MIN, 100).await.unwrap().rows;
    let told: Vec<&str> = aside.iter().map(|row| row.error.as_str()).collect();
    assert_eq!(told, reasons);
    // The rows are shown, but not completely.
    assert!(aside.iter().all(|row| row.row.payload.len() <= BODY_BYTES_MAX), "a large row is cut off");
    let ids: Vec<i64> = aside.iter().map(|row| row.row.id).collect();
    assert_eq!(outbox.retry_aside(&ids).await.unwrap(), ids.len() as u64);
    while let Some(batch) = look(outbox, all).await {
        assert_eq!(payloads(&batch), [""; 0], "a row is no better for being retried");
    }
    assert_eq!(outbox.discard_aside(&ids).await.unwrap(), ids.len() as u64);
}
