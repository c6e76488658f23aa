//! Failure groups: the dead deliveries to one endpoint that failed in the same way, and the notes of operators about
//! them.
//!
//! Pure. A group exists as long as it has dead deliveries; the stores find them on request. Only the mark of an
//! operator is stored.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::id::EndpointId;
use crate::name::named_as;
use crate::task::stored_as;
use crate::time::Timestamp;
use crate::traffic::FailureClass;

/// The key of a group: `ep_….timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    pub endpoint: EndpointId,
    pub class: FailureClass,
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.endpoint, self.class)
    }
}

/// Error of a text that names no group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an endpoint id and a class of failures, such as ep_….timeout")]
pub struct BadGroupKey;

impl FromStr for GroupKey {
    type Err = BadGroupKey;

    fn from_str(text: &str) -> Result<GroupKey, BadGroupKey> {
        let (endpoint, class) = text.split_once('.').ok_or(BadGroupKey)?;
        let endpoint = endpoint.parse().map_err(|_| BadGroupKey)?;
        Ok(GroupKey { endpoint, class: class.parse().map_err(|_| BadGroupKey)? })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// No operator has marked it, or a delivery died after it was resolved.
    Open,
    /// An operator knows about it. Further dead deliveries do not change that.
    Acknowledged,
    /// The cause is gone. The dead deliveries may remain.
    Resolved,
}

stored_as!(GroupState { Open = 0, Acknowledged = 1, Resolved = 2 });
named_as!(GroupState, BadGroupState { Open = "open", Acknowledged = "acknowledged", Resolved = "resolved" });

/// Error of a text that names no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be open, acknowledged or resolved")]
pub struct BadGroupState;

/// The latest word of an operator about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureMark {
    pub state: GroupState,
    pub note: String,
    pub at: Timestamp,
}

/// The dead deliveries of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureGroup {
    pub key: GroupKey,
    pub dead: u64,
    pub first_died_at: Timestamp,
    pub last_died_at: Timestamp,
    /// The deaths by hour since the Unix epoch.
    pub hours: BTreeMap<i64, u64>,
    pub mark: Option<FailureMark>,
}

/// The hour of a time, counted from the Unix epoch.
pub const fn hour_of(at: Timestamp) -> i64 {
    at.as_secs().div_euclid(3600)
}

impl FailureGroup {
    /// A resolved group is open again after another delivery has died.
    pub fn state(&self) -> GroupState {
        match &self.mark {
            None => GroupState::Open,
            Some(mark) if mark.state == GroupState::Resolved && self.last_died_at > mark.at => GroupState::Open,
            Some(mark) => mark.state,
        }
    }

    /// The deaths in each of the last 24 hours, oldest first. The last hour is the current one.
    pub fn last_day(&self, now: Timestamp) -> [u64; 24] {
        let mut hour = hour_of(now) - 24;
        [(); 24].map(|()| {
            hour += 1;
            self.hours.get(&hour).copied().unwrap_or_default()
        })
    }

    /// Adds the dead deliveries of another hour, or of another status of the same class.
    pub fn merge(&mut self, other: &FailureGroup) {
        self.dead += other.dead;
        self.first_died_at = self.first_died_at.min(other.first_died_at);
        self.last_died_at = self.last_died_at.max(other.last_died_at);
        for (hour, dead) in &other.hours {
            *self.hours.entry(*hour).or_default() += dead;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    const KEY: GroupKey = GroupKey { endpoint: EndpointId(Id::MIN), class: FailureClass::Timeout };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_millis(secs * 1000)
    }

    fn died(secs: i64, dead: u64) -> FailureGroup {
        let hours = [(hour_of(at(secs)), dead)].into();
        FailureGroup { key: KEY, dead, first_died_at: at(secs), last_died_at: at(secs), hours, mark: None }
    }

    #[test]
    fn deaths_are_counted_by_hour() {
        let mut group = died(3600, 2);
        for (secs, dead) in [(7199, 1), (7200, 4), (86_400, 1)] {
            group.merge(&died(secs, dead));
        }
        assert_eq!(group.dead, 8);
        let day = group.last_day(at(90_000));
        assert_eq!((day[0], day[22], day[23]), (4, 1, 0), "{day:?}");
        assert_eq!(day.iter().sum::<u64>(), 5, "older deaths are left out");
    }

    #[track_caller]
    fn check(mark: Option<GroupState>, want: GroupState) {
        let mark = mark.map(|state| FailureMark { state, note: String::new(), at: at(100) });
        let group = |last| FailureGroup { last_died_at: at(last), mark: mark.clone(), ..died(1, 1) };
        assert_eq!(group(50).state(), mark.as_ref().map_or(GroupState::Open, |mark| mark.state), "nothing died since");
        assert_eq!(group(150).state(), want, "a delivery died since");
    }

    #[test]
    fn a_resolved_group_opens_again_and_an_acknowledged_one_does_not() {
        check(None, GroupState::Open);
        check(Some(GroupState::Open), GroupState::Open);
        check(Some(GroupState::Acknowledged), GroupState::Acknowledged);
        check(Some(GroupState::Resolved), GroupState::Open);
    }

    #[test]
    fn keys_and_states_are_read_by_their_names() {
        for class in FailureClass::ALL {
            let key = GroupKey { class, ..KEY };
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        assert_eq!("ep_1.timeout".parse::<GroupKey>(), Err(BadGroupKey));
        assert_eq!(KEY.to_string().replace("timeout", "late").parse::<GroupKey>(), Err(BadGroupKey));
        assert_eq!("resolved".parse(), Ok(GroupState::Resolved));
        assert_eq!("closed".parse::<GroupState>(), Err(BadGroupState));
    }
}
