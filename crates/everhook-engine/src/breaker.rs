//! Counts the attempts of this node for the circuit breakers of endpoints.
//!
//! The core decides (`core::policy::breaker`), and the settlement of the attempt writes the change. Called by
//! deliveries.

use std::sync::Mutex;
use std::time::Duration;

use everhook_core::policy::breaker::{BreakerChange, BreakerSign, SeenChanges, Windows};
use everhook_core::task::Task;
use everhook_store::lease::Leased;

use crate::settle::AttemptRecord;

#[derive(Debug, Default)]
pub(crate) struct Breakers {
    windows: Mutex<Windows>,
    seen: Mutex<SeenChanges>,
}

impl Breakers {
    /// Counts the end of an attempt. Returns the change of the endpoint's breaker, if it has one that changes.
    pub(crate) fn ended(&self, leased: &Leased, record: &AttemptRecord, now: Duration) -> Option<BreakerChange> {
        let settings = leased.endpoint()?.limits().breaker?;
        let (lane, sign) =
            ((leased.task.key.environment, leased.task.lane), BreakerSign::of(record.class, record.status));
        let mut windows = self.windows.lock().expect("nothing panics while it holds this lock");
        windows.ended(lane, leased.breaker, sign, &settings, now)
    }

    /// Returns whether a settled change is the first one of its state. The others found the breaker changed.
    pub(crate) fn is_first(&self, task: &Task, change: &BreakerChange) -> bool {
        let mut seen = self.seen.lock().expect("nothing panics while it holds this lock");
        seen.is_first((task.key.environment, task.lane), change)
    }
}
