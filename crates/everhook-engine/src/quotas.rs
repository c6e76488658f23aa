//! The quotas of environments and applications, as this node knows them, and its meters.
//!
//! Requests for new messages pass [`Quotas::admit`] before they enter the intake. Rows of an outbox, schedules and the
//! server's own messages do not: their work is already accepted. Every node reads changed quotas every few seconds, and
//! uses its share of each rate: the rate divided by the nodes that accept messages. Stored messages are counted in
//! pages, in the background and one quota at a time. If the store does not respond, the known quotas and counts stay in
//! force.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_core::limits::{QUOTAS_READ_MAX, STORED_MESSAGES_PAGE};
use everhook_core::quota::{Quota, QuotaBounds, QuotaKind, QuotaLimits, RateMeter, RateShare, StoredMeter};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::error::StoreError;
use everhook_store::lease::SessionRecord;
use everhook_store::query;
use everhook_store::store::Reads;
use tracing::{debug, warn};

use crate::node::Node;

/// Changes are read again for this time, because a transaction may commit later than its time says.
const OVERLAP: Duration = Duration::from_secs(60);
/// The age at which a count of stored messages is repeated, if messages came since then.
const COUNT_AGE: Duration = Duration::from_secs(30);
/// The pause after each page of a count, as a multiple of the time that the page took.
const COUNT_REST: u32 = 9;
/// The wait that a full store of messages suggests to clients.
const STORED_WAIT: Duration = Duration::from_secs(60);
/// Meters that a node has at a time. Idle ones are removed to make room.
const METERS_MAX: usize = 100_000;

/// The owner of a quota: an environment, or one of its applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Owner {
    environment: EnvironmentId,
    application: Option<ApplicationId>,
}

/// A request that a quota refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverQuota {
    pub kind: QuotaKind,
    /// Whether it is the quota of the environment, not of an application.
    pub is_environment: bool,
    /// The time after which the request may succeed.
    pub wait: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    known: Mutex<Known>,
    /// Most servers have no quota; their messages take no lock.
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    /// Quotas with limits.
    quotas: HashMap<Owner, Quota>,
    /// The latest change that was read.
    read_until: Timestamp,
    /// The nodes that accept messages.
    nodes: u32,
    meters: HashMap<Owner, Meter>,
}

#[derive(Debug, Default)]
struct Meter {
    rate: RateMeter,
    stored: StoredMeter,
    /// The time of the last message that asked for room.
    asked_at: Duration,
    counted_at: Option<Duration>,
}

/// The bounds of an owner.
type Bounded = (Owner, QuotaBounds);

impl Quotas {
    /// Admits messages of one application, or returns the reason against them.
    pub(crate) fn admit(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        messages: usize,
        now: Duration,
    ) -> Result<(), OverQuota> {
        if !self.any.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.lock().admit(environment, application, messages as u64, now)
    }

    /// Returns the limits of an environment, or of an application.
    fn bounds(&self, environment: EnvironmentId, application: Option<ApplicationId>) -> QuotaBounds {
        if !self.any.load(Ordering::Relaxed) {
            return QuotaBounds::default();
        }
        self.lock().bounds(environment, application)
    }

    fn take(&self, changed: Vec<(EnvironmentId, Quota)>) {
        let mut known = self.lock();
        for (environment, quota) in changed {
            known.read_until = known.read_until.max(quota.updated_at);
            let owner = Owner { environment, application: quota.application };
            if quota.limits.is_empty() && quota.each.is_empty() {
                known.quotas.remove(&owner);
                known.meters.remove(&owner);
            } else {
                known.quotas.insert(owner, quota);
            }
        }
        self.any.store(!known.quotas.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("nothing panics while it holds this lock")
    }
}

impl Known {
    fn admit(
        &mut self,
        environment: EnvironmentId,
        application: ApplicationId,
        messages: u64,
        now: Duration,
    ) -> Result<(), OverQuota> {
        let owners = [None, Some(application)].map(|application| Owner { environment, application });
        let bounded = owners.map(|owner| (owner, self.bounds(environment, owner.application)));
        for (owner, bounds) in bounded.iter().filter(|(_, bounds)| !bounds.is_unlimited()) {
            self.make_room(now);
            let nodes = self.nodes.max(1);
            let meter = self.meters.entry(*owner).or_default();
            meter.asked_at = now;
            let refused = |kind, wait| OverQuota { kind, is_environment: owner.application.is_none(), wait };
            if bounds.stored_messages.is_some_and(|max| !meter.stored.has_room(max, messages)) {
                return Err(refused(QuotaKind::StoredMessages, STORED_WAIT));
            }
            let share = bounds.message_rate.map(|rate| RateShare { rate, nodes });
            if let Some(wait) = share.and_then(|share| meter.rate.wait(share, messages, now)) {
                return Err(refused(QuotaKind::MessageRate, wait));
            }
        }
        self.book(&bounded, messages, now);
        Ok(())
    }

