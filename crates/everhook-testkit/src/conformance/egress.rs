//! The pause of egress is one fact for all nodes.

use everhook_core::egress::EgressPause;
use everhook_store::query;

use crate::conformance::fixture::Fixture;

async fn pause(fx: &Fixture) -> Option<EgressPause> {
    fx.read(query::FindEgressPause {}).await
}

pub(super) async fn a_pause_of_egress_lasts_until_it_is_ended(fx: &Fixture) {
    assert_eq!(pause(fx).await, None);
    fx.store.set_egress_pause(None).await.unwrap();
    let before = fx.store.now().await.unwrap();
    fx.store.set_egress_pause(Some("a test".to_owned())).await.unwrap();
    let first = pause(fx).await.unwrap();
    assert!(first.since >= before && first.reason == "a test", "{first:?}");
    fx.store.set_egress_pause(Some("another".to_owned())).await.unwrap();
    let second = EgressPause { reason: "another".to_owned(), ..first };
    assert_eq!(pause(fx).await, Some(second), "it keeps its beginning");
    fx.store.set_egress_pause(None).await.unwrap();
    fx.store.set_egress_pause(None).await.unwrap();
    assert_eq!(pause(fx).await, None);
}
