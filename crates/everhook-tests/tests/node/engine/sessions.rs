//! Sessions in virtual time.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::role::Role;
use everhook_engine::clock::Clock;
use everhook_engine::session::{NodeName, Sessions};
use everhook_store::ids::Ids;
use everhook_store::store::{Op, Store};

use crate::engine::faulty::{Fault, Faulty};
use crate::engine::fixture::{LEASE, store};

async fn sessions(store: &Arc<Faulty>) -> Sessions {
    let clock = Arc::new(Clock::new(store.now().await.unwrap()));
    let name = NodeName { node: "node".to_owned(), version: "1".to_owned() };
    Sessions::new(store.clone(), Arc::new(Ids::seeded(5)), clock, name, Role::All, LEASE)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_renew_stops_sending_before_its_lease_ends() {
    let store = store();
    let sessions = sessions(&store).await;
    assert!(sessions.step().await);
    assert!(sessions.current().is_some());
    tokio::time::advance(LEASE - LEASE / 8 - Duration::from_millis(1)).await;
    assert!(sessions.current().is_some());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(sessions.current().is_none());
    // No node has closed the session, so the next renewal makes it usable again.
    assert!(sessions.step().await);
    assert!(sessions.current().is_some());
    assert_eq!(store.store.dump().sessions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_node_that_renewed_for_a_whole_lease_without_a_gap_closes_others() {
    let store = store();
    let sessions = sessions(&store).await;
    sessions.step().await;
    for _ in 0..3 {
        assert!(sessions.steady().is_none());
        tokio::time::advance(LEASE / 4).await;
        sessions.step().await;
    }
    tokio::time::advance(LEASE / 4).await;
    sessions.step().await;
    assert!(sessions.steady().is_some());
    // After a stall longer than the lease, the node must be steady for a whole lease again.
    tokio::time::advance(LEASE * 2).await;
    sessions.step().await;
    assert!(sessions.steady().is_none());
    for _ in 0..4 {
        tokio::time::advance(LEASE / 4).await;
        sessions.step().await;
    }
    assert!(sessions.steady().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_new_session_behind_a_stall_proves_nothing() {
    for fault in [Fault::Late, Fault::NotDone] {
        let store = store();
        let sessions = sessions(&store).await;
        for _ in 0..5 {
            sessions.step().await;
            tokio::time::advance(LEASE / 4).await;
        }
        sessions.step().await;
        assert!(sessions.steady().is_some());
        // During a failover a write is in doubt, and the renewal hangs or fails as long as for all other nodes. Opening
        // the new session succeeds at once.
        sessions.retire(&sessions.current().unwrap());
        if fault == Fault::NotDone {
            tokio::time::advance(LEASE * 2).await;
        }
        store.layer.plan(Op::RenewSession, fault);
        sessions.step().await;
        assert!(sessions.current().is_some());
        assert!(sessions.steady().is_none(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_is_never_used_again() {
    let store = store();
    let sessions = sessions(&store).await;
    sessions.step().await;
    let first = sessions.current().unwrap();
    store.close_session(first.id).await.unwrap();
    sessions.step().await;
    assert!(first.is_closed());
    let second = sessions.current().unwrap();
    assert_ne!(second.id, first.id);
    assert!(!sessions.may_send(&first));
}

#[tokio::test(start_paused = true)]
async fn a_retired_session_lives_as_long_as_something_of_it_is_held() {
    let store = store();
    let sessions = sessions(&store).await;
    sessions.step().await;
    let held = sessions.current().unwrap();
    sessions.retire(&held);
    assert!(sessions.current().is_none());
    sessions.step().await;
    let fresh = sessions.current().unwrap();
    assert_ne!(fresh.id, held.id);
    tokio::time::advance(LEASE / 2).await;
    sessions.step().await;
    assert!(sessions.may_send(&held), "what it holds is still ours to finish");
    let closed = |store: &Faulty, id| store.store.dump().sessions[&id].closed_at.is_some();
    assert!(!closed(&store, held.id));
    let id = held.id;
    drop(held);
    sessions.step().await;
    assert!(closed(&store, id));
    assert!(!closed(&store, fresh.id));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_reply_was_lost_is_simply_repeated() {
    let store = store();
    let sessions = sessions(&store).await;
    sessions.step().await;
    store.layer.plan(Op::RenewSession, Fault::ReplyLost);
    assert!(!sessions.step().await);
    assert!(sessions.step().await);
    assert_eq!(store.store.dump().sessions.len(), 1);
}