    /// Counts messages that all quotas admit.
    fn book(&mut self, bounded: &[Bounded], messages: u64, now: Duration) {
        let nodes = self.nodes.max(1);
        for (owner, bounds) in bounded {
            let Some(meter) = self.meters.get_mut(owner) else { continue };
            meter.stored.add(messages);
            if let Some(rate) = bounds.message_rate {
                meter.rate.book(RateShare { rate, nodes }, messages, now);
            }
        }
    }

    fn bounds(&self, environment: EnvironmentId, application: Option<ApplicationId>) -> QuotaBounds {
        let none = QuotaLimits::default();
        let outer = self.quotas.get(&Owner { environment, application: None });
        let Some(application) = application else {
            return outer.map_or_else(QuotaBounds::default, |quota| quota.limits.bounds(&none));
        };
        let own = self.quotas.get(&Owner { environment, application: Some(application) });
        own.map_or(&none, |quota| &quota.limits).bounds(outer.map_or(&none, |quota| &quota.each))
    }

    /// Removes idle meters if there are too many. Clients choose ids of applications, even of none that exist.
    fn make_room(&mut self, now: Duration) {
        if self.meters.len() >= METERS_MAX {
            self.meters.retain(|owner, meter| owner.application.is_none() || !meter.rate.is_idle(now));
        }
        if self.meters.len() >= METERS_MAX {
            self.meters.retain(|owner, _| owner.application.is_none());
        }
    }

    /// Returns an owner whose stored messages are to be counted, and its limit.
    fn next_count(&mut self, now: Duration) -> Option<(Owner, u64)> {
        let is_due = |meter: &Meter| match meter.counted_at {
            None => true,
            Some(at) => meter.asked_at > at && now.saturating_sub(at) >= COUNT_AGE,
        };
        let due = self.meters.iter().filter(|(_, meter)| is_due(meter));
        let limited = |(owner, _): (&Owner, &Meter)| {
            Some((*owner, self.bounds(owner.environment, owner.application).stored_messages?))
        };
        let (owner, max) = due.filter_map(limited).next()?;
        let meter = self.meters.get_mut(&owner)?;
        meter.counted_at = Some(now);
        meter.stored.begin_count();
        Some((owner, max))
    }
}

impl Node {
    /// Returns the limits of an environment, or of an application.
    pub fn quota(&self, environment: EnvironmentId, application: Option<ApplicationId>) -> QuotaBounds {
        self.quotas.bounds(environment, application)
    }

    /// Counts a request that a quota refused.
    pub fn refused_by(&self, kind: QuotaKind) {
        self.metrics.over_quota(kind);
    }

    /// Reads changed quotas until it is dropped.
    pub(crate) async fn watch_quotas(&self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            if let Err(error) = self.read_quotas().await {
                warn!(error = &error as &dyn std::error::Error, "could not read the quotas");
            }
        }
    }

