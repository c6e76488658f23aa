//! Endpoints with nothing but failures: when the operator is warned, and when the endpoint is disabled.
//!
//! Pure. A node remembers the first failure since a success ([`Memory`]). If failures go on, the endpoint gets a mark
//! ([`Failing`]), which all nodes see. Failures of a marked endpoint lead to the warning and then to the end; a success
//! on any node removes the mark. The warning always comes some time before the end, even after a long pause without
//! attempts. Called by `engine::failing`.

use std::collections::HashMap;
use std::time::Duration;

use crate::endpoint::{Endpoint, EndpointState};
use crate::id::{EndpointId, EnvironmentId};
use crate::limits::RETRY_DELAY_MAX;
use crate::outcome::Class;
use crate::time::Timestamp;

/// The longest time between the warning and the end.
const LEAD_MAX: Duration = Duration::from_secs(24 * 3600);
/// The longest time of failures before an endpoint is marked. Endpoints with occasional failures are never written.
const MARK_AFTER_MAX: Duration = Duration::from_secs(3600);
/// A step that has no effect, because the change failed, is asked for again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Failing endpoints that a node remembers. A full memory is emptied, which only delays the mark.
const MEMORY_MAX: usize = 50_000;

/// The mark of an endpoint that had nothing but failures for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The first failure.
    pub since: Timestamp,
    /// The time at which the operator was warned.
    pub warned_at: Option<Timestamp>,
    /// The time at which the endpoint was disabled for its failures.
    pub disabled_at: Option<Timestamp>,
}

/// The next step for a failing endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Mark,
    Warn,
    Disable,
}

/// A failed attempt of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The first failure without a success in between, as this node knows it.
    pub first: Timestamp,
    pub at: Timestamp,
    /// The time of failures alone after which the endpoint is disabled.
    pub disable_after: Duration,
}

/// Whether an attempt failed because of the receiver or its network. Failures of Everhook's own making do not count.
pub const fn counts(class: Class) -> bool {
    match class {
        Class::Status
        | Class::Throttled
        | Class::Gone
        | Class::Dns
        | Class::Connect
        | Class::Tls
        | Class::Timeout
        | Class::Reset => true,
        Class::Success
        | Class::Blocked
        | Class::Abandoned
        | Class::Interrupted
        | Class::Cancelled
        | Class::Internal
        | Class::Failed
        | Class::Panicked
        | Class::Snoozed => false,
    }
}

impl Failure {
    /// Decides the next step for an endpoint with this mark; none if it is too early.
    pub fn step(self, mark: Option<Failing>) -> Option<Step> {
        let Failure { first, at, disable_after } = self;
        let lead = (disable_after / 2).min(LEAD_MAX);
        match mark {
            None => (at.since(first) >= (disable_after / 10).min(MARK_AFTER_MAX)).then_some(Step::Mark),
            Some(Failing { since, warned_at: None, .. }) => {
                (at.since(since) >= disable_after - lead).then_some(Step::Warn)
            }
            Some(Failing { since, warned_at: Some(warned_at), .. }) => {
                (at.since(since) >= disable_after && at.since(warned_at) >= lead).then_some(Step::Disable)
            }
        }
    }

    /// Returns the endpoint after the next step; none if there is nothing to change.
    pub fn change(self, endpoint: Endpoint) -> Option<Endpoint> {
        if endpoint.state != EndpointState::Enabled {
            return None;
        }
        let Failure { first, at, .. } = self;
        let mark = endpoint.failing.unwrap_or(Failing { since: first, warned_at: None, disabled_at: None });
        Some(match self.step(endpoint.failing)? {
            Step::Mark => Endpoint { failing: Some(mark), ..endpoint },
            Step::Warn => Endpoint { failing: Some(Failing { warned_at: Some(at), ..mark }), ..endpoint },
            Step::Disable => Endpoint {
                state: EndpointState::Gone,
                failing: Some(Failing { disabled_at: Some(at), ..mark }),
                ..endpoint
            },
        })
    }
}

/// Returns the endpoint after a success; none if it has no mark. A late success does not enable it.
pub fn recovered(endpoint: Endpoint) -> Option<Endpoint> {
    let is_marked = endpoint.failing.is_some() && endpoint.state == EndpointState::Enabled;
    is_marked.then_some(Endpoint { failing: None, ..endpoint })
}

/// The failing endpoints that a node has seen.
#[derive(Debug, Default)]
pub struct Memory(HashMap<(EnvironmentId, EndpointId), Seen>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    first: Timestamp,
    last: Timestamp,
    is_marked: bool,
    asked_at: Option<Timestamp>,
}

impl Seen {
    /// Whether the failures go on. A mark that is gone was removed by a success elsewhere, or with another URL. After a
    /// longer time than any retry waits, the endpoint was paused or idle.
    fn goes_on(&self, endpoint: &Endpoint, at: Timestamp) -> bool {
        let is_unmarked = self.is_marked && endpoint.failing.is_none();
        !is_unmarked && at.since(self.last) <= RETRY_DELAY_MAX
    }
}

