//! The look of the portals and the chat apps: records that an environment has at most once.

use everhook_core::chat::{ChatKind, ChatSecret};
use everhook_core::chat_app::{ChatApp, ChatApps};
use everhook_core::portal::{PortalLook, PortalSettings};
use everhook_core::scope::Scope;
use everhook_store::catalog::Replaced;
use everhook_store::query;
use everhook_store::store::Resources;

use crate::conformance::fixture::Fixture;

pub(super) async fn an_environment_has_one_portal_look(fx: &Fixture) {
    let find = async |environment| fx.read(query::FindPortalSettings { scope: Scope::of(environment) }).await;
    assert_eq!(find(fx.here).await, None);
    let look = PortalLook { name: Some("Osprey".to_owned()), accent: Some("#123456".to_owned()), ..Default::default() };
    let first = PortalSettings { look: look.clone(), ..PortalSettings::default() };
    let Replaced::Done(made) = fx.store.replace(fx.scope(), first.clone()).await.unwrap() else {
        panic!("it exists by default")
    };
    assert_eq!((&made.look, made.revision), (&look, 1));
    assert_eq!(fx.other.replace(fx.scope(), first).await.unwrap(), Replaced::Stale);
    assert_eq!((find(fx.here).await.as_ref(), find(fx.there).await), (Some(&made), None));
    let second = PortalSettings { look: PortalLook { name: Some("Kestrel".to_owned()), ..Default::default() }, ..made };
    assert!(matches!(fx.store.replace(fx.scope(), second.clone()).await.unwrap(), Replaced::Done(_)));
    assert_eq!(find(fx.here).await.map(|found| found.look), Some(second.look), "members that were left out are gone");
}

pub(super) async fn an_environment_has_one_chat_app_of_a_kind(fx: &Fixture) {
    let find = async |environment| fx.read(query::FindChatApps { scope: Scope::of(environment) }).await;
    assert_eq!(find(fx.here).await, None);
    let app = |kind, secret: &str| ChatApp {
        kind,
        client_id: Some("ww1".to_owned()),
        secret: ChatSecret(secret.to_owned()),
        tenant_id: None,
        agent_id: Some(7),
        api_url: None,
    };
    let mut apps = ChatApps::default();
    apps.put(app(ChatKind::WeCom, "first"));
    let Replaced::Done(mut made) = fx.store.replace(fx.scope(), apps.clone()).await.unwrap() else {
        panic!("it exists by default")
    };
    assert_eq!((&made.apps, made.revision), (&apps.apps, 1));
    assert_eq!(fx.other.replace(fx.scope(), apps).await.unwrap(), Replaced::Stale);
    assert_eq!((find(fx.here).await.as_ref(), find(fx.there).await), (Some(&made), None));
    made.put(app(ChatKind::DingTalk, "second"));
    made.remove(ChatKind::WeCom);
    assert!(matches!(fx.store.replace(fx.scope(), made.clone()).await.unwrap(), Replaced::Done(_)));
    assert_eq!(find(fx.here).await.map(|found| found.apps), Some(made.apps), "the removed app is gone");
}
