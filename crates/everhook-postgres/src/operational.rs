//! Operational events: read, and appended in the transaction of the change that they report.
//!
//! Called by settling, and by changes of endpoints. Without an operational endpoint that wants the event, only the
//! version of the hidden application's lane group is read.

use std::collections::{BTreeSet, HashMap};

use everhook_core::application::Application;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::name::Name;
use everhook_core::operational::{AttemptNews, EndpointNews, News, OPERATIONAL_APPLICATION, OperationalEvent};
use everhook_core::resource::ResourceKind;
use everhook_core::task::TaskKind;
use everhook_core::time::Timestamp;
use everhook_store::made::Made;
use everhook_store::operational::{AttemptEvent, OnlyIf, is_wanted, message};
use everhook_store::resource::{Parent, Record};
use everhook_store::sql::shared::{DeadAttempt, FindResource, LaneApplication};

use crate::append::FindGroupVersion;
use crate::columns::Keys;
use crate::endpoints::{self, EndpointSets};
use crate::error::Fault;
use crate::lease::{FindMessage, MessageKey};
use crate::resource;
use crate::store::PostgresStore;
use crate::tx::Tx;

/// An endpoint that was deleted, or disabled at the wish of its receiver.
pub(crate) type LostEndpoint = (EnvironmentId, ApplicationId, Id);

/// The operational endpoints of some environments, and the time.
pub(crate) struct Listeners {
    sets: EndpointSets,
    now: Timestamp,
}

impl Listeners {
    /// Reads the operational endpoints of environments.
    pub(crate) async fn read(
        store: &PostgresStore,
        tx: &Tx<'_>,
        environments: &BTreeSet<EnvironmentId>,
    ) -> Result<Listeners, Fault> {
        let key = |environment: &EnvironmentId| (*environment, OPERATIONAL_APPLICATION.0);
        let found = tx.run(FindGroupVersion { wanted: Keys::of(environments.iter().map(key)) }).await?;
        let now = found.first().map_or(Timestamp::default(), |(_, _, _, now)| *now);
        let version = |(environment, id, version, _)| ((environment, id), version);
        let versions: HashMap<_, _> = found.into_iter().map(version).collect();
        Ok(Listeners { sets: endpoints::load(tx, &store.cache, &versions).await?, now })
    }

    /// Whether an operational endpoint of the environment wants an event.
    fn want(&self, environment: EnvironmentId, event: OperationalEvent) -> bool {
        self.sets.get(&(environment, OPERATIONAL_APPLICATION)).is_some_and(|set| is_wanted(set, event))
    }
}

impl PostgresStore {
    /// Reports events of an endpoint, within a transaction. Returns the number of messages.
    pub(crate) async fn tell_endpoint(
        &self,
        tx: &Tx<'_>,
        environment: EnvironmentId,
        endpoint: &Endpoint,
        events: &[OperationalEvent],
    ) -> Result<Made, Fault> {
        if events.is_empty() || endpoint.application == OPERATIONAL_APPLICATION {
            return Ok(Made::default());
        }
        let listeners = Listeners::read(self, tx, &BTreeSet::from([environment])).await?;
        let news = endpoint_news(tx, &listeners, environment, endpoint, events).await?;
        self.append_news(tx, &listeners, news).await
    }

    /// Reports that an endpoint was deleted.
    pub(crate) async fn tell_deleted_endpoint(&self, tx: &Tx<'_>, lost: LostEndpoint) -> Result<Made, Fault> {
        match find::<Endpoint>(tx, lost.0, Parent::of(lost.1), lost.2).await? {
            Some(endpoint) => self.tell_endpoint(tx, lost.0, &endpoint, &[OperationalEvent::EndpointDeleted]).await,
            None => Ok(Made::default()),
        }
    }

