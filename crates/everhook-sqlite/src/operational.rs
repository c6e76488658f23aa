//! Operational events: read, and appended in the transaction of the change that they report.
//!
//! Called by settling, and by changes of endpoints. Without an operational endpoint that wants the event, only the
//! version of the hidden application's lane group is read.

use everhook_core::application::Application;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, LaneId, MessageId};
use everhook_core::name::Name;
use everhook_core::operational::{AttemptNews, EndpointNews, News, OPERATIONAL_APPLICATION, OperationalEvent};
use everhook_core::scope::AppScope;
use everhook_core::task::TaskKind;
use everhook_store::catalog::Locator;
use everhook_store::lease::{Append, NewMessage};
use everhook_store::made::Made;
use everhook_store::operational::{AttemptEvent, OnlyIf, is_wanted, message};
use everhook_store::resource::ResourcePlace;
use everhook_store::sql::shared::{DeadAttempt, LaneApplication};

use crate::append;
use crate::endpoints;
use crate::error::Fault;
use crate::history;
use crate::resource;
use crate::sql::run;
use crate::writer::Tx;

/// Reports events of an endpoint. Returns the number of messages.
pub(crate) fn tell_endpoint(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    endpoint: &Endpoint,
    events: &[OperationalEvent],
) -> Result<Made, Fault> {
    let events = wanted(tx, environment, endpoint.application, events)?;
    if events.is_empty() {
        return Ok(Made::default());
    }
    let uid = application_uid(tx, environment, endpoint.application)?;
    let tell = |event| News::Endpoint(event, EndpointNews::new(event, endpoint, uid.clone()));
    append_news(tx, environment, events.into_iter().map(tell))
}

/// Reports that an endpoint was deleted, or disabled at the wish of its receiver.
pub(crate) fn tell_lost_endpoint(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    id: EndpointId,
    event: OperationalEvent,
) -> Result<Made, Fault> {
    if wanted(tx, environment, application, &[event])?.is_empty() {
        return Ok(Made::default());
    }
    match resource::find_even_deleted(tx, environment, application, id)? {
        Some(endpoint) => tell_endpoint(tx, environment, &endpoint, &[event]),
        None => Ok(Made::default()),
    }
}

/// Reports an event of a delivery, unless its endpoint is operational.
pub(crate) fn tell_attempt(tx: &Tx<'_>, told: &AttemptEvent) -> Result<Made, Fault> {
    let AttemptEvent { event, environment, message, task, lane, only_if, last } = *told;
    let Some(application) = application_of(tx, environment, lane)? else { return Ok(Made::default()) };
    if wanted(tx, environment, application, &[event])?.is_empty() {
        return Ok(Made::default());
    }
    let dead = DeadAttempt { kind: TaskKind::Delivery, environment, subject: message, task };
    if only_if == OnlyIf::WasDead && run(tx.conn, dead)?.is_none() {
        return Ok(Made::default());
    }
    let found = history::find(tx.conn, AppScope::of(environment, application), &Locator::Id(message))?;
    let news = AttemptNews {
        app_id: application,
        app_uid: application_uid(tx, environment, application)?,
        msg_id: message,
        msg_event_id: found.and_then(|message| message.event_id),
        endpoint_id: told.endpoint(),
        last_attempt: last,
    };
    append_news(tx, environment, [News::Attempt(event, news)].into_iter())
}

/// Returns the application of an endpoint's lane.
pub(crate) fn application_of(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    lane: LaneId,
) -> Result<Option<ApplicationId>, Fault> {
    run(tx.conn, LaneApplication { environment, id: lane })
}

/// Returns the events about an endpoint of `application` that an operational endpoint wants.
fn wanted(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    events: &[OperationalEvent],
) -> Result<Vec<OperationalEvent>, Fault> {
    if application == OPERATIONAL_APPLICATION || events.is_empty() {
        return Ok(Vec::new());
    }
    let Some(endpoints) = endpoints::read(tx, environment, OPERATIONAL_APPLICATION)? else {
        return Ok(Vec::new());
    };
    Ok(events.iter().copied().filter(|event| is_wanted(&endpoints, *event)).collect())
}

fn application_uid(tx: &Tx<'_>, environment: EnvironmentId, id: ApplicationId) -> Result<Option<Name>, Fault> {
    let found: Option<Application> =
        resource::find(tx.conn, environment, &ResourcePlace::application(&Locator::Id(id)))?;
    Ok(found.and_then(|application| application.uid))
}

fn append_news(tx: &Tx<'_>, environment: EnvironmentId, news: impl Iterator<Item = News>) -> Result<Made, Fault> {
    tell(tx, news.map(|news| message(environment, &news, MessageId(tx.ids.next(tx.now)))).collect())
}

/// Appends messages of the hidden application.
pub(crate) fn tell(tx: &Tx<'_>, messages: Vec<NewMessage>) -> Result<Made, Fault> {
    if messages.is_empty() {
        return Ok(Made::default());
    }
    Ok(Made::messages(&append::append(tx, Append { fast: None, messages })?))
}
