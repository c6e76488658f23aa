//! The delivery policy: optional settings of endpoints, applications and environments.
//!
//! Pure. A missing setting is inherited; [`effective`] resolves the settings of all levels and keeps the origin of each
//! value. Values are checked when a user sets them, so that stored settings never stop a delivery.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, StrDeserializer, U64Deserializer};
use serde::de::{IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{
    BREAKER_ATTEMPTS_MAX, BREAKER_TIME_MAX, CONCURRENCY_MAX, DISABLE_AFTER_MAX, DISABLE_AFTER_MIN, JITTER_PERCENT_MAX,
    POLICY_TYPES_MAX, RATE_COUNT_MAX, RATE_SECONDS_MAX, RETRY_DELAYS_MAX, SEND_TIMEOUT_MAX,
};
use crate::name::Name;
use crate::policy::legacy::LegacySignature;
use crate::policy::statuses::FinalStatuses;
use crate::retry::{Backoff, RetryPolicy};
use crate::violation::{Violation, at};

pub mod breaker;
pub mod effective;
pub mod legacy;
pub mod limit;
pub mod order;
pub mod rate;
pub mod statuses;

/// The settings of one level; every member is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object with settings")]
pub struct Settings {
    #[serde(default, skip_serializing_if = "RetrySettings::is_empty")]
    pub retry: RetrySettings,
    /// The time for the receiver to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Settings for single event types. They outrank the other settings of their level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub event_types: BTreeMap<Name, TypeSettings>,
    /// The number of retries that are allowed for now. The lowest number of all levels applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<u32>,
    /// Deliveries that may start in a period, over all replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Switch<RateLimit>>,
    /// Deliveries that may run at the same time, over all replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Switch<u32>>,
    /// Stops the deliveries to a receiver that fails, and tests it with single ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Switch<BreakerSettings>>,
    /// The time of failures alone after which the endpoint is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_after_seconds: Option<Switch<u64>>,
    /// Whether deliveries wait. A pause of any level applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub while_disabled: Option<WhileDisabled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering: Option<Switch<Ordering>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_dead: Option<OnDead>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legacy_signature: Option<Switch<LegacySignature>>,
    /// Whether the bodies of replies are stored. If a level says no, they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_replies: Option<bool>,
}

/// The settings that may differ by event type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object with settings")]
pub struct TypeSettings {
    #[serde(default, skip_serializing_if = "RetrySettings::is_empty")]
    pub retry: RetrySettings,
    /// The time for the receiver to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object with settings")]
pub struct RetrySettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Number of attempts, including the first. A level that sets `backoff` sets this number, too: without a value it
    /// follows from the back-off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The random part of a delay: it is longer or shorter by up to this share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_statuses: Option<FinalStatuses>,
}

/// A setting that a level may also switch off: `"none"`, where an outer level has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch<T> {
    Off,
    On(T),
}

/// `count` deliveries in each period of `seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "an object with count and seconds")]
pub struct RateLimit {
    pub count: u32,
    pub seconds: u32,
}

/// The rules of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BreakerSettings {
    /// The share of failed attempts that opens the breaker.
    pub failure_percent: u8,
    /// Fewer attempts in the window do not open the breaker.
    pub min_attempts: u32,
    pub window_seconds: u64,
    /// The first time for which the breaker stays open; it doubles while probes fail.
    pub open_seconds: u64,
    /// The longest time for which the breaker stays open.
    pub max_open_seconds: u64,
}

/// The treatment of new messages for a disabled endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WhileDisabled {
    /// They are not delivered to it.
    #[default]
    Skip,
    /// Their deliveries wait until the endpoint is enabled.
    Hold,
}

/// The deliveries that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ordering {
    /// All deliveries of the endpoint.
    Endpoint,
    /// The deliveries with the same value at this JSON pointer into the payload. Payloads without the value count as
    /// one key.
    Key(String),
}

/// The effect of a dead delivery on an ordered lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnDead {
    /// The next delivery starts.
    #[default]
    Skip,
    /// The lane waits until the delivery is redriven, cancelled or dismissed.
    Block,
}

impl Settings {
    pub fn is_empty(&self) -> bool {
        *self == Settings::default()
    }

    /// Checks all values; the violation names the field.
    pub fn check(&self) -> Result<(), Violation> {
        check_attempts(&self.retry, self.timeout_seconds)?;
        if self.event_types.len() > POLICY_TYPES_MAX {
            return Err(at("eventTypes").breaks(format!("must have at most {POLICY_TYPES_MAX} entries")));
        }
        for (name, settings) in &self.event_types {
            let place = || at("eventTypes").member(name.to_string());
            check_attempts(&settings.retry, settings.timeout_seconds).map_err(|violation| violation.under(place()))?;
        }
        if self.retry_budget.is_some_and(|budget| usize::try_from(budget).is_ok_and(|it| it > RETRY_DELAYS_MAX)) {
            return Err(at("retryBudget").breaks(format!("must be at most {RETRY_DELAYS_MAX}")));
        }
        if let Some(Switch::On(rate)) = self.rate {
            within("rate", "count", rate.count, 1, RATE_COUNT_MAX)?;
            within("rate", "seconds", rate.seconds, 1, RATE_SECONDS_MAX)?;
        }
        if let Some(Switch::On(limit)) = self.concurrency
            && !(1..=CONCURRENCY_MAX).contains(&limit)
        {
            return Err(at("concurrency").breaks(format!("must be 1 to {CONCURRENCY_MAX}, or \"none\"")));
        }
        if let Some(Switch::On(breaker)) = &self.breaker {
            breaker.check()?;
        }
        if let Some(Switch::On(seconds)) = self.disable_after_seconds {
            let (min, max) = (DISABLE_AFTER_MIN.as_secs(), DISABLE_AFTER_MAX.as_secs());
            if !(min..=max).contains(&seconds) {
                return Err(at("disableAfterSeconds").breaks(format!("must be {min} to {max}, or \"none\"")));
            }
        }
        if let Some(Switch::On(Ordering::Key(key))) = &self.ordering {
            order::check_pointer(key)?;
        }
        match &self.legacy_signature {
            Some(Switch::On(signature)) => {
                signature.check().map_err(|violation| violation.under(at("legacySignature")))
            }
            Some(Switch::Off) | None => Ok(()),
        }
    }
}

