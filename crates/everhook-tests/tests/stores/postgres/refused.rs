//! An error about a refused statement contains the server's error code.

use everhook_core::id::OrgId;
use everhook_store::error::StoreError;
use everhook_store::store::Store;

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

#[tokio::test]
async fn a_refused_statement_is_told_with_its_sqlstate() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let refused = stage.store.ensure_environment(OrgId(stage.id()), "a\0b".to_owned()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    let cause = std::error::Error::source(&refused).expect("the fault").to_string();
    assert_eq!(cause, "a commit failed with SQLSTATE 22021");
}