impl Memory {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a failed attempt. Returns the failure if the next step is due.
    pub fn failed(
        &mut self,
        environment: EnvironmentId,
        endpoint: &Endpoint,
        at: Timestamp,
        disable_after: Duration,
    ) -> Option<Failure> {
        if self.0.len() >= MEMORY_MAX {
            self.0.clear();
        }
        let fresh = Seen { first: at, last: at, is_marked: false, asked_at: None };
        let seen = self.0.entry((environment, endpoint.id)).or_insert(fresh);
        if !seen.goes_on(endpoint, at) {
            *seen = fresh;
        }
        (seen.last, seen.is_marked) = (at, endpoint.failing.is_some());
        let failure = Failure { first: seen.first, at, disable_after };
        failure.step(endpoint.failing)?;
        if seen.asked_at.is_some_and(|asked_at| at.since(asked_at) < ASK_AGAIN) {
            return None;
        }
        seen.asked_at = Some(at);
        Some(failure)
    }

    /// Forgets the failures of an endpoint after a success.
    pub fn succeeded(&mut self, environment: EnvironmentId, endpoint: EndpointId) {
        self.0.remove(&(environment, endpoint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fanout::tests;

    fn endpoint() -> Endpoint {
        tests::endpoint(None, None, None)
    }

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const HOUR: Duration = Duration::from_secs(3600);

    fn after(hours: u32) -> Timestamp {
        Timestamp::from_millis(1_000_000).plus(HOUR * hours)
    }

    /// Lists the steps of an endpoint that fails at these hours.
    fn steps(disable_after: Duration, hours: impl IntoIterator<Item = u32>) -> String {
        let (mut memory, mut endpoint, mut steps) = (Memory::default(), endpoint(), Vec::new());
        for hour in hours {
            let Some(failure) = memory.failed(EnvironmentId(1), &endpoint, after(hour), disable_after) else {
                continue;
            };
            let step = failure.step(endpoint.failing);
            if let Some(changed) = failure.change(endpoint.clone()) {
                endpoint = Endpoint { revision: endpoint.revision + 1, ..changed };
                steps.push(format!("{hour}: {:?}", step.unwrap()));
            }
        }
        steps.join(", ")
    }

    #[test]
    fn an_endpoint_is_marked_warned_about_and_disabled() {
        assert_eq!(steps(5 * DAY, 0..200), "1: Mark, 96: Warn, 120: Disable");
        assert_eq!(steps(10 * HOUR, 0..200), "1: Mark, 5: Warn, 10: Disable");
    }

    #[test]
    fn the_warning_comes_before_the_end_even_after_a_long_pause() {
        assert_eq!(steps(5 * DAY, [0, 2, 400, 401, 423, 424]), "2: Mark, 400: Warn, 424: Disable");
    }

    #[test]
    fn one_failure_changes_nothing() {
        assert_eq!(steps(5 * DAY, [0]), "");
        assert_eq!(steps(5 * DAY, [0, 0, 0]), "");
    }

    #[test]
    fn a_success_starts_anew() {
        let (mut memory, endpoint) = (Memory::default(), endpoint());
        let failed = |memory: &mut Memory, hour| memory.failed(EnvironmentId(1), &endpoint, after(hour), DAY);
        assert_eq!(failed(&mut memory, 0), None);
        memory.succeeded(EnvironmentId(1), endpoint.id);
        assert_eq!(failed(&mut memory, 2), None);
        let failure = Failure { first: after(2), at: after(4), disable_after: DAY };
        // The same second asks only once.
        assert_eq!(failed(&mut memory, 4), Some(failure));
        assert_eq!(failed(&mut memory, 4), None);
        let marked = failure.change(endpoint.clone()).unwrap();
        assert_eq!(recovered(marked).unwrap().failing, None);
        assert_eq!(recovered(endpoint.clone()), None);
    }

    #[test]
    fn an_endpoint_that_lost_its_mark_or_was_idle_starts_anew() {
        let (mut memory, plain) = (Memory::default(), endpoint());
        let failed = |memory: &mut Memory, endpoint: &Endpoint, hour| {
            memory.failed(EnvironmentId(1), endpoint, after(hour), DAY).map(|failure| failure.first)
        };
        assert_eq!(failed(&mut memory, &plain, 0), None);
        let mark = Failing { since: after(0), warned_at: None, disabled_at: None };
        assert_eq!(failed(&mut memory, &Endpoint { failing: Some(mark), ..plain.clone() }, 1), None);
        assert_eq!(failed(&mut memory, &plain, 11), None, "a user has mended it");
        assert_eq!(failed(&mut memory, &plain, 13), Some(after(11)));
        assert_eq!(failed(&mut memory, &plain, 40), None, "longer than a retry waits");
        // A change of its headers, for example, is no success.
        assert_eq!(failed(&mut memory, &Endpoint { revision: 9, ..plain }, 43), Some(after(40)));
    }

    #[test]
    fn a_disabled_endpoint_stays_as_it_is() {
        let failure = Failure { first: after(0), at: after(20), disable_after: DAY };
        let disabled = Endpoint { state: EndpointState::Disabled, ..endpoint() };
        assert_eq!(failure.change(disabled), None);
        let marked = Some(Failing { since: after(0), warned_at: None, disabled_at: None });
        assert_eq!(recovered(Endpoint { state: EndpointState::Gone, failing: marked, ..endpoint() }), None);
    }
}