    pub(crate) async fn read_quotas(&self) -> Result<(), StoreError> {
        let mut since = self.quotas.lock().read_until.minus(OVERLAP);
        loop {
            let changed = self.store.read(query::Quotas { since }).await?;
            let is_full = changed.len() >= QUOTAS_READ_MAX;
            let last = changed.last().map(|(_, quota)| quota.updated_at);
            self.quotas.take(changed);
            match last {
                // The next page begins with the last change of this one.
                Some(last) if is_full && last > since => since = last,
                _ => break,
            }
        }
        if self.quotas.any.load(Ordering::Relaxed) {
            let sessions = self.store.read(query::Sessions { closed_within: Duration::ZERO }).await?;
            let now = self.clock.now();
            let is_live = |session: &&SessionRecord| {
                session.closed_at.is_none() && session.renewed_at.plus(session.lease) > now && session.role.accepts()
            };
            let accepting = sessions.iter().filter(is_live);
            self.quotas.lock().nodes = u32::try_from(accepting.count()).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// Counts stored messages for the quotas that need it, until it is dropped.
    pub(crate) async fn watch_stored(&self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            loop {
                let next = self.quotas.lock().next_count(self.clock.elapsed());
                let Some((owner, max)) = next else { break };
                match self.count_stored(owner, max).await {
                    Ok(counted) => {
                        if let Some(meter) = self.quotas.lock().meters.get_mut(&owner) {
                            meter.stored.end_count(counted);
                        }
                    }
                    // The last count stays in force.
                    Err(error) => debug!(error = &error as &dyn std::error::Error, "could not count stored messages"),
                }
            }
        }
    }

    /// Counts the stored messages of an owner. A count beyond `max` ends early.
    async fn count_stored(&self, Owner { environment, application }: Owner, max: u64) -> Result<u64, StoreError> {
        let (scope, limit) = (Scope::of(environment), STORED_MESSAGES_PAGE);
        let (mut messages, mut after) = (0, None);
        loop {
            let begun = self.clock.elapsed();
            let page = self.store.read(query::CountMessages { scope, application, after, limit }).await?;
            messages += page.messages;
            if page.next.is_none() || messages > max {
                return Ok(messages);
            }
            after = page.next;
            tokio::time::sleep(self.clock.elapsed().saturating_sub(begun) * COUNT_REST).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use everhook_core::id::Id;
    use everhook_core::policy::Switch;
    use everhook_core::quota::MessageRate;

    use super::*;

    const ENVIRONMENT: EnvironmentId = EnvironmentId(1);

    fn application(number: u8) -> ApplicationId {
        ApplicationId(Id::derived(&[&[number]]))
    }

    fn rate(count: u32) -> QuotaLimits {
        let rate = MessageRate { count, seconds: 1, burst: None };
        QuotaLimits { message_rate: Some(Switch::On(rate)), ..QuotaLimits::default() }
    }

    fn quotas(all: impl IntoIterator<Item = Quota>) -> Quotas {
        let quotas = Quotas::default();
        quotas.take(all.into_iter().map(|quota| (ENVIRONMENT, quota)).collect());
        quotas
    }

    /// Sends messages of an application until one is refused, and returns their number and the refusing level.
    fn fill(quotas: &Quotas, of: ApplicationId) -> (u32, bool) {
        for accepted in 0..1000 {
            if let Err(refused) = quotas.admit(ENVIRONMENT, of, 1, Duration::ZERO) {
                return (accepted, refused.is_environment);
            }
        }
        panic!("nothing is refused");
    }

    #[test]
    fn the_environment_and_the_application_both_bound_the_rate() {
        let one = Quota { limits: rate(3), ..Quota::none(Some(application(1))) };
        let quotas = quotas([Quota { limits: rate(10), each: rate(5), ..Quota::none(None) }, one]);
        assert_eq!(fill(&quotas, application(1)), (3, false), "its own quota");
        assert_eq!(fill(&quotas, application(2)), (5, false), "the default of each");
        assert_eq!(fill(&quotas, application(3)), (2, true), "the rest of the environment");
        assert_eq!(quotas.admit(EnvironmentId(2), application(1), 1000, Duration::ZERO), Ok(()));
    }

    #[test]
    fn a_refused_request_uses_up_nothing() {
        let quotas = quotas([Quota { limits: rate(10), each: rate(4), ..Quota::none(None) }]);
        assert_eq!(fill(&quotas, application(1)).0, 4);
        for _ in 0..20 {
            assert!(quotas.admit(ENVIRONMENT, application(1), 1, Duration::ZERO).is_err());
        }
        assert_eq!(fill(&quotas, application(2)).0, 4);
    }

    #[test]
    fn a_removed_quota_bounds_nothing() {
        let quotas = quotas([Quota { limits: rate(1), ..Quota::none(None) }]);
        assert_eq!(fill(&quotas, application(1)).0, 1);
        quotas.take(vec![(ENVIRONMENT, Quota::none(None))]);
        assert_eq!(quotas.admit(ENVIRONMENT, application(1), 1000, Duration::ZERO), Ok(()));
        assert!(!quotas.any.load(Ordering::Relaxed));
    }

    #[test]
    fn stored_messages_are_counted_for_active_owners_only_and_refused_when_full() {
        let stored = QuotaLimits { stored_messages: Some(Switch::On(5)), ..QuotaLimits::default() };
        let quotas = quotas([Quota { each: stored, ..Quota::none(None) }]);
        assert_eq!(quotas.lock().next_count(Duration::ZERO), None);
        quotas.admit(ENVIRONMENT, application(1), 1, Duration::ZERO).unwrap();
        let owner = Owner { environment: ENVIRONMENT, application: Some(application(1)) };
        assert_eq!(quotas.lock().next_count(Duration::ZERO), Some((owner, 5)));
        quotas.lock().meters.get_mut(&owner).unwrap().stored.end_count(4);
        assert_eq!(quotas.admit(ENVIRONMENT, application(1), 1, Duration::from_secs(1)), Ok(()));
        let refused = OverQuota { kind: QuotaKind::StoredMessages, is_environment: false, wait: STORED_WAIT };
        assert_eq!(quotas.admit(ENVIRONMENT, application(1), 1, Duration::from_secs(2)), Err(refused));
        assert_eq!(quotas.lock().next_count(Duration::from_secs(3)), None, "the count is fresh");
        assert_eq!(quotas.lock().next_count(COUNT_AGE), Some((owner, 5)));
    }

    #[test]
    fn meters_of_unknown_applications_do_not_pile_up() {
        let quotas = quotas([Quota { each: rate(1000), ..Quota::none(None) }]);
        for number in 0..u32::try_from(METERS_MAX).unwrap() + 10 {
            let id = ApplicationId(Id::derived(&[&number.to_be_bytes()]));
            quotas.admit(ENVIRONMENT, id, 1, Duration::from_secs(u64::from(number))).unwrap();
        }
        assert!(quotas.lock().meters.len() <= METERS_MAX);
    }
}
