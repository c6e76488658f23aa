//! Failure groups.

use std::collections::BTreeSet;

use everhook_core::failure_group::{FailureMark, GroupKey, GroupState};
use everhook_core::id::{EndpointId, EnvironmentId};
use everhook_core::limits::{FAILURE_ENDPOINTS_MAX, FAILURES_COUNTED_MAX, FAILURES_LISTED_MAX};
use everhook_core::time::Timestamp;
use everhook_store::failure::{DeadCount, FailureGroups, MarkRow};

use crate::mem::MemStore;
use crate::mem::tables::{Tables, TaskPlace, TaskRow};

impl MemStore {
    pub(super) fn mark_failures_now(
        &self,
        environment: EnvironmentId,
        key: GroupKey,
        state: GroupState,
        note: String,
    ) -> Timestamp {
        let (mut tables, at) = self.lock();
        tables.failure_marks.insert((environment, key), FailureMark { state, note, at });
        at
    }

    pub(super) fn list_failures(&self, environment: EnvironmentId, after: Option<EndpointId>) -> FailureGroups {
        let (tables, _) = self.lock();
        let lanes = dead(&tables, environment).map(|row| EndpointId(row.task.lane.0));
        let lanes: BTreeSet<_> = lanes.filter(|lane| after.is_none_or(|after| *lane > after)).collect();
        let lanes: Vec<_> = lanes.into_iter().take(FAILURE_ENDPOINTS_MAX).collect();
        let next = lanes.last().copied().filter(|_| lanes.len() == FAILURE_ENDPOINTS_MAX);
        read(&tables, environment, &lanes, FAILURES_LISTED_MAX, next)
    }

    pub(super) fn find_failures(&self, environment: EnvironmentId, endpoint: EndpointId) -> FailureGroups {
        read(&self.lock().0, environment, &[endpoint], FAILURES_COUNTED_MAX, None)
    }
}

fn dead(tables: &Tables, environment: EnvironmentId) -> impl Iterator<Item = &TaskRow> {
    let rows = tables.tasks.values().filter(move |row| row.task.key.environment == environment);
    rows.filter(|row| row.place == TaskPlace::Dead)
}

fn read(
    tables: &Tables,
    environment: EnvironmentId,
    lanes: &[EndpointId],
    counted_max: usize,
    next: Option<EndpointId>,
) -> FailureGroups {
    let mut counts: Vec<DeadCount> = Vec::new();
    for lane in lanes {
        let mut rows: Vec<_> = dead(tables, environment).filter(|row| row.task.lane == lane.lane()).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.task.key.id));
        for row in rows.into_iter().take(counted_max) {
            let attempt = tables.attempts.get(&(row.task.key, row.task.epoch)).filter(|row| row.endpoint == *lane);
            counts.extend(attempt.map(|row| {
                let died_at = row.attempt.started_at.plus(row.attempt.duration);
                (*lane, row.attempt.class, row.attempt.status, 1, died_at, died_at)
            }));
        }
    }
    let marks =
        tables.failure_marks.iter().filter(|((known, key), _)| *known == environment && lanes.contains(&key.endpoint));
    let marks = marks.map(|((_, key), mark)| -> MarkRow {
        (key.endpoint, key.class.to_string(), mark.state, mark.note.clone(), mark.at)
    });
    FailureGroups::fold(counts, marks.collect(), next)
}
