//! Resources written by another version of the binary.

use everhook_core::application::Application;
use everhook_core::id::ApplicationId;
use everhook_core::scope::Scope;
use everhook_store::catalog::{Created, Replaced};
use everhook_store::store::Resources;
use everhook_testkit::conformance::fixture::new_application;
use rusqlite::Connection;

use crate::sqlite::stage::Stage;

#[tokio::test]
async fn a_change_keeps_the_members_of_a_newer_binary() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::in_folder(folder.path()).await;
    let scope = Scope::of(stage.environment);
    let new = new_application(ApplicationId(stage.id()));
    let Created::New(created) = stage.store.create(scope, new, None).await.unwrap() else { panic!("it is new") };
    let conn = Connection::open(folder.path().join("everhook.db")).unwrap();
    let id = created.id.as_bytes().as_slice();
    let newer = "update resource set info = substr(info, 1, length(info) - 1) || ', \"later\": [1.0]}' where id = ?1";
    assert_eq!(conn.execute(newer, [id]).unwrap(), 1);
    let changed = Application { name: "Other".to_owned(), ..created };
    let Replaced::Done(changed) = stage.store.replace(scope, changed).await.unwrap() else { panic!("it is there") };
    assert_eq!(changed.name, "Other");
    let info: String = conn.query_row("select info from resource where id = ?1", [id], |row| row.get(0)).unwrap();
    assert!(info.contains("\"later\":[1.0]") && info.contains("Other"), "{info}");
}