/// Returns the settings of an endpoint or application with its throttle rate, which `rate` outranks.
pub fn with_throttle_rate(settings: Option<Arc<Settings>>, per_second: Option<u16>) -> Option<Arc<Settings>> {
    let has_rate = settings.as_ref().is_some_and(|settings| settings.rate.is_some());
    let Some(count) = per_second.filter(|_| !has_rate) else { return settings };
    let rate = Some(Switch::On(RateLimit { count: count.into(), seconds: 1 }));
    Some(Arc::new(Settings { rate, ..settings.as_deref().cloned().unwrap_or_default() }))
}

impl RetrySettings {
    pub fn is_empty(&self) -> bool {
        *self == RetrySettings::default()
    }
}

impl BreakerSettings {
    fn check(&self) -> Result<(), Violation> {
        let max = u32::try_from(BREAKER_TIME_MAX.as_secs()).unwrap_or(u32::MAX);
        let secs = |seconds| u32::try_from(seconds).unwrap_or(u32::MAX);
        within("breaker", "failurePercent", u32::from(self.failure_percent), 1, 100)?;
        within("breaker", "minAttempts", self.min_attempts, 1, BREAKER_ATTEMPTS_MAX)?;
        within("breaker", "windowSeconds", secs(self.window_seconds), 1, max)?;
        within("breaker", "openSeconds", secs(self.open_seconds), 1, max)?;
        within("breaker", "maxOpenSeconds", secs(self.max_open_seconds), 1, max)?;
        if self.max_open_seconds < self.open_seconds {
            return Err(at("breaker").member("maxOpenSeconds").breaks("must not be less than openSeconds"));
        }
        Ok(())
    }

    pub fn window(&self) -> Duration {
        Duration::from_secs(self.window_seconds)
    }
}

impl Default for BreakerSettings {
    fn default() -> BreakerSettings {
        BreakerSettings {
            failure_percent: 50,
            min_attempts: 20,
            window_seconds: 60,
            open_seconds: 30,
            max_open_seconds: 300,
        }
    }
}

impl<T> Switch<T> {
    pub const fn as_ref(&self) -> Switch<&T> {
        match self {
            Switch::Off => Switch::Off,
            Switch::On(value) => Switch::On(value),
        }
    }

    /// Returns the value, or none if the setting is switched off.
    pub fn on(self) -> Option<T> {
        match self {
            Switch::Off => None,
            Switch::On(value) => Some(value),
        }
    }
}

fn check_attempts(retry: &RetrySettings, timeout_seconds: Option<u64>) -> Result<(), Violation> {
    let RetrySettings { backoff, max_attempts, jitter_percent, final_statuses } = retry;
    let place = |field: &'static str| at("retry").member(field);
    if let Some(backoff) = backoff {
        place("backoff").check(backoff.check())?;
    }
    if let Some(attempts) = max_attempts {
        place("maxAttempts").check(RetryPolicy::check_attempts(*attempts))?;
    }
    if jitter_percent.is_some_and(|percent| percent > JITTER_PERCENT_MAX) {
        return Err(place("jitterPercent").breaks(format!("must be at most {JITTER_PERCENT_MAX}")));
    }
    if let Some(statuses) = final_statuses {
        statuses.check().map_err(|violation| violation.under(at("retry")))?;
    }
    let max = SEND_TIMEOUT_MAX.as_secs();
    if timeout_seconds.is_some_and(|seconds| !(1..=max).contains(&seconds)) {
        return Err(at("timeoutSeconds").breaks(format!("must be 1 to {max}")));
    }
    Ok(())
}

fn within(outer: &'static str, field: &'static str, value: u32, min: u32, max: u32) -> Result<(), Violation> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(at(outer).member(field).breaks(format!("must be {min} to {max}")))
}

/// The text of a setting that is switched off.
const NONE: &str = "none";

impl<T: Serialize> Serialize for Switch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Switch::Off => serializer.serialize_str(NONE),
            Switch::On(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Switch<T>, D::Error> {
        deserializer.deserialize_any(SwitchVisitor(PhantomData))
    }
}

/// Chooses by the JSON type, so that errors are about the value and not about the choice.
struct SwitchVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SwitchVisitor<T> {
    type Value = Switch<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"none\" or the value of the setting")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Switch<T>, E> {
        if text == NONE {
            return Ok(Switch::Off);
        }
        let text: StrDeserializer<'_, E> = text.into_deserializer();
        T::deserialize(text).map(Switch::On)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Switch<T>, E> {
        let number: U64Deserializer<E> = number.into_deserializer();
        T::deserialize(number).map(Switch::On)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Switch<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Switch::On)
    }
}

#[cfg(test)]
mod tests;
