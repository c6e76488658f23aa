//! Resources as rows: columns to find and compare them by, and two JSON texts, the same in both SQL stores.
//!
//! `spec` has the members that the engine reads, `info` the others. A text always contains every member that this
//! binary knows. A member that only the old text has was therefore written by a newer binary, and [`keep_unknown`]
//! carries it over.

mod alert;
mod chat_apps;
pub(crate) mod endpoint;
mod quota;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use everhook_core::api_key::ApiKeyHash;
use everhook_core::application::{Application, EnvironmentPolicy};
use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EnvironmentId, Id, IntegrationId, LaneId, ScheduleId};
use everhook_core::integration::Integration;
use everhook_core::lane::HoldKind;
use everhook_core::name::{Metadata, Name};
use everhook_core::policy::{BreakerSettings, OnDead, Ordering, RateLimit, Settings, Switch, with_throttle_rate};
use everhook_core::portal::{PortalLook, PortalSettings};
use everhook_core::queue::{Queue, QueueState, Rate, Target, queue_id};
use everhook_core::resource::{ResourceKind, environment_policy_id, event_type_id, portal_settings_id};
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::seal::{OpenError, SealKeyId};
use everhook_core::signing::SigningKeys;
use everhook_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::resource::{Parent, Resource};
use crate::schedule::{self, ScheduleRecord};
use crate::seal::{ResourceAt, Seal};
use crate::sql::rows::{FiringRow, ResourceRow, json};

/// The columns of a resource that follow from its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    pub kind: ResourceKind,
    pub parent: Parent,
    pub id: Id,
    /// The uid or name.
    pub name: Option<Name>,
    pub state: i16,
    /// The revision that a change expects.
    pub revision: i64,
    pub spec: String,
    pub info: String,
}

impl Columns {
    /// Returns `spec` as it is written: sealed with the key that the store names, if the kind has secrets.
    pub fn sealed_spec(
        &self,
        environment: EnvironmentId,
        seal: &Seal,
        current: Option<SealKeyId>,
    ) -> Result<Cow<'_, str>, OpenError> {
        if !self.kind.has_secrets() {
            return Ok(Cow::Borrowed(&self.spec));
        }
        let at = ResourceAt { environment, kind: self.kind, parent: self.parent, id: self.id };
        seal.seal_text(current, at.place(&at.row()), &self.spec)
    }
}

