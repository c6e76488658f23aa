//! Quotas: how much an environment and each of its applications may use.
//!
//! Pure. A quota bounds endpoints, the rate of accepted messages and stored messages. The quota of an environment
//! bounds its applications together, and contains defaults for each of them; an application may have a quota of its
//! own. [`RateMeter`] and [`StoredMeter`] decide for one node; `engine::quotas` owns them and calls them before a
//! message is appended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{ApplicationId, Id};
use crate::limits::{ENDPOINTS_QUOTA_MAX, RATE_COUNT_MAX, RATE_SECONDS_MAX, STORED_MESSAGES_QUOTA_MAX};
use crate::policy::Switch;
use crate::resource::environment_quota_id;
use crate::time::Timestamp;
use crate::violation::{Violation, at};

/// The limits of an environment or an application; every member is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Switch<u32>>,
    /// Messages that are accepted in a period, over all replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_rate: Option<Switch<MessageRate>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_messages: Option<Switch<u64>>,
}

/// `count` messages in each period of `seconds`, and up to `burst` of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRate {
    pub count: u32,
    pub seconds: u32,
    /// Default: `count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// The quota of an environment, or of one of its applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// None for the environment.
    pub application: Option<ApplicationId>,
    pub limits: QuotaLimits,
    /// Defaults for each application of the environment. Empty in the quota of an application.
    pub each: QuotaLimits,
    pub updated_at: Timestamp,
    /// Raised by every change; 0 without a quota.
    pub revision: i64,
}

/// The limits in force, after defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaBounds {
    pub endpoints: Option<u32>,
    pub message_rate: Option<MessageRate>,
    pub stored_messages: Option<u64>,
}

/// A limit that a request can exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    Endpoints,
    MessageRate,
    StoredMessages,
}

impl QuotaKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            QuotaKind::Endpoints => "endpoints",
            QuotaKind::MessageRate => "message_rate",
            QuotaKind::StoredMessages => "stored_messages",
        }
    }
}

impl Quota {
    /// The quota of an environment or application that has none.
    pub fn none(application: Option<ApplicationId>) -> Quota {
        Quota { application, ..Quota::default() }
    }

    /// The id of its resource. The ids of applications never equal the id of the environment's quota.
    pub fn id(application: Option<ApplicationId>) -> Id {
        application.map_or_else(environment_quota_id, |application| application.0)
    }

    /// The application of the resource with this id.
    pub fn application_of(id: Id) -> Option<ApplicationId> {
        (id != environment_quota_id()).then_some(ApplicationId(id))
    }
}

impl QuotaLimits {
    pub fn is_empty(&self) -> bool {
        *self == QuotaLimits::default()
    }

    /// Checks all values; the violation names the field.
    pub fn check(&self) -> Result<(), Violation> {
        if let Some(Switch::On(endpoints)) = self.endpoints
            && endpoints > ENDPOINTS_QUOTA_MAX
        {
            return Err(at("endpoints").breaks(format!("must be at most {ENDPOINTS_QUOTA_MAX}, or \"none\"")));
        }
        if let Some(Switch::On(stored)) = self.stored_messages
            && stored > STORED_MESSAGES_QUOTA_MAX
        {
            let rule = format!("must be at most {STORED_MESSAGES_QUOTA_MAX}, or \"none\"");
            return Err(at("storedMessages").breaks(rule));
        }
        let Some(Switch::On(rate)) = self.message_rate else { return Ok(()) };
        let fields = [
            ("count", Some(rate.count), RATE_COUNT_MAX),
            ("seconds", Some(rate.seconds), RATE_SECONDS_MAX),
            ("burst", rate.burst, RATE_COUNT_MAX),
        ];
        for (field, value, max) in fields {
            if value.is_some_and(|value| !(1..=max).contains(&value)) {
                return Err(at("messageRate").member(field).breaks(format!("must be 1 to {max}")));
            }
        }
        Ok(())
    }

    /// Returns the limits in force. A member that is absent comes from `outer`.
    pub fn bounds(&self, outer: &QuotaLimits) -> QuotaBounds {
        QuotaBounds {
            endpoints: self.endpoints.or(outer.endpoints).and_then(Switch::on),
            message_rate: self.message_rate.or(outer.message_rate).and_then(Switch::on),
            stored_messages: self.stored_messages.or(outer.stored_messages).and_then(Switch::on),
        }
    }
}

