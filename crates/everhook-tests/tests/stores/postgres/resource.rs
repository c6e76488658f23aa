//! Resources written by another version of the binary.

use everhook_core::application::Application;
use everhook_core::id::ApplicationId;
use everhook_core::scope::Scope;
use everhook_store::catalog::{Created, Replaced};
use everhook_store::store::Resources;
use everhook_testkit::conformance::fixture::new_application;

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

#[tokio::test]
async fn a_change_keeps_the_members_of_a_newer_binary() {
    let database = Database::migrated().await;
    let stage = Stage::new(database.store().await).await;
    let scope = Scope::of(stage.environment);
    let new = new_application(ApplicationId(stage.id()));
    let Created::New(created) = stage.store.create(scope, new, None).await.unwrap() else { panic!("it is new") };
    let client = database.client().await;
    let id = created.id.as_bytes().as_slice();
    let newer = "update everhook.resource set info = left(info, -1) || ', \"later\": [1.0]}' where id = $1";
    assert_eq!(client.execute(newer, &[&id]).await.unwrap(), 1);
    let changed = Application { name: "Other".to_owned(), ..created };
    let Replaced::Done(changed) = stage.store.replace(scope, changed).await.unwrap() else { panic!("it is there") };
    assert_eq!(changed.name, "Other");
    let row = client.query_one("select info from everhook.resource where id = $1", &[&id]).await.unwrap();
    let info: String = row.get(0);
    assert!(info.contains("\"later\":[1.0]") && info.contains("Other"), "{info}");
}
