//! Quotas, and the counts that they are compared with.

use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId};
use everhook_core::operational::OPERATIONAL_APPLICATION;
use everhook_core::policy::Switch;
use everhook_core::quota::{MessageRate, Quota, QuotaLimits};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Replaced;
use everhook_store::lease::NewMessage;
use everhook_store::query;
use everhook_store::quota::MessageCount;
use everhook_store::resource::New;
use everhook_store::store::Resources;

use crate::conformance::fixture::{Fixture, PLENTY, new_application, new_endpoint, new_message};

fn endpoints(max: u32) -> QuotaLimits {
    QuotaLimits { endpoints: Some(Switch::On(max)), ..QuotaLimits::default() }
}

async fn put(fx: &Fixture, quota: Quota) -> Quota {
    match fx.store.replace(fx.scope(), quota).await.unwrap() {
        Replaced::Done(made) => made,
        refused => panic!("a quota exists by default: {refused:?}"),
    }
}

pub(super) async fn an_environment_and_an_application_have_one_quota_each(fx: &Fixture) {
    let find =
        async |environment, application| fx.read(query::FindQuota { scope: Scope::of(environment), application }).await;
    let own = Some(fx.application);
    assert_eq!((find(fx.here, None).await, find(fx.here, own).await), (None, None));
    let rate = MessageRate { count: 10, seconds: 60, burst: Some(3) };
    let each = QuotaLimits { message_rate: Some(Switch::On(rate)), ..QuotaLimits::default() };
    let whole = put(fx, Quota { limits: endpoints(100), each, ..Quota::none(None) }).await;
    let limits = QuotaLimits { stored_messages: Some(Switch::Off), ..endpoints(7) };
    let one = put(fx, Quota { limits, ..Quota::none(own) }).await;
    assert_eq!((whole.revision, one.revision), (1, 1));
    assert_eq!((find(fx.here, None).await, find(fx.here, own).await), (Some(whole), Some(one.clone())));
    assert_eq!((find(fx.there, None).await, find(fx.there, own).await), (None, None));
    assert_eq!(fx.other.replace(fx.scope(), Quota::none(own)).await.unwrap(), Replaced::Stale);
    let emptied = put(fx, Quota { limits: QuotaLimits::default(), ..one }).await;
    assert_eq!((emptied.limits.is_empty(), emptied.revision), (true, 2), "limits that were left out are gone");
    assert_eq!(find(fx.here, own).await, Some(emptied));
}

pub(super) async fn changed_quotas_of_all_environments_are_listed(fx: &Fixture) {
    let listed = async |since| {
        let all = fx.read(query::Quotas { since }).await;
        let of_case = |(environment, _): &(EnvironmentId, Quota)| [fx.here, fx.there].contains(environment);
        all.into_iter().filter(of_case).collect::<Vec<_>>()
    };
    let ever = Timestamp::default();
    assert_eq!(listed(ever).await, []);
    let whole = put(fx, Quota { limits: endpoints(1), ..Quota::none(None) }).await;
    let one = put(fx, Quota { limits: endpoints(2), ..Quota::none(Some(fx.application)) }).await;
    assert_eq!(listed(ever).await, [(fx.here, whole.clone()), (fx.here, one.clone())]);
    let later = Timestamp::from_micros(one.updated_at.as_micros() + 1);
    assert_eq!(listed(later).await, []);
    let whole = put(fx, Quota { limits: endpoints(3), ..whole }).await;
    assert!(whole.updated_at >= one.updated_at);
    assert_eq!(listed(whole.updated_at).await.last(), Some(&(fx.here, whole)), "in the order of changes");
}

pub(super) async fn endpoints_are_counted_up_to_a_limit(fx: &Fixture) {
    let count = async |application, limit| {
        let scope = fx.scope();
        fx.read(query::CountEndpoints { scope, application, limit }).await
    };
    let own = Some(fx.application);
    assert_eq!((count(None, PLENTY).await, count(own, PLENTY).await), (0, 0));
    let deleted = fx.endpoint().await;
    fx.endpoint().await;
    fx.endpoint().await;
    let other = new_application(ApplicationId(fx.id()));
    fx.other.stage_application(fx.here, &other).await;
    fx.other.stage_endpoint(fx.here, &new_endpoint(EndpointId(fx.id()), other.id)).await;
    let endpoint = new_endpoint(EndpointId(fx.id()), OPERATIONAL_APPLICATION);
    fx.other.create(fx.scope(), New { record: endpoint, max: PLENTY }, None).await.unwrap();
    assert_eq!((count(None, PLENTY).await, count(own, PLENTY).await), (4, 3), "without the operational one");
    assert_eq!((count(None, 2).await, count(own, 0).await), (2, 0));
    fx.delete(deleted).await;
    assert_eq!((count(None, PLENTY).await, count(own, PLENTY).await, count(Some(other.id), 9).await), (3, 2, 1));
}

pub(super) async fn stored_messages_are_counted_page_by_page(fx: &Fixture) {
    let count = async |application, after, limit| {
        let scope = fx.scope();
        fx.read(query::CountMessages { scope, application, after, limit }).await
    };
    let own = Some(fx.application);
    assert_eq!(count(own, None, PLENTY).await, MessageCount::default());
    fx.send_many(3).await;
    let other = new_application(ApplicationId(fx.id()));
    for environment in [fx.here, fx.there] {
        fx.other.stage_application(environment, &other).await;
    }
    let last = fx.message().message.id;
    fx.append_one(None, NewMessage::new(fx.here, new_message(last, other.id))).await;
    assert_eq!(count(own, None, PLENTY).await, MessageCount { messages: 3, next: None });
    assert_eq!(count(Some(other.id), None, PLENTY).await, MessageCount { messages: 1, next: None });
    let first = count(None, None, 2).await;
    assert_eq!(first.messages, 2);
    let second = count(None, first.next, 2).await;
    assert_eq!((second.messages, second.next.is_some()), (2, true));
    assert_eq!(count(None, second.next, 2).await, MessageCount::default());
    assert_eq!(count(own, first.next, PLENTY).await.messages + first.messages, 3, "an application alone");
}