/// The state of an archived event type; other event types have state 0.
pub const ARCHIVED: i16 = 1;
const PAUSED: i16 = 1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApplicationSpec {
    throttle_rate: Option<u16>,
    #[serde(default, deserialize_with = "readable")]
    policy: Option<Settings>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PortalSpec {
    #[serde(default)]
    look: PortalLook,
}

#[derive(Serialize, Deserialize)]
struct PolicySpec {
    #[serde(default, deserialize_with = "readable")]
    policy: Option<Settings>,
}

#[derive(Serialize, Deserialize)]
struct ApplicationInfo {
    name: String,
    metadata: Metadata,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventTypeInfo {
    description: String,
    deprecated: bool,
    schemas: Option<String>,
    feature_flag: Option<Name>,
    group_name: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueSpec {
    limit: Option<u32>,
    key_limit: Option<u32>,
    rate_us: Option<i64>,
    target_url: Option<String>,
    target_keys: Option<KeysForm>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IntegrationInfo {
    name: String,
    feature_flags: Vec<Name>,
    /// The hash of the key in hexadecimal digits.
    key: Option<String>,
}

/// The JSON of a kind that has no members in this text.
#[derive(Serialize)]
struct Empty {}

#[derive(Serialize, Deserialize)]
struct KeysForm {
    current: String,
    old: Vec<(String, i64)>,
}

impl Resource {
    pub fn kind(&self) -> ResourceKind {
        match self {
            Resource::Application(_) => ResourceKind::Application,
            Resource::Endpoint(_) => ResourceKind::Endpoint,
            Resource::EventType(_) => ResourceKind::EventType,
            Resource::Queue(_) => ResourceKind::Queue,
            Resource::Schedule(_) => ResourceKind::Schedule,
            Resource::Integration(_) => ResourceKind::Integration,
            Resource::EnvironmentPolicy(_) => ResourceKind::EnvironmentPolicy,
            Resource::PortalSettings(_) => ResourceKind::PortalSettings,
            Resource::ChatApps(_) => ResourceKind::ChatApps,
            Resource::Alert(_) => ResourceKind::Alert,
            Resource::Quota(_) => ResourceKind::Quota,
        }
    }

    pub fn columns(&self, environment: EnvironmentId) -> Columns {
        match self {
            Resource::Application(application) => of_application(application),
            Resource::Endpoint(endpoint) => endpoint::columns(endpoint),
            Resource::EventType(event_type) => of_event_type(event_type),
            Resource::Queue(queue) => of_queue(environment, queue),
            Resource::Schedule(record) => of_schedule(record),
            Resource::Integration(integration) => of_integration(integration),
            Resource::EnvironmentPolicy(policy) => of_environment_policy(policy),
            Resource::PortalSettings(settings) => of_portal_settings(settings),
            Resource::ChatApps(apps) => chat_apps::columns(apps),
            Resource::Alert(alert) => alert::columns(alert),
            Resource::Quota(quota) => quota::columns(quota),
        }
    }

    /// Reads a row; fails with the name of the column that cannot be read.
    pub fn read(row: &ResourceRow, firing: Option<&FiringRow>) -> Result<Resource, &'static str> {
        Ok(match row.kind {
            ResourceKind::Application => Resource::Application(application(row)?),
            ResourceKind::Endpoint => Resource::Endpoint(endpoint::read(row)?),
            ResourceKind::EventType => Resource::EventType(event_type(row)?),
            ResourceKind::Queue => Resource::Queue(queue(row)?),
            ResourceKind::Schedule => Resource::Schedule(schedule_record(row, firing)?),
            ResourceKind::Integration => Resource::Integration(integration(row)?),
            ResourceKind::EnvironmentPolicy => Resource::EnvironmentPolicy(environment_policy(row)?),
            ResourceKind::PortalSettings => Resource::PortalSettings(portal_settings(row)?),
            ResourceKind::ChatApps => Resource::ChatApps(chat_apps::read(row)?),
            ResourceKind::Alert => Resource::Alert(alert::read(row)?),
            ResourceKind::Quota => Resource::Quota(quota::read(row)?),
        })
    }
}

/// Adds the members of `old` that `new` lacks, so that a rolling upgrade loses no member of a newer binary.
pub fn keep_unknown(new: String, old: &str) -> String {
    type Members = BTreeMap<String, Box<RawValue>>;
    let (Ok(mut members), Ok(known)) = (serde_json::from_str::<Members>(&new), serde_json::from_str::<Members>(old))
    else {
        return new;
    };
    if known.keys().all(|member| members.contains_key(member)) {
        return new;
    }
    for (member, value) in known {
        members.entry(member).or_insert(value);
    }
    json(&members)
}

fn of_application(application: &Application) -> Columns {
    let info = ApplicationInfo { name: application.name.clone(), metadata: application.metadata.clone() };
    Columns {
        kind: ResourceKind::Application,
        parent: Parent::NONE,
        id: application.id.0,
        name: application.uid.clone(),
        state: 0,
        revision: application.revision,
        spec: json(&ApplicationSpec {
            throttle_rate: application.throttle_rate,
            policy: application.policy.as_deref().cloned(),
        }),
        info: json(&info),
    }
}

pub(crate) fn application(row: &ResourceRow) -> Result<Application, &'static str> {
    let ApplicationSpec { throttle_rate, policy } = text(&row.spec, "spec")?;
    let ApplicationInfo { name, metadata } = text(&row.info, "info")?;
    Ok(Application {
        id: ApplicationId(row.id),
        uid: row.name.clone(),
        name,
        throttle_rate,
        policy: policy.map(Arc::new),
        metadata,
        created_at: row.created_at,
        updated_at: row.updated_at,
        revision: row.revision,
    })
}

/// Returns the settings that the endpoints of an application inherit, from the specs of the application and of the
/// environment's policy. Leases need the limits of the environment as of their transaction; nodes know its other
/// settings.
pub fn inherited(application: Option<&str>, environment: Option<&str>) -> Option<Arc<Settings>> {
    let own = application.and_then(|spec| {
        let ApplicationSpec { throttle_rate, policy } = text(spec, "spec").ok()?;
        with_throttle_rate(policy.map(Arc::new), throttle_rate)
    });
    let Some(outer) = environment.map(LaneSettings::of).filter(|outer| *outer != LaneSettings::default()) else {
        return own;
    };
    let own = own.as_deref().cloned().unwrap_or_default();
    Some(Arc::new(Settings {
        rate: own.rate.or(outer.rate),
        concurrency: own.concurrency.or(outer.concurrency),
        ordering: own.ordering.or(outer.ordering),
        on_dead: own.on_dead.or(outer.on_dead),
        breaker: own.breaker.or(outer.breaker),
        ..own
    }))
}

/// The members of any `spec` that decide about the limits of lanes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LimitSpec {
    #[serde(default)]
    throttle_rate: Option<u16>,
    #[serde(default, deserialize_with = "readable")]
    policy: Option<Settings>,
}

/// The settings of one level that leases need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LaneSettings {
    rate: Option<Switch<RateLimit>>,
    concurrency: Option<Switch<u32>>,
    ordering: Option<Switch<Ordering>>,
    on_dead: Option<OnDead>,
    breaker: Option<Switch<BreakerSettings>>,
}

