//! Behind a pooler, which keeps no statement between two transactions.

use everhook_core::lifecycle::NextRow;
use everhook_store::lease::{LeaseStore, Renewed, Settled};

use crate::database::Database;
use crate::stage::Stage;

#[tokio::test]
async fn everything_works_without_named_statements() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store_with(|config| config.pooler = true).await).await;
    stage.append(vec![stage.message(Vec::new()), stage.message(Vec::new())]).await.unwrap();
    let tasks = stage.lease(10).await.unwrap();
    assert_eq!(tasks.len(), 2);
    let retry = NextRow::Pending { due_in: Default::default() };
    let batch = [stage.settlement(&tasks[0], NextRow::Gone), stage.settlement(&tasks[1], retry)];
    assert_eq!(stage.store.settle(&batch).await.unwrap(), [Settled::Done, Settled::Done]);
    assert_eq!(stage.lease(10).await.unwrap().len(), 1);
    assert!(matches!(stage.store.renew_session(stage.session).await.unwrap(), Renewed::Open(_)));
}
