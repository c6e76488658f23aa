//! The effective policy of an endpoint: each setting with its origin.
//!
//! The most specific level with a value decides, setting by setting: the endpoint, its application, the environment,
//! the server. Within a level, the settings of the message's event type come first. Some settings collect instead: the
//! lowest retry budget applies, a pause of any level, and the wish of any level not to keep replies.

use std::time::Duration;

use crate::limits::DISABLE_AFTER_DEFAULT;
use crate::name::Name;
use crate::policy::legacy::LegacySignature;
use crate::policy::limit::LaneLimits;
use crate::policy::order::KeyRule;
use crate::policy::statuses::FinalStatuses;
use crate::policy::{BreakerSettings, OnDead, Ordering, RateLimit, RetrySettings, Settings, Switch, WhileDisabled};
use crate::retry::{Backoff, RetryPolicy};

/// The settings that apply to one endpoint, from the most specific level to the most general one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Levels<'a> {
    pub endpoint: Option<&'a Settings>,
    pub application: Option<&'a Settings>,
    pub environment: Option<&'a Settings>,
}

/// The values that apply where no level has a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDefaults {
    pub retry: RetryPolicy,
    pub timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Endpoint,
    Application,
    Environment,
    /// The configuration of the server, or a built-in value.
    Server,
}

/// The place of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub level: Level,
    /// Whether the level has the setting for the event type alone.
    pub for_type: bool,
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Sourced<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced { value: change(self.value), origin: self.origin }
    }
}

/// Every setting of an endpoint, for one event type or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    pub backoff: Sourced<Backoff>,
    pub max_attempts: Sourced<u32>,
    pub jitter_percent: Sourced<u8>,
    pub final_statuses: Sourced<FinalStatuses>,
    pub retry_budget: Sourced<Option<u32>>,
    pub timeout: Sourced<Duration>,
    pub rate: Sourced<Option<RateLimit>>,
    pub concurrency: Sourced<Option<u32>>,
    pub breaker: Sourced<Option<BreakerSettings>>,
    pub disable_after: Sourced<Option<Duration>>,
    pub paused: Sourced<bool>,
    pub while_disabled: Sourced<WhileDisabled>,
    pub ordering: Sourced<Option<Ordering>>,
    pub on_dead: Sourced<OnDead>,
    pub legacy_signature: Sourced<Option<LegacySignature>>,
    pub keep_replies: Sourced<bool>,
}

/// The settings that attempts need, for one event type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptPolicy {
    pub retry: RetryPolicy,
    pub final_statuses: FinalStatuses,
    /// The time for the receiver to answer; none for the server's time.
    pub timeout: Option<Duration>,
    pub legacy_signature: Option<LegacySignature>,
    pub keep_replies: bool,
}

impl AttemptPolicy {
    /// The policy of endpoints without settings.
    pub fn plain(retry: RetryPolicy) -> AttemptPolicy {
        AttemptPolicy {
            retry,
            final_statuses: FinalStatuses::default(),
            timeout: None,
            legacy_signature: None,
            keep_replies: true,
        }
    }
}

impl<'a> Levels<'a> {
    /// Whether no level has settings, so that the server's defaults apply.
    pub fn is_empty(self) -> bool {
        self.endpoint.is_none() && self.application.is_none() && self.environment.is_none()
    }