impl LaneSettings {
    fn of(spec: &str) -> LaneSettings {
        let Ok(LimitSpec { throttle_rate, policy }) = text(spec, "spec") else { return LaneSettings::default() };
        let settings = with_throttle_rate(policy.map(Arc::new), throttle_rate).unwrap_or_default();
        let Settings { rate, concurrency, ordering, on_dead, breaker, .. } = Arc::unwrap_or_clone(settings);
        LaneSettings { rate, concurrency, ordering, on_dead, breaker }
    }
}

/// The lanes whose holds end when the limits of a resource change.
pub struct LimitHolds {
    pub low: Id,
    pub high: Id,
    /// None for the lanes of all applications.
    pub application: Option<Id>,
    /// Whether waits for retries and dead deliveries of ordered lanes end, too.
    pub order: bool,
    /// Whether breakers are closed.
    pub breaker: bool,
}

impl LimitHolds {
    /// Returns the lanes whose holds end, if two versions of a resource have different limits.
    pub fn of(old: Option<&str>, changed: &Columns) -> Option<LimitHolds> {
        let (old, new) = (old.map(LaneSettings::of).unwrap_or_default(), LaneSettings::of(&changed.spec));
        if old == new {
            return None;
        }
        let breaker = old.breaker != new.breaker;
        let order = (old.ordering, old.on_dead) != (new.ordering, new.on_dead);
        let all = LimitHolds { low: Id::MIN, high: Id::MAX, application: None, order, breaker };
        Some(match changed.kind {
            ResourceKind::Endpoint => LimitHolds { low: changed.id, high: changed.id, ..all },
            ResourceKind::Application => LimitHolds { application: Some(changed.id), ..all },
            _ => all,
        })
    }

    /// Whether a hold of this kind ends.
    pub fn ends(&self, kind: HoldKind) -> bool {
        match kind {
            HoldKind::BackOff => false,
            HoldKind::RateLimit | HoldKind::Concurrency | HoldKind::Order => true,
            HoldKind::Retry | HoldKind::Blocked => self.order,
            HoldKind::Breaker => self.breaker,
        }
    }

    /// Whether a lane of an application is one of them.
    pub fn has(&self, lane: LaneId, application: ApplicationId) -> bool {
        (self.low..=self.high).contains(&lane.0) && self.application.is_none_or(|id| id == application.0)
    }
}

fn of_environment_policy(policy: &EnvironmentPolicy) -> Columns {
    Columns {
        kind: ResourceKind::EnvironmentPolicy,
        parent: Parent::NONE,
        id: environment_policy_id(),
        name: None,
        state: 0,
        revision: policy.revision,
        spec: json(&PolicySpec { policy: Some(policy.settings.clone()) }),
        info: json(&Empty {}),
    }
}

pub(crate) fn environment_policy(row: &ResourceRow) -> Result<EnvironmentPolicy, &'static str> {
    let PolicySpec { policy } = text(&row.spec, "spec")?;
    let settings = policy.unwrap_or_default();
    Ok(EnvironmentPolicy { settings, updated_at: row.updated_at, revision: row.revision })
}

fn of_portal_settings(settings: &PortalSettings) -> Columns {
    Columns {
        kind: ResourceKind::PortalSettings,
        parent: Parent::NONE,
        id: portal_settings_id(),
        name: None,
        state: 0,
        revision: settings.revision,
        // A member of `spec` that is absent would be kept from the old row, so the look is one member.
        spec: json(&PortalSpec { look: settings.look.clone() }),
        info: json(&Empty {}),
    }
}

fn portal_settings(row: &ResourceRow) -> Result<PortalSettings, &'static str> {
    let PortalSpec { look } = text(&row.spec, "spec")?;
    Ok(PortalSettings { look, updated_at: row.updated_at, revision: row.revision })
}

fn of_event_type(event_type: &EventType) -> Columns {
    let info = EventTypeInfo {
        description: event_type.description.clone(),
        deprecated: event_type.deprecated,
        schemas: event_type.schemas.clone(),
        feature_flag: event_type.feature_flag.clone(),
        group_name: event_type.group_name.clone(),
    };
    Columns {
        kind: ResourceKind::EventType,
        parent: Parent::NONE,
        id: event_type_id(&event_type.name),
        name: Some(event_type.name.clone()),
        state: if event_type.archived { ARCHIVED } else { 0 },
        revision: event_type.revision,
        spec: json(&Empty {}),
        info: json(&info),
    }
}