impl QuotaBounds {
    pub fn is_unlimited(&self) -> bool {
        *self == QuotaBounds::default()
    }
}

/// The part of a rate that one of several nodes may use.
#[derive(Clone, Copy, Debug)]
pub struct RateShare {
    pub rate: MessageRate,
    /// The nodes that accept messages; at least 1.
    pub nodes: u32,
}

impl RateShare {
    /// The messages that may come at once.
    fn burst(self) -> u64 {
        u64::from((self.rate.burst.unwrap_or(self.rate.count) / self.nodes.max(1)).max(1))
    }

    /// The time that messages use of the rate.
    fn cost(self, messages: u64) -> Duration {
        let period = u128::from(self.rate.seconds) * 1_000_000_000 * u128::from(self.nodes.max(1));
        let nanos = u128::from(messages) * period / u128::from(self.rate.count.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Counts messages against a rate. Times are those of the node's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateMeter {
    /// The rate is used up until this time. A burst reaches into the future.
    booked: Duration,
}

impl RateMeter {
    /// Returns the time until `messages` may be accepted; none if they may be accepted now. More messages than a burst
    /// are accepted together when the burst is unused, and the next ones wait for longer.
    pub fn wait(&self, share: RateShare, messages: u64, now: Duration) -> Option<Duration> {
        let needed = share.cost(messages.min(share.burst()));
        let end = self.booked.max(now).saturating_add(needed);
        let wait = end.saturating_sub(now.saturating_add(share.cost(share.burst())));
        (!wait.is_zero()).then_some(wait)
    }

    pub fn book(&mut self, share: RateShare, messages: u64, now: Duration) {
        self.booked = self.booked.max(now).saturating_add(share.cost(messages));
    }

    /// Whether the whole burst is unused, so that a new meter would decide the same.
    pub fn is_idle(&self, now: Duration) -> bool {
        self.booked <= now
    }
}

/// Counts stored messages: those found by the last count, and those that this node has accepted since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredMeter {
    counted: Option<u64>,
    /// Accepted since the last finished count began.
    added: u64,
    /// Accepted since the running count began.
    added_meanwhile: u64,
}

impl StoredMeter {
    /// Whether `messages` more fit. Without a count, they do.
    pub fn has_room(&self, max: u64, messages: u64) -> bool {
        self.counted.is_none_or(|counted| counted.saturating_add(self.added).saturating_add(messages) <= max)
    }

    pub fn add(&mut self, messages: u64) {
        self.added = self.added.saturating_add(messages);
        self.added_meanwhile = self.added_meanwhile.saturating_add(messages);
    }

    pub fn begin_count(&mut self) {
        self.added_meanwhile = 0;
    }

