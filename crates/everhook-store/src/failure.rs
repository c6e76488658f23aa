//! Failure groups as the stores read them: dead deliveries counted by the end of their last attempts, and the marks of
//! operators.

use std::collections::BTreeMap;

use everhook_core::failure_group::{FailureGroup, FailureMark, GroupKey, GroupState, hour_of};
use everhook_core::id::{EndpointId, EnvironmentId};
use everhook_core::outcome::Class;
use everhook_core::time::Timestamp;
use everhook_core::traffic::FailureClass;

use crate::sql::param::StoreClock;
use crate::sql::shared::PutFailureMark;

/// Dead deliveries of an endpoint with the same class, status and hour of death: their number, and the times of the
/// first and the last death.
pub type DeadCount = (EndpointId, Class, u16, u64, Timestamp, Timestamp);
/// A stored mark: endpoint, class, state, note and time.
pub type MarkRow = (EndpointId, String, GroupState, String, Timestamp);

/// The state of a failure group as an operator notes it.
#[derive(Clone, Debug)]
pub struct FailureNote {
    pub key: GroupKey,
    pub state: GroupState,
    pub note: String,
}

impl FailureNote {
    pub fn put(&self, environment: EnvironmentId, now: StoreClock) -> PutFailureMark<'_> {
        let FailureNote { key: GroupKey { endpoint, class }, state, note } = self;
        PutFailureMark { environment, endpoint: *endpoint, class: class.as_str(), state: *state, note, now }
    }
}

/// The failure groups of some endpoints, by endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureGroups {
    pub groups: Vec<FailureGroup>,
    /// The lane where the read stopped; none at the end of the list.
    pub next: Option<EndpointId>,
}

impl FailureGroups {
    /// Folds counts and marks. Marks of classes that this version does not know are ignored.
    pub fn fold(counts: Vec<DeadCount>, marks: Vec<MarkRow>, next: Option<EndpointId>) -> FailureGroups {
        let mut groups: BTreeMap<GroupKey, FailureGroup> = BTreeMap::new();
        for (endpoint, class, status, dead, first_died_at, last_died_at) in counts {
            // Every class in which a delivery can die is a failure. A later version may know more classes.
            let class = FailureClass::of(class, status).unwrap_or(FailureClass::Internal);
            let key = GroupKey { endpoint, class };
            let hours = [(hour_of(last_died_at), dead)].into();
            let group = FailureGroup { key, dead, first_died_at, last_died_at, hours, mark: None };
            groups.entry(key).and_modify(|known| known.merge(&group)).or_insert(group);
        }
        for (endpoint, class, state, note, at) in marks {
            let group = class.parse().ok().and_then(|class| groups.get_mut(&GroupKey { endpoint, class }));
            if let Some(group) = group {
                group.mark = Some(FailureMark { state, note, at });
            }
        }
        FailureGroups { groups: groups.into_values().collect(), next }
    }
}
