//! Readiness of a node.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::exchange::Exchange;
use everhook_core::limits::SETTLE_STALL_MAX;
use everhook_core::outcome::{Reply, SendFailure};
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_store::store::Op;

use crate::engine::faulty::Fault;
use crate::engine::fixture::{config, engine_over, engine_through, message, store};

struct Takes;

#[async_trait]
impl Transport for Takes {
    async fn send(&self, _: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        Ok(Reply { status: 200, retry_after: None, wish: None, body: bytes::Bytes::new() })
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_settlements_hang_is_not_ready_until_one_is_written() {
    let (store, engine) = engine_through(Arc::new(Takes)).await;
    store.layer.plan(Op::Settle, Fault::Hangs);
    engine.accept(message("{}")).await.unwrap();
    while store.layer.calls(Op::Settle) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(engine.ready(), Ok(()), "a settlement may take a while");
    tokio::time::sleep(SETTLE_STALL_MAX + Duration::from_secs(1)).await;
    let reason = engine.ready().unwrap_err();
    assert!(reason.contains("no attempt could be settled for 3"), "{reason}");

    // The second writer settles while the first one hangs.
    engine.accept(message("{}")).await.unwrap();
    while store.layer.calls(Op::Settle) == 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(engine.ready(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_node_without_work_stays_ready() {
    let store = store();
    let engine = engine_over(&store, 1, config("node"), Arc::new(Takes)).await;
    tokio::time::sleep(SETTLE_STALL_MAX * 10).await;
    assert_eq!(engine.ready(), Ok(()));
}

#[tokio::test]
async fn a_node_that_announced_its_stop_is_not_ready_and_accepts() {
    let (_store, engine) = engine_through(Arc::new(Takes)).await;
    assert_eq!(engine.ready(), Ok(()));
    engine.leave();
    assert!(engine.ready().unwrap_err().starts_with("stopping"));
    engine.accept(message("{}")).await.unwrap();
}