    pub fn effective(self, event_type: Option<&Name>, server: &ServerDefaults) -> Effective {
        let pick = Pick { levels: self, event_type };
        let (backoff, max_attempts) = pick.retry(&server.retry);
        let of_type = |retry: fn(&'a RetrySettings) -> Option<u8>| pick.retry_member(retry);
        Effective {
            backoff,
            max_attempts,
            jitter_percent: of_type(|retry| retry.jitter_percent).or(server.retry.jitter_percent()),
            final_statuses: pick
                .retry_member(|retry| retry.final_statuses.as_ref())
                .map(Clone::clone)
                .or(FinalStatuses::default()),
            retry_budget: pick.budget(),
            timeout: pick.timeout().map(Duration::from_secs).or(server.timeout),
            rate: pick.switch(|settings| settings.rate).or(None),
            concurrency: pick.switch(|settings| settings.concurrency).or(None),
            breaker: pick.switch(|settings| settings.breaker).or(None),
            disable_after: pick.disable_after(),
            paused: pick.member(|settings| settings.paused.filter(|paused| *paused)).or(false),
            while_disabled: pick.member(|settings| settings.while_disabled).or(WhileDisabled::default()),
            ordering: pick.switch(|settings| settings.ordering.clone()).or(None),
            on_dead: pick.member(|settings| settings.on_dead).or(OnDead::default()),
            legacy_signature: pick.switch(|settings| settings.legacy_signature.clone()).or(None),
            keep_replies: pick.keep_replies(),
        }
    }

    /// Resolves the limits of the endpoint's lane.
    pub fn limits(self) -> LaneLimits {
        let pick = Pick { levels: self, event_type: None };
        LaneLimits {
            rate: pick.switch(|settings| settings.rate).or(None).value,
            concurrency: pick.switch(|settings| settings.concurrency).or(None).value,
            order: pick.ordering().filter(|ordering| **ordering == Ordering::Endpoint).map(|_| pick.on_dead()),
            is_keyed: matches!(pick.ordering(), Some(Ordering::Key(_))),
            breaker: pick.switch(|settings| settings.breaker).or(None).value,
            recovering: None,
        }
    }

    /// Resolves the order by a key of the payload.
    pub fn key_rule(self) -> Option<KeyRule<'a>> {
        let pick = Pick { levels: self, event_type: None };
        match pick.ordering()? {
            Ordering::Key(pointer) => Some(KeyRule { pointer, on_dead: pick.on_dead() }),
            Ordering::Endpoint => None,
        }
    }

    /// Returns the time of failures alone after which the endpoint is disabled; none for never.
    pub fn disable_after(self) -> Option<Duration> {
        Pick { levels: self, event_type: None }.disable_after().value
    }

    /// Resolves the settings that attempts need.
    pub fn attempt_policy(self, event_type: &Name, server: &RetryPolicy) -> AttemptPolicy {
        let pick = Pick { levels: self, event_type: Some(event_type) };
        let (backoff, max_attempts) = pick.retry(server);
        let jitter = pick.retry_member(|retry| retry.jitter_percent).or(server.jitter_percent()).value;
        // Each level was checked when it was set. A combination that cannot be falls back to the server's policy.
        let retry = RetryPolicy::with(backoff.value, max_attempts.value).unwrap_or_else(|_| server.clone());
        let retry = retry.with_jitter(jitter);
        let statuses = pick.retry_member(|retry| retry.final_statuses.as_ref());
        AttemptPolicy {
            retry: match pick.budget().value {
                Some(budget) => retry.limited_to(budget.saturating_add(1)),
                None => retry,
            },
            final_statuses: statuses.0.map(|found| found.value.clone()).unwrap_or_default(),
            timeout: pick.timeout().0.map(|found| Duration::from_secs(found.value)),
            legacy_signature: pick.switch(|settings| settings.legacy_signature.clone()).or(None).value,
            keep_replies: pick.keep_replies().value,
        }
    }
}

/// Looks settings up, from the most specific place to the most general one.
#[derive(Clone, Copy)]
struct Pick<'a, 'n> {
    levels: Levels<'a>,
    event_type: Option<&'n Name>,
}

/// A setting that a level may have.
struct Found<T>(Option<Sourced<T>>);

impl<T> Found<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        Found(self.0.map(|sourced| sourced.map(change)))
    }

    fn or(self, server: T) -> Sourced<T> {
        self.0.unwrap_or(Sourced { value: server, origin: Origin { level: Level::Server, for_type: false } })
    }
}

