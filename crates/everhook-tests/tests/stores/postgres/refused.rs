//! A statement that the server refuses is told with the server's code for it.

use everhook_core::id::ApplicationId;
use everhook_core::scope::Scope;
use everhook_store::error::StoreError;
use everhook_store::store::Resources;
use everhook_testkit::conformance::fixture::new_application;

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

#[tokio::test]
async fn a_refused_statement_is_told_with_its_sqlstate() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let mut application = new_application(ApplicationId(stage.id()));
    application.name = "a\0b".to_owned();
    let refused = stage.store.create(Scope::of(stage.environment), application.clone(), None).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    let cause = std::error::Error::source(&refused).expect("the fault").to_string();
    assert_eq!(cause, "a statement failed with SQLSTATE 22021");
}
