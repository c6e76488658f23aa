//! Searches of one environment beside those of others.

use everhook_core::id::EnvironmentId;
use everhook_store::error::StoreError;
use everhook_store::shares::Shares;

const ONE: EnvironmentId = EnvironmentId(1);
const OTHER: EnvironmentId = EnvironmentId(2);

#[tokio::test(start_paused = true)]
async fn an_environment_leaves_room_for_others() {
    let shares = Shares::of(8);
    let first = shares.wait(ONE, "list").await.unwrap();
    let _second = shares.wait(ONE, "list").await.unwrap();
    assert!(matches!(shares.wait(ONE, "list").await, Err(StoreError::Slow { op: "list", .. })), "its share is taken");
    let _others = (shares.wait(OTHER, "list").await.unwrap(), shares.wait(OTHER, "list").await.unwrap());
    drop(first);
    shares.wait(ONE, "list").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn searches_leave_room_for_the_rest() {
    let shares = Shares::of(2);
    let _first = shares.wait(ONE, "list").await.unwrap();
    assert!(shares.wait(OTHER, "list").await.is_err());
}
