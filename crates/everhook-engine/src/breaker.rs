//! Counts the attempts of this node for the circuit breakers of endpoints.
//!
//! The core decides (`core::policy::breaker`), and the settlement of the attempt writes the change. Called by deliveries.

use std::sync::Mutex;
use std::time::Duration;

use everhook_core::policy::breaker::{Answer, BreakerChange, Windows};
use everhook_store::lease::Leased;

use crate::settle::AttemptRecord;

#[derive(Debug, Default)]
pub(crate) struct Breakers(Mutex<Windows>);

impl Breakers {
    /// Counts the end of an attempt. Returns the change of the endpoint's breaker, if it has one that changes.
    pub(crate) fn ended(&self, leased: &Leased, record: &AttemptRecord, now: Duration) -> Option<BreakerChange> {
        let settings = leased.endpoint()?.limits().breaker?;
        let (lane, answer) = ((leased.task.key.environment, leased.task.lane), Answer::of(record.class, record.status));
        let mut windows = self.0.lock().expect("nothing panics while it holds this lock");
        windows.ended(lane, leased.breaker, answer, &settings, now)
    }
}
