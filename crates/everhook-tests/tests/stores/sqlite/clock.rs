//! A wall clock that jumps: it must neither end leases nor delay retries.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_core::lifecycle::NextRow;
use everhook_core::time::micros;
use everhook_sqlite::{OpenAs, SqliteStore, TimeSource};
use everhook_store::ids::Ids;
use everhook_store::lease::{Reclaim, ReclaimAsk, Renewed};
use everhook_store::query;
use everhook_store::store::{Reads, Store};
use everhook_testkit::conformance::fixture::HOUR;
use everhook_testkit::conformance::{Fresh, order};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::sqlite::stage::Stage;

const SECOND: Duration = Duration::from_secs(1);

/// Two clocks that only a test moves.
struct Hands(Mutex<(Duration, Duration)>);

impl Hands {
    fn new() -> Arc<Hands> {
        Arc::new(Hands(Mutex::new((Duration::from_secs(1_750_000_000), Duration::ZERO))))
    }

    /// Advances both clocks.
    fn pass(&self, span: Duration) {
        let mut hands = self.0.lock().unwrap();
        *hands = (hands.0 + span, hands.1 + span);
    }

    fn set_forward(&self, step: Duration) {
        self.0.lock().unwrap().0 += step;
    }

    fn set_back(&self, step: Duration) {
        self.0.lock().unwrap().0 -= step;
    }
}

impl TimeSource for Hands {
    fn wall(&self) -> Duration {
        self.0.lock().unwrap().0
    }

    fn monotonic(&self) -> Duration {
        self.0.lock().unwrap().1
    }
}

async fn stage() -> (TempDir, Arc<Hands>, Stage) {
    let (folder, hands, ids) = (tempfile::tempdir().unwrap(), Hands::new(), Arc::new(Ids::from_system()));
    let store = SqliteStore::open_by(hands.clone(), folder.path(), OpenAs::Server, Arc::clone(&ids)).unwrap();
    (folder, hands, Stage::on(store, ids).await)
}

#[tokio::test]
async fn a_clock_that_is_set_forward_ends_no_lease_and_no_jobs_time() {
    let (_folder, hands, stage) = stage().await;
    stage.endpoint().await;
    stage.send(3).await;
    stage.enqueue(1).await;
    let (node, worker, sweeper) = (stage.session().await, stage.session().await, stage.session().await);
    assert_eq!(stage.lease(node).await.len(), 3);
    let job = stage.lease_jobs(worker).await.remove(0);
    let before = stage.store.now().await.unwrap();
    hands.set_forward(24 * HOUR);
    assert_eq!(stage.store.close_expired(Duration::MAX).await.unwrap(), []);
    assert!(stage.reclaim(sweeper, Reclaim::Orphaned).await.is_empty());
    assert!(stage.reclaim(sweeper, Reclaim::Overdue).await.is_empty());
    let Renewed::Open(now) = stage.store.renew_session(sweeper).await.unwrap() else { panic!("it lives") };
    assert_eq!(now, before.plus(24 * HOUR), "everything else follows the wall clock");
    for record in stage.store.read(query::Sessions { closed_within: Duration::ZERO }).await.unwrap() {
        assert_eq!(record.renewed_at, now, "it is shown as what it is");
    }
    // Leases and deadlines end as they would have without the jump.
    hands.pass(HOUR);
    assert_eq!(stage.store.close_expired(Duration::MAX).await.unwrap(), []);
    hands.pass(SECOND);
    assert_eq!(stage.store.close_expired(Duration::MAX).await.unwrap().len(), 3);
    let timeout = job.job().unwrap().timeout;
    assert!(timeout < HOUR);
    assert_eq!(
        stage
            .store
            .reclaim(ReclaimAsk { session: stage.session().await, limit: 10, what: Reclaim::Overdue })
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_clock_that_is_set_back_does_not_hold_up_retries() {
    let (_folder, hands, stage) = stage().await;
    stage.endpoint().await;
    stage.send(1).await;
    let session = stage.session().await;
    let task = stage.lease(session).await.remove(0).task;
    let retry = stage.settlement(&task, session, NextRow::Pending { due_in: 60 * SECOND });
    stage.settle(&retry).await;
    let before = stage.store.now().await.unwrap();
    hands.set_back(HOUR);
    assert_eq!(stage.store.now().await.unwrap(), before);
    assert_eq!(stage.store.ahead(), HOUR, "signatures carry what the wall clock says");
    hands.pass(119 * SECOND);
    assert!(stage.lease(session).await.is_empty());
    hands.pass(2 * SECOND);
    assert_eq!(stage.lease(session).await.len(), 1, "it waits twice as long at most");
    // In the end the two clocks agree, and time has never gone back.
    hands.pass(2 * HOUR);
    assert_eq!(stage.store.ahead(), Duration::ZERO);
    assert_eq!(stage.store.now().await.unwrap(), before.plus(HOUR + 121 * SECOND));
}

/// The clock of an open store is never set back, only that of a store that is opened again. Moving all stored times
/// ahead has the same effect.
#[test]
fn order_survives_a_clock_that_is_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), OpenAs::Server, Arc::new(Ids::from_system())).unwrap();
    let set_back = async || {
        let hour = micros(HOUR);
        let sql = format!(
            "update task set due_at = due_at + {hour};
            update lane set last_position = last_position + {hour};
            update lane set next_due = next_due + {hour} where next_due < 9223372036854775807;"
        );
        Connection::open(folder.path().join("everhook.db")).unwrap().execute_batch(&sql).unwrap();
    };
    order::order_survives_a_clock_that_is_set_back(async { Fresh::one(store, ()) }, set_back);
}
