//! Operational events: messages of the hidden application, appended with the change that they report.

use everhook_core::application::Application;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, MessageId};
use everhook_core::lifecycle::EndState;
use everhook_core::name::Name;
use everhook_core::operational::{AttemptNews, EndpointNews, News, OPERATIONAL_APPLICATION, OperationalEvent};
use everhook_core::time::Timestamp;
use everhook_store::catalog::Locator;
use everhook_store::ids::Ids;
use everhook_store::made::Made;
use everhook_store::operational::{AttemptEvent, OnlyIf, is_wanted, message};
use everhook_store::resource::ResourcePlace;

use crate::mem::append::{append_one, endpoints_of};
use crate::mem::resource;
use crate::mem::tables::{AttemptRow, Tables};

/// Reports events of an endpoint, even a deleted one.
pub(super) fn tell_endpoint(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    (environment, id): (EnvironmentId, EndpointId),
    events: &[OperationalEvent],
) -> Made {
    let Some((endpoint, _)) = tables.endpoint(environment, id) else {
        return Made::default();
    };
    let (application, endpoint) = (endpoint.application, endpoint.clone());
    let uid = application_uid(tables, environment, application);
    let mut made = Made::default();
    for event in events {
        let news = EndpointNews::new(*event, &endpoint, uid.clone());
        made += tell(tables, ids, now, (environment, application), &News::Endpoint(*event, news));
    }
    made
}

/// Reports an event of a delivery.
pub(super) fn tell_attempt(tables: &mut Tables, ids: &Ids, now: Timestamp, told: &AttemptEvent) -> Made {
    let AttemptEvent { event, environment, message, task, lane, only_if, last } = *told;
    let Some(application) = tables.lanes.get(&(environment, lane)).map(|lane| lane.application) else {
        return Made::default();
    };
    let died = |row: &AttemptRow| row.attempt.end == EndState::Dead;
    let mut attempts = tables.attempts.iter().filter(|((key, _), _)| key.environment == environment && key.id == task);
    if only_if == OnlyIf::WasDead && !attempts.any(|(_, row)| died(row)) {
        return Made::default();
    }
    let found = tables.messages.get(&(environment, application, message));
    let news = AttemptNews {
        app_id: application,
        app_uid: application_uid(tables, environment, application),
        msg_id: message,
        msg_event_id: found.and_then(|message| message.event_id.clone()),
        endpoint_id: told.endpoint(),
        last_attempt: last,
    };
    tell(tables, ids, now, (environment, application), &News::Attempt(event, news))
}

/// Appends the message of an event, if it is about another application than the hidden one and an endpoint wants it.
fn tell(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    (environment, application): (EnvironmentId, ApplicationId),
    news: &News,
) -> Made {
    let listeners = endpoints_of(tables, environment, OPERATIONAL_APPLICATION);
    if application == OPERATIONAL_APPLICATION || !is_wanted(&listeners, news.event()) {
        return Made::default();
    }
    let message = message(environment, news, MessageId(ids.next(now)));
    Made::messages(&[append_one(tables, ids, now, None, message)])
}

fn application_uid(tables: &Tables, environment: EnvironmentId, id: ApplicationId) -> Option<Name> {
    let place = ResourcePlace::application(&Locator::Id(id));
    resource::find::<Application>(tables, environment, &place).and_then(|application| application.uid)
}