    /// Takes the result of a count. Messages accepted while it ran may be in it; they are added, so that the quota is
    /// not exceeded.
    pub fn end_count(&mut self, counted: u64) {
        self.counted = Some(counted);
        self.added = self.added_meanwhile;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn share(count: u32, seconds: u32, burst: Option<u32>, nodes: u32) -> RateShare {
        RateShare { rate: MessageRate { count, seconds, burst }, nodes }
    }

    /// Sends one message after the other at `now`, and returns how many are accepted.
    fn accepted(meter: &mut RateMeter, share: RateShare, now: Duration) -> u32 {
        let mut accepted = 0;
        while accepted < 1000 && meter.wait(share, 1, now).is_none() {
            meter.book(share, 1, now);
            accepted += 1;
        }
        accepted
    }

    #[test]
    fn a_rate_allows_its_burst_and_then_its_pace() {
        let (ten, mut meter) = (share(10, 1, None, 1), RateMeter::default());
        assert_eq!(accepted(&mut meter, ten, ms(5000)), 10);
        assert_eq!(meter.wait(ten, 1, ms(5000)), Some(ms(100)));
        assert_eq!(accepted(&mut meter, ten, ms(5250)), 2);
        assert_eq!(meter.wait(ten, 1, ms(5250)), Some(ms(50)));
        assert!(!meter.is_idle(ms(5999)) && meter.is_idle(ms(6200)));
        assert_eq!(accepted(&mut meter, ten, ms(60_000)), 10, "time that was not used is not saved up");
    }

    #[test]
    fn a_burst_of_its_own_is_larger_or_smaller_than_the_rate() {
        assert_eq!(accepted(&mut RateMeter::default(), share(10, 1, Some(25), 1), ms(0)), 25);
        assert_eq!(accepted(&mut RateMeter::default(), share(10, 1, Some(1), 1), ms(0)), 1);
        assert_eq!(accepted(&mut RateMeter::default(), share(2, 60, None, 1), ms(0)), 2);
    }

    #[test]
    fn nodes_share_a_rate() {
        let (third, mut meter) = (share(30, 1, None, 3), RateMeter::default());
        assert_eq!(accepted(&mut meter, third, ms(0)), 10);
        assert_eq!(accepted(&mut meter, third, ms(1000)), 10);
        assert_eq!(accepted(&mut RateMeter::default(), share(1, 1, None, 3), ms(0)), 1, "never none at all");
    }

    #[test]
    fn a_batch_larger_than_the_burst_is_accepted_when_the_burst_is_unused_and_paid_for_afterwards() {
        let (ten, mut meter) = (share(10, 1, None, 1), RateMeter::default());
        assert_eq!(meter.wait(ten, 30, ms(0)), None);
        meter.book(ten, 30, ms(0));
        assert_eq!(meter.wait(ten, 1, ms(0)), Some(ms(2100)));
        assert_eq!(meter.wait(ten, 30, ms(2100)), Some(ms(900)));
        assert_eq!(meter.wait(ten, 30, ms(3000)), None);
    }

    #[test]
    fn stored_messages_are_those_of_the_last_count_and_those_since() {
        let mut meter = StoredMeter::default();
        assert!(meter.has_room(1, 1000), "not counted yet");
        meter.begin_count();
        meter.add(2);
        meter.end_count(7);
        assert!(meter.has_room(10, 1) && !meter.has_room(10, 2));
        meter.add(1);
        assert!(!meter.has_room(10, 1));
        meter.begin_count();
        meter.end_count(3);
        assert!(meter.has_room(10, 7) && !meter.has_room(10, 8), "messages that were pruned make room");
    }

    #[test]
    fn an_application_inherits_the_limits_that_it_does_not_set() {
        let each = QuotaLimits {
            endpoints: Some(Switch::On(5)),
            message_rate: Some(Switch::On(MessageRate { count: 1, seconds: 1, burst: None })),
            stored_messages: None,
        };
        let own = QuotaLimits { endpoints: Some(Switch::On(9)), message_rate: Some(Switch::Off), ..Default::default() };
        let want = QuotaBounds { endpoints: Some(9), message_rate: None, stored_messages: None };
        assert_eq!(own.bounds(&each), want);
        assert!(QuotaLimits::default().bounds(&QuotaLimits::default()).is_unlimited());
    }

    #[test]
    fn bad_limits_are_refused_by_field() {
        let rate = |count, seconds, burst| QuotaLimits {
            message_rate: Some(Switch::On(MessageRate { count, seconds, burst })),
            ..QuotaLimits::default()
        };
        let text = |limits: QuotaLimits| limits.check().map_err(|violation| violation.path.join("."));
        assert_eq!(text(rate(0, 1, None)), Err("messageRate.count".to_owned()));
        assert_eq!(text(rate(1, 0, None)), Err("messageRate.seconds".to_owned()));
        assert_eq!(text(rate(1, 1, Some(0))), Err("messageRate.burst".to_owned()));
        assert_eq!(text(rate(1, 1, Some(1))), Ok(()));
        let endpoints = Some(Switch::On(ENDPOINTS_QUOTA_MAX + 1));
        assert_eq!(text(QuotaLimits { endpoints, ..Default::default() }), Err("endpoints".to_owned()));
        let stored_messages = Some(Switch::On(STORED_MESSAGES_QUOTA_MAX + 1));
        assert_eq!(text(QuotaLimits { stored_messages, ..Default::default() }), Err("storedMessages".to_owned()));
    }

    #[test]
    fn the_id_of_a_quota_names_its_owner() {
        let application = ApplicationId(Id::derived(&[b"an application"]));
        assert_eq!(Quota::application_of(Quota::id(Some(application))), Some(application));
        assert_eq!(Quota::application_of(Quota::id(None)), None);
    }
}
