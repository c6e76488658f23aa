//! Deliveries that are leased ahead, for endpoints that respond fast.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::exchange::Exchange;
use everhook_core::outcome::{Reply, SendFailure};
use everhook_engine::node::Node;
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_testkit::mem::TaskPlace;
use futures_util::future::join_all;

use crate::engine::faulty::Faulty;
use crate::engine::fixture::{engine_through, message, settled};

/// Answers after a millisecond, throttles or hangs if configured, and counts requests.
#[derive(Default)]
struct Target {
    hangs: AtomicBool,
    rests: AtomicBool,
    sent: AtomicUsize,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl Transport for Target {
    async fn send(&self, _: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(self.under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1)).await;
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        if self.rests.load(Ordering::SeqCst) {
            return Ok(Reply { status: 429, retry_after: Some("60".to_owned()), wish: None, body: Bytes::new() });
        }
        Ok(Reply { status: 200, retry_after: None, wish: None, body: Bytes::new() })
    }
}

/// Starts a node whose endpoint has just answered a hundred requests, and accepts twelve messages after this switch was
/// set.
async fn twelve_after(switch: fn(&Target) -> &AtomicBool) -> (Arc<Faulty>, Arc<Target>, Arc<Node>) {
    let target = Arc::new(Target::default());
    let (store, engine) = engine_through(target.clone()).await;
    join_all((0..100).map(|_| engine.accept(message("{}")))).await;
    assert_eq!(settled(&store).await.len(), 100);
    switch(&target).store(true, Ordering::SeqCst);
    join_all((0..12).map(|_| engine.accept(message("{}")))).await;
    (store, target, engine)
}

#[tokio::test(start_paused = true)]
async fn no_more_is_under_way_than_there_are_slots() {
    let (store, target, _engine) = twelve_after(|target| &target.hangs).await;
    let leased = store.store.dump().tasks.values().filter(|row| row.place != TaskPlace::Pending).count();
    assert_eq!(leased, 12, "more than the lane has slots");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(target.under_way.load(Ordering::SeqCst), 8);
    assert_eq!(target.most.load(Ordering::SeqCst), 8);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_too_long_is_handed_back() {
    let (store, target, _engine) = twelve_after(|target| &target.hangs).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let tables = store.store.dump();
    let waiting = tables.tasks.values().filter(|row| row.place == TaskPlace::Pending && row.task.tries == 0).count();
    assert_eq!((waiting, tables.attempts.len()), (4, 100), "that counts as no attempt");
    assert_eq!(target.sent.load(Ordering::SeqCst), 108);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_target_that_wants_a_rest_is_not_sent() {
    let (store, target, _engine) = twelve_after(|target| &target.rests).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(target.sent.load(Ordering::SeqCst), 108, "those that were under way when it said so");
    let tables = store.store.dump();
    assert_eq!(tables.tasks.values().filter(|row| row.task.tries == 0).count(), 4);
    assert!(tables.tasks.values().all(|row| row.place == TaskPlace::Pending));
}

#[tokio::test(start_paused = true)]
async fn what_still_waits_for_a_slot_when_the_grace_period_ends_is_not_sent() {
    let (store, target, engine) = twelve_after(|target| &target.hangs).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    engine.drain(Duration::ZERO).await;
    assert_eq!(target.sent.load(Ordering::SeqCst), 108);
    let tables = store.store.dump();
    assert_eq!((tables.tasks.len(), tables.attempts.len()), (12, 108), "only what was sent has an attempt");
    assert!(tables.tasks.values().all(|row| row.place == TaskPlace::Pending && row.task.tries == 0));
}