    /// Reports events of settlements: those of deliveries, and the endpoints that were disabled by their receivers.
    pub(crate) async fn tell_settled(
        &self,
        tx: &Tx<'_>,
        attempts: &[AttemptEvent],
        disabled: &[LostEndpoint],
    ) -> Result<Made, Fault> {
        let of_attempts = attempts.iter().map(|told| told.environment);
        let environments: BTreeSet<_> = of_attempts.chain(disabled.iter().map(|lost| lost.0)).collect();
        if environments.is_empty() {
            return Ok(Made::default());
        }
        let listeners = Listeners::read(self, tx, &environments).await?;
        let mut news = Vec::new();
        for (environment, application, id) in disabled {
            let event = OperationalEvent::EndpointDisabled;
            if *application == OPERATIONAL_APPLICATION || !listeners.want(*environment, event) {
                continue;
            }
            if let Some(endpoint) = find::<Endpoint>(tx, *environment, Parent::of(*application), *id).await? {
                news.extend(endpoint_news(tx, &listeners, *environment, &endpoint, &[event]).await?);
            }
        }
        for told in attempts {
            news.extend(attempt_news(tx, &listeners, told).await?);
        }
        self.append_news(tx, &listeners, news).await
    }

    async fn append_news(
        &self,
        tx: &Tx<'_>,
        listeners: &Listeners,
        news: Vec<(EnvironmentId, News)>,
    ) -> Result<Made, Fault> {
        if news.is_empty() {
            return Ok(Made::default());
        }
        let id = || MessageId(self.ids.next(listeners.now));
        let messages = news.iter().map(|(environment, news)| message(*environment, news, id())).collect();
        Ok(Made::messages(&self.append_within(tx, messages).await?))
    }
}

async fn endpoint_news(
    tx: &Tx<'_>,
    listeners: &Listeners,
    environment: EnvironmentId,
    endpoint: &Endpoint,
    events: &[OperationalEvent],
) -> Result<Vec<(EnvironmentId, News)>, Fault> {
    let wanted = |event: &&OperationalEvent| listeners.want(environment, **event);
    let events: Vec<_> = events.iter().filter(wanted).collect();
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let uid = application_uid(tx, environment, endpoint.application).await?;
    let tell = |event: &OperationalEvent| {
        (environment, News::Endpoint(*event, EndpointNews::new(*event, endpoint, uid.clone())))
    };
    Ok(events.into_iter().map(tell).collect())
}

/// Returns the news of an attempt, unless its endpoint is operational or no operational endpoint wants them.
async fn attempt_news(
    tx: &Tx<'_>,
    listeners: &Listeners,
    told: &AttemptEvent,
) -> Result<Option<(EnvironmentId, News)>, Fault> {
    let AttemptEvent { event, environment, message, task, lane, only_if, last } = *told;
    if !listeners.want(environment, event) {
        return Ok(None);
    }
    let application = tx.run(LaneApplication { environment, id: lane }).await?;
    let Some(application) = application.filter(|id| *id != OPERATIONAL_APPLICATION) else { return Ok(None) };
    let dead = DeadAttempt { kind: TaskKind::Delivery, environment, subject: message, task };
    if only_if == OnlyIf::WasDead && tx.run(dead).await?.is_none() {
        return Ok(None);
    }
    let wanted = [MessageKey { environment, application, id: message }].into_iter().collect();
    let found = tx.run(FindMessage { wanted }).await?.pop();
    let news = AttemptNews {
        app_id: application,
        app_uid: application_uid(tx, environment, application).await?,
        msg_id: message,
        msg_event_id: found.and_then(|(_, message)| message.event_id),
        endpoint_id: EndpointId(lane.0),
        last_attempt: last,
    };
    Ok(Some((environment, News::Attempt(event, news))))
}

async fn application_uid(tx: &Tx<'_>, environment: EnvironmentId, id: ApplicationId) -> Result<Option<Name>, Fault> {
    let found = find::<Application>(tx, environment, Parent::NONE, id.0).await?;
    Ok(found.and_then(|application| application.uid))
}

/// Finds a resource, even a deleted one.
async fn find<R: Record>(tx: &Tx<'_>, environment: EnvironmentId, parent: Parent, id: Id) -> Result<Option<R>, Fault> {
    let kind: ResourceKind = R::KIND;
    let found = tx.run(FindResource { environment, kind, parent, id }).await?;
    found.map(|(row, _)| resource::record(&row, None)).transpose()
}