fn event_type(row: &ResourceRow) -> Result<EventType, &'static str> {
    let info: EventTypeInfo = text(&row.info, "info")?;
    Ok(EventType {
        name: row.name.clone().ok_or("name")?,
        description: info.description,
        archived: row.state == ARCHIVED,
        deprecated: info.deprecated,
        schemas: info.schemas,
        feature_flag: info.feature_flag,
        group_name: info.group_name,
        created_at: row.created_at,
        updated_at: row.updated_at,
        revision: row.revision,
    })
}

fn of_queue(environment: EnvironmentId, queue: &Queue) -> Columns {
    let spec = QueueSpec {
        limit: queue.limit,
        key_limit: queue.key_limit,
        rate_us: queue.rate.map(Rate::to_db),
        target_url: queue.target.as_ref().map(|target| target.url.clone()),
        target_keys: queue.target.as_ref().map(|target| KeysForm::new(&target.keys)),
    };
    Columns {
        kind: ResourceKind::Queue,
        parent: Parent::NONE,
        id: queue_id(environment, &queue.name),
        name: Some(queue.name.clone()),
        state: queue.state.to_db(),
        revision: queue.revision,
        spec: json(&spec),
        info: json(&Empty {}),
    }
}

pub(crate) fn queue(row: &ResourceRow) -> Result<Queue, &'static str> {
    let spec: QueueSpec = text(&row.spec, "spec")?;
    let target = match (spec.target_url, spec.target_keys) {
        (Some(url), Some(keys)) => Some(Target { url, keys: keys.read().ok_or("spec")? }),
        _ => None,
    };
    Ok(Queue {
        state: QueueState::from_db(row.state).ok_or("state")?,
        limit: spec.limit,
        key_limit: spec.key_limit,
        rate: spec.rate_us.and_then(Rate::from_db),
        target,
        updated_at: row.updated_at,
        revision: row.revision,
        ..Queue::new(row.name.clone().ok_or("name")?)
    })
}

fn of_schedule(record: &ScheduleRecord) -> Columns {
    Columns {
        kind: ResourceKind::Schedule,
        parent: Parent::NONE,
        id: record.schedule.id.0,
        name: Some(record.name.clone()),
        state: if record.paused { PAUSED } else { 0 },
        revision: record.revision,
        spec: schedule::encoding::spec(&record.schedule, &record.starts),
        info: json(&Empty {}),
    }
}

fn schedule_record(row: &ResourceRow, firing: Option<&FiringRow>) -> Result<ScheduleRecord, &'static str> {
    let (schedule, starts) = schedule::encoding::read_spec(ScheduleId(row.id), &row.spec).ok_or("spec")?;
    Ok(ScheduleRecord {
        name: row.name.clone().ok_or("name")?,
        schedule,
        starts,
        paused: row.state == PAUSED,
        // A schedule without a firing state never runs.
        state: firing.map_or_else(ScheduleState::paused, FiringRow::state),
        created_at: row.created_at,
        updated_at: row.updated_at,
        revision: row.revision,
    })
}

fn of_integration(integration: &Integration) -> Columns {
    let info = IntegrationInfo {
        name: integration.name.clone(),
        feature_flags: integration.feature_flags.clone(),
        key: integration.key.map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect()),
    };
    Columns {
        kind: ResourceKind::Integration,
        parent: Parent::of(integration.application),
        id: integration.id.0,
        name: None,
        state: 0,
        revision: integration.revision,
        spec: json(&Empty {}),
        info: json(&info),
    }
}

fn integration(row: &ResourceRow) -> Result<Integration, &'static str> {
    let info: IntegrationInfo = text(&row.info, "info")?;
    Ok(Integration {
        id: IntegrationId(row.id),
        application: ApplicationId(row.parent.0.ok_or("parent")?),
        name: info.name,
        feature_flags: info.feature_flags,
        key: info.key.map(|digits| hash(&digits).ok_or("info")).transpose()?,
        created_at: row.created_at,
        updated_at: row.updated_at,
        revision: row.revision,
    })
}

fn hash(digits: &str) -> Option<ApiKeyHash> {
    let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>()?;
    bytes.try_into().ok()
}

impl KeysForm {
    fn new(keys: &SigningKeys) -> KeysForm {
        let old = keys.old.iter().map(|(key, until)| (key.expose(), until.as_micros())).collect();
        KeysForm { current: keys.current.expose(), old }
    }

    fn read(&self) -> Option<SigningKeys> {
        let mut keys = SigningKeys::new(self.current.parse().ok()?);
        for (key, until) in &self.old {
            keys.old.push((key.parse().ok()?, Timestamp::from_micros(*until)));
        }
        Some(keys)
    }
}

fn text<T: DeserializeOwned>(text: &str, column: &'static str) -> Result<T, &'static str> {
    serde_json::from_str(text).map_err(|_| column)
}

/// Reads settings. Those of a later version that this binary cannot read count as absent: they must not stop the
/// deliveries of an application during an upgrade.
fn readable<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| T::deserialize(value).ok()))
}
