//! What is forgotten after a while, in slices.

use everhook_core::time::Timestamp;

/// What can be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prunable {
    /// Messages without open deliveries, with their attempts.
    Messages,
    /// Deliveries that were given up.
    DeadDeliveries,
    /// Payloads whose messages say until when they are kept: past that time, whatever the age. The messages stay.
    Payloads,
    /// Keys under which something was accepted once: past their own expiry, whatever the age.
    Keys,
    /// Jobs that succeeded or were cancelled, with their attempts and output; dead ones stay.
    Jobs,
    /// Once-slots that nobody claimed or reset since, with their suppressed calls.
    OnceSlots,
    /// Sessions that were closed, and hold nothing.
    Sessions,
    /// Batches of which no job is open or dead.
    Batches,
    /// Runs of schedules, but for the latest of each.
    Runs,
}

impl Prunable {
    /// Everything that can be forgotten.
    pub const ALL: [Prunable; 9] = [
        Prunable::Messages,
        Prunable::DeadDeliveries,
        Prunable::Payloads,
        Prunable::Keys,
        Prunable::Jobs,
        Prunable::OnceSlots,
        Prunable::Sessions,
        Prunable::Batches,
        Prunable::Runs,
    ];

    /// Its name in configurations, schedules and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Prunable::Messages => "messages",
            Prunable::DeadDeliveries => "dead-deliveries",
            Prunable::Payloads => "payloads",
            Prunable::Keys => "keys",
            Prunable::Jobs => "jobs",
            Prunable::OnceSlots => "once-slots",
            Prunable::Sessions => "sessions",
            Prunable::Batches => "batches",
            Prunable::Runs => "runs",
        }
    }
}

/// A wish to forget. A job or message is as old as its end; open tasks are never removed, but for `DeadDeliveries`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Rows of this kind.
    pub what: Prunable,
    /// Older than this.
    pub before: Timestamp,
    /// About as many at most, oldest first.
    pub limit: usize,
}