impl<'a> Pick<'a, '_> {
    fn levels(self) -> impl Iterator<Item = (Level, &'a Settings)> {
        let Levels { endpoint, application, environment } = self.levels;
        [(Level::Endpoint, endpoint), (Level::Application, application), (Level::Environment, environment)]
            .into_iter()
            .filter_map(|(level, settings)| Some((level, settings?)))
    }

    /// Returns the first value that `of` finds.
    fn member<T>(self, of: impl Fn(&'a Settings) -> Option<T>) -> Found<T> {
        let found = |(level, settings)| of(settings).map(|value| (value, level));
        Found(self.levels().find_map(found).map(|(value, level)| {
            let origin = Origin { level, for_type: false };
            Sourced { value, origin }
        }))
    }

    fn switch<T>(self, of: impl Fn(&'a Settings) -> Option<Switch<T>>) -> Found<Option<T>> {
        self.member(of).map(Switch::on)
    }

    /// The places that may have a setting of attempts: within each level, the event type first.
    fn places(self) -> impl Iterator<Item = (Origin, &'a RetrySettings, Option<u64>)> {
        self.levels().flat_map(move |(level, settings)| {
            let own = self.event_type.and_then(|name| settings.event_types.get(name));
            let own = own.map(|own| (Origin { level, for_type: true }, &own.retry, own.timeout_seconds));
            let all = (Origin { level, for_type: false }, &settings.retry, settings.timeout_seconds);
            own.into_iter().chain([all])
        })
    }

    fn ordering(self) -> Option<&'a Ordering> {
        self.switch(|settings| settings.ordering.as_ref().map(Switch::as_ref)).or(None).value
    }

    fn on_dead(self) -> OnDead {
        self.member(|settings| settings.on_dead).or(OnDead::default()).value
    }

    fn retry_member<T>(self, of: impl Fn(&'a RetrySettings) -> Option<T>) -> Found<T> {
        let found = |(origin, retry, _)| of(retry).map(|value| Sourced { value, origin });
        Found(self.places().find_map(found))
    }

    fn timeout(self) -> Found<u64> {
        Found(self.places().find_map(|(origin, _, timeout)| timeout.map(|value| Sourced { value, origin })))
    }

    /// Returns the back-off and the number of attempts. A place that sets a back-off also sets the number, so that a
    /// list of two delays means three attempts, whatever outer levels say.
    fn retry(self, server: &RetryPolicy) -> (Sourced<Backoff>, Sourced<u32>) {
        let backoff = self.retry_member(|retry| retry.backoff.clone());
        let attempts =
            self.retry_member(|retry| retry.max_attempts.or_else(|| retry.backoff.as_ref().map(Backoff::attempts)));
        let backoff = backoff.or(server.backoff().clone());
        // Only a server can be configured without delays. A number of attempts cannot add retries then.
        let has_none = matches!(&backoff.value, Backoff::List(delays) if delays.is_empty());
        let attempts = if has_none { Found(None).or(1) } else { attempts.or(server.attempts_max()) };
        (backoff, attempts)
    }

    /// An inner level cannot store replies that an outer level excludes.
    fn keep_replies(self) -> Sourced<bool> {
        let refused = self.member(|settings| settings.keep_replies.filter(|keep| !keep));
        Found(refused.0.or_else(|| self.member(|settings| settings.keep_replies).0)).or(true)
    }

    fn disable_after(self) -> Sourced<Option<Duration>> {
        let seconds = self.switch(|settings| settings.disable_after_seconds);
        seconds.map(|after| after.map(Duration::from_secs)).or(Some(DISABLE_AFTER_DEFAULT))
    }

    fn budget(self) -> Sourced<Option<u32>> {
        let budgets = self.levels().filter_map(|(level, settings)| Some((settings.retry_budget?, level)));
        let lowest = budgets.min_by_key(|(budget, _)| *budget);
        let sourced = |(value, level)| Sourced { value: Some(value), origin: Origin { level, for_type: false } };
        Found(lowest.map(sourced)).or(None)
    }
}
