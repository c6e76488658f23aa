//! Searches of one environment beside those of others.

use everhook_core::id::EnvironmentId;
use everhook_store::error::StoreError;
use everhook_store::query::QueryName;
use everhook_store::shares::SearchShares;
use everhook_store::store::Op;

const ONE: EnvironmentId = EnvironmentId(1);
const OTHER: EnvironmentId = EnvironmentId(2);
const LIST: Op = Op::Read(QueryName::Messages);

#[tokio::test(start_paused = true)]
async fn an_environment_leaves_room_for_others() {
    let shares = SearchShares::of(8);
    let first = shares.wait(ONE, LIST).await.unwrap();
    let _second = shares.wait(ONE, LIST).await.unwrap();
    assert!(matches!(shares.wait(ONE, LIST).await, Err(StoreError::Slow { op: LIST, .. })), "its share is taken");
    let _others = (shares.wait(OTHER, LIST).await.unwrap(), shares.wait(OTHER, LIST).await.unwrap());
    drop(first);
    shares.wait(ONE, LIST).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn searches_leave_room_for_the_rest() {
    let shares = SearchShares::of(2);
    let _first = shares.wait(ONE, LIST).await.unwrap();
    assert!(shares.wait(OTHER, LIST).await.is_err());
}
